/* The table of the reference, and the choice of a table; see kern.h. */
#include "kernels/kern.h"

#include <string.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernels/ref.h"
#include "kernels/sets.h"

static const fore_kern ref_set = {
    .name = "ref",
    .mm_f32 = fore_ref_mm_f32,
    .mm_bf16 = fore_ref_mm_bf16,
    .mm_f16 = fore_ref_mm_f16,
    .mm_across = fore_ref_mm_across,
    .quantize_rows = fore_ref_quantize_rows,
    .mm_q4 = fore_ref_mm_q,
    .mm_q8 = fore_ref_mm_q,
    .widen_bf16 = fore_ref_widen_bf16,
    .widen_f16 = fore_ref_widen_f16,
    .rms_norm = fore_ref_rms_norm,
    .layer_norm = fore_ref_layer_norm,
    .l2_norm = fore_ref_l2_norm,
    .gated_rms_norm = fore_ref_gated_rms_norm,
    .add = fore_ref_add,
    .add_bias = fore_ref_add_bias,
    .silu_mul = fore_ref_silu_mul,
    .sigmoid_mul = fore_ref_sigmoid_mul,
    .gelu_tanh = fore_ref_gelu_tanh,
    .gelu_erf = fore_ref_gelu_erf,
    .rope = fore_ref_rope,
    .conv_silu = fore_ref_conv_silu,
    .delta_gates = fore_ref_delta_gates,
    .delta = fore_ref_delta,
    .attend = fore_ref_attend,
    .argmax = fore_ref_argmax,
};

#if defined(__x86_64__)
/* Whether the processor multiplies tiles of int8 and the system lets this process use them: Linux grants the room for a
 * thread's tiles (8 KB) to a process that asks, once and for all of its threads, and asking again changes nothing. It
 * refuses where a thread's alternate signal stack has no room for them. */
static bool may_use_tiles(void) {
    enum { ASK = 0x1023, CONFIG = 17, DATA = 18 }; /* ARCH_REQ_XCOMP_PERM; state components of the processor */
    unsigned a, b, c, d, low, high;
    const unsigned osxsave = 1u << 27, tile = 1u << 24, int8 = 1u << 25, kept = 1u << CONFIG | 1u << DATA;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & osxsave)) return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & tile) || !(d & int8)) return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & kept) == kept && syscall(SYS_arch_prctl, ASK, DATA) == 0;
}
#endif

int fore_kern_list(const fore_kern *list[8]) {
    int n = 0;
    list[n++] = &ref_set;
#if defined(__aarch64__)
    list[n++] = &fore_kern_neon; /* part of every aarch64 */
    const unsigned long dot_products = 1ul << 20; /* HWCAP_ASIMDDP of Linux */
    if (getauxval(AT_HWCAP) & dot_products) list[n++] = &fore_kern_neondot;
#elif defined(__x86_64__)
    /* F16C, which the sets also use, came before AVX2 in every processor (clang 14 cannot ask for it). */
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return n;
    list[n++] = &fore_kern_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        list[n++] = &fore_kern_avx512;
        if (!__builtin_cpu_supports("avx512vnni")) return n;
        list[n++] = &fore_kern_avx512vnni;
        if (may_use_tiles()) list[n++] = &fore_kern_amx;
    }
#endif
    return n;
}

fore_status fore_kern_get(const char *isa, const fore_kern **out, fore_error *err) {
    const fore_kern *list[8];
    int n = fore_kern_list(list);
    if (!isa || !*isa) { /* slowest first */
        *out = list[n - 1];
        return FORE_OK;
    }
    char names[64] = "";
    for (int i = 0; i < n; i++) {
        if (!strcmp(list[i]->name, isa)) {
            *out = list[i];
            return FORE_OK;
        }
        if (i) strncat(names, ", ", sizeof names - strlen(names) - 1);
        strncat(names, list[i]->name, sizeof names - strlen(names) - 1);
    }
    return fore_fail(err, FORE_ERR_UNSUPPORTED,
                     "kernels: instruction set \"%.40s\": this machine has %s; choose one of these", isa, names);
}
