/* foresight tune: which number of threads and of drafts answers fastest here. Ways to compute take turns on the same questions and the
 * same seed, so that all of them say the same; what wins must win by more than chance. */
#include <stdlib.h>
#include <string.h>

#include "cli/figures.h"
#include "cli/files.h"
#include "cli/json.h"
#include "cli/model.h"
#include "cli/progress.h"
#include "cli/request.h"
#include "cli/signals.h"

enum { MOST_WAYS = 16, MOST_QUESTIONS = 16, TOKENS = 48, BUILT_IN_IDS = 24, LEAST_RUNS = 3, SCREEN_RUNS = 2, FINALISTS = 3 };

typedef struct way {
    int depth, threads;
    fore_draft_lookup lookup;
    cli_series seconds; /* of all questions, prompts included */
    double speed;       /* against the usual way in the same runs */
} way;

typedef struct tune {
    const cli_options *options;
    cli_model model;
    fore_model_info info;
    cli_tuned_key key;
    cli_request settings;
    fore_request questions[MOST_QUESTIONS];
    size_t question_count;
    char *messages[MOST_QUESTIONS]; /* owned */
    cli_pictures pictures;
    fore_image built_in;
    float *pixels; /* owned */
    int32_t ids[BUILT_IN_IDS];
    way ways[MOST_WAYS];
    int count, runs, tokens;
    uint64_t done, total;
    cli_progress progress;
} tune;

/* ---- what is asked ----------------------------------------------------------------------------------------------- */

static void add_question(tune *t, const char *text, const fore_image *images, size_t image_count) {
    fore_request r = t->settings.request;
    r.messages = t->messages[t->question_count] = cli_conversation(NULL, text, image_count, 0);
    r.images = images;
    r.image_count = image_count;
    t->questions[t->question_count++] = r;
}

