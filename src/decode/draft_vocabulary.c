/* Which tokens a draft head may propose; see draft_vocabulary.h. */
#include "decode/draft_vocabulary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "decode/model.h"
#include "text/tokenizer.h"

enum { FILE_LIMIT = 16 << 20 };
#define TOO_MUCH   0.5
#define ENOUGH     0.25
#define FRESH      (1.0 / 32)

/* ---- the model's ids ---------------------------------------------------------------------------------------------- */

/* Marks the ids of the folder's list, at most `most` of them (0: all). *there: it has one. */
static fore_status read_list(const fore_model *m, int most, unsigned char *wanted, bool *there, fore_error *err) {
    *there = false;
    char *path = fore_path_join(m->dir, "draft_vocabulary.json");
    if (!path) return fore_fail_nomem(err, "a path");
    cJSON *list = NULL;
    *there = fore_file_exists(path);
    fore_status s = *there ? fore_json_read(path, FILE_LIMIT, &list, err) : FORE_OK;
    if (!s && *there && (!cJSON_IsArray(list) || !list->child))
        s = fore_fail(err, FORE_ERR_FORMAT, "%s: expected a list of token ids, the most frequent first", path);
    int count = 0, index = 0;
    for (const cJSON *item = list && !s ? list->child : NULL; item && !s && (!most || count < most); item = item->next, index++) {
        double id = cJSON_IsNumber(item) ? item->valuedouble : -1;
        if (!(id >= 0 && id < m->network.config.text.vocab_size) || id != (double)(int32_t)id)
            s = fore_fail(err, FORE_ERR_FORMAT, "%s: item %d: expected a token id from 0 to %d", path, index, m->network.config.text.vocab_size - 1);
        else if ((int32_t)id < m->usable && !wanted[(int32_t)id]) count += wanted[(int32_t)id] = 1;
    }
    cJSON_Delete(list);
    free(path);
    return s;
}

/* End tokens, tags and whatever else the tokenizer adds to its merges. */
static void want_added(const fore_model *m, unsigned char *wanted) {
    for (int i = 0; i < m->eos_count; i++)
        if (m->eos[i] < m->usable) wanted[m->eos[i]] = 1;
    for (int i = 0; m->tokenizer && i < m->usable; i++)
        if (m->tokenizer->pieces[i].flags & FORE_TOKEN_ADDED) wanted[i] = 1;
    const int32_t pads[2] = {m->network.config.image_token_id, m->network.config.video_token_id};
    for (int i = 0; i < 2; i++)
        if (pads[i] >= 0 && pads[i] < m->usable) wanted[pads[i]] = 0;
}

/* Marks what may be drafted in wanted [usable] and tells whether that is a choice at all. */
static fore_status choose_ids(const fore_model *m, int asked, unsigned char *wanted, bool *some, fore_error *err) {
    bool listed = false;
    if (asked >= m->usable) asked = -1;
    if (asked >= 0) {
        fore_status s = read_list(m, asked, wanted, &listed, err);
        if (s) return s;
    }
    int n = asked > 0 ? asked : asked < 0 ? m->usable : FORE_DRAFT_VOCABULARY;
    *some = listed || n < m->usable;
    if (!listed)
        for (int i = 0; i < n && i < m->usable; i++) wanted[i] = 1;
    if (*some) want_added(m, wanted);
    return FORE_OK;
}

fore_status fore_draft_vocabulary_open(fore_model *m, const fore_model_options *o, fore_pool *pool, fore_error *err) {
    int bits = o ? o->draft_head_bits : 0, asked = o ? o->draft_vocabulary : 0;
    if (bits != 0 && bits != 4 && bits != 8 && bits != 16)
        return fore_fail(err, FORE_ERR_INVALID, "model: draft_head_bits %d; expected 4, 8, 16 (the model's own weights) or 0 (chosen)", bits);
    if (asked < -1) return fore_fail(err, FORE_ERR_INVALID, "model: draft_vocabulary %d; expected a number of ids, -1 (all) or 0 (chosen)", asked);
    m->fixed_draft_vocabulary = asked > 0;
    if (!m->mtp.attached || (bits == 16 && asked <= 0)) return FORE_OK;
    unsigned char *wanted = calloc((size_t)m->usable, 1);
    int32_t *ids = malloc((size_t)m->usable * sizeof *ids);
    if (!wanted || !ids) {
        free(wanted);
        free(ids);
        return fore_fail_nomem(err, "the draft vocabulary");
    }
    bool some = false;
    int count = 0;
    fore_weight form;
    const fore_weight *own = &m->network.lm_head;
    fore_status s = choose_ids(m, asked, wanted, &some, err);
    for (int i = 0; i < m->usable && !s; i++) {
        ids[count] = i;
        count += wanted[i];
    }
    bool chosen = some || bits; /* else the vocabulary is small, and the model's own head is as good */
    bool wanted_one = !s && chosen && count && fore_draft_form(own, bits ? bits : 4, &form);
    if (wanted_one && m->look) { /* only how large it would be */
        m->draft_head = (fore_draft_head){.rows = form, .bytes = fore_draft_head_bytes(&form, count, own->N)};
        m->draft_head.rows.N = count;
    } else if (wanted_one) {
        s = fore_draft_head_new(m->network.kern, own, &form, ids, count, pool, &m->draft_head, err);
        if (s == FORE_ERR_FORMAT) s = FORE_OK; /* weights that are not finite are the model's own affair: its own head then */
    }
    free(wanted);
    free(ids);
    return s;
}

