/* A stand-in for the few parts of cmocka that the kernel tests use, so that they also build where cmocka is not installed, such
 * as for another processor under an emulator: put this folder on the include path before the system's. See
 * tests/kernels/cross.sh. */
#ifndef FORE_TESTS_PLAIN_CMOCKA_H
#define FORE_TESTS_PLAIN_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};
#define cmocka_unit_test(f) {#f, f}
#define print_message printf
#define print_error(...) fprintf(stderr, __VA_ARGS__)
#define fail_msg(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))
#define fail() (fprintf(stderr, "%s:%d: failed\n", __FILE__, __LINE__), exit(1))
#define assert_true(c) ((c) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #c), exit(1)))
#define assert_int_equal(a, b) assert_true((a) == (b))
#define assert_ptr_equal(a, b) assert_true((a) == (b))
#define assert_non_null(p) assert_true((p) != NULL)
#define assert_string_equal(a, b) assert_true(strcmp((a), (b)) == 0)

#define cmocka_run_group_tests(tests, setup, teardown)                                 \
    plain_run((tests), sizeof(tests) / sizeof *(tests))
static int plain_run(const struct CMUnitTest *tests, size_t count) {
    void *state = NULL;
    for (size_t i = 0; i < count; i++) {
        tests[i].run(&state);
        printf("[       OK ] %s\n", tests[i].name);
    }
    printf("[  PASSED  ] %zu test(s).\n", count);
    return 0;
}

#endif
