/* A folder that is made file by file, so that no crash leaves half a file under its final name: a file grows under
 * NAME.partial, is synced, and is renamed. One process writes in it at a time. Knows nothing of checkpoints. */
#ifndef FORE_FORGE_FOLDER_H
#define FORE_FORGE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct fore_folder {
    char *path; /* owned */
    int fd;     /* -1: not open */
} fore_folder;

/* Makes the folder when it is not there (what it lies in must be) and takes it for this process alone. FORE_ERR_IO: not
 * possible, or another process is writing there. */
fore_status fore_folder_open(const char *path, fore_folder *out, fore_error *err);
void fore_folder_close(fore_folder *folder);
/* *found: some entry, owned (fore_free), that is not a NAME.partial; NULL when there is none. */
fore_status fore_folder_find_any(const fore_folder *folder, char **found, fore_error *err);
bool fore_folder_has(const fore_folder *folder, const char *name, uint64_t *size); /* a regular file; size may be NULL */
/* Bytes that may still be written to the file system; UINT64_MAX when it does not say. */
uint64_t fore_folder_room(const fore_folder *folder);
/* The same of where a folder that is not there would be made. */
uint64_t fore_folder_room_for(const char *path);
/* Removes a file; one that is not there is no failure. */
fore_status fore_folder_remove(const fore_folder *folder, const char *name, fore_error *err);

typedef struct fore_folder_file {
    const fore_folder *folder; /* borrowed until commit or abandon */
    char *name, *partial;      /* owned */
    int fd;
} fore_folder_file;

/* name: relative, "mtp/weights.safetensors" makes the folder mtp. What an interrupted run left of it is overwritten. */
fore_status fore_folder_begin(const fore_folder *folder, const char *name, fore_folder_file *out, fore_error *err);
fore_status fore_folder_write_at(const fore_folder_file *file, uint64_t offset, const void *data, size_t size, fore_error *err);
fore_status fore_folder_commit(fore_folder_file *file, fore_error *err); /* ends the file, also on failure */
void fore_folder_abandon(fore_folder_file *file);

/* A small file at once. */
fore_status fore_folder_write(const fore_folder *folder, const char *name, const void *data, size_t size, fore_error *err);
/* A copy of the file `from`, with the same name or another. */
fore_status fore_folder_copy(const fore_folder *folder, const char *from, const char *name, fore_error *err);

#endif
