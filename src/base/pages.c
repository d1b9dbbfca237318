/* Large pages; see pages.h. Linux: transparent huge pages. */
#include "base/pages.h"

#include <stdint.h>
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
