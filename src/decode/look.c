/* What an open model is said to be: its parts, how its files are read and by what it is known, what is wrong with it; see foresight.h. */
#include <stdio.h>
#include <string.h>

#include "decode/model.h"

static const char *const part_names[FORE_TALLY_PARTS] = {
    [FORE_TALLY_EMBEDDING] = "embedding", [FORE_TALLY_TRUNK] = "trunk",      [FORE_TALLY_EXPERTS] = "experts",
    [FORE_TALLY_OUTPUT] = "output head",  [FORE_TALLY_DRAFT] = "draft head", [FORE_TALLY_VISION] = "vision tower",
};
static const fore_tally_part order[FORE_TALLY_PARTS] = {FORE_TALLY_EMBEDDING, FORE_TALLY_TRUNK, FORE_TALLY_EXPERTS,
                                                        FORE_TALLY_OUTPUT,    FORE_TALLY_DRAFT, FORE_TALLY_VISION};

bool fore_model_get_problem(const fore_model *m, int index, fore_problem *out) {
    if (index < 0 || (size_t)index >= m->notes.count) return false;
    const fore_note *n = &m->notes.list[index];
    *out = (fore_problem){n->topic, n->missing, n->text};
    return true;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static void count_files(const fore_store *store, bool all_draft, bool values, fore_model_part out[FORE_TALLY_PARTS]) {
    for (size_t i = 0; store && i < fore_store_count(store); i++) {
        const fore_entry *e = fore_store_at(store, i);
        fore_model_part *part = &out[all_draft ? FORE_TALLY_DRAFT : fore_part_of(e->name)];
        uint64_t size = 1;
        for (int d = 0; d < e->dims; d++) size *= e->shape[d];
        part->tensors++;
        part->file_bytes += e->bytes;
        if (values) part->parameters += size;
    }
}

/* Whether the store has the file of the draft head too. */
static bool holds(const fore_store *store, const fore_store *head) {
    for (int i = 0; i < fore_store_files(store); i++)
        if (!strcmp(fore_store_file_path(store, i), fore_store_file_path(head, 0))) return true;
    return false;
}

static void make_parts(const fore_model *m, fore_model_part out[FORE_TALLY_PARTS]) {
    for (int i = 0; i < FORE_TALLY_PARTS; i++) out[i] = (fore_model_part){.name = part_names[i]};
    /* Without settings it is not known what stands for what: the tensors' own numbers are counted then. */
    count_files(m->network.store, false, !m->configured, out);
    if (m->mtp.sidecar && !holds(m->network.store, m->mtp.sidecar)) count_files(m->mtp.sidecar, true, !m->configured, out);
    const fore_tally *const both[] = {&m->network.panels.tally, &m->mtp.panels.tally};
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < both[p]->count; i++) {
            const fore_tally_kind *k = &both[p]->kinds[i];
            out[k->part].parameters += k->parameters;
            out[k->part].mapped_bytes += k->mapped;
            out[k->part].memory_bytes += k->made;
        }
}

static bool find_part(const fore_model *m, int index, fore_tally_part *part, fore_model_part *out) {
    fore_model_part parts[FORE_TALLY_PARTS];
    if (index < 0) return false;
    make_parts(m, parts);
    for (int i = 0; i < FORE_TALLY_PARTS; i++) {
        *out = parts[order[i]];
        if (!out->tensors && !out->parameters) continue;
        *part = order[i];
        if (index-- == 0) return true;
    }
    return false;
}

bool fore_model_get_part(const fore_model *m, int index, fore_model_part *out) {
    fore_tally_part part;
    return find_part(m, index, &part, out);
}

bool fore_model_get_part_form(const fore_model *m, int part, int index, fore_stored_form *out) {
    fore_tally_part which;
    fore_model_part unused;
    if (index < 0 || !find_part(m, part, &which, &unused)) return false;
    const fore_tally *const both[] = {&m->network.panels.tally, &m->mtp.panels.tally};
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < both[p]->count; i++) {
            const fore_tally_kind *k = &both[p]->kinds[i];
            if (k->part != which || index--) continue;
            *out = (fore_stored_form){k->label, k->bits, k->group, k->memory_bits, k->parameters};
            return true;
        }
    return false;
}

