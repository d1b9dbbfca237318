/* Turning strips; see turn.h. 16-bit numbers go 8 by 8 through registers of the baseline instruction set. */
#include "kernels/turn.h"

#include <string.h>

typedef uint16_t lanes __attribute__((vector_size(16)));

#define LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
/* Interleaves rows 0..3 with rows 4..7: the six bits of an element's index are rotated by one. Three times is a transposition. */
#define ROUND(y, x)                                                                                      \
    lanes y##0 = LOW(x##0, x##4), y##1 = HIGH(x##0, x##4), y##2 = LOW(x##1, x##5), y##3 = HIGH(x##1, x##5), \
          y##4 = LOW(x##2, x##6), y##5 = HIGH(x##2, x##6), y##6 = LOW(x##3, x##7), y##7 = HIGH(x##3, x##7)

static lanes load(const char *from) {
    lanes x;
    memcpy(&x, from, sizeof x);
    return x;
}

static void store(uint16_t *to, lanes x) { memcpy(to, &x, sizeof x); }

/* row, K: bytes and elements from one row to the next. */
static void turn_8_by_8(uint16_t *to, size_t K, const char *from, size_t row) {
    lanes a0 = load(from), a1 = load(from + row), a2 = load(from + 2 * row), a3 = load(from + 3 * row), a4 = load(from + 4 * row),
          a5 = load(from + 5 * row), a6 = load(from + 6 * row), a7 = load(from + 7 * row);
    ROUND(b, a);
    ROUND(c, b);
    ROUND(d, c);
    store(to, d0), store(to + K, d1), store(to + 2 * K, d2), store(to + 3 * K, d3);
    store(to + 4 * K, d4), store(to + 5 * K, d5), store(to + 6 * K, d6), store(to + 7 * K, d7);
}

void fore_turn_16(uint16_t *to, const void *from, size_t K, size_t across, size_t cols) {
    const char *at = from;
    size_t row = across * sizeof *to, whole = cols / 8 * 8, k = 0;
    for (; k + 8 <= K; k += 8, at += 8 * row) {
        for (size_t c = 0; c < whole; c += 8) turn_8_by_8(to + c * K + k, K, at + c * sizeof *to, row);
        for (size_t c = whole; c < cols; c++)
            for (size_t r = 0; r < 8; r++) memcpy(to + c * K + k + r, at + r * row + c * sizeof *to, sizeof *to);
    }
    for (; k < K; k++, at += row)
        for (size_t c = 0; c < cols; c++) memcpy(to + c * K + k, at + c * sizeof *to, sizeof *to);
}

void fore_turn_32(uint32_t *to, const void *from, size_t K, size_t across, size_t cols) {
    const char *at = from;
    for (size_t k = 0; k < K; k++, at += across * sizeof *to)
        for (size_t c = 0; c < cols; c++) memcpy(to + c * K + k, at + c * sizeof *to, sizeof *to);
}