/* ---- a session's own ---------------------------------------------------------------------------------------------- */

static int rooms(const fore_model *m) {
    int left = m->usable - m->draft_head.rows.N;
    return left < FORE_DRAFT_EXTRAS ? left : FORE_DRAFT_EXTRAS;
}

size_t fore_draft_words_plan(const fore_model *m) {
    const fore_draft_head *h = &m->draft_head;
    if (!h->rows.N) return 0;
    fore_weight rows = h->rows;
    rows.N = rooms(m) + 1;
    size_t ids = (size_t)h->rows.N + (size_t)rooms(m), V = (size_t)m->network.config.text.vocab_size;
    return (2 * ids + V) * sizeof(int32_t) + fore_weight_bytes(&rows) + fore_draft_row_work(&rows) + 5 * (size_t)FORE_ARENA_ALIGN + 16;
}

fore_status fore_draft_words_reserve(fore_draft_words *w, const fore_model *m, fore_error *err) {
    const fore_draft_head *h = &m->draft_head;
    if (w->memory || !h->rows.N) return FORE_OK;
    *w = (fore_draft_words){.head = h, .room = rooms(m), .rows = h->rows, .bytes = fore_draft_words_plan(m)};
    w->memory = calloc(1, w->bytes);
    if (!w->memory) return fore_fail_nomem(err, "the draft vocabulary of a session");
    size_t ids = (size_t)h->rows.N + (size_t)w->room, V = (size_t)m->network.config.text.vocab_size;
    w->rows.N = w->room + 1;
    char *at = w->memory;
    w->ids = (int32_t *)(void *)fore_carve(&at, ids);
    w->places = (int32_t *)(void *)fore_carve(&at, V);
    w->logits = fore_carve(&at, ids);
    w->row_memory = fore_carve(&at, (fore_weight_bytes(&w->rows) + 3) / sizeof(float));
    w->work = fore_carve(&at, 0);
    w->rows.data = w->row_memory;
    w->rows.N = 0;
    memcpy(w->ids, h->ids, (size_t)h->rows.N * sizeof *w->ids);
    memcpy(w->places, h->places, V * sizeof *w->places);
    return FORE_OK;
}

void fore_draft_words_free(fore_draft_words *w) {
    free(w->memory);
    *w = (fore_draft_words){0};
}

void fore_draft_words_forget(fore_draft_words *w) {
    if (!w->memory) return;
    for (int i = 0; i < w->rows.N; i++) w->places[w->ids[w->head->rows.N + i]] = -1;
    w->rows.N = 0;
    w->next = 0;
    w->outside = 0;
    w->whole = false;
}

static void put(fore_draft_words *w, const fore_model *m, int32_t id) {
    int n = w->next, at = w->head->rows.N + n;
    if (!w->room || !fore_draft_row(m->network.kern, &m->network.lm_head, id, &w->rows, w->row_memory, n, w->work)) return;
    if (n < w->rows.N) w->places[w->ids[at]] = -1; /* the oldest one goes */
    else w->rows.N++;
    w->ids[at] = id;
    w->places[id] = at;
    w->next = (n + 1) % w->room;
}

void fore_draft_words_add(fore_draft_words *w, const fore_model *m, int32_t id, bool said) {
    if (!w->memory || id < 0 || id >= m->usable || id == m->network.config.image_token_id || id == m->network.config.video_token_id) return;
    bool inside = w->places[id] >= 0;
    if (said) {
        w->outside += ((inside ? 0 : 1) - w->outside) * FRESH;
        if (w->outside > TOO_MUCH) w->whole = !m->fixed_draft_vocabulary;
        else if (w->outside < ENOUGH) w->whole = false;
    }
    if (!inside) put(w, m, id);
}

void fore_draft_words_logits(fore_draft_words *w, const fore_engine *engine, const float *post, fore_subset *out) {
    const fore_weight *base = &w->head->rows;
    const fore_product products[2] = {{base, NULL, w->logits, (size_t)base->N}, {&w->rows, NULL, w->logits + base->N, (size_t)w->rows.N}};
    fore_linear(engine, post, (size_t)base->K, 1, products, w->rows.N ? 2 : 1);
    *out = (fore_subset){.ids = w->ids, .places = w->places, .count = base->N + w->rows.N};
}
