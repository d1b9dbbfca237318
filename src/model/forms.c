/* The list of forms, and what is common to them; see forms.h. */
#include "model/forms.h"

#include <stdio.h>
#include <string.h>

#include "kernels/quant.h"
#include "model/form_list.h"

static const fore_form *const forms[] = {&fore_form_fp8, &fore_form_int, &fore_form_gguf};
enum { FORMS = sizeof forms / sizeof *forms, NAME = 512 };

static const char *const weight_ends[] = {".weight", ".weight_packed", ".qweight"};
enum { WEIGHT_ENDS = sizeof weight_ends / sizeof *weight_ends };

static const fore_form *form_of(const fore_store *store, const fore_entry *weights) {
    for (size_t i = 0; i < FORMS; i++)
        if (forms[i]->recognise(store, weights)) return forms[i];
    return NULL;
}

/* The tensor <first n characters of name><end>. */
static const fore_entry *find(const fore_store *store, const char *name, size_t n, const char *end) {
    char full[NAME];
    int length = snprintf(full, sizeof full, "%.*s%s", (int)(n < NAME ? n : NAME), name, end);
    return length > 0 && (size_t)length < sizeof full ? fore_store_find(store, full) : NULL;
}

const fore_entry *fore_forms_weights(const fore_store *store, const char *name) {
    const fore_entry *e = fore_store_find(store, name);
    if (e || !fore_name_ends_with(name, ".weight")) return e;
    size_t n = strlen(name) - strlen(".weight");
    for (int i = 1; i < WEIGHT_ENDS && !e; i++) e = find(store, name, n, weight_ends[i]);
    return e;
}

const fore_entry *fore_form_find(const fore_store *store, const fore_entry *weights, const char *end) {
    char full[NAME];
    for (int i = 0; i < WEIGHT_ENDS; i++) {
        if (!fore_name_ends_with(weights->name, weight_ends[i])) continue;
        snprintf(full, sizeof full, ".%s", end);
        return find(store, weights->name, strlen(weights->name) - strlen(weight_ends[i]), full);
    }
    const char *what = strncmp(end, "weight_", 7) ? end : end + 7;
    snprintf(full, sizeof full, "_%s", what);
    return find(store, weights->name, strlen(weights->name), full);
}

fore_status fore_form_refuse_shape(const fore_entry *e, const char *want, fore_error *err) {
    char have[128];
    size_t used = (size_t)snprintf(have, sizeof have, "[");
    for (int i = 0; i < e->dims && used < sizeof have; i++)
        used += (size_t)snprintf(have + used, sizeof have - used, "%s%llu", i ? "," : "", (unsigned long long)e->shape[i]);
    return fore_fail(err, FORE_ERR_FORMAT, "%s: expected %s, the file has %s %s]", e->name, want, e->dtype_name, have);
}

fore_status fore_forms_read(const fore_store *store, const fore_entry *weights, const fore_stored_settings *settings,
                            fore_form_matrix *out, fore_error *err) {
    static const fore_stored_settings unsaid = {0};
    *out = (fore_form_matrix){.form = form_of(store, weights), .part = {weights}};
    if (out->form) out->label = out->form->name;
    return out->form ? out->form->read(store, settings ? settings : &unsaid, out, err) : FORE_OK;
}

bool fore_forms_own(const fore_store *store, const fore_entry *e) {
    static const char *const ends[] = {".weight_scale",     ".weight_scale_inv", ".weight_zero_point", ".weight_shape", ".weight_g_idx",
                                       ".input_zero_point", ".input_scale",      ".activation_scale",  ".scales",       ".qzeros",
                                       ".g_idx",            "_scale_inv"};
    if (form_of(store, e)) return true;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (!fore_name_ends_with(e->name, ends[i])) continue;
        size_t n = strlen(e->name) - strlen(ends[i]);
        for (int k = -1; k < WEIGHT_ENDS; k++) {
            const fore_entry *weights = find(store, e->name, n, k < 0 ? "" : weight_ends[k]);
            if (weights && form_of(store, weights)) return true;
        }
    }
    return false;
}

bool fore_form_bytes(const fore_form_matrix *m, size_t *bytes) {
    size_t row, rows;
    if (m->K > SIZE_MAX / 16) return false;
    if (m->bits) { /* scales and biases take at most 4 bytes each */
        const bool wide = m->dtype == FORE_DTYPE_F32;
        row = m->K / 8 * (size_t)m->bits + m->K / (size_t)m->group * (wide ? 8 : 4);
    } else {
        row = m->K * fore_dtype_size(m->dtype);
    }
    return !__builtin_mul_overflow(m->matrices, m->rows, &rows) && !__builtin_mul_overflow(rows, row, bytes);
}
