/* foresight verify: is the answer the same however it is computed? Prompts, ways to sample, and what came of the
 * trials. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/files.h"
#include "cli/signals.h"
#include "cli/verify.h"
#include "cli/videos.h"

enum { SEEDS = 3, DEFAULT_TOKENS = 64, BUILT_IN_IDS = 24 };

/* What is asked: the prompts, each in the form that its request borrows. */
typedef struct subject {
    cli_text prompt;
    cli_pictures pictures;
    cli_videos videos;
    char *messages[2]; /* owned */
    float *pixels;     /* owned: of the built-in picture */
    fore_image built_in;
    int32_t ids[BUILT_IN_IDS];
    cli_request request; /* the settings */
} subject;

/* Adds the prompt of `r` in every way to sample: greedy, then by seeds. */
static void add_questions(cli_trials *t, const cli_options *options, const char *label, const fore_request *r) {
    float temperature = r->sampling.temperature;
    if (isnan(options->temperature) && temperature <= 0) temperature = 1;
    int count = temperature > 0 ? 1 + SEEDS : 1;
    t->questions = cli_need(realloc(t->questions, (t->question_count + (size_t)count) * sizeof *t->questions));
    for (int i = 0; i < count; i++) {
        cli_question *q = &t->questions[t->question_count++];
        *q = (cli_question){.label = label, .request = *r, .everywhere = i < 2};
        q->request.sampling.temperature = i ? temperature : 0;
        q->request.sampling.seed = i ? (options->has_seed ? options->seed : 1) + (uint64_t)(i - 1) : 0;
    }
}

/* Without a PROMPT: words that a small model goes on with, and a picture where it can see. */
static void add_built_in(cli_trials *t, const cli_options *options, const fore_model_info *info, subject *s) {
    fore_request r = s->request.request;
    if (info->has_tokenizer && info->has_template) {
        s->messages[0] = cli_conversation(options->system, "Tell a story about a fox.", 0, 0);
        r.messages = s->messages[0];
    } else if (info->has_tokenizer) {
        r.prompt = "Once upon a time there was a fox";
    } else {
        for (int i = 0; i < BUILT_IN_IDS; i++) s->ids[i] = 1 + i % (info->vocab_size - 1);
        r.ids = s->ids;
        r.id_count = BUILT_IN_IDS;
    }
    add_questions(t, options, "text", &r);
    if (!info->has_vision || !info->has_tokenizer || !info->has_template) return;
    r = s->request.request;
    s->pixels = cli_draw_picture(info, &s->built_in);
    s->messages[1] = cli_conversation(options->system, "Describe the picture.", 1, 0);
    r.messages = s->messages[1];
    r.images = &s->built_in;
    r.image_count = 1;
    add_questions(t, options, "picture", &r);
}

static void add_given(cli_trials *t, const cli_options *options, subject *s) {
    fore_request r = s->request.request;
    if (options->raw) {
        r.prompt = cli_text_string(&s->prompt);
    } else {
        s->messages[0] = cli_conversation(options->system, cli_text_string(&s->prompt), s->pictures.count, s->videos.count);
        r.messages = s->messages[0];
    }
    r.images = s->pictures.items;
    r.image_count = s->pictures.count;
    r.videos = s->videos.items;
    r.video_count = s->videos.count;
    add_questions(t, options, "prompt", &r);
}

/* ---- what came of it --------------------------------------------------------------------------------------------- */

static const char *depth_name(int depth, char out[12]) {
    if (depth > FORE_DRAFT_MAX) return depth == CLI_VERIFY_AUTO ? "auto" : "look";
    snprintf(out, 12, "%d", depth);
    return out;
}

static const char *count_name(int count, const char *none, char out[24]) {
    if (!count) return none;
    snprintf(out, 24, "%d", count);
    return out;
}

static const char *sampling_name(const fore_sampling *s, char out[64]) {
    if (s->temperature <= 0) return "greedy";
    snprintf(out, 64, "temperature %g, seed %llu", (double)s->temperature, (unsigned long long)s->seed);
    return out;
}

/* The difference at the earliest token. */
static const cli_difference *earliest(const cli_trials *t, const cli_row **row, int *depth) {
    const cli_difference *best = NULL;
    for (size_t i = 0; i < t->row_count; i++) {
        for (int d = 0; d < CLI_VERIFY_DEPTHS; d++) {
            const cli_difference *f = &t->rows[i].first[d];
            if (!f->found || (best && best->token <= f->token)) continue;
            best = f;
            *row = &t->rows[i];
            *depth = d;
        }
    }
    return best;
}

static void add_head_line(cli_text *out, const cli_trials *t, const fore_model_info *info) {
    if (info->mtp_attached)
        cli_text_print(out, "%-9s by the head of %s", "drafts", info->mtp_source);
    else
        cli_text_print(out, "%-9s from the answers, every fifth one wrong; no head: %s", "drafts", info->mtp_note);
    if (t->drafted) cli_text_print(out, "; %.1f %% accepted", 100 * (double)t->accepted / (double)t->drafted);
    cli_text_puts(out, "\n");
}

