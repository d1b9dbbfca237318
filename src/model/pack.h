/* Packs: the panels of a model's quantised matrices kept in a file, so that a later start maps them instead of making them.
 *
 * A pack is a header and the panels' region as it lies in memory. It is told apart by its key: a digest of
 * the form of panels, of every matrix' shape and place, and of what the checkpoint's files are (size, times, inode, their
 * whole headers, samples of their data), which is all that the region depends on. A pack whose key, sizes or header are
 * not the expected ones is not used. Nothing here makes opening a model fail unless memory is out. */
#ifndef FORE_MODEL_PACK_H
#define FORE_MODEL_PACK_H

#include "model/panels.h"

/* Makes the panels readable: from the pack when there is one, else by fore_panels_fill, into a new pack when load asks for
 * one. Sets panels->packed. */
fore_status fore_pack_load(fore_panels *panels, const fore_store *store, const fore_load *load, fore_error *err);

/* Sets the key alone: for a model that is looked at. */
void fore_pack_look(fore_panels *panels, const fore_store *store);

/* How the names of a model's packs begin in a folder: "foresight" in the model's own, else the model folder's name with a
 * digest of its path. */
void fore_pack_stem(const char *model_dir, const char *pack_dir, char stem[96]);
/* The path of a pack, owned by the caller (free); NULL when memory is out. */
char *fore_pack_path(const char *dir, const char *stem, const uint8_t key[32]);
/* Whether the file is a pack with this key, and its size; reads the header only. */
bool fore_pack_is_good(const char *path, const uint8_t key[32], uint64_t *bytes);
/* Removes the packs that begin with the stem, whole or half-written, except those of the keys and those that somebody is writing
 * now. FORE_ERR_IO: the folder cannot be read, or one cannot be removed. */
fore_status fore_pack_prune(const char *dir, const char *stem, const uint8_t (*keys)[32], int key_count, int *files, uint64_t *bytes,
                            fore_error *err);

#endif
