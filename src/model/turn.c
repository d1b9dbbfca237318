/* Turning strips of transposed matrices; see fore_turn in moe.h. Tiles keep what is read and what is written in the cache. */
#include <string.h>

#include "model/moe.h"

enum { TILE = 32 };

#define TURN(name, type)                                                                                           \
    static void name(type *to, const char *from, size_t K, size_t across, size_t cols) {                            \
        type tile[TILE][FORE_STRIP] = {{0}};                                                                        \
        for (size_t k0 = 0; k0 < K; k0 += TILE) {                                                                   \
            size_t rows = K - k0 < TILE ? K - k0 : TILE;                                                            \
            for (size_t r = 0; r < rows; r++) /* the file's data may lie at any address */                          \
                memcpy(tile[r], from + (k0 + r) * across * sizeof(type), cols * sizeof(type));                      \
            for (size_t c = 0; c < cols; c++) {                                                                     \
                type row[TILE];                                                                                     \
                for (size_t r = 0; r < TILE; r++) row[r] = tile[r][c];                                              \
                memcpy(to + c * K + k0, row, rows * sizeof(type));                                                  \
            }                                                                                                       \
        }                                                                                                           \
    }
TURN(turn_16, uint16_t)
TURN(turn_32, uint32_t)

void fore_turn(void *to, const fore_weight *w, int across, int n, int cols) {
    size_t K = (size_t)w->K, A = (size_t)across, N = (size_t)cols;
    if (w->dtype == FORE_DTYPE_F32) turn_32(to, (const char *)w->data + (size_t)n * sizeof(uint32_t), K, A, N);
    else turn_16(to, (const char *)w->data + (size_t)n * sizeof(uint16_t), K, A, N);
}
