/* A model in GGUF files, as the llama.cpp world publishes this family: the text model in one file or several, its draft head in them or
 * apart, the vision tower in a file of its own (mmproj). It is given out as what a checkpoint folder of Hugging Face has: tensors with
 * the names and shapes of that, and what config.json, tokenizer.json and their like say, made of the files' metadata. */
#ifndef FORE_CHECKPOINT_GGUF_MODEL_H
#define FORE_CHECKPOINT_GGUF_MODEL_H

#include "base/json.h"
#include "checkpoint/config.h"
#include "checkpoint/store.h"

typedef struct fore_gguf_model fore_gguf_model;

/* *is: whether `path` is a GGUF file by its name, or a folder that has such files and no config.json. */
fore_status fore_gguf_is_model(const char *path, bool *is, fore_error *err);
/* A file: it, and the other parts of NAME-00001-of-00003.gguf. A folder: its one model, the first of its mmproj files by name, and a
 * file with the draft head alone. mmproj NULL: the folder's, none beside a file. FORE_ERR_UNSUPPORTED: another architecture, another
 * kind of tower. */
fore_status fore_gguf_model_open(const char *path, const char *mmproj, fore_gguf_model **out, fore_error *err);
void fore_gguf_model_close(fore_gguf_model *model);

/* The tree of config.json, owned by the caller (cJSON_Delete). */
fore_status fore_gguf_config_tree(const fore_gguf_model *model, cJSON **out, fore_error *err);
/* That tree read, and what it cannot say: how the linear layers' projections lie. Strings and arrays live in the arena. */
fore_status fore_gguf_config_read(const fore_gguf_model *model, fore_arena *arena, fore_config *out, fore_error *err);
/* Trees of generation_config.json and of preprocessor_config.json; *out stays NULL where the files say nothing of it. */
fore_status fore_gguf_generation_tree(const fore_gguf_model *model, cJSON **out, fore_error *err);
fore_status fore_gguf_processor_tree(const fore_gguf_model *model, cJSON **out, fore_error *err);
/* The text of tokenizer.json (owned, fore_free) and the tree of tokenizer_config.json (with the chat template); *text stays NULL for a
 * model without a tokenizer. FORE_ERR_UNSUPPORTED: another kind of tokenizer, or one that cuts words in another way. */
fore_status fore_gguf_tokenizer_text(const fore_gguf_model *model, char **text, size_t *size, cJSON **config, fore_error *err);
/* The tensors. Once only: the store takes the files' maps, so that later calls need it to be there. */
fore_status fore_gguf_store_make(fore_gguf_model *model, fore_store **out, fore_error *err);

#endif
