/* Runs the trials of foresight verify; see verify.h. */
#include <stdlib.h>
#include <string.h>

#include "cli/files.h"
#include "cli/signals.h"
#include "cli/verify.h"

enum { WRONG_EVERY = 5 };

typedef struct answer {
    int32_t *ids; /* owned */
    size_t count;
    uint8_t digest[32];
    fore_stats stats;
} answer;

static int stop_on_interrupt(void *user, const char *stage, uint64_t done, uint64_t total) {
    (void)user, (void)stage, (void)done, (void)total;
    return cli_interrupted();
}

static int run_once(fore_session *session, const fore_request *request, answer *out) {
    size_t capacity = 0;
    fore_error err = {0};
    *out = (answer){0};
    fore_status status = fore_session_begin(session, request, &err);
    for (fore_chunk chunk = {0}; status == FORE_OK && chunk.finish == FORE_FINISH_NONE;) {
        if (cli_interrupted()) return CLI_INTERRUPTED;
        status = fore_session_next(session, &chunk, &err);
        if (out->count + chunk.id_count > capacity) {
            capacity = 2 * (out->count + chunk.id_count);
            out->ids = cli_need(realloc(out->ids, capacity * sizeof *out->ids));
        }
        for (size_t i = 0; i < chunk.id_count; i++) out->ids[out->count++] = chunk.ids[i];
    }
    if (status) return cli_fail_status(status, &err);
    fore_session_digest(session, out->digest);
    fore_session_get_stats(session, &out->stats);
    return CLI_OK;
}

/* The answer itself as drafts, some of them wrong: so a model without a head is tried too. */
static void make_replay(cli_question *q) {
    q->replay = cli_need(calloc(q->id_count + 1, sizeof *q->replay));
    for (size_t i = 0; i < q->id_count; i++)
        q->replay[i] = i % WRONG_EVERY == WRONG_EVERY - 1 ? (q->ids[i] ? q->ids[i] - 1 : 1) : q->ids[i];
}

static void keep_reference(cli_question *q, answer *a, bool head) {
    q->ids = a->ids;
    q->id_count = a->count;
    a->ids = NULL;
    memcpy(q->digest, a->digest, sizeof q->digest);
    q->prompt_tokens = a->stats.prompt_tokens;
    q->image_tokens = a->stats.image_tokens;
    if (!head) make_replay(q);
}

static void compare(const cli_question *q, size_t question, const answer *a, cli_difference *first) {
    size_t i = 0;
    while (i < q->id_count && i < a->count && q->ids[i] == a->ids[i]) i++;
    if (i == q->id_count && i == a->count && memcmp(q->digest, a->digest, sizeof q->digest) == 0) return;
    if (first->found && first->token <= i) return;
    *first = (cli_difference){true, question, i, i < q->id_count ? q->ids[i] : -1, i < a->count ? a->ids[i] : -1};
}

static bool is_asked(const cli_trials *t, const cli_row *row, const cli_question *q) {
    return q->everywhere || row->setting.isa == t->isas[0];
}

/* Column `depth` of the table. */
static void set_depth(fore_draft *draft, int depth) {
    draft->depth = depth == CLI_VERIFY_LOOK ? 2 : depth == CLI_VERIFY_AUTO ? FORE_DRAFT_AUTO : depth;
    if (depth == CLI_VERIFY_LOOK) draft->lookup = FORE_LOOKUP_ON;
}

static int run_row(cli_trials *t, cli_row *row, const cli_options *options, cli_model *model, bool head,
                   cli_progress *progress) {
    fore_session_options how = {.threads = row->setting.threads,
                                .context = options->context > 0 ? options->context : 0};
    fore_session *session = NULL;
    fore_error err = {0};
    fore_status status = fore_session_new(model->model, &how, &session, &err);
    int code = status ? cli_fail_status(status, &err) : CLI_OK;
    for (int depth = 0; depth < CLI_VERIFY_DEPTHS && code == CLI_OK; depth++) {
        for (size_t i = 0; i < t->question_count && code == CLI_OK; i++) {
            cli_question *q = &t->questions[i];
            if (!is_asked(t, row, q)) continue;
            fore_request request = q->request;
            request.prefill_chunk = row->setting.chunk;
            set_depth(&request.draft, depth);
            request.draft.replay = q->replay;
            request.draft.replay_count = q->replay ? q->id_count : 0;
            request.progress = stop_on_interrupt;
            answer a;
            code = run_once(session, &request, &a);
            if (code == CLI_OK && !q->ids)
                keep_reference(q, &a, head);
            else if (code == CLI_OK)
                compare(q, i, &a, &row->first[depth]);
            for (int k = 0; k < 2 * FORE_DRAFT_MAX; k++) {
                t->drafted += a.stats.draft[k & 1].drafted[k / 2];
                t->accepted += a.stats.draft[k & 1].accepted[k / 2];
            }
            free(a.ids);
            t->runs++;
            cli_progress_call(progress, "verify", t->runs, t->planned);
        }
    }
    fore_session_free(session);
    return code;
}

