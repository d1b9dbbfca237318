/* A checkpoint with fused experts, rewritten in another layout or with one tensor changed, for tests. Failures end the test. */
#ifndef FORE_TESTS_EXPERTS_H
#define FORE_TESTS_EXPERTS_H

#include "foresight.h"
#include "support/scratch.h"

typedef enum experts_layout {
    EXPERTS_FUSED,    /* as it is: experts.gate_up_proj, experts.down_proj */
    EXPERTS_STACKED,  /* switch_mlp.{gate,up,down}_proj.weight */
    EXPERTS_NUMBERED, /* experts.N.{gate,up,down}_proj.weight */
    EXPERTS_MIXED,    /* numbered, every third tensor widened to F32: the same numbers */
    EXPERTS_TURNED,   /* fused, the last two axes of both tensors exchanged */
} experts_layout;

typedef struct experts_file experts_file;

experts_file *experts_open(const char *dir, experts_layout layout); /* reads dir/model.safetensors, BF16 experts */
fore_tensor *experts_find(experts_file *f, const char *name);       /* to change in place */
void experts_drop(experts_file *f, const char *name);
/* Writes model.safetensors and the source's config.json. */
void experts_write(const experts_file *f, const scratch *s);
void experts_close(experts_file *f);

/* All of it at once. */
void experts_copy(const scratch *s, const char *dir, experts_layout layout);

#endif