static int add_questions(tune *t) {
    const cli_options *o = t->options;
    bool talks = t->info.has_tokenizer && t->info.has_template;
    if (!talks && (o->questions.count || o->images.count))
        return cli_fail("%s: it has no %s, so nothing can be asked; leave --question and --image out", t->model.dir.data,
                        t->info.has_tokenizer ? "chat template" : "tokenizer");
    if (o->questions.count > MOST_QUESTIONS) return cli_fail_usage(o->verb, "--question: at most %d", MOST_QUESTIONS);
    for (size_t i = 0; i < o->questions.count; i++) add_question(t, o->questions.items[i], t->pictures.items, t->pictures.count);
    if (t->question_count) return CLI_OK;
    if (o->images.count) {
        add_question(t, "Describe the picture.", t->pictures.items, t->pictures.count);
    } else if (talks) {
        add_question(t, "Tell a story about a fox.", NULL, 0);
        if (!t->info.has_vision) return CLI_OK;
        t->pixels = cli_draw_picture(&t->info, &t->built_in);
        add_question(t, "Describe the picture.", &t->built_in, 1);
    } else {
        fore_request r = t->settings.request;
        for (int i = 0; i < BUILT_IN_IDS; i++) t->ids[i] = 1 + i % (t->info.vocab_size - 1);
        r.ids = t->ids;
        r.id_count = BUILT_IN_IDS;
        t->questions[t->question_count++] = r;
    }
    return CLI_OK;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static int answer(tune *t, fore_session *session, const fore_request *question, const way *w) {
    fore_request r = *question;
    fore_error err = {0};
    r.draft.depth = w->depth;
    r.draft.lookup = w->lookup;
    fore_status s = fore_session_begin(session, &r, &err);
    for (fore_chunk c = {0}; !s && c.finish == FORE_FINISH_NONE;) {
        if (cli_interrupted()) return CLI_INTERRUPTED;
        s = fore_session_next(session, &c, &err);
    }
    if (s) return cli_fail_status(s, &err);
    return cli_progress_call(&t->progress, "tune", t->done < t->total ? t->done : t->total, t->total) ? CLI_INTERRUPTED : CLI_OK;
}

/* All questions in a session of its own, as `foresight run` has one. keep: the time counts. */
static int measure(tune *t, way *w, bool keep) {
    const fore_session_options how = {.threads = w->threads};
    fore_session *session = NULL;
    fore_error err = {0};
    fore_status s = fore_session_new(t->model.model, &how, &session, &err);
    if (s) return cli_fail_status(s, &err);
    int code = CLI_OK;
    double began = cli_seconds();
    for (size_t i = 0; i < t->question_count && code == CLI_OK; i++) code = answer(t, session, &t->questions[i], w);
    if (code == CLI_OK && keep) cli_series_add(&w->seconds, cli_seconds() - began);
    fore_session_free(session);
    t->done++;
    return code;
}

/* Gives the way's index, also when it was there; -1: it makes no sense. */
static int add_way(tune *t, int depth, fore_draft_lookup lookup, int threads) {
    for (int i = 0; i < t->count; i++)
        if (t->ways[i].depth == depth && t->ways[i].lookup == lookup && t->ways[i].threads == threads) return i;
    if (threads < 1 || t->count == MOST_WAYS) return -1;
    t->ways[t->count] = (way){.depth = depth, .lookup = lookup, .threads = threads};
    return t->count++;
}

/* The ways marked, in turns, until each has as many runs. */
static int take_turns(tune *t, const bool *wanted, int runs) {
    int code = CLI_OK;
    for (int r = 0; r < runs; r++)
        for (int i = 0; i < t->count && code == CLI_OK; i++)
            if (wanted[i]) code = measure(t, &t->ways[i], true);
    return code;
}

static int choose(const tune *t, const bool *wanted, int usual, double *gain) {
    const cli_series *series[MOST_WAYS];
    int at[MOST_WAYS] = {0}, count = 0, first = 0;
    for (int i = 0; i < t->count; i++) {
        if (!wanted[i]) continue;
        if (i == usual) first = count;
        at[count] = i;
        series[count++] = &t->ways[i].seconds;
    }
    return at[cli_choose(series, count, first, gain)];
}

/* Marks the usual way and the fastest of the others. */
static void mark_finalists(const tune *t, const bool *screened, int usual, bool *wanted) {
    for (int n = 0; n < FINALISTS; n++) {
        int best = -1;
        for (int i = 0; i < t->count; i++) {
            if (!screened[i] || wanted[i] || i == usual) continue;
            if (best < 0 || cli_series_median(&t->ways[i].seconds) < cli_series_median(&t->ways[best].seconds)) best = i;
        }
        if (best >= 0) wanted[best] = true;
    }
    wanted[usual] = true;
}

/* The speeds of the marked ways, which ran in turns with `base`. */
static void compare(tune *t, const bool *wanted, int base) {
    double speed = t->ways[base].speed;
    for (int i = 0; i < t->count; i++)
        if (wanted[i]) t->ways[i].speed = speed * cli_ratio(&t->ways[base].seconds, &t->ways[i].seconds);
}

/* Forgets the times of the marked ways: series of one comparison begin together. */
static void restart(tune *t, const bool *wanted) {
    for (int i = 0; i < t->count; i++)
        if (wanted[i]) t->ways[i].seconds.count = 0;
}

/* First the threads, with the usual drafts; then the drafts, a short look at each and a long one at the best. *usual and *best
 * are indexes of ways. */
static int try_ways(tune *t, int *usual, int *best, double *gain) {
    bool all[MOST_WAYS] = {0}, few[MOST_WAYS] = {0};
    int given = t->options->threads, processors = t->key.processors, most = given > 0 ? given : processors;
    add_way(t, FORE_DRAFT_AUTO, FORE_LOOKUP_AUTO, most);
    *usual = *best = 0;
    *gain = 1;
    if (given <= 0) {
        add_way(t, FORE_DRAFT_AUTO, FORE_LOOKUP_AUTO, most - most / 4);
        add_way(t, FORE_DRAFT_AUTO, FORE_LOOKUP_AUTO, most / 2);
        add_way(t, FORE_DRAFT_AUTO, FORE_LOOKUP_AUTO, most / 4);
    }
    int depths = t->info.mtp_attached ? FORE_DRAFT_MAX + 1 : 1, threads = t->count;
    t->total = 1 + (uint64_t)(threads * t->runs + (depths + 2) * SCREEN_RUNS + (FINALISTS + 1) * t->runs);
    int code = measure(t, &t->ways[0], false); /* warms up */
    for (int i = 0; i < t->count; i++) all[i] = true;
    if (code == CLI_OK) code = take_turns(t, all, threads > 1 ? t->runs : 1);
    if (code) return code;
    t->ways[0].speed = 1;
    compare(t, all, 0);
    *best = choose(t, all, 0, gain);
    int base = *best; /* the fastest number of threads, with the usual drafts */
    memset(all, 0, sizeof all);
    all[base] = true;
    for (int d = t->info.mtp_attached ? FORE_DRAFT_AUTO : 0; d < depths; d++) { /* without a head auto is look-ups alone */
        int i = add_way(t, d, FORE_LOOKUP_OFF, t->ways[base].threads);
        if (i >= 0) all[i] = true;
    }
    restart(t, all);
    code = take_turns(t, all, SCREEN_RUNS);
    if (code) return code;
    compare(t, all, base);
    mark_finalists(t, all, base, few);
    few[*usual] = true;
    restart(t, few);
    code = take_turns(t, few, t->runs);
    if (code) return code;
    compare(t, few, *usual);
    *best = choose(t, few, *usual, gain);
    return CLI_OK;
}

/* ---- what came of it --------------------------------------------------------------------------------------------- */

static cli_tuned settings_of(const way *w) {
    return (cli_tuned){.found = true, .depth = w->depth, .threads = w->threads, .lookup = w->lookup};
}

static int print_result(const tune *t, int usual, int best, double gain, const char *saved) {
    cli_text out = {0};
    char text[64];
    const cli_tuned chosen = settings_of(&t->ways[best]);
    double tokens = (double)t->tokens * (double)t->question_count;
    cli_text_print(&out, "model     %s\nmachine   %s, %s, %d processors\nquestions %zu, %d tokens each, the prompts in the times\n\n", t->model.dir.data,
                   t->key.cpu, t->key.isa, t->key.processors, t->question_count, t->tokens);
    cli_text_print(&out, "%-36s %8s %9s %9s %5s\n", "setting", "speed", "tok/s", "spread", "runs");
    for (int i = 0; i < t->count; i++) {
        const way *v = &t->ways[i];
        double seconds = cli_series_median(&v->seconds);
        const cli_tuned settings = settings_of(v);
        cli_text_print(&out, "%-36s %6.2f x %9.2f %7.1f %% %5d%s\n", cli_tuned_text(&settings, text), v->speed,
                       seconds > 0 ? tokens / seconds : 0, seconds > 0 ? 100 * cli_series_spread(&v->seconds) / seconds : 0, v->seconds.count,
                       i == best ? "  chosen" : i == usual ? "  usual" : "");
    }
    if (best == usual)
        cli_text_print(&out, "\nThe usual setting stays (%s): nothing else is faster by more than chance explains.\n", cli_tuned_text(&chosen, text));
    else
        cli_text_print(&out, "\n%s: %.2f x the speed of the usual setting, in nearly every run and by more than twice the spread.\n",
                       cli_tuned_text(&chosen, text), gain);
    if (saved) cli_text_print(&out, "Kept in %s, where run and chat find it when no flag says otherwise.\n", saved);
    else cli_text_puts(&out, "Nothing is kept (--dry-run).\n");
    int code = cli_print(out.data, out.size);
    cli_text_free(&out);
    return code;
}

static void add_way_json(cJSON *object, const way *w) {
    if (w->depth == FORE_DRAFT_AUTO) cli_json_string(object, "depth", "auto");
    else cli_json_whole(object, "depth", (uint64_t)w->depth);
    cli_json_bool(object, "lookup", w->depth == FORE_DRAFT_AUTO && w->lookup == FORE_LOOKUP_AUTO);
    cli_json_whole(object, "threads", (uint64_t)w->threads);
}

static int print_json(const tune *t, int usual, int best, double gain, const char *saved) {
    cJSON *root = cli_need(cJSON_CreateObject());
    cli_json_string(root, "model", t->model.dir.data);
    cli_json_string(root, "cpu", t->key.cpu);
    cli_json_string(root, "isa", t->key.isa);
    cli_json_whole(root, "processors", (uint64_t)t->key.processors);
    cli_json_whole(root, "questions", t->question_count);
    cli_json_whole(root, "tokens", (uint64_t)t->tokens);
    cJSON *object = cli_need(cJSON_AddObjectToObject(root, "chosen"));
    add_way_json(object, &t->ways[best]);
    cli_json_number(object, "ratio", gain);
    cli_json_bool(object, "usual", best == usual);
    cJSON *ways = cli_need(cJSON_AddArrayToObject(root, "tried"));
    for (int i = 0; i < t->count; i++) {
        object = cli_need(cJSON_CreateObject());
        add_way_json(object, &t->ways[i]);
        cli_json_number(object, "ratio", t->ways[i].speed);
        cli_json_number(object, "seconds", cli_series_median(&t->ways[i].seconds));
        cli_json_number(object, "spread_seconds", cli_series_spread(&t->ways[i].seconds));
        cli_json_whole(object, "runs", (uint64_t)t->ways[i].seconds.count);
        cJSON_AddItemToArray(ways, object);
    }
    if (saved) cli_json_string(root, "kept_in", saved);
    int code = cli_json_print(root);
    cJSON_Delete(root);
    return code;
}

static int tune_model(tune *t) {
    int usual = 0, best = 0;
    double gain = 1;
    t->runs = t->options->runs > 0 ? t->options->runs : 5;
    if (t->runs < LEAST_RUNS) return cli_fail_usage(t->options->verb, "--runs: at least %d, or chance decides", LEAST_RUNS);
    int code = cli_pictures_add_all(&t->pictures, &t->options->images);
    if (code == CLI_OK) code = cli_request_init(&t->settings, t->options, t->model.model);
    if (code) return code;
    fore_request *r = &t->settings.request;
    t->tokens = t->options->max_tokens > 0 ? t->options->max_tokens : TOKENS;
    r->max_tokens = t->tokens;
    r->ignore_eos = true;
    r->sampling.seed = 1; /* the same answers in every way */
    r->progress = NULL;
    code = add_questions(t);
    if (code) return code;
    cli_progress_start(&t->progress, "tune");
    code = try_ways(t, &usual, &best, &gain);
    cli_progress_end(&t->progress);
    cli_text path = {0};
    cli_tuned tuned = settings_of(&t->ways[best]);
    tuned.ratio = gain;
    if (tuned.threads == t->key.processors) tuned.threads = 0; /* all there are */
    if (code == CLI_OK && !t->options->dry_run) code = cli_tuned_keep(&t->key, t->model.dir.data, &tuned);
    if (code == CLI_OK && !t->options->dry_run) cli_tuned_path(&path);
    if (code == CLI_OK) code = (t->options->json ? print_json : print_result)(t, usual, best, gain, path.data);
    cli_text_free(&path);
    return code;
}

static int show(const tune *t) {
    cli_tuned tuned;
    cli_text out = {0};
    char text[64];
    cli_tuned_find(&t->key, &tuned);
    if (t->options->json) {
        cJSON *root = cli_need(cJSON_CreateObject());
        cli_json_bool(root, "tuned", tuned.found);
        if (tuned.found) {
            add_way_json(root, &(way){.depth = tuned.depth, .threads = tuned.threads, .lookup = tuned.lookup});
            cli_json_number(root, "ratio", tuned.ratio);
        }
        int code = cli_json_print(root);
        cJSON_Delete(root);
        return code;
    }
    if (tuned.found) cli_text_print(&out, "%s: %s (%.2f x the usual setting)\n", t->model.dir.data, cli_tuned_text(&tuned, text), tuned.ratio);
    else cli_text_print(&out, "%s: not tuned on this machine\n", t->model.dir.data);
    int code = cli_print(out.data, out.size);
    cli_text_free(&out);
    return code;
}

static int run(const cli_options *options) {
    if (options->operand && options->model) return cli_fail_usage(options->verb, "--model and DIR exclude each other");
    if (options->dry_run + options->show + options->forget > 1) return cli_fail_usage(options->verb, "--dry-run, --show and --forget exclude each other");
    cli_options named = *options;
    if (options->operand) named.model = options->operand;
    tune *t = cli_need(calloc(1, sizeof *t));
    t->options = options;
    cli_catch_interrupt(true);
    int code = cli_model_open(&named, &t->model);
    if (code == CLI_OK) {
        fore_model_get_info(t->model.model, &t->info);
        code = cli_tuned_key_of(t->model.model, &t->key);
    }
    if (code == CLI_OK && options->show) code = show(t);
    else if (code == CLI_OK && options->forget) code = cli_tuned_keep(&t->key, t->model.dir.data, NULL);
    else if (code == CLI_OK) code = tune_model(t);
    for (size_t i = 0; i < t->question_count; i++) free(t->messages[i]);
    cli_request_free(&t->settings);
    cli_pictures_cut(&t->pictures, 0);
    free(t->pixels);
    cli_model_close(&t->model);
    free(t);
    return code;
}

const cli_verb cli_tune_verb = {
    .name = "tune",
    .bit = CLI_TUNE,
    .operand = "DIR",
    .usage = "[flags] [DIR]",
    .summary = "find the fastest settings for a model here",
    .about = "Tries numbers of threads and of drafts a round on the checkpoint in DIR, and\n"
             "keeps what is fastest for run and chat. It changes the speed, never the answer.\n",
    .run = run,
};
