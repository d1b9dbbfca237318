/* Files: read-only maps, bounded reads, and writes that appear whole or not at all. */
#ifndef FORE_BASE_FILE_H
#define FORE_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* What changes when somebody writes to a file or puts another in its place. */
typedef struct fore_file_id {
    uint64_t size, inode;
    int64_t modified[2], changed[2]; /* seconds, nanoseconds: of the content, and of anything */
} fore_file_id;

typedef struct fore_map {
    const unsigned char *data; /* borrowed until fore_map_close; NULL for an empty file */
    size_t size;
    fore_file_id id; /* when it was opened */
} fore_map;

/* Whether `need` bytes of memory are fit for what a file of `size` bytes is made into. What people make fits: sums of many small things
 * stay below the spare, large things are weights. A file that was made to take memory does not. */
static inline bool fore_fits(uint64_t need, uint64_t size) { return need <= ((uint64_t)32 << 20) || need - ((uint64_t)32 << 20) <= 2 * size; }

/* Maps a regular file read-only. FORE_ERR_IO names the path and the reason. */
fore_status fore_map_open(const char *path, fore_map *out, fore_error *err);
void fore_map_close(fore_map *map);
/* Gives back the memory of the pages of a part of a map, but for the one that it ends in; they are read again when they are
 * touched. */
void fore_map_release(const void *data, size_t size);

/* Reads a whole file (or pipe) of at most `limit` bytes; *data is owned by the caller (fore_free) and NUL-terminated. */
fore_status fore_file_read(const char *path, size_t limit, char **data, size_t *size, fore_error *err);
bool fore_file_exists(const char *path);
bool fore_file_identify(const char *path, fore_file_id *out); /* false: there is no such file */
bool fore_dir_exists(const char *path);
/* dir + "/" + name, owned by the caller (fore_free); NULL when memory is out. */
char *fore_path_join(const char *dir, const char *name);

/* A relative path that does not leave the folder it is taken from. */
bool fore_path_stays_inside(const char *path);
/* Whether a name ends so. */
bool fore_name_ends_with(const char *name, const char *end);

/* A file under a temporary name in the same folder; commit syncs and renames it to `path`, abandon removes it. A file that
 * is replaced keeps its mode; a symbolic link is followed; a device or pipe is written to directly. */
typedef struct fore_writer {
    int fd;
    char *path;      /* owned */
    char *temporary; /* owned; NULL when `path` is written to directly */
} fore_writer;

fore_status fore_writer_open(const char *path, fore_writer *out, fore_error *err);
fore_status fore_writer_write(fore_writer *w, const void *data, size_t size, fore_error *err);
fore_status fore_writer_commit(fore_writer *w, fore_error *err); /* ends the writer, also on failure */
void fore_writer_abandon(fore_writer *w);

#endif