static void add_questions_lines(cli_text *out, const cli_trials *t) {
    char name[64];
    for (size_t i = 0; i < t->question_count; i++) {
        const cli_question *q = &t->questions[i];
        cli_text_print(out, "%-9s %llu tokens", q->label, (unsigned long long)q->prompt_tokens);
        if (q->image_tokens) cli_text_print(out, ", %llu of them of pictures and videos", (unsigned long long)q->image_tokens);
        cli_text_print(out, "; answer of %zu, %s\n", q->id_count, sampling_name(&q->request.sampling, name));
    }
}

static void add_table(cli_text *out, const cli_trials *t) {
    char a[24], b[24], c[12];
    cli_text_print(out, "\n%-9s %7s %7s", "set", "threads", "chunk");
    for (int d = 0; d < CLI_VERIFY_DEPTHS; d++) cli_text_print(out, " %5s", depth_name(d, c));
    cli_text_puts(out, "\n");
    for (size_t i = 0; i < t->row_count; i++) {
        const cli_row *row = &t->rows[i];
        cli_text_print(out, "%-9s %7s %7s", row->setting.isa, count_name(row->setting.threads, "all", a),
                 count_name(row->setting.chunk, "default", b));
        for (int d = 0; d < CLI_VERIFY_DEPTHS; d++) {
            if (row->first[d].found)
                snprintf(a, sizeof a, "@%zu", row->first[d].token);
            else
                snprintf(a, sizeof a, "%s", !i && !d ? "first" : "same");
            cli_text_print(out, " %5s", a);
        }
        cli_text_puts(out, "\n");
    }
    cli_text_puts(out, "\n");
}

static int print_result(const cli_options *options, const cli_trials *t, const cli_model *model,
                        const fore_model_info *info) {
    cli_text out = {0};
    const cli_row *row = NULL;
    int depth = 0;
    char a[24], b[24], c[12], name[64];
    const cli_difference *first = earliest(t, &row, &depth);
    cli_text_print(&out, "%-9s %s\n", "model", model->dir.data);
    add_head_line(&out, t, info);
    add_questions_lines(&out, t);
    add_table(&out, t);
    if (!first) {
        cli_text_print(&out, "The promise holds: %llu answers, every token and the final state the same.\n",
                 (unsigned long long)t->runs);
    } else {
        const cli_question *q = &t->questions[first->question];
        cli_text_print(
            &out,
            "The promise is BROKEN (@N: at token N), first at token %zu, depth %s, %s, threads %s, chunk %s, %s, %s:\n",
            first->token, depth_name(depth, c), row->setting.isa, count_name(row->setting.threads, "all", a),
            count_name(row->setting.chunk, "default", b), q->label, sampling_name(&q->request.sampling, name));
        if (first->wanted == first->said)
            cli_text_puts(&out, "all tokens are the same, the final state is not.\n");
        else if (first->wanted < 0)
            cli_text_print(&out, "depth 0 ended there, this went on with token id %d.\n", (int)first->said);
        else if (first->said < 0)
            cli_text_print(&out, "depth 0 went on with token id %d, this ended there.\n", (int)first->wanted);
        else
            cli_text_print(&out, "depth 0 said token id %d, this %d.\n", (int)first->wanted, (int)first->said);
        if (options->draft_sampler == FORE_SAMPLER_REJECTION)
            cli_text_puts(&out, "(The rejection sampler keeps the distribution, not the text of a seed.)\n");
    }
    int code = cli_print(out.data, out.size);
    cli_text_free(&out);
    return code;
}

