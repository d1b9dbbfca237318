/* A draft-only output head: some rows of the model's own output head, at fewer bits, so that a draft reads a few per cent of the
 * bytes. It can only propose what it has; the model's own head judges, so no answer depends on it. */
#ifndef FORE_MODEL_DRAFT_HEAD_H
#define FORE_MODEL_DRAFT_HEAD_H

#include "model/linear.h"

typedef struct fore_draft_head {
    fore_weight rows; /* [N,C] panels, or rows as the source has them; N 0: there is none */
    int32_t *ids;     /* [N] increasing */
    int32_t *places;  /* [V] row of an id, -1: not among them */
    void *memory;     /* owned */
    size_t bytes;
} fore_draft_head;

/* The form of rows at `bits` (4 or 8; 16: as the source has them) of a source matrix: its own group where bits are the same, else
 * 64 or, where that does not divide C, 32. False: C has no such group. */
bool fore_draft_form(const fore_weight *source, int bits, fore_weight *form);
/* Bytes that `count` rows in that form take, of an output head of V. */
size_t fore_draft_head_bytes(const fore_weight *form, int count, int V);
/* Rows ids[0..count) (increasing) of source [V,C] in that form; what has its form already is copied, bit by bit. pool: shares the
 * work; NULL: this thread alone. FORE_ERR_FORMAT: a row has weights that cannot be quantised. */
fore_status fore_draft_head_new(const fore_kern *kern, const fore_weight *source, const fore_weight *form, const int32_t *ids, int count,
                                fore_pool *pool, fore_draft_head *out, fore_error *err);
void fore_draft_head_free(fore_draft_head *head);

/* Further rows, one by one: source row `id` becomes row n of `rows`, whose data is `memory`. work: fore_draft_row_work bytes, aligned
 * for floats. False: it cannot be quantised, nothing is written. */
bool fore_draft_row(const fore_kern *kern, const fore_weight *source, int32_t id, const fore_weight *rows, void *memory, int n, void *work);
size_t fore_draft_row_work(const fore_weight *form);

#endif
