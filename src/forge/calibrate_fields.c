/* Fields and values of calibration; see calibrate_fields.h. */
#include "forge/calibrate_fields.h"

#include <string.h>

static const struct {
    fore_contract_field field;
    bool essential;
    const char *values[FORE_TRIED_VALUES]; /* the usual one first */
} KNOWN[FORE_TRIED_FIELDS] = {
    {FORE_CONTRACT_NORMS, true, {"delta", "absolute"}}, /* first: another one means opening the head again */
    {FORE_CONTRACT_CONCAT, true, {"embedding_hidden", "hidden_embedding"}},
    {FORE_CONTRACT_BASE_HIDDEN, true, {"post_norm", "pre_norm"}},
    {FORE_CONTRACT_POSITION, false, {"cache", "absolute", "local"}},
    {FORE_CONTRACT_HIDDEN, false, {"post_norm", "pre_norm", "fc", "embedding", "prev"}},
};

static const char *present_value(const fore_mtp *head, const fore_contract *c, fore_contract_field field) {
    if (field == FORE_CONTRACT_NORMS) return head->norms_absolute ? "absolute" : "delta"; /* as it was found, whatever it is called */
    return c->value[field];
}

/* Turned by one more place everywhere, queries and keys meet as before: the two differ only where places are not one apart. */
static bool are_alike(const char *a, const char *b, bool pictures) {
    return !pictures && strcmp(a, "local") && strcmp(b, "local");
}

void fore_tried_fields(const fore_mtp *head, const fore_contract *contract, bool all, int depth, bool pictures,
                       fore_tried_field out[FORE_TRIED_FIELDS]) {
    for (int i = 0; i < FORE_TRIED_FIELDS; i++) {
        fore_contract_field field = KNOWN[i].field;
        fore_contract_source source = contract->source[field];
        fore_tried_field *f = &out[i];
        *f = (fore_tried_field){.field = field, .count = 1,
                                .essential = KNOWN[i].essential, .usual = KNOWN[i].values[0], .why = ""};
        f->values[0] = present_value(head, contract, field);
        if (!all && source == FORE_CONTRACT_CONFIG) f->why = "stated in config.json";
        if (!all && source == FORE_CONTRACT_RUNTIME) f->why = "stated in mtplx_runtime.json";
        if (field == FORE_CONTRACT_HIDDEN && depth < 2) f->why = "plays no part in a single draft";
        if (f->why[0]) continue;
        for (int v = 0; v < FORE_TRIED_VALUES && KNOWN[i].values[v] && f->count < FORE_TRIED_VALUES; v++) {
            const char *value = KNOWN[i].values[v];
            if (!strcmp(value, f->values[0])) continue;
            if (field == FORE_CONTRACT_POSITION && are_alike(value, f->values[0], pictures)) continue;
            f->values[f->count++] = value;
        }
    }
}
