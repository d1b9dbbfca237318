/* The choice of a kernel set where the system refuses the process what the best one wants: Linux grants no room for AMX
 * tiles while a thread's alternate signal stack is too small to save them. It asks once a process, so this is a program
 * of its own. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cmocka.h>

#include "kernels/kern.h"

static bool has(const char *name) {
    const fore_kern *list[8];
    int n = fore_kern_list(list);
    for (int i = 0; i < n; i++)
        if (strcmp(list[i]->name, name) == 0) return true;
    return false;
}

/* Tiles that the processor has and the system offers, and AVX-512 with VNNI for the rest. */
static bool offered(void) {
    bool yes = false;
#if defined(__x86_64__)
    unsigned a, b, c, d;
    unsigned long states = 0;
    const long what_is_offered = 0x1021;
    yes = __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 24 & 1 && d >> 25 & 1 && __builtin_cpu_supports("avx512vnni") &&
          syscall(SYS_arch_prctl, what_is_offered, &states) == 0 && states >> 18 & 1;
#endif
    return yes;
}

static void test_refused(void **state) {
    (void)state;
    if (!offered()) skip();
    static char small[6000]; /* enough for the registers of AVX-512, not for 8 KB of tiles */
    stack_t before, stack = {.ss_sp = small, .ss_size = sizeof small};
    assert_int_equal(sigaltstack(&stack, &before), 0);
    const fore_kern *kern;
    fore_error err = {0};
    assert_false(has("amx"));
    assert_int_equal(fore_kern_get("amx", &kern, &err), FORE_ERR_UNSUPPORTED);
    assert_null(strstr(err.text, ", amx"));
    assert_int_equal(fore_kern_get(NULL, &kern, &err), FORE_OK);
    assert_string_equal(kern->name, "avx512vnni");
    assert_int_equal(sigaltstack(&before, NULL), 0);
}

static void test_granted(void **state) {
    (void)state;
    if (!offered()) skip();
    const fore_kern *kern, *again;
    fore_error err = {0};
    assert_int_equal(fore_kern_get(NULL, &kern, &err), FORE_OK);
    assert_string_equal(kern->name, "amx");
    assert_int_equal(fore_kern_get("amx", &again, &err), FORE_OK);
    assert_ptr_equal(kern, again);
}

/* Every set can be had by its name, and the last one is what a caller gets who names none. */
static void test_names(void **state) {
    (void)state;
    const fore_kern *list[8], *kern;
    int n = fore_kern_list(list);
    assert_string_equal(list[0]->name, "ref");
    for (int i = 0; i < n; i++) {
        assert_int_equal(fore_kern_get(list[i]->name, &kern, NULL), FORE_OK);
        assert_ptr_equal(kern, list[i]);
    }
    assert_int_equal(fore_kern_get("", &kern, NULL), FORE_OK);
    assert_ptr_equal(kern, list[n - 1]);
    fore_error err = {0};
    assert_int_equal(fore_kern_get("z80", &kern, &err), FORE_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "ref"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused), cmocka_unit_test(test_granted), cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
