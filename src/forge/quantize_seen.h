/* The tensors of a store as a plan sees them: a matrix in a form of the files' own counts as one tensor M.weight of floats, whatever
 * it is called and however many tensors it lies in. Knows how matrices are stored, and not what becomes of them. */
#ifndef FORE_FORGE_QUANTIZE_SEEN_H
#define FORE_FORGE_QUANTIZE_SEEN_H

#include "base/arena.h"
#include "checkpoint/config.h"
#include "checkpoint/store.h"
#include "model/forms.h"

typedef struct fore_seen {
    const fore_store *store; /* borrowed */
    bool *taken;             /* [entries] belongs to a matrix and is not its weights */
    fore_entry *floats;      /* [entries] of a matrix in a form: what it is seen as, without data; in F32 when its integers are kept */
    const fore_form_matrix **forms; /* [entries] NULL: seen as it is */
} fore_seen;

/* any: every form that opens; else FP8 alone. All memory is in the arena. Failures are those of the forms, with "what: " before
 * them. */
fore_status fore_seen_make(fore_arena *arena, const fore_store *store, const fore_config *config, bool any, const char *what,
                           fore_seen *out, fore_error *err);
/* How an entry of the store is seen, and its form (NULL: none). */
const fore_entry *fore_seen_at(const fore_seen *seen, const fore_entry *stored, const fore_form_matrix **form);
/* The entry of the store with the weights of a matrix M.weight, in any form; NULL: there is none. */
const fore_entry *fore_seen_find(const fore_seen *seen, const char *name);

/* Whether it is MLX's affine form, of any number of bits: `bits` and `group` are those of the files, and no form's functions can be
 * called. part: M.weight, M.scales, M.biases, M.input_order or NULL. */
bool fore_seen_is_mlx(const fore_form_matrix *form);
/* Whether it stands for floats that are stored as such, though in another order. */
bool fore_seen_is_floats(const fore_form_matrix *form);
bool fore_seen_is_fp8(const fore_form_matrix *form);
/* Bits that hold each of the integers which the form has for groups of neighbours, 2 to 6 or 8; 0: it has none. */
int fore_seen_width(const fore_form_matrix *form);
/* What the scales and biases of those integers are stored as: those that are products (kernels/quant.h), as the F32 that they stand for. */
fore_dtype fore_seen_affine(const fore_form_matrix *form);
/* Whether rows of both can lie in one tensor without a change. Either may be NULL. */
bool fore_seen_alike(const fore_form_matrix *a, const fore_form_matrix *b);

#endif
