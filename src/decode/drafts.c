/* The drafts of one round; see drafts.h. */
#include "decode/drafts.h"

#include "base/random.h"
#include "decode/session.h"

enum { STREAM_REPLAY = 0x7265706c };

/* Drafts that this round may check: within the request's tokens and the context. */
static int room(const fore_session *s) {
    int most = s->context - 1 - s->state.length;
    if (s->max_tokens && s->max_tokens - s->generated - 1 < most) most = s->max_tokens - s->generated - 1;
    return most > FORE_DRAFT_MAX ? FORE_DRAFT_MAX : most;
}

static bool is_auto(const fore_session *s) { return s->draft.depth == FORE_DRAFT_AUTO; }

/* A draft that is on purpose another token. */
static int32_t spoil(const fore_session *s, int32_t id) {
    return (id + 1 + (int32_t)(s->state.length % 7)) % s->model->network.config.text.vocab_size;
}

static int32_t maybe_wrong(const fore_session *s, int32_t id) { return s->draft.wrong ? spoil(s, id) : id; }

/* What the context offers behind the drafts so far. */
static int look(fore_session *s, const fore_drafts *d, int most, int32_t *out, int *match) {
    *match = 0;
    if (!s->lookups || most < 1) return 0;
    fore_profile_op(&s->engine, FORE_OP_LOOKUP);
    int n = fore_lookup_find(&s->lookup, d->id, d->count, most, out, match);
    for (int i = 0; i < n; i++) out[i] = maybe_wrong(s, out[i]);
    return n;
}

static void put_lookups(fore_session *s, fore_drafts *d, const int32_t *ids, int n, int match) {
    for (int i = 0; i < n; i++) {
        if (s->rejection) fore_rejection_certain(s->rejection, d->count, ids[i]);
        d->match[d->count] = match + i;
        d->id[d->count++] = ids[i];
    }
}

/* The recorded answer's token for draft `depth` of this round; -1: there is none. */
static int32_t replayed(const fore_session *s, int depth) {
    const fore_draft *d = &s->draft;
    size_t at = s->replayed + (size_t)depth;
    int V = s->model->network.config.text.vocab_size;
    if (at >= d->replay_count || d->replay[at] < 0 || d->replay[at] >= V) return -1; /* a file may hold anything */
    if (!d->replay_right) return d->replay[at];
    double chance = ((double)fore_random_bits(d->replay_seed, s->replayed, (uint32_t)depth, STREAM_REPLAY) + 0.5) * 0x1p-32;
    return chance < d->replay_right[depth] ? d->replay[at] : spoil(s, d->replay[at]);
}

/* The head's draft number `depth`, after `before`, or what stands in its place; -1: no more. */
static int32_t head_draft(fore_session *s, int depth, int32_t before, double *sure) {
    int32_t id = -1, instead = s->draft.replay ? replayed(s, depth) : -1;
    *sure = -1;
    if (s->draft.replay && instead < 0) return -1;
    if (s->drafter.keeping) id = fore_drafter_step(s, depth, before, is_auto(s) ? sure : NULL);
    if (!s->draft.replay) return id;
    *sure = -1; /* the head was sure of another one */
    return instead;
}

/* Drafts of the head: exactly `depth`, or as long as they pay. */
static void ask_head(fore_session *s, fore_drafts *d, fore_pace_window *w, int depth, bool exact) {
    int32_t id = -1;
    fore_profile_part(&s->engine, FORE_PART_DRAFT);
    while (d->count < depth && (exact || !d->count || fore_pace_goes_on(&s->pace, w))) {
        double sure;
        id = head_draft(s, d->count, id, &sure);
        if (id < 0) break;
        d->sure[d->made++] = sure;
        /* With the rejection sampler whether a draft is checked must not depend on which one was drawn: it would change p. */
        if (!exact && !s->rejection && !fore_pace_keeps(&s->pace, w, sure)) {
            d->dropped = maybe_wrong(s, id);
            break;
        }
        fore_pace_put(&s->pace, w, sure, 0);
        d->id[d->count++] = maybe_wrong(s, id);
        d->heads++;
        if (fore_session_is_end(s, id)) break;
    }
    if (s->drafter.keeping) fore_drafter_done(s);
    fore_profile_part(&s->engine, FORE_PART_TRUNK);
}

