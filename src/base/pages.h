/* Large pages of memory, for what is streamed from end to end: the processor reads ahead within a page only, and finds fewer
 * pages faster. */
#ifndef FORE_BASE_PAGES_H
#define FORE_BASE_PAGES_H

#include <stddef.h>

enum { FORE_LARGE_PAGE = 2 << 20 };

/* A wish that the system may leave unheard: this piece, which is mapped from a file or holds zeros or nothing that matters, comes in
 * large pages as it is touched. Pieces smaller than one stay as they are. NULL: nothing is done. */
void fore_pages_wish_large(void *memory, size_t bytes);
/* Zeroed memory that begins where a large page can, with that wish, and is touched at once; smaller than one: as calloc. Freed with
 * free. NULL: none is left. */
void *fore_pages_new(size_t bytes);

#endif
