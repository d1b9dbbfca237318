/* Inside the checkpoint room: what the files that make one model of GGUF files share. */
#ifndef FORE_CHECKPOINT_GGUF_PART_H
#define FORE_CHECKPOINT_GGUF_PART_H

#include "checkpoint/gguf.h"
#include "checkpoint/gguf_model.h"

/* What an architecture of the files' is called elsewhere, and how its tensors were changed when the files were made. */
typedef struct fore_gguf_family {
    const char *architecture, *whole, *text_only; /* general.architecture; model_type with a tower (NULL: none has) and without */
    bool moe;
    bool tiled;        /* value heads of linear layers: the first of each key head, then the second of each, ... */
    bool absolute;     /* norms that are zero-centred elsewhere hold the gain itself */
    bool windows;      /* its towers are those of Qwen2.5-VL */
} fore_gguf_family;

struct fore_gguf_model {
    fore_arena arena;
    fore_gguf *files; /* in the arena: the text model's parts in order, then the draft head's and the tower's */
    int count, parts;
    int head, tower;  /* index of the file, -1: none */
    const char *dir;  /* in the arena: the path that was given */
    fore_notes *notes; /* borrowed while it is opened for looking; else NULL */
    const fore_gguf_family *family;
    int layers, draft_layers; /* of the trunk, and behind them in the numbering */
    /* Linear layers; 0 in an architecture without. */
    int kernel, key_heads, value_heads, key_dim, value_dim;
};

/* Key ARCHITECTURE.NAME of the text model. */
fore_status fore_gguf_arch_int(const fore_gguf_model *m, const char *name, int64_t low, int64_t high, int64_t fallback, int64_t *out,
                               fore_error *err);
/* By the files' names; in any of the text model's parts, or in the draft head's file. */
const fore_gguf_tensor *fore_gguf_text_tensor(const fore_gguf_model *m, const char *name);
const fore_gguf_tensor *fore_gguf_layer_tensor(const fore_gguf_model *m, int layer, const char *name); /* blk.LAYER.NAME */
bool fore_gguf_some_layer(const fore_gguf_model *m, const char *name); /* of the trunk's has it */
/* The id of the token with this text; -1: there is none. */
int32_t fore_gguf_token(const fore_gguf_model *m, const char *text);

#endif
