/* One answer, its figures and its JSON; see answer.h. */
#include "cli/answer.h"

#include <stdlib.h>
#include <string.h>

#include "cli/files.h"
#include "cli/signals.h"

static int take_chunk(cli_answer *out, const fore_chunk *chunk, size_t *capacity) {
    while (out->id_count + chunk->id_count > *capacity) {
        *capacity = *capacity ? *capacity * 2 : 256;
        out->ids = cli_need(realloc(out->ids, *capacity * sizeof *out->ids));
        out->marks = cli_need(realloc(out->marks, *capacity * sizeof *out->marks));
        out->text_ends = cli_need(realloc(out->text_ends, *capacity * sizeof *out->text_ends));
    }
    int code = CLI_OK;
    size_t start = 0;
    for (size_t i = 0; i < chunk->id_count && code == CLI_OK; i++) {
        size_t end = chunk->text_ends[i];
        code = cli_view_push(&out->view, chunk->text + start, end - start, (fore_mark)chunk->marks[i]);
        out->ids[out->id_count] = chunk->ids[i];
        out->marks[out->id_count] = chunk->marks[i];
        out->text_ends[out->id_count++] = out->view.text.size;
        start = end;
    }
    cli_view_pause(&out->view);
    return code;
}

int cli_answer_run(cli_answer *out, const cli_model *model, cli_request *request, cli_view_style style) {
    *out = (cli_answer){0};
    double started = cli_seconds();
    size_t capacity = 0;
    fore_error err = {0};
    cli_progress_start(&request->progress, "prompt");
    fore_status status = fore_session_begin(model->session, &request->request, &err);
    cli_progress_end(&request->progress);
    if (status && status != FORE_ERR_CANCELLED) return cli_fail_status(status, &err);
    int code = status ? CLI_INTERRUPTED : CLI_OK;
    cli_view_start(&out->view, style, code == CLI_OK && cli_starts_thinking(model->model, &request->request));
    fore_chunk chunk = {0};
    while (code == CLI_OK && chunk.finish == FORE_FINISH_NONE) {
        if (cli_interrupted()) {
            code = CLI_INTERRUPTED;
            break;
        }
        status = fore_session_next(model->session, &chunk, &err);
        if (status)
            code = cli_fail_status(status, &err);
        else
            code = take_chunk(out, &chunk, &capacity);
    }
    int ended = cli_view_end(&out->view);
    if (code == CLI_OK) code = ended;
    if (code == CLI_INTERRUPTED)
        out->finish = "interrupted";
    else if (code == CLI_OK)
        out->finish = chunk.finish == FORE_FINISH_LENGTH ? "length" : "stop";
    fore_session_get_stats(model->session, &out->stats);
    out->total_seconds = cli_seconds() - started;
    return code;
}

void cli_answer_free(cli_answer *answer) {
    cli_view_free(&answer->view);
    free(answer->ids);
    free(answer->marks);
    free(answer->text_ends);
    *answer = (cli_answer){0};
}

static double rate(uint64_t count, double seconds) {
    return seconds > 0 ? (double)count / seconds : 0;
}

static void print_row(const char *stage, const char *unit, uint64_t count, double seconds, bool with_rate) {
    fprintf(stderr, "%-9s %8llu %-7s %9.3f s", stage, (unsigned long long)count, unit, seconds);
    if (with_rate && seconds > 0) fprintf(stderr, " %10.1f tok/s", rate(count, seconds));
    fputc('\n', stderr);
}

