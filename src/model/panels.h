/* Weight matrices, and the memory of those that are not read where the files have them: quantised ones repacked
 * (kernels/quant.h), and rows of floats made from forms without such panels (forms.h). One region of address space, filled by all
 * threads once everything is bound. */
#ifndef FORE_MODEL_PANELS_H
#define FORE_MODEL_PANELS_H

#include "base/dtype.h"
#include "base/pool.h"
#include "checkpoint/store.h"
#include "kernels/kern.h"
#include "model/forms.h"
#include "model/tally.h"

typedef struct fore_weight {
    const void *data; /* [N,K] row-major, borrowed from the store or made from it; quantised: panels */
    fore_dtype dtype; /* F32, F16 or BF16; quantised: of scales and biases, as in fore_qweight */
    int N, K;
    int bits, group;  /* 4 or 8, and 16, 32, 64 or 128; 0: not quantised */
    const int32_t *order; /* quantised: [K] the input that each column of the panels is for; NULL: column k is for input k */
} fore_weight;

static inline fore_qweight fore_weight_quantised(const fore_weight *w) {
    return (fore_qweight){.bits = w->bits, .group = w->group, .N = w->N, .K = w->K, .dtype = w->dtype, .panels = w->data};
}
/* Outputs n0 .. n0+n-1 as a matrix of their own, in the same memory; n0 is a multiple of 16. */
fore_weight fore_weight_part(const fore_weight *w, int n0, int n);
/* Bytes that a pass over the matrix reads. */
size_t fore_weight_bytes(const fore_weight *w);
/* One row of a matrix, widened into y [K]. */
void fore_weight_row(const fore_kern *kern, const fore_weight *w, int row, float *y);

/* A matrix waiting to be made: from the stored form of quant.h in the files, or from rows of another form. Stored weights of 2
 * and 3 bits are widened to 4, of 5 and 6 to 8: they are the same numbers. */
typedef struct fore_panel_job {
    fore_qweight w;  /* panels: where it goes; bits and group 0: rows of floats of the dtype */
    int stored_bits; /* 2, 3, 4, 5, 6 or 8: row n of q begins at bit n*K*stored_bits, weight k at bit k*stored_bits of it */
    const unsigned char *q, *scales, *biases; /* borrowed from the store */
    const int32_t *order;         /* as fore_weight has it; NULL: that of from, or none */
    const fore_form_matrix *from; /* borrowed until it is done; NULL: q, scales and biases say it all */
    size_t row0;                  /* the first of from's rows that are this matrix */
} fore_panel_job;

static inline const int32_t *fore_panel_job_order(const fore_panel_job *job) {
    return job->order ? job->order : job->from ? job->from->order : NULL;
}

enum { FORE_PANELS_LINE = 64 }; /* every matrix begins at a multiple of it */

/* What became of keeping the panels in a file; see pack.h. */
typedef struct fore_packed {
    bool keyed;       /* something is quantised, `key` says what */
    uint8_t key[32];
    bool used;        /* the panels are a map of the file */
    bool written;     /* ... that was made now */
    char note[320];   /* why there is none, or why the one there was refused; "" */
} fore_packed;

/* Matrices that are of one kind in the files and in memory. */
typedef struct fore_panels_kind {
    const char *label;   /* static */
    int bits, group;     /* in the files; see fore_form_matrix */
    int memory_bits;     /* 4, 8, 16 or 32 */
    uint64_t parameters;
} fore_panels_kind;

enum { FORE_PANELS_KINDS = 24 };

typedef struct fore_panels {
    unsigned char *memory; /* owned; NULL: every matrix is read where the files have it */
    size_t reserved, used; /* bytes: of address space, and taken */
    fore_panel_job *jobs;  /* owned; gone once they are done */
    size_t count, capacity;
    uint64_t parameters; /* weights of all matrices added */
    fore_panels_kind kinds[FORE_PANELS_KINDS]; /* of the first so many kinds */
    int kind_count;
    fore_tally tally; /* of these matrices, and of what the binder leaves where it is */
    const fore_stored_settings *settings; /* borrowed until they are made */
    fore_packed packed;
} fore_panels;

/* How the weights of a model become readable. */
typedef struct fore_load {
    fore_pool *pool;       /* repacks quantised matrices; NULL: this thread alone */
    const char *pack_dir;  /* the folder where they are kept repacked; NULL: nowhere */
    const char *pack_stem; /* how the names of their files begin */
    bool pack_read_only;   /* uses a file that is there, writes none */
    bool pack_verify;      /* reads all of it and compares its digest */
    fore_notes *notes;     /* not NULL: the model is looked at alone. Nothing is made, and what is wrong is noted */
    struct fore_gguf_model *gguf; /* where the model is; NULL: in a folder of Hugging Face (checkpoint/gguf_model.h) */
} fore_load;

/* Address space for every matrix of a store that will not stay where it is and whose name begins with `prefix`; none when it has
 * none. */
fore_status fore_panels_reserve(fore_panels *panels, const fore_store *store, const char *prefix, const fore_stored_settings *settings,
                                fore_error *err);
/* A place for a matrix, whose stored form must last until fore_panels_make ends. `job`: its shape has been checked, its panels are
 * set here. */
fore_status fore_panels_add(fore_panels *panels, const fore_panel_job *job, fore_weight *out, fore_error *err);
/* Makes everything added, by all threads of the pool (NULL: this one), and lets go of the file's pages behind it. FORE_ERR_FORMAT:
 * numbers that a form does not have. */
fore_status fore_panels_fill(fore_panels *panels, fore_pool *pool, fore_error *err);
/* The end of adding: fore_panels_fill, or a map of the file that an earlier one was kept in; see pack.h. load NULL: by this
 * thread. */
fore_status fore_panels_make(fore_panels *panels, const fore_store *store, const fore_load *load, fore_error *err);
void fore_panels_free(fore_panels *panels);

#endif
