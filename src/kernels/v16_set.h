/* The designated initialisers of a table whose entries are all vector bodies. */
#ifndef FORE_KERNELS_V16_SET_H
#define FORE_KERNELS_V16_SET_H

#define V16_SET(isa, q4, q8)                                                                                           \
    .name = isa, .mm_f32 = v16_mm_f32, .mm_bf16 = v16_mm_bf16, .mm_f16 = v16_mm_f16, .mm_across = v16_mm_across, .widen_bf16 = v16_widen_all_bf16, \
    .widen_f16 = v16_widen_all_f16, .rms_norm = v16_rms_norm, .layer_norm = v16_layer_norm, .l2_norm = v16_l2_norm,    \
    .gated_rms_norm = v16_gated_rms_norm, .add = v16_add_to, .add_bias = v16_add_bias, .silu_mul = v16_silu_mul,       \
    .sigmoid_mul = v16_sigmoid_mul, .gelu_tanh = v16_gelu_tanh_all, .gelu_erf = v16_gelu_erf_all, .rope = v16_rope,    \
    .conv_silu = v16_conv_silu, .delta_gates = v16_delta_gates, .delta = v16_delta, .attend = v16_attend,              \
    .argmax = v16_argmax, .quantize_rows = v16_quantize_rows, .mm_q4 = q4, .mm_q8 = q8

#endif