/* The instruction sets that open here, the model's own first. */
static int find_isas(cli_trials *t, const cli_options *options, const cli_model *model) {
    static const char *const names[] = {"amx", "avx512vnni", "avx512", "avx2", "neondot", "neon", "ref"};
    fore_model_info info;
    fore_model_get_info(model->model, &info);
    t->isas[t->isa_count++] = cli_need(strdup(info.isa));
    if (options->isa) return CLI_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], t->isas[0]) == 0) continue;
        fore_model *other = NULL;
        fore_error err = {0};
        fore_status status =
            fore_model_open(model->dir.data, &(fore_model_options){.isa = names[i], .no_mtp = true}, &other, &err);
        fore_model_close(other);
        if (status == FORE_OK)
            t->isas[t->isa_count++] = cli_need(strdup(names[i]));
        else if (status != FORE_ERR_UNSUPPORTED)
            return cli_fail_status(status, &err);
    }
    return CLI_OK;
}

static void add_row(cli_trials *t, const cli_options *options, const char *isa, int threads, int chunk) {
    cli_setting s = {isa, options->threads > 0 ? options->threads : threads,
                     options->chunk > 0 ? options->chunk : chunk};
    for (size_t i = 0; i < t->row_count; i++) {
        const cli_setting *o = &t->rows[i].setting;
        if (o->isa == s.isa && o->threads == s.threads && o->chunk == s.chunk) return;
    }
    t->rows = cli_need(realloc(t->rows, (t->row_count + 1) * sizeof *t->rows));
    t->rows[t->row_count++] = (cli_row){.setting = s};
}

static int open_again(const cli_options *options, const char *isa, cli_model *model) {
    cli_options same = *options;
    fore_model_close(model->model);
    model->model = NULL;
    cli_text_free(&model->dir);
    same.isa = isa;
    return cli_model_open(&same, model);
}

int cli_trials_run(cli_trials *t, const cli_options *options, cli_model *model) {
    int code = find_isas(t, options, model);
    if (code) return code;
    add_row(t, options, t->isas[0], 0, 0);
    add_row(t, options, t->isas[0], 1, 7);
    add_row(t, options, t->isas[0], 3, 64);
    for (size_t i = 1; i < t->isa_count; i++) add_row(t, options, t->isas[i], (int)i, 16);
    fore_model_info info;
    fore_model_get_info(model->model, &info);
    for (size_t i = 0; i < t->row_count; i++) {
        for (size_t k = 0; k < t->question_count; k++)
            if (is_asked(t, &t->rows[i], &t->questions[k])) t->planned += CLI_VERIFY_DEPTHS;
    }
    cli_progress progress;
    cli_progress_start(&progress, "verify");
    const char *open = t->isas[0];
    for (size_t i = 0; i < t->row_count && code == CLI_OK; i++) {
        cli_row *row = &t->rows[i];
        if (row->setting.isa != open) {
            cli_progress_end(&progress); /* opening has its own */
            code = open_again(options, open = row->setting.isa, model);
            cli_progress_start(&progress, "verify");
        }
        if (code == CLI_OK) code = run_row(t, row, options, model, info.mtp_attached, &progress);
    }
    cli_progress_end(&progress);
    return code;
}

void cli_trials_free(cli_trials *t) {
    for (size_t i = 0; i < t->question_count; i++) {
        free(t->questions[i].ids);
        free(t->questions[i].replay);
    }
    for (size_t i = 0; i < t->isa_count; i++) free(t->isas[i]);
    free(t->questions);
    free(t->rows);
    *t = (cli_trials){0};
}
