/* Matrices that the files have in a form of their own, neither plain floats nor MLX's affine one: FP8 with scales, integers packed
 * the ways of compressed-tensors, AutoAWQ and GPTQ, the blocks of GGUF. A form recognises the tensor with a matrix' weights, checks
 * the tensors that belong to it, says what the matrix becomes in memory (panels of quant.h where that is exact, else rows of floats)
 * and writes its rows. It knows files, not models: which matrix plays which part is the binder's business.
 *
 * To add one: a fore_form in a file of its own, and a line in the list of forms.c. */
#ifndef FORE_MODEL_FORMS_H
#define FORE_MODEL_FORMS_H

#include "checkpoint/config.h"
#include "checkpoint/store.h"

enum { FORE_FORM_PARTS = 5, FORE_FORM_NUMBERS = 6 };

typedef struct fore_form_matrix {
    const struct fore_form *form;
    const fore_entry *part[FORE_FORM_PARTS]; /* borrowed from the store: [0] the weights, others in the form's order; NULL: none */
    size_t matrices, rows, K; /* [rows,K], or matrices of them one behind the other: row r of matrix e counts as e*rows + r */
    int bits, group;          /* in memory: panels as in fore_qweight; 0 and 0: rows of floats */
    fore_dtype dtype;         /* of the scales and biases, as there, or of the floats */
    bool ordered;             /* the columns of the panels are for inputs in another order, which fore_form.order tells */
    const int32_t *order;     /* that order [K], by the binder before rows are written; NULL: as they are */
    const char *label;             /* for people: what the files' form is called; from fore_forms_read the form's name, until it is set */
    int file_bits, file_group;     /* for people: a weight's bits in the files; neighbours that share a scale, 0: a row or a block */
    int own[FORE_FORM_NUMBERS]; /* whatever else the rows depend on */
} fore_form_matrix;

/* Where rows go, one behind the other. Panels: the stored form of quant.h; floats: to q alone. */
typedef struct fore_form_rows {
    unsigned char *q, *scales, *biases;
} fore_form_rows;

typedef struct fore_form {
    const char *name; /* for people and for the keys of packs */
    int version;      /* counts up when rows come out otherwise, so that panels kept in files are made again */
    bool by_rows;     /* part[0] has the rows one behind the other, in as many bytes each */
    /* Whether this tensor has the weights of a matrix in this form; by its name, type and neighbours alone. */
    bool (*recognise)(const fore_store *store, const fore_entry *weights);
    /* Fills all of *out but `form` and part[0], having checked every tensor. Messages begin with a tensor's name. */
    fore_status (*read)(const fore_store *store, const fore_stored_settings *settings, fore_form_matrix *out, fore_error *err);
    /* The order of a matrix that is `ordered` into order [K]; NULL for forms that have none. */
    void (*order)(const fore_form_matrix *m, int32_t *order);
    /* Rows row0 .. row0+rows-1. Called by several threads at once. What is wrong with the numbers, or NULL. */
    const char *(*write)(const fore_form_matrix *m, size_t row0, size_t rows, const fore_form_rows *to);
} fore_form;

/* The tensor with the weights of the matrix `name` (M.weight, or a fused one's whole name), whatever its form: that very name,
 * M.weight_packed or M.qweight. NULL: there is none. */
const fore_entry *fore_forms_weights(const fore_store *store, const char *name);
/* Reads the matrix whose weights these are; out->form is NULL when they are in none of the forms. */
fore_status fore_forms_read(const fore_store *store, const fore_entry *weights, const fore_stored_settings *settings,
                            fore_form_matrix *out, fore_error *err);
/* Whether a tensor is part of a matrix in one of the forms. */
bool fore_forms_own(const fore_store *store, const fore_entry *e);
/* Bytes of the matrix' rows in memory, whole; false: too many to count. */
bool fore_form_bytes(const fore_form_matrix *m, size_t *bytes);

/* For forms: a neighbour of a matrix' weights. M.weight, M.weight_packed and M.qweight have M.<end>; another name (a fused
 * tensor's) has <name>_<what follows "weight_" in end>. NULL: there is none. */
const fore_entry *fore_form_find(const fore_store *store, const fore_entry *weights, const char *end);
/* The failure of a tensor that has not the shape wanted; `want` is text such as "[8,4]". */
fore_status fore_form_refuse_shape(const fore_entry *e, const char *want, fore_error *err);

#endif