void cli_answer_print_stats(const cli_answer *answer, const cli_model *model, const fore_request *request) {
    const fore_stats *s = &answer->stats;
    uint64_t computed = s->prompt_tokens - (s->reused_tokens < s->prompt_tokens ? s->reused_tokens : s->prompt_tokens);
    char tuned[64];
    fprintf(stderr, "%-9s %16s %9.3f s\n", "load", "", model->load_seconds);
    fore_model_info info;
    fore_model_get_info(model->model, &info);
    if (info.repacked_bytes)
        fprintf(stderr, "%-9s %8.1f MB of quantised weights, %s\n", "repacked", (double)info.repacked_bytes / 1e6,
                info.packs_written ? "kept in a file" : info.packs_used ? "mapped from a file" : "not kept");
    if (model->tuned.in_use)
        fprintf(stderr, "%-9s %s, as foresight tune found\n", "tuned", cli_tuned_text(&model->tuned, tuned));
    if (s->images) {
        print_row("pictures", s->images == 1 ? "file" : "files", s->images, s->image_seconds, false);
    }
    if (s->videos) print_row(s->videos == 1 ? "video" : "videos", "frames", s->video_frames, s->images ? 0 : s->image_seconds, false);
    if (s->images || s->videos) print_row("vision", "tokens", s->image_tokens + s->video_tokens, s->vision_seconds, true);
    print_row("prefill", "tokens", computed, s->prefill_seconds, true);
    if (s->reused_tokens) fprintf(stderr, "%-9s %8llu tokens\n", "reused", (unsigned long long)s->reused_tokens);
    print_row("decode", "tokens", s->generated_tokens, s->decode_seconds, true);
    if (s->draft[0].rounds || s->draft[1].rounds) {
        fprintf(stderr, "%-9s %16s %9.3f s\n", "  draft", "", s->draft_seconds);
        fprintf(stderr, "%-9s %16s %9.3f s\n", "  verify", "", s->verify_seconds);
        fprintf(stderr, "%-9s %16s %9.3f s\n", "  commit", "", s->commit_seconds);
    }
    fprintf(stderr, "%-9s %16s %9.3f s\n", "sampling", "", s->sample_seconds);
    fprintf(stderr, "%-9s %8llu %-7s %9.3f s\n", "total", (unsigned long long)(s->prompt_tokens + s->generated_tokens),
            "tokens", answer->total_seconds);
    fprintf(stderr, "%-9s %8.1f MB\n", "state", (double)s->state_bytes / 1e6);
    if (s->experts_touched)
        fprintf(stderr, "%-9s %8llu touched, %.1f MB; %.1f MB read\n", "experts", (unsigned long long)s->experts_touched,
                (double)s->expert_bytes_touched / 1e6, (double)s->expert_bytes_read / 1e6);
    cli_drafts_print("drafts", s->draft);
    cli_sources_print(s);
    if (s->history_missing)
        fprintf(stderr, "%-9s %8llu prompt tokens that the draft head has not seen\n", "history",
                (unsigned long long)s->history_missing);
    fprintf(stderr, "finish    %s%s%s", answer->finish ? answer->finish : "failed",
            s->stop ? " at the stop string " : "", s->stop ? s->stop : "");
    if (request->sampling.temperature > 0) fprintf(stderr, ", seed %llu", (unsigned long long)request->sampling.seed);
    fputc('\n', stderr);
}

void cli_answer_print_legend(const cli_answer *answer, bool colored) {
    size_t counts[4] = {0};
    for (size_t i = 0; i < answer->id_count; i++) counts[answer->marks[i]]++;
    cli_view_legend(&answer->view, counts, colored);
}

/* Every token: its id, its text (whole characters: that of a part comes with the last one), what became of its draft.
 */
static void add_tokens(cJSON *root, const cli_answer *answer) {
    cJSON *tokens = cli_need(cJSON_AddArrayToObject(root, "tokens"));
    size_t start = 0;
    for (size_t i = 0; i < answer->id_count; i++) {
        cJSON *token = cli_need(cJSON_CreateObject());
        cli_text text = {0};
        cli_text_add(&text, cli_text_string(&answer->view.text) + start, answer->text_ends[i] - start);
        cli_need(cJSON_AddNumberToObject(token, "id", answer->ids[i]));
        cli_json_string(token, "text", text.data);
        cli_json_string(token, "mark", cli_mark_name((fore_mark)answer->marks[i]));
        cJSON_AddItemToArray(tokens, token);
        cli_text_free(&text);
        start = answer->text_ends[i];
    }
}

static void add_drafts(cJSON *root, const fore_draft *draft, const fore_stats *s) {
    cJSON *drafts = cli_need(cJSON_AddObjectToObject(root, "drafts"));
    if (draft->depth == FORE_DRAFT_AUTO)
        cli_json_string(drafts, "depth", "auto");
    else
        cli_json_whole(drafts, "depth", (uint64_t)draft->depth);
    cli_json_string(drafts, "sampler", draft->sampler == FORE_SAMPLER_REJECTION ? "rejection" : "seeded");
    static const char *const lookup[] = {"auto", "off", "on"};
    cli_json_string(drafts, "lookup", lookup[draft->lookup]);
    cli_json_whole(drafts, "passes", s->rounds);
    cli_json_whole(drafts, "history_missing", s->history_missing);
    cli_json_whole(drafts, "outside", s->outside);
    cJSON_AddItemToObject(drafts, "head", cli_source_json(&s->head));
    cJSON_AddItemToObject(drafts, "lookups", cli_source_json(&s->lookups));
    cJSON_AddItemToObject(drafts, "before_picture", cli_drafts_json(&s->draft[0]));
    cJSON_AddItemToObject(drafts, "after_picture", cli_drafts_json(&s->draft[1]));
}

