/* Large pages; see pages.h. Linux: transparent huge pages. */
#include "base/pages.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void fore_pages_wish_large(void *memory, size_t bytes) {
    if (!memory || bytes < FORE_LARGE_PAGE) return;
    long page = sysconf(_SC_PAGESIZE);
    if (page <= 0) return;
    uintptr_t mask = (uintptr_t)page - 1, from = ((uintptr_t)memory + mask) & ~mask, to = ((uintptr_t)memory + bytes) & ~mask;
    if (from >= to) return;
    madvise((void *)from, to - from, MADV_DONTNEED); /* small pages that it had before, from an earlier life in the heap */
    madvise((void *)from, to - from, MADV_HUGEPAGE);
}

void *fore_pages_new(size_t bytes) {
    if (bytes < FORE_LARGE_PAGE) return calloc(1, bytes);
    if (bytes > SIZE_MAX - FORE_LARGE_PAGE) return NULL;
    void *memory = aligned_alloc(FORE_LARGE_PAGE, (bytes + FORE_LARGE_PAGE - 1) / FORE_LARGE_PAGE * FORE_LARGE_PAGE);
    if (!memory) return NULL;
    fore_pages_wish_large(memory, bytes);
    return memset(memory, 0, bytes);
}