/* Look-ups behind the head's drafts. */
static void extend(fore_session *s, fore_drafts *d, const fore_pace_window *w, int most) {
    int32_t ids[FORE_DRAFT_MAX];
    int match;
    if (d->count && fore_session_is_end(s, d->id[d->count - 1])) return;
    int n = look(s, d, most - d->count, ids, &match);
    if (is_auto(s)) n = fore_pace_extends(&s->pace, w, n, match);
    else if (match < FORE_LOOKUP_FIXED) n = 0;
    put_lookups(s, d, ids, n, match);
}

void fore_drafts_make(fore_session *s, fore_drafts *d) {
    *d = (fore_drafts){0};
    int most = room(s), heads = s->drafter.keeping || s->draft.replay ? most : 0;
    if (most < 1 || (!s->draft.depth && !s->lookups)) return;
    d->offered = look(s, d, most, d->offer, &d->offer_match);
    fore_pace_choice c = {.depth = s->draft.depth < heads ? s->draft.depth : heads, .exact = true};
    if (is_auto(s)) c = fore_pace_choose(&s->pace, most, heads, d->offered, d->offer_match);
    else if (d->offer_match >= FORE_LOOKUP_FIXED && d->offered) c = (fore_pace_choice){.lookups = d->offered};
    if (c.lookups) {
        put_lookups(s, d, d->offer, c.lookups, d->offer_match);
        return;
    }
    fore_pace_window w = {.most = most, .chance = 1};
    if (c.depth) ask_head(s, d, &w, c.exact ? c.depth : heads, c.exact);
    if (s->lookups && (c.depth || !is_auto(s))) extend(s, d, &w, most);
}

/* ---- what became of them ------------------------------------------------------------------------------------------ */

/* Of `drafts`, those that the answer came to: the ones behind its end were never judged. */
static int judged(int drafts, int said, bool ended) { return ended && said < drafts ? said : drafts; }

static void count_source(fore_source_stats *c, int from, int to, int agreed) {
    c->rounds += to > from;
    for (int i = from; i < to; i++) {
        c->drafted++;
        c->accepted += i < agreed;
    }
}

static void count(fore_session *s, const fore_drafts *d, int said, int agreed, bool ended) {
    int n = judged(d->count, said, ended), heads = n < d->heads ? n : d->heads;
    s->stats.head.dropped += (uint64_t)(d->made - d->heads);
    if (!d->count) return;
    fore_draft_stats *all = &s->stats.draft[s->stats.images + s->stats.videos > 0];
    all->rounds++;
    all->tokens += (uint64_t)said;
    for (int i = 0; i < n; i++) {
        all->drafted[i]++;
        all->accepted[i] += i < agreed;
    }
    count_source(&s->stats.head, 0, heads, agreed);
    count_source(&s->stats.lookups, heads, n, agreed);
}

/* Offered and checked look-ups against what was said. */
static void judge_lookups(fore_session *s, const fore_drafts *d, const int32_t *said, int count) {
    bool right = true;
    for (int i = 0; i < d->offered && i < count && right; i++) {
        right = d->offer[i] == said[i];
        fore_pace_judge_lookup(&s->pace, d->offer_match + i, right);
    }
    right = d->heads > 0; /* else those of the window are the offered ones */
    for (int i = 0; i < d->count && i < count && right; i++) {
        right = d->id[i] == said[i];
        if (d->match[i]) fore_pace_judge_lookup(&s->pace, d->match[i], right);
    }
}

void fore_drafts_learn(fore_session *s, const fore_drafts *d, const int32_t *said, int n, int agreed, bool ended, double verify_seconds,
                       double draft_seconds) {
    count(s, d, n, agreed, ended);
    if (!is_auto(s)) return;
    judge_lookups(s, d, said, n);
    fore_pace_round r = {
        .drafts = d->count,
        .judged = judged(d->count, n, true),
        .accepted = agreed,
        .heads = d->heads,
        .made = d->made,
        .verify_seconds = verify_seconds,
        .draft_seconds = draft_seconds,
    };
    for (int i = 0; i < d->made; i++) r.sure[i] = d->sure[i];
    if (d->made > d->heads && agreed >= d->heads && n > d->heads) r.dropped = said[d->heads] == d->dropped ? 1 : -1;
    fore_pace_learn(&s->pace, &r);
}
