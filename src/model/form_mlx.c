/* MLX's affine form with scales and biases in F32, which panels do not have: M.weight U32 [N, K*bits/32] or stacked
 * [E, N, K*bits/32], M.scales and M.biases [.., K/group]. These tensors alone do not tell 4 bits in groups of 64 from 8 bits in
 * groups of 32: the binder, who knows K, fills the matrix in; with scales in 16 bits it makes panels right from the files.
 *
 * In memory: floats in F32, scale * q + bias in one rounding. */
#include <math.h>

#include "kernels/half.h"
#include "model/form_list.h"

enum { WEIGHTS, SCALES, BIASES }; /* part */
enum { BITS, GROUP };             /* own */

static bool recognise(const fore_store *store, const fore_entry *e) {
    (void)store;
    (void)e;
    return false;
}

static const char *write(const fore_form_matrix *m, size_t row0, size_t rows, const fore_form_rows *to) {
    const unsigned bits = (unsigned)m->own[BITS], mask = (1u << bits) - 1;
    const size_t group = (size_t)m->own[GROUP];
    bool good = true;
    for (size_t r = 0; r < rows; r++) {
        const unsigned char *q = m->part[WEIGHTS]->data + (row0 + r) * (m->K / 8 * bits);
        const unsigned char *scales = m->part[SCALES]->data + (row0 + r) * (m->K / group) * 4;
        const unsigned char *biases = m->part[BIASES]->data + (row0 + r) * (m->K / group) * 4;
        float *out = (float *)(void *)to->q + r * m->K;
        unsigned held = 0, have = 0;
        for (size_t k = 0; k < m->K; k++) {
            if (have < bits) {
                held |= (unsigned)*q++ << have;
                have += 8;
            }
            out[k] = fmaf(fore_load_f32(scales + k / group * 4), (float)(held & mask), fore_load_f32(biases + k / group * 4));
            good &= (bool)isfinite(out[k]);
            held >>= bits;
            have -= bits;
        }
    }
    return good ? NULL : "a weight is not finite";
}

const fore_form fore_form_mlx = {.name = "MLX", .version = 1, .by_rows = true, .recognise = recognise, .write = write};
