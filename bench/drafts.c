/* What drafting costs and can bring on this machine, by depth: tokens a second against depth 0, once with every draft wrong
 * (the head works for nothing), once with every draft right (replayed from a recorded answer: the ceiling, the head's cost
 * left out and put back by its measured time). Depths take turns with depth 0, so that the machine's mood hits both.
 * usage: drafts [--tokens N] [--runs N] [--threads N] [--isa NAME] [--only wrong|right] FOLDER */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "measure.h"

enum { MAX_TOKENS = 2048, MAX_RUNS = 31, PROMPT = 64 };

typedef struct machine {
    fore_model *model;
    fore_session *session;
    int32_t prompt[PROMPT], answer[MAX_TOKENS];
    size_t answered;
    int tokens;
} machine;

typedef struct cost {
    double per_token;  /* seconds of decoding a token, all parts */
    double draft;      /* seconds of the head in all */
    double verify;     /* seconds a round of the trunk */
    uint64_t drafted, rounds;
} cost;

/* Generates the answer with the given drafting; the tokens must be those of the first time. */
static cost generate(machine *m, fore_draft draft) {
    fore_error err = {0};
    fore_request r;
    fore_request_init(&r, m->model);
    r.ids = m->prompt;
    r.id_count = PROMPT;
    r.max_tokens = m->tokens;
    r.ignore_eos = true;
    r.sampling = (fore_sampling){.top_p = 1, .repetition_penalty = 1};
    r.draft = draft;
    must(fore_session_begin(m->session, &r, &err), &err);
    fore_chunk c = {0};
    must(fore_session_next(m->session, &c, &err), &err); /* the first token comes from the prompt */
    size_t n = 0;
    bool first_time = m->answered == 0;
    double t0 = now();
    for (;;) {
        for (size_t i = 0; i < c.id_count; i++, n++) {
            if (first_time) m->answer[n] = c.ids[i];
            else if (m->answer[n] != c.ids[i]) {
                fprintf(stderr, "drafts: depth %d changes token %zu\n", draft.depth, n);
                exit(1);
            }
        }
        if (c.finish != FORE_FINISH_NONE) break;
        must(fore_session_next(m->session, &c, &err), &err);
    }
    double seconds = now() - t0;
    if (first_time) m->answered = n;
    fore_stats s;
    fore_session_get_stats(m->session, &s);
    cost k = {.per_token = seconds / (double)(n - 1), .draft = s.draft_seconds, .rounds = s.rounds};
    k.verify = (s.verify_seconds + s.commit_seconds) / (double)s.rounds;
    k.drafted = s.draft[0].drafted[0] * (uint64_t)(draft.depth > 0 ? draft.depth : 1);
    return k;
}

/* One line: medians over runs of the ratio to a depth 0 run just before. */
static void compare(machine *m, const char *name, fore_draft draft, int runs, double head_seconds, double *head_out) {
    double ratio[MAX_RUNS] = {0}, with_head[MAX_RUNS] = {0}, verify[MAX_RUNS] = {0}, head[MAX_RUNS] = {0};
    for (int i = 0; i < runs; i++) {
        cost plain = generate(m, (fore_draft){0}), other = generate(m, draft);
        ratio[i] = plain.per_token / other.per_token;
        verify[i] = other.verify / plain.verify;
        head[i] = other.drafted && !draft.replay ? other.draft / (double)other.drafted / plain.verify : 0;
        double rounds_per_token = (double)other.rounds / (double)(m->tokens - 1);
        with_head[i] = plain.per_token / (other.per_token + rounds_per_token * draft.depth * head_seconds * plain.verify);
    }
    double h = median(head, runs);
    if (head_out) *head_out = h;
    printf("%-14s %6.2f x", name, median(ratio, runs));
    if (draft.replay) printf("   %6.2f x with the head's cost", median(with_head, runs));
    else printf("   a draft costs %.2f of a token", h);
    printf("   a round's pass %.2f\n", median(verify, runs));
    fflush(stdout);
}

int main(int argc, char **argv) {
    int runs = 3, tokens = 96;
    const char *dir = NULL, *only = "";
    fore_model_options mo = {0};
    fore_session_options so = {.context = 4096};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--tokens") && i + 1 < argc) tokens = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--runs") && i + 1 < argc) runs = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--threads") && i + 1 < argc) so.threads = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--isa") && i + 1 < argc) mo.isa = argv[++i];
        else if (!strcmp(argv[i], "--only") && i + 1 < argc) only = argv[++i];
        else dir = argv[i];
    }
    if (!dir || runs < 1 || runs > MAX_RUNS || tokens < 16 || tokens > MAX_TOKENS) {
        fprintf(stderr, "usage: drafts [--tokens 16..%d] [--runs 1..%d] [--threads N] [--isa NAME] [--only wrong|right] FOLDER\n", MAX_TOKENS, MAX_RUNS);
        return 2;
    }
    static machine m;
    fore_error err;
    must(fore_model_open(dir, &mo, &m.model, &err), &err);
    must(fore_session_new(m.model, &so, &m.session, &err), &err);
    m.tokens = tokens;
    fore_model_info info;
    fore_model_get_info(m.model, &info);
    for (int i = 0; i < PROMPT; i++) m.prompt[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)(info.vocab_size / 2));
    printf("%s: %.2f G parameters, %s, %s kernels; %d tokens, median of %d\n", dir,
           (double)(info.text_parameters + info.vision_parameters + info.mtp_parameters) / 1e9, info.dtypes, info.isa, tokens, runs);
    cost warm = generate(&m, (fore_draft){0});
    bool wrong = strcmp(only, "right") != 0, right = strcmp(only, "wrong") != 0;
    printf("depth 0        %6.2f tok/s\n\nevery draft wrong\n", 1 / warm.per_token);
    double head = 0;
    char name[32];
    for (int d = 1; info.mtp_attached && d <= (wrong ? FORE_DRAFT_MAX : 1); d++) { /* one depth tells the head's cost */
        snprintf(name, sizeof name, "  depth %d", d);
        compare(&m, name, (fore_draft){.depth = d, .wrong = true}, runs, 0, &head);
    }
    if (wrong && info.mtp_attached) compare(&m, "  auto", (fore_draft){.depth = FORE_DRAFT_AUTO, .wrong = true}, runs, 0, NULL);
    if (right) printf("\nevery draft right (replayed)\n");
    for (int d = 1; right && d <= FORE_DRAFT_MAX; d++) {
        snprintf(name, sizeof name, "  depth %d", d);
        compare(&m, name, (fore_draft){.depth = d, .replay = m.answer, .replay_count = m.answered}, runs, head, NULL);
    }
    fore_session_free(m.session);
    fore_model_close(m.model);
    return 0;
}
