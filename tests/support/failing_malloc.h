/* An allocator that refuses the n-th request, for a test program that includes this once: glibc's own behind a counter,
 * so that what libraries ask for is refused too. A sanitizer has to be the allocator itself: there FAILING_MALLOC is 0,
 * unless the program is linked with --wrap (FORE_WRAP_ALLOCATIONS), which refuses the project's own requests only. */
#ifndef FORE_TESTS_FAILING_MALLOC_H
#define FORE_TESTS_FAILING_MALLOC_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define FAILING_MALLOC 1
#ifndef FORE_WRAP_ALLOCATIONS
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#undef FAILING_MALLOC
#define FAILING_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#undef FAILING_MALLOC
#define FAILING_MALLOC 0
#endif
#endif
#endif

#if FAILING_MALLOC
static atomic_bool malloc_armed;
static atomic_bool malloc_stays_out; /* the requests after it are refused too, until disarmed */
static atomic_long malloc_left;    /* requests before the one that is refused */
static atomic_bool malloc_refused; /* it was */
static atomic_long malloc_live;    /* blocks asked for and not freed, since the start */

#ifdef FORE_WRAP_ALLOCATIONS
#define SEEN_AS(name) __wrap_##name
#define TRUE_ONE(name) __real_##name
#define TRUE_ALIGNED __real_aligned_alloc
#else
#define SEEN_AS(name) name
#define TRUE_ONE(name) __libc_##name
#define TRUE_ALIGNED __libc_memalign
#endif

void *TRUE_ONE(malloc)(size_t size);
void *TRUE_ONE(calloc)(size_t count, size_t size);
void *TRUE_ONE(realloc)(void *p, size_t size);
void *TRUE_ALIGNED(size_t alignment, size_t size);
void TRUE_ONE(free)(void *p);

static bool malloc_refuses(void) {
    if (!atomic_load(&malloc_armed) || atomic_fetch_sub(&malloc_left, 1) > 0) return false;
    atomic_store(&malloc_armed, atomic_load(&malloc_stays_out));
    atomic_store(&malloc_refused, true);
    errno = ENOMEM;
    return true;
}

static void *malloc_count(void *p) {
    if (p) atomic_fetch_add(&malloc_live, 1);
    return p;
}

#define SEEN __attribute__((visibility("default"))) /* by the libraries too */
SEEN void *SEEN_AS(malloc)(size_t size);
SEEN void *SEEN_AS(calloc)(size_t count, size_t size);
SEEN void *SEEN_AS(realloc)(void *p, size_t size);
SEEN void *SEEN_AS(aligned_alloc)(size_t alignment, size_t size);
SEEN void SEEN_AS(free)(void *p);

void *SEEN_AS(malloc)(size_t size) { return malloc_refuses() ? NULL : malloc_count(TRUE_ONE(malloc)(size)); }
void *SEEN_AS(calloc)(size_t count, size_t size) { return malloc_refuses() ? NULL : malloc_count(TRUE_ONE(calloc)(count, size)); }
void *SEEN_AS(realloc)(void *p, size_t size) {
    if (malloc_refuses()) return NULL;
    void *q = TRUE_ONE(realloc)(p, size);
    return p ? q : malloc_count(q);
}
void *SEEN_AS(aligned_alloc)(size_t alignment, size_t size) {
    return malloc_refuses() ? NULL : malloc_count(TRUE_ALIGNED(alignment, size));
}
void SEEN_AS(free)(void *p) {
    if (p) atomic_fetch_sub(&malloc_live, 1);
    TRUE_ONE(free)(p);
}
#endif
#endif
