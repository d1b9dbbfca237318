/* What becomes of each tensor of a checkpoint that is quantised: which matrices get how many bits, which stay as they are and
 * why, what the output's tensors are called, and in which file they lie. Decided before anything is read or written.
 *
 * Quantised: the Linear layers of the text model, of the draft head and (at 8 bits, when asked) of the vision tower, the
 * token embedding and the output head. Left alone: norms, biases, convolutions, A_log and dt_bias; in_proj_a and in_proj_b,
 * the router and the gate of the shared expert, which are small and steer the rest; and matrices whose rows are no multiple of
 * the group. Experts become one stack a kind, switch_mlp.{gate,up,down}_proj, which is MLX's name for them.
 *
 * Of a source in any form (any_form) what is left alone is left in its integers, where it has them for groups of neighbours. Without
 * a number of bits these are kept everywhere; floats and FP8 are quantised as above, in 4 bits, if no matrix of the source is in
 * integers, else floats are left alone, for somebody chose them. What no group holds (sizes that there are not, or that differ) is
 * quantised in 8 bits. Integers whose columns come in the order of their groups have that order beside them, M.input_order. */
#ifndef FORE_FORGE_QUANTIZE_PLAN_H
#define FORE_FORGE_QUANTIZE_PLAN_H

#include "base/arena.h"
#include "base/buf.h"
#include "checkpoint/config.h"
#include "checkpoint/safetensors_layout.h"
#include "checkpoint/store.h"
#include "forge/quantize_names.h"
#include "model/forms.h"

enum { FORE_QUANTIZE_BITS = 4, FORE_QUANTIZE_UNFIT_BITS = 8 }; /* without a number of bits: of floats; of what fits no group */
enum { FORE_QUANTIZE_TENSORS = 4 }; /* of a quantised matrix: M.weight, M.scales, M.biases, and M.input_order where there is one */

/* Rows row .. row+rows-1 of a source tensor that is seen as a matrix [*,K]. Or, of a transposed one, as rows: columns row ..
 * row+rows-1 of the matrix [K,across] that begins `skip` elements into the tensor. */
typedef struct fore_quantize_piece {
    const fore_entry *from; /* borrowed from a store; of a form: as the floats that it becomes, without data */
    const fore_form_matrix *form; /* NULL: floats as they are; see quantize_seen.h */
    uint64_t row, rows;
    uint64_t across, skip; /* across 0: not transposed */
    bool mapped;           /* its bytes lie in a map of a file, and can be let go of */
} fore_quantize_piece;

/* One tensor of the output, or the three of a quantised matrix. */
typedef struct fore_quantize_job {
    const char *name;   /* of the output's tensor, M.weight of a matrix */
    const char *module; /* M of a matrix; NULL for what is none */
    const char *scales, *biases; /* names, of a quantised matrix */
    int bits, group;    /* 0: copied as it is */
    bool exact;         /* with bits: the integers that the source has, and what they are scaled with */
    fore_dtype affine;  /* of scales and biases: F16 for F16 sources, else BF16; the source's when exact */
    const int32_t *order;   /* exact: [K] the input that each column is for; NULL: as they are */
    const char *order_name;
    const char *why;    /* why a matrix is not quantised (static or in the arena); NULL when it is, or is no matrix */
    fore_dtype dtype;   /* of all pieces */
    const char *dtype_name;
    int dims;
    uint64_t shape[FORE_STORE_DIMS]; /* as a dense tensor */
    uint64_t K;                      /* the last size of the shape; 1 for a scalar */
    uint64_t rows;                   /* of all pieces together */
    const fore_quantize_piece *pieces;
    size_t piece_count;
    uint64_t source_bytes; /* as floats: what progress counts */
    size_t file; /* index of the output's file */
} fore_quantize_job;

typedef struct fore_quantize_file {
    const char *name; /* "model-00001-of-00002.safetensors", or the draft head's own file */
    bool sidecar;     /* not in the index */
    size_t first, count; /* its jobs */
    uint64_t bytes;      /* of its tensors in the output */
    uint64_t source_bytes;
} fore_quantize_file;

typedef struct fore_quantize_rules {
    bool any_form; /* the source may be in any form that opens, not in floats and FP8 alone */
    bool exact;    /* any_form: what would be quantised becomes floats instead */
    int bits, group, head_bits, mtp_bits, vision_bits; /* 4, 8 or, but for bits, 16: left alone; any_form: 0: not said */
    bool mtp_layers_only;                              /* fc stays */
    uint64_t shard_bytes;                              /* a file holds no more, unless one tensor does */
} fore_quantize_rules;

typedef struct fore_quantize_plan {
    fore_arena arena;
    fore_quantize_rules rules;
    fore_quantize_job *jobs;
    size_t count;
    fore_quantize_file *files;
    size_t file_count;
    uint64_t bytes, source_bytes; /* of all tensors: of the output, of the source as floats */
    uint64_t stored_bytes;        /* of the source as its files have it */
    int bits, group;              /* of most of what is quantised, for config.json; 0: nothing is */
} fore_quantize_plan;

/* sidecar: the store of the draft head's own file, sidecar_name its path inside the folder; NULL when there is none. What
 * the stores lend stays borrowed. FP8 counts as the floats that it becomes. FORE_ERR_UNSUPPORTED: a source that is quantised
 * otherwise already (unless any_form), or a matrix of a type that cannot be. On success fore_quantize_plan_free. */
fore_status fore_quantize_plan_make(const fore_config *config, const fore_store *store, const fore_store *sidecar,
                                    const char *sidecar_name, const fore_quantize_rules *rules, fore_quantize_plan *out,
                                    fore_error *err);
void fore_quantize_plan_free(fore_quantize_plan *plan);

/* The output's tensors of one file: *count at most FORE_QUANTIZE_TENSORS * file->count. `user` is the job. */
void fore_quantize_plan_items(const fore_quantize_plan *plan, const fore_quantize_file *file, fore_safetensors_item *items,
                              size_t *count);

#endif
