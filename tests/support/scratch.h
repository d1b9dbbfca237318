/* A folder for the files of one test, and writing and looking into it. Failures end the test (cmocka). */
#ifndef FORE_TESTS_SCRATCH_H
#define FORE_TESTS_SCRATCH_H

#include <stddef.h>

typedef struct scratch {
    char dir[64];
} scratch;

void scratch_make(scratch *s);
void scratch_remove(scratch *s); /* with all that lies in it */
/* dir/name in static memory that the next eight calls leave alone; name "" gives the folder. */
const char *scratch_path(const scratch *s, const char *name);
/* Writes a file; folders on the way to it are made. */
void scratch_write(const scratch *s, const char *name, const void *data, size_t size);
/* Copies the file `from` to dir/name. */
void scratch_copy(const scratch *s, const char *from, const char *name);
int scratch_count(const scratch *s); /* entries of the folder */

#endif