void fore_look_weights(const fore_model *m, fore_plan *out) {
    const fore_text_config *t = &m->network.config.text;
    const fore_tally *const both[] = {&m->network.panels.tally, &m->mtp.panels.tally};
    uint64_t experts = 0;
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < both[p]->count; i++) {
            const fore_tally_kind *k = &both[p]->kinds[i];
            out->mapped += k->mapped;
            if (k->part != FORE_TALLY_EXPERTS) continue;
            out->idle_experts += k->mapped;
            experts += k->mapped + k->made;
        }
    out->repacked = m->network.panels.used + m->mtp.panels.used;
    out->vectors = m->network.arena.bytes + m->mtp.arena.bytes;
    if (t->num_experts) out->token_experts = experts / (uint64_t)t->num_experts * (uint64_t)t->num_experts_per_tok;
}

/* ---- how it is read ---------------------------------------------------------------------------------------------- */

static const char gain[] = "the gain itself", less_one[] = "gain - 1";

static const fore_layer *first_sparse(const fore_model *m) {
    const fore_text_config *t = &m->network.config.text;
    for (int i = 0; m->network.layers && i < t->num_hidden_layers; i++)
        if (m->network.layers[i].moe) return &m->network.layers[i];
    return NULL;
}

static bool is_stacked(const fore_store *store) {
    for (size_t i = 0; i < fore_store_count(store); i++)
        if (strstr(fore_store_at(store, i)->name, ".switch_mlp.")) return true;
    return false;
}

static const char *experts_value(const fore_model *m, const fore_layer *l) {
    if (l->expert_gate.each) return "a tensor each";
    if (l->expert_gate.across) return "all in one tensor, gates and ups side by side, transposed";
    return is_stacked(m->network.store) ? "all in one tensor, gates and ups apart" : "all in one tensor, gates and ups one after the other";
}

static bool has_linear(const fore_text_config *t) {
    for (int i = 0; i < t->num_hidden_layers; i++)
        if (!t->full_attention[i]) return true;
    return false;
}

bool fore_model_get_reading(const fore_model *m, int index, fore_reading *out) {
    const fore_network *n = &m->network;
    const fore_text_config *t = &n->config.text;
    if (!m->configured) return false;
    const fore_layer *sparse = first_sparse(m);
    const char *tower = n->config.has_vision ? fore_tower_prefix(n->store) : NULL;
    const char *method = n->config.stored.method;
    const struct {
        bool there;
        fore_reading row;
    } rows[] = {
        {true, {"model", n->config.model_type, m->gguf ? "general.architecture, and whether there is an mmproj file" : "config.json: model_type"}},
        {n->norms_rule[0] != 0, {"norms", n->norms_absolute ? gain : less_one, n->norms_rule}},
        {has_linear(t), {"convolution", t->zero_centred_norms && n->norms_absolute ? "channels, taps, 1" : "channels, 1, taps", "the tensors' shapes"}},
        {has_linear(t),
         {"linear layers", t->linear_by_key_head ? "in_proj_qkvz and in_proj_ba, by key head" : "in_proj_qkv, z, b and a", "the tensors' names"}},
        {sparse != NULL, {"experts", sparse ? experts_value(m, sparse) : "", "the tensors' names and shapes"}},
        {true,
         {"output head", t->tie_word_embeddings ? "the embedding" : "of its own", m->gguf ? "whether there is an output.weight" : "config.json: tie_word_embeddings"}},
        {method && method[0], {"quantisation", method ? method : "", "config.json: quantization_config, and the tensors' types and shapes"}},
        {tower != NULL, {"vision tower", tower ? tower : "", "the tensors' names"}},
        {t->mtp_num_hidden_layers > 0,
         {"draft layers", m->draft_layers, m->gguf ? "nextn_predict_layers" : "config.json: mtp_num_hidden_layers"}},
        {m->mtp.norms_rule && m->mtp.norms_rule[0], {"draft head", m->mtp.source, m->gguf ? "where the nextn tensors are" : "the first of config.json's mtp_file, the usual names and the model's own files"}},
        {m->mtp.norms_rule && m->mtp.norms_rule[0], {"draft norms", m->mtp.norms_absolute ? gain : less_one, m->mtp.norms_rule}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows && index >= 0; i++) {
        if (!rows[i].there || index--) continue;
        *out = rows[i].row;
        return true;
    }
    return false;
}
