/* A checkpoint that another one is made from: a folder of Hugging Face's layout, in any form that opens, or a model in GGUF files,
 * which is given out as such a folder. Knows which files it has, not what becomes of them. */
#ifndef FORE_FORGE_SOURCE_H
#define FORE_FORGE_SOURCE_H

#include "base/arena.h"
#include "checkpoint/config.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/store.h"

typedef struct fore_source {
    const char *path; /* borrowed from the caller of open */
    fore_arena arena;
    fore_config config;
    char *config_text; /* owned: config.json, of GGUF files what they say of it */
    size_t config_size;
    fore_store *store, *sidecar; /* sidecar: the draft head's own file, NULL when there is none */
    char *sidecar_name;          /* owned: its path inside the folder, or NULL */
    fore_gguf_model *gguf;       /* NULL: a folder of Hugging Face's layout */
} fore_source;

/* gguf: whether GGUF files will do; else they are refused. mmproj: as in fore_model_options. */
fore_status fore_source_open(const char *path, const char *mmproj, bool gguf, fore_source *out, fore_error *err);
void fore_source_close(fore_source *source);

/* Calls `each` for every file beside weights and config.json that the new checkpoint gets: with `path`, a file to be copied, or with
 * `text`, what is made of metadata. name: inside the folder. The first failure of `each` ends it and is returned. */
typedef fore_status (*fore_source_file)(void *user, const char *name, const char *path, const char *text);
fore_status fore_source_files(const fore_source *source, fore_source_file each, void *user, fore_error *err);

extern const char fore_source_report[]; /* the name of the report of such work, which is never copied */

#endif