cJSON *cli_answer_json(cli_answer *answer, const cli_model *model, const fore_request *request, bool marks) {
    const fore_stats *s = &answer->stats;
    const fore_sampling *sampling = &request->sampling;
    cJSON *root = cli_need(cJSON_CreateObject());
    cli_json_string(root, "model", model->dir.data);
    cli_json_string(root, "text", cli_text_string(&answer->view.text));
    if (answer->view.thought) {
        cli_json_string(root, "reasoning_content", cli_view_reasoning(&answer->view));
        cli_json_string(root, "content", cli_view_answer(&answer->view));
    }
    cJSON *ids = cli_need(cJSON_CreateIntArray(answer->ids, (int)answer->id_count));
    cJSON_AddItemToObject(root, "ids", ids);
    if (marks) add_tokens(root, answer);
    cli_json_string(root, "finish_reason", answer->finish ? answer->finish : "error");
    if (s->stop) cli_json_string(root, "stop", s->stop);
    cli_json_whole(root, "prompt_tokens", s->prompt_tokens);
    cli_json_whole(root, "image_tokens", s->image_tokens);
    cli_json_whole(root, "images", s->images);
    cli_json_whole(root, "video_tokens", s->video_tokens);
    cli_json_whole(root, "video_frames", s->video_frames);
    cli_json_whole(root, "videos", s->videos);
    cli_json_whole(root, "generated_tokens", s->generated_tokens);
    cJSON *how = cli_need(cJSON_AddObjectToObject(root, "sampling"));
    cli_json_number(how, "temperature", (double)sampling->temperature);
    cli_json_whole(how, "top_k", (uint64_t)(sampling->top_k > 0 ? sampling->top_k : 0));
    cli_json_number(how, "top_p", (double)sampling->top_p);
    cli_json_number(how, "min_p", (double)sampling->min_p);
    cli_json_number(how, "repetition_penalty", (double)sampling->repetition_penalty);
    cli_json_number(how, "presence_penalty", (double)sampling->presence_penalty);
    cli_json_number(how, "frequency_penalty", (double)sampling->frequency_penalty);
    cli_json_whole(how, "seed", sampling->seed);
    add_drafts(root, &request->draft, s);
    cli_json_bool(root, "tuned", model->tuned.in_use);
    cJSON *timings = cli_need(cJSON_AddObjectToObject(root, "timings"));
    cli_json_number(timings, "load_seconds", model->load_seconds);
    cli_json_number(timings, "image_seconds", s->image_seconds);
    cli_json_number(timings, "vision_seconds", s->vision_seconds);
    cli_json_number(timings, "prefill_seconds", s->prefill_seconds);
    cli_json_number(timings, "decode_seconds", s->decode_seconds);
    cli_json_number(timings, "draft_seconds", s->draft_seconds);
    cli_json_number(timings, "verify_seconds", s->verify_seconds);
    cli_json_number(timings, "commit_seconds", s->commit_seconds);
    cli_json_number(timings, "sample_seconds", s->sample_seconds);
    cli_json_number(timings, "total_seconds", answer->total_seconds);
    cli_json_number(timings, "prefill_tokens_per_second", rate(s->prompt_tokens, s->prefill_seconds));
    cli_json_number(timings, "decode_tokens_per_second", rate(s->generated_tokens, s->decode_seconds));
    fore_model_info info;
    fore_model_get_info(model->model, &info);
    cli_json_whole(root, "repacked_bytes", info.repacked_bytes);
    cli_json_whole(root, "packs_used", (uint64_t)info.packs_used);
    cli_json_whole(root, "packs_written", (uint64_t)info.packs_written);
    cli_json_whole(root, "state_bytes", s->state_bytes);
    cli_json_whole(root, "experts_touched", s->experts_touched);
    cli_json_whole(root, "expert_bytes_touched", s->expert_bytes_touched);
    cli_json_whole(root, "expert_bytes_read", s->expert_bytes_read);
    return root;
}
