/* An allocator that refuses the n-th request, for a test program that includes this once: glibc's own behind a counter,
 * so that what libraries ask for is refused too. Not under AddressSanitizer, which has to be the allocator itself:
 * FAILING_MALLOC is 0 there. */
#ifndef FORE_TESTS_FAILING_MALLOC_H
#define FORE_TESTS_FAILING_MALLOC_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define FAILING_MALLOC 1
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#undef FAILING_MALLOC
#define FAILING_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#undef FAILING_MALLOC
#define FAILING_MALLOC 0
#endif
#endif

#if FAILING_MALLOC
static bool malloc_armed;
static bool malloc_stays_out; /* the requests after it are refused too, until disarmed */
static long malloc_left;    /* requests before the one that is refused */
static bool malloc_refused; /* it was */
static long malloc_live;    /* blocks asked for and not freed, since the start */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);
void __libc_free(void *p);

static bool malloc_refuses(void) {
    if (!malloc_armed || malloc_left-- > 0) return false;
    malloc_armed = malloc_stays_out;
    malloc_refused = true;
    errno = ENOMEM;
    return true;
}

static void *malloc_count(void *p) {
    malloc_live += p != NULL;
    return p;
}

#define SEEN __attribute__((visibility("default"))) /* by the libraries too */
SEEN void *malloc(size_t size) { return malloc_refuses() ? NULL : malloc_count(__libc_malloc(size)); }
SEEN void *calloc(size_t count, size_t size) { return malloc_refuses() ? NULL : malloc_count(__libc_calloc(count, size)); }
SEEN void *realloc(void *p, size_t size) {
    if (malloc_refuses()) return NULL;
    void *q = __libc_realloc(p, size);
    return p ? q : malloc_count(q);
}
SEEN void free(void *p) {
    malloc_live -= p != NULL;
    __libc_free(p);
}
#endif
#endif