static void add_hex(cJSON *object, const char *name, const uint8_t digest[32]) {
    char text[65];
    for (size_t i = 0; i < 32; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
    cli_json_string(object, name, text);
}

static cJSON *difference_json(const cli_trials *t, const cli_difference *f) {
    cJSON *object = cli_need(cJSON_CreateObject());
    cli_json_string(object, "prompt", t->questions[f->question].label);
    cli_json_whole(object, "answer", f->question);
    cli_json_whole(object, "token", f->token);
    cli_json_bool(object, "state_only", f->wanted == f->said);
    cli_need(cJSON_AddNumberToObject(object, "expected", f->wanted));
    cli_need(cJSON_AddNumberToObject(object, "found", f->said));
    return object;
}

static int print_json(const cli_trials *t, const cli_model *model, const fore_model_info *info) {
    cJSON *root = cli_need(cJSON_CreateObject());
    const cli_row *at = NULL;
    int depth = 0;
    char c[12];
    cli_json_bool(root, "holds", earliest(t, &at, &depth) == NULL);
    cli_json_string(root, "model", model->dir.data);
    cli_json_string(root, "drafts", info->mtp_attached ? "head" : "replay");
    cli_json_whole(root, "runs", t->runs);
    cli_json_whole(root, "drafted", t->drafted);
    cli_json_whole(root, "accepted", t->accepted);
    cJSON *answers = cli_need(cJSON_AddArrayToObject(root, "answers"));
    for (size_t i = 0; i < t->question_count; i++) {
        const cli_question *q = &t->questions[i];
        cJSON *object = cli_need(cJSON_CreateObject());
        cli_json_string(object, "prompt", q->label);
        cli_json_number(object, "temperature", (double)q->request.sampling.temperature);
        cli_json_whole(object, "seed", q->request.sampling.seed);
        cli_json_whole(object, "prompt_tokens", q->prompt_tokens);
        cli_json_whole(object, "image_tokens", q->image_tokens);
        cJSON_AddItemToObject(object, "ids", cli_need(cJSON_CreateIntArray(q->ids, (int)q->id_count)));
        add_hex(object, "digest", q->digest);
        cJSON_AddItemToArray(answers, object);
    }
    cJSON *settings = cli_need(cJSON_AddArrayToObject(root, "settings"));
    for (size_t i = 0; i < t->row_count; i++) {
        const cli_row *row = &t->rows[i];
        cJSON *object = cli_need(cJSON_CreateObject());
        cli_json_string(object, "isa", row->setting.isa);
        cli_json_whole(object, "threads", (uint64_t)row->setting.threads);
        cli_json_whole(object, "chunk", (uint64_t)row->setting.chunk);
        cJSON *breaks =
            cli_need(cJSON_AddObjectToObject(object, "breaks")); /* by depth; a depth that holds is not in it */
        for (int d = 0; d < CLI_VERIFY_DEPTHS; d++)
            if (row->first[d].found)
                cJSON_AddItemToObject(breaks, depth_name(d, c), difference_json(t, &row->first[d]));
        cJSON_AddItemToArray(settings, object);
    }
    int code = cli_json_print(root);
    cJSON_Delete(root);
    return code;
}

static int run(const cli_options *options) {
    if (options->raw && (options->system || options->think))
        return cli_fail_usage(options->verb,
                              "--raw leaves the template out, so --system, --think and --no-think say nothing");
    bool videos = options->frames.count || options->videos.count, given = options->operand || options->images.count || videos;
    if (options->raw && !given) return cli_fail_usage(options->verb, "--raw needs a PROMPT");
    subject s = {0};
    cli_trials trials = {0};
    cli_model model = {0};
    int code = options->operand ? cli_read_prompt(options, &s.prompt) : CLI_OK;
    if (!options->operand && given) cli_text_puts(&s.prompt, videos ? "Describe the video." : "Describe the picture.");
    if (code == CLI_OK) code = cli_pictures_add_all(&s.pictures, &options->images);
    if (code == CLI_OK) code = cli_videos_add_all(&s.videos, options);
    if (code == CLI_OK) {
        cli_catch_interrupt(true);
        code = cli_model_open(options, &model);
    }
    if (code == CLI_OK) code = cli_request_init(&s.request, options, model.model);
    if (code == CLI_OK) {
        fore_model_info info;
        fore_model_get_info(model.model, &info);
        if (!s.request.request.max_tokens) s.request.request.max_tokens = DEFAULT_TOKENS;
        if (given)
            add_given(&trials, options, &s);
        else
            add_built_in(&trials, options, &info, &s);
        code = cli_trials_run(&trials, options, &model);
    }
    if (code == CLI_OK) {
        const cli_row *row;
        int depth;
        fore_model_info info;
        fore_model_get_info(model.model, &info);
        code = options->json ? print_json(&trials, &model, &info) : print_result(options, &trials, &model, &info);
        if (code == CLI_OK && earliest(&trials, &row, &depth)) code = CLI_FAILED;
    }
    cli_trials_free(&trials);
    cli_request_free(&s.request);
    cli_model_close(&model);
    cli_pictures_cut(&s.pictures, 0);
    cli_videos_cut(&s.videos, 0);
    cli_text_free(&s.prompt);
    free(s.messages[0]);
    free(s.messages[1]);
    free(s.pixels);
    return code;
}

const cli_verb cli_verify_verb = {
    .name = "verify",
    .bit = CLI_VERIFY,
    .operand = "PROMPT",
    .usage = "[flags] [PROMPT]",
    .summary = "check that the answer never depends on how it is computed",
    .about = "Answers PROMPT (or two of its own) greedily and by three seeds, at every draft\n"
             "depth and with look-ups, with several chunk sizes, threads and instruction\n"
             "sets; compares every token and the final state. Exit codes: 0 all the same,\n"
             "1 not or it failed.\n",
    .run = run,
};
