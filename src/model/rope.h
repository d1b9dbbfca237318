/* Rotary angles of T rows: M-RoPE for text, row/column for the vision tower. */
#ifndef FORE_MODEL_ROPE_H
#define FORE_MODEL_ROPE_H

#include "checkpoint/config.h"

/* inv_freq [rotary_dim/2]: theta^(-2i/rotary_dim), divided by rope_scaling's factor, or with yarn (arXiv:2309.00071; the reference's
 * modeling_rope_utils.py) blended with what is so divided; computed in double, rounded once. Gives what cos and sin are multiplied by. */
float fore_rope_text_frequencies(const fore_text_config *text, float *inv_freq);
/* inv_freq [dim/2]: theta^(-2i/dim). */
void fore_rope_patch_frequencies(double theta, int dim, float *inv_freq);
/* cos, sin [T, rotary_dim/2], times `attention`: frequency i follows axis h if i%3==1 and i < 3*section[1], axis w if i%3==2 and
 * i < 3*section[2], else axis t; with mrope_blocks: axis t if i < section[0], h for the next section[1], then w. Equal axes give plain rope, to the bit. inv_freq [rotary_dim/2]. */
void fore_rope_text(const fore_text_config *text, const float *inv_freq, float attention, const int32_t *const positions[3], int T,
                    float *cos, float *sin);
/* cos, sin [2*count]: the row's angles, then the column's. inv_freq [count]. */
void fore_rope_patch(const float *inv_freq, int count, int row, int column, float *cos, float *sin);

#endif
