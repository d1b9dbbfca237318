/* The session's inside, shared by the files of this room: timeline (what the state has seen), request (how to go on), and
 * the memory of both. One thread at a time. */
#ifndef FORE_DECODE_SESSION_H
#define FORE_DECODE_SESSION_H

#include "base/clock.h"
#include "base/pool.h"
#include "decode/draft.h"
#include "decode/drafts.h"
#include "decode/model.h"
#include "decode/pace.h"
#include "decode/prepare.h"
#include "decode/rejection.h"
#include "decode/sampler.h"
#include "decode/stop.h"
#include "model/profile.h"
#include "model/tower.h"
#include "model/trunk.h"
#include "text/stream.h"

/* A picture that lies in the timeline. */
typedef struct fore_seen_image {
    uint8_t digest[FORE_DIGEST];
    int grid[3];
    size_t start; /* index of its first pad */
} fore_seen_image;

struct fore_session {
    const fore_model *model; /* borrowed */
    fore_pool *pool;         /* owned */
    fore_engine engine;
    int context;
    /* timeline: ids[0 .. state.length-1] is what the state has seen */
    fore_state state;
    int32_t *ids; /* [context] owned */
    fore_seen_image *seen; /* owned */
    size_t seen_count;
    int32_t delta; /* position of token i >= prompt length is i + delta */
    /* memory of a pass */
    fore_scratch scratch;
    int chunk;                  /* rows of a prefill step */
    float *embeddings, *hidden; /* [scratch.rows,C] owned */
    float *residual;            /* [scratch.rows,C] owned; only when the contract wants hiddens before the final norm */
    float *logits;              /* [logit_rows,V] owned; row 0 is the last prompt row's when has_logits */
    int logit_rows;
    fore_window window;
    bool has_logits;
    int32_t pending; /* token that was said and that the state has not seen; -1: none */
    /* drafting */
    fore_draft draft;
    fore_drafter drafter;
    fore_lookup lookup;        /* prompt and answer; follows only while `lookups` */
    bool lookups;              /* this request may take look-ups */
    fore_rejection *rejection; /* owned; only with the rejection sampler and a temperature */
    fore_pace pace;            /* of the session: costs do not change with the request */
    /* request */
    bool active; /* begun and not finished */
    fore_sampler *sampler; /* owned */
    fore_stop *stop;       /* owned */
    char **stop_strings;   /* owned copies, for the statistics */
    size_t stop_count;
    fore_stream stream;
    fore_buf piece, text; /* decoded but not yet checked for stop strings; lent to the caller */
    int32_t round_ids[FORE_DRAFT_MAX + 1];
    uint8_t round_marks[FORE_DRAFT_MAX + 1];
    size_t round_ends[FORE_DRAFT_MAX + 1];
    size_t replayed; /* tokens of this answer so far, for draft.replay */
    int generated, max_tokens;
    bool ignore_eos;
    fore_stats stats;
};

/* Memory for prefill steps of `rows` rows (more than the context are not needed), and for windows when `drafts`. */
fore_status fore_session_reserve(fore_session *session, int rows, bool drafts, fore_error *err);
/* The hiddens that the draft head's contract wants, of the pass just made. */
const float *fore_session_head_input(const fore_session *session);
bool fore_session_is_end(const fore_session *session, int32_t id);
/* Forgets the timeline and the request. */
void fore_session_reset(fore_session *session);

/* What looks at a prefill: rows [first, first+T) of embeddings and hidden [T,C]. */
typedef fore_status (*fore_prefill_look)(void *user, int first, int T, const float *embeddings, const float *hidden, fore_error *err);

/* Brings the timeline to prepared->ids: reuses a seen prefix (not when `look` is given), runs the tower for the pictures that
 * are new, feeds the trunk chunk by chunk. On success the last row's hidden state is at session->hidden and its index in *last_row.
 * On failure the timeline holds what was fed so far; a cancelled one is empty. */
fore_status fore_session_prefill(fore_session *session, const fore_request *request, const fore_prepared *prepared,
                                 fore_prefill_look look, void *user, int *last_row, fore_splice *splice, fore_error *err);

/* fore_session_begin with a look at the prefill. *splice is the caller's to free, in any case. */
fore_status fore_session_begin_seen(fore_session *session, const fore_request *request, fore_prefill_look look, void *user,
                                    fore_splice *splice, fore_error *err);

#endif
