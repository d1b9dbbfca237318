/* What drafting costs and can bring on this machine: tokens a second against depth 0, three ways of one recorded answer.
 *   wrong      every draft of the head is made wrong: what drafting loses at most
 *   right      the head works, and its drafts are replaced by the recorded answer's tokens: the ceiling
 *   published  the same, but a draft at depth d stays right only with a share, drawn by a seed for each place and depth, so that the
 *              shares right together with all before them are 0.86, 0.66, 0.51 at depths 1 to 3, as published for a 27B model of
 *              this family; deeper ones go on with the last step's share, 0.773. Weights are random: only the acceptance is
 *              synthetic, every cost is real. The head's own confidence says nothing of replaced drafts, so it is not used.
 * The text counts as one that the draft vocabulary has, though that of random weights is not. Look-ups are off, since an answer of random weights may run in circles. Depths take turns with depth 0, so that the machine's mood
 * hits both.
 * usage: drafts [--tokens N] [--runs N] [--threads N] [--isa NAME] [--draft-head-bits N] [--draft-vocabulary N]
 *               [--only wrong|right|published] [--depth N] [--pack DIR] FOLDER */
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
    double per_token; /* seconds of decoding a token, all parts */
    double draft;     /* seconds of a draft of the head, 0: none */
    double verify;    /* seconds a round of the trunk */
    double per_round; /* tokens */
    double accepted;  /* share of the head's drafts */
} cost;

static const double PUBLISHED[FORE_DRAFT_MAX] = {0.86, 0.66 / 0.86, 0.51 / 0.66, 0.51 / 0.66, 0.51 / 0.66, 0.51 / 0.66, 0.51 / 0.66, 0.51 / 0.66};

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
    cost k = {.per_token = seconds / (double)(n - 1), .per_round = (double)(n - 1) / (double)s.rounds};
    uint64_t made = s.head.drafted + s.head.dropped;
    k.verify = (s.verify_seconds + s.commit_seconds) / (double)s.rounds;
    if (made) k.draft = s.draft_seconds / (double)made;
    if (s.head.drafted) k.accepted = (double)s.head.accepted / (double)s.head.drafted;
    return k;
}

/* One line: medians over runs of the ratio to a depth 0 run just before. */
static void compare(machine *m, const char *name, fore_draft draft, int runs) {
    double ratio[MAX_RUNS] = {0}, verify[MAX_RUNS] = {0}, head[MAX_RUNS] = {0}, tokens[MAX_RUNS] = {0}, accepted[MAX_RUNS] = {0};
    draft.lookup = FORE_LOOKUP_OFF;
    for (int i = 0; i < runs; i++) {
        cost plain = generate(m, (fore_draft){0}), other = generate(m, draft);
        ratio[i] = plain.per_token / other.per_token;
        verify[i] = other.verify / plain.verify;
        head[i] = other.draft / plain.verify;
        tokens[i] = other.per_round;
        accepted[i] = other.accepted;
        draft.replay_seed++;
    }
    printf("%-9s %6.2f x   %.2f tokens a round, %3.0f %% accepted   a round's pass %.2f, a draft %.3f of a pass of one row\n", name, median(ratio, runs),
           median(tokens, runs), 100 * median(accepted, runs), median(verify, runs), median(head, runs));
    fflush(stdout);
}

static void all_depths(machine *m, const char *title, fore_draft draft, int only_depth, int runs) {
    char name[32];
    printf("\n%s\n", title);
    for (int d = 1; d <= FORE_DRAFT_MAX; d++) {
        if (only_depth >= 0 && d != only_depth) continue;
        snprintf(name, sizeof name, "  depth %d", d);
        draft.depth = d;
        compare(m, name, draft, runs);
    }
    draft.depth = FORE_DRAFT_AUTO;
    compare(m, "  auto", draft, runs);
}

int main(int argc, char **argv) {
    int runs = 3, tokens = 96, depth = -1;
    const char *dir = NULL, *only = "";
    fore_model_options mo = {0};
    fore_session_options so = {.context = 4096};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--tokens") && i + 1 < argc) tokens = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--runs") && i + 1 < argc) runs = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--threads") && i + 1 < argc) so.threads = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--isa") && i + 1 < argc) mo.isa = argv[++i];
        else if (!strcmp(argv[i], "--draft-head-bits") && i + 1 < argc) mo.draft_head_bits = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--draft-vocabulary") && i + 1 < argc) mo.draft_vocabulary = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--depth") && i + 1 < argc) depth = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--pack") && i + 1 < argc) mo.pack_dir = argv[++i];
        else if (!strcmp(argv[i], "--only") && i + 1 < argc) only = argv[++i];
        else dir = argv[i];
    }
    if (!dir || runs < 1 || runs > MAX_RUNS || tokens < 16 || tokens > MAX_TOKENS) {
        fprintf(stderr,
                "usage: drafts [--tokens 16..%d] [--runs 1..%d] [--threads N] [--isa NAME] [--draft-head-bits N] [--draft-vocabulary N]\n"
                "              [--only wrong|right|published] [--depth N] [--pack DIR] FOLDER   (--depth 0: auto alone)\n",
                MAX_TOKENS, MAX_RUNS);
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
    printf("depth 0   %6.2f tok/s; ", 1 / warm.per_token);
    if (!info.mtp_attached) printf("no draft head: %s\n", info.mtp_note);
    else if (info.draft_vocabulary) printf("drafts from %d ids at %d bits\n", info.draft_vocabulary, info.draft_head_bits);
    else printf("drafts from the model's own output head\n");
    if (!*only || !strcmp(only, "wrong")) all_depths(&m, "every draft wrong", (fore_draft){.wrong = true}, depth, runs);
    const fore_draft replay = {.replay = m.answer, .replay_count = m.answered};
    if (!*only || !strcmp(only, "right")) all_depths(&m, "every draft right", replay, depth, runs);
    fore_draft published = replay;
    published.replay_right = PUBLISHED;
    published.replay_seed = 1;
    if (!*only || !strcmp(only, "published")) all_depths(&m, "0.86, 0.66, 0.51 right at depths 1, 2, 3", published, depth, runs);
    fore_session_free(m.session);
    fore_model_close(m.model);
    return 0;
}
