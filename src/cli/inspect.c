/* foresight inspect: what a checkpoint folder is, what it will need, what is wrong with it. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "cli/files.h"
#include "cli/json.h"
#include "cli/model.h"
#include "cli/pack.h"

enum { MOST_REMARKS = 8 };

typedef struct findings {
    const char *remarks[MOST_REMARKS]; /* static texts: what works less than it could */
    int count;
} findings;

/* What a session takes when none is given; see fore_session_options. */
static int default_context(const fore_model_info *info) {
    return info->context_length < 32768 ? info->context_length : 32768;
}

static findings find_remarks(const fore_model_info *info, bool no_mtp) {
    findings f = {0};
    if (!info->has_tokenizer) f.remarks[f.count++] = "no tokenizer.json: only `logits --ids` and `verify` will work";
    if (!info->has_template) f.remarks[f.count++] = "no chat template: `run` will need --raw";
    if (info->mtp_declared && !info->mtp_attached && !no_mtp) f.remarks[f.count++] = "warning: the declared MTP head is off, so drafts come from look-ups alone";
    if (!info->mtp_declared && info->mtp_tensors)
        f.remarks[f.count++] = "the files have tensors of an MTP head that the config does not declare";
    return f;
}

static void add_row(cli_text *out, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add_row(cli_text *out, const char *name, const char *format, ...) {
    char value[512], line[600];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    snprintf(line, sizeof line, "%-14s %s\n", name, value);
    cli_text_puts(out, line);
}

/* 1536 -> "1.5 KiB" */
static const char *bytes_text(uint64_t bytes, char out[32]) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof *units) value /= 1024, unit++;
    snprintf(out, 32, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return out;
}

/* Whether the draft head is used, where it comes from, how it is fed. */
static void add_head(cli_text *out, const fore_model *model, const fore_model_info *info) {
    const char *name, *value, *source;
    if (!info->mtp_declared) {
        add_row(out, "MTP head", "none%s", info->mtp_tensors ? " declared" : "");
        return;
    }
    const char *plural = info->mtp_layers == 1 ? "" : "s";
    if (!info->mtp_attached) {
        add_row(out, "MTP head", "%d layer%s declared, off: %s", info->mtp_layers, plural, info->mtp_note);
        return;
    }
    add_row(out, "MTP head", "%d layer%s from %s", info->mtp_layers, plural, info->mtp_source);
    if (info->draft_vocabulary)
        add_row(out, "draft head", "%d of %d ids at %d bits", info->draft_vocabulary, info->vocab_size, info->draft_head_bits);
    for (int i = 0; fore_model_get_contract(model, i, &name, &value, &source); i++)
        add_row(out, i ? "" : "contract", "%-20s %-16s (%s)", name, value, source);
}

static void add_sizes(cli_text *out, const fore_model_info *info) {
    char width[32] = "";
    char shared[64] = "none shared";
    if (info->intermediate_size) snprintf(width, sizeof width, ", intermediate %d", info->intermediate_size);
    if (info->shared_expert_intermediate_size)
        snprintf(shared, sizeof shared, "a shared one of width %d", info->shared_expert_intermediate_size);
    add_row(out, "sizes", "hidden %d%s, vocabulary %d, context %d", info->hidden_size, width, info->vocab_size,
            info->context_length);
    if (info->experts)
        add_row(out, "experts", "%d a layer of width %d, %d a token; %s", info->experts, info->expert_intermediate_size,
                info->experts_per_token, shared);
}

typedef struct kept {
    int wanted, present;
    uint64_t bytes;
    cli_text path;
} kept;

/* The packs of --pack's folder, else those beside the model, else those of the user's cache. */
static kept find_packs(const cli_options *options, const char *dir, const fore_model *model) {
    static const char *const usual[] = {"beside", "cache"};
    kept k = {0};
    for (int i = 0; i < (options->pack ? 1 : 2) && !k.present; i++) {
        cli_text folder = {0};
        fore_packs packs = {0};
        if (!options->pack && i && !getenv("HOME") && !getenv("XDG_CACHE_HOME")) break;
        if (cli_pack_dir(options->pack ? options->pack : usual[i], dir, &folder) == CLI_OK &&
            fore_model_find_packs(model, folder.data, &packs, NULL) == FORE_OK) {
            k.wanted = packs.wanted;
            k.present = packs.present;
            k.bytes = packs.bytes;
            if (packs.present) cli_text_puts(&k.path, packs.path);
            fore_free(packs.path);
        }
        cli_text_free(&folder);
    }
    return k;
}

/* How the files have quantised matrices, and what they are in memory. */
static void add_quantised(cli_text *out, const fore_model *model) {
    fore_stored_form form;
    for (int i = 0; fore_model_get_form(model, i, &form); i++) {
        char groups[48] = "", floats[48] = "";
        if (form.group) snprintf(groups, sizeof groups, ", groups of %d", form.group);
        if (form.memory_bits != form.bits)
            snprintf(floats, sizeof floats, "; in memory %d bits%s", form.memory_bits, form.memory_bits > 8 ? " (floats)" : "");
        add_row(out, i ? "" : "quantised", "%s, %d bits%s: %" PRIu64 " parameters%s", form.name, form.bits, groups, form.parameters, floats);
    }
}

static int print_table(const cli_options *options, const char *dir, const fore_model *model, int context) {
    cli_text out = {0};
    char a[32], b[32], c[32], d[32];
    fore_model_info of;
    fore_plan memory;
    const fore_model_info *info = &of;
    const fore_plan *plan = &memory;
    fore_model_get_info(model, &of);
    fore_model_plan(model, context, &memory);
    add_row(&out, "folder", "%s", dir);
    add_row(&out, "architecture", "%s (%s)", info->architecture, info->model_type);
    add_row(&out, "layers", "%d: %d linear attention, %d full attention", info->layers, info->linear_attention_layers,
            info->full_attention_layers);
    add_sizes(&out, info);
    add_row(&out, "heads", "%d query, %d key and value, of %d; linear: %d key, %d value", info->attention_heads,
            info->kv_heads, info->head_dim, info->linear_key_heads, info->linear_value_heads);
    add_row(&out, "embeddings", "%s", info->tied_embeddings ? "tied to the output" : "apart from the output");
    if (info->has_vision)
        add_row(&out, "vision", "%d blocks, hidden %d, patches of %d, merged %d by %d", info->vision_depth,
                info->vision_hidden_size, info->patch_size, info->merge_size, info->merge_size);
    const char *files = fore_video_files() ? "through FFmpeg" : "not in this build";
    if (info->has_vision && info->video_fps > 0)
        add_row(&out, "videos", "%g frames a second, %d to %d frames; files %s", info->video_fps, info->video_min_frames,
                info->video_max_frames, files);
    else if (info->has_vision)
        add_row(&out, "videos", "every frame, or with --take-fps %d to %d; files %s", info->video_min_frames, info->video_max_frames, files);
    else
        add_row(&out, "vision", "none: text alone");
    add_head(&out, model, info);
    add_row(&out, "parameters", "text %" PRIu64 ", vision %" PRIu64 ", MTP %" PRIu64, info->text_parameters,
            info->vision_parameters, info->mtp_parameters);
    if (info->experts) add_row(&out, "", "(%" PRIu64 " of the text's are active for a token)", info->active_parameters);
    add_row(&out, "weights", "%s in %" PRIu64 " tensors of %" PRIu64 " file%s, %s", bytes_text(info->weight_bytes, a),
            info->tensor_count, info->file_count, info->file_count == 1 ? "" : "s", info->dtypes);
    add_quantised(&out, model);
    if (info->repacked_bytes) {
        kept k = find_packs(options, dir, model);
        bytes_text(info->repacked_bytes, a);
        if (k.present)
            add_row(&out, "repacked", "%s, kept in %d of %d file%s (%s): %s", a, k.present, k.wanted, k.wanted == 1 ? "" : "s",
                    bytes_text(k.bytes, b), k.path.data);
        else
            add_row(&out, "repacked", "%s at every start: kept in no file (`foresight pack` makes one)", a);
        cli_text_free(&k.path);
    }
    add_row(&out, "tokenizer", "%s", info->has_tokenizer ? "present" : "missing");
    add_row(&out, "chat template", "%s", info->has_template ? "present" : "missing");
    add_row(&out, "instructions", "%s", info->isa);
    add_row(&out, "memory", "weights %s, mapped; a session %s at %s%d tokens of context", bytes_text(plan->weights, a),
            bytes_text(plan->total, b), context ? "" : "the default ", context ? context : default_context(info));
    if (plan->draft_head) add_row(&out, "", "(and %s for the draft head's words)", bytes_text(plan->draft_head, a));
    add_row(&out, "", "(keys and values %s, recurrent %s, scratch %s, drafting %s)", bytes_text(plan->kv, a),
            bytes_text(plan->recurrent, b), bytes_text(plan->scratch, c), bytes_text(plan->draft, d));
    findings f = find_remarks(info, options->no_mtp);
    for (int i = 0; i < f.count; i++) add_row(&out, i ? "" : "remarks", "%s", f.remarks[i]);
    if (!f.count) add_row(&out, "problems", "none found");
    int code = cli_print(out.data, out.size);
    cli_text_free(&out);
    return code;
}

static void add_forms(cJSON *root, const fore_model *model) {
    fore_stored_form form;
    cJSON *forms = cli_need(cJSON_AddArrayToObject(root, "quantised"));
    for (int i = 0; fore_model_get_form(model, i, &form); i++) {
        cJSON *item = cli_need(cJSON_CreateObject());
        cJSON_AddItemToArray(forms, item);
        cli_json_string(item, "form", form.name);
        cli_json_whole(item, "bits", (uint64_t)form.bits);
        cli_json_whole(item, "group", (uint64_t)form.group);
        cli_json_whole(item, "memory_bits", (uint64_t)form.memory_bits);
        cli_json_whole(item, "parameters", form.parameters);
    }
}

static void add_contract(cJSON *root, const fore_model *model) {
    const char *name, *value, *source;
    cJSON *contract = cli_need(cJSON_AddObjectToObject(root, "mtp_contract"));
    for (int i = 0; fore_model_get_contract(model, i, &name, &value, &source); i++) {
        cJSON *field = cli_need(cJSON_AddObjectToObject(contract, name));
        cli_json_string(field, "value", value);
        cli_json_string(field, "source", source);
    }
}

static int print_json(const cli_options *options, const char *dir, const fore_model *model, int context) {
    fore_model_info of;
    fore_plan memory_plan;
    const fore_model_info *info = &of;
    const fore_plan *plan = &memory_plan;
    fore_model_get_info(model, &of);
    fore_model_plan(model, context, &memory_plan);
    cJSON *root = cli_need(cJSON_CreateObject());
    cli_json_bool(root, "ok", true);
    cli_json_string(root, "model", dir);
    cli_json_string(root, "architecture", info->architecture);
    cli_json_string(root, "model_type", info->model_type);
    cli_json_string(root, "dtypes", info->dtypes);
    cli_json_string(root, "isa", info->isa);
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"layers", (uint64_t)info->layers},
        {"full_attention_layers", (uint64_t)info->full_attention_layers},
        {"linear_attention_layers", (uint64_t)info->linear_attention_layers},
        {"hidden_size", (uint64_t)info->hidden_size},
        {"intermediate_size", (uint64_t)info->intermediate_size},
        {"vocab_size", (uint64_t)info->vocab_size},
        {"context_length", (uint64_t)info->context_length},
        {"attention_heads", (uint64_t)info->attention_heads},
        {"kv_heads", (uint64_t)info->kv_heads},
        {"head_dim", (uint64_t)info->head_dim},
        {"linear_key_heads", (uint64_t)info->linear_key_heads},
        {"linear_value_heads", (uint64_t)info->linear_value_heads},
        {"vision_depth", (uint64_t)info->vision_depth},
        {"vision_hidden_size", (uint64_t)info->vision_hidden_size},
        {"video_min_frames", (uint64_t)info->video_min_frames},
        {"video_max_frames", (uint64_t)info->video_max_frames},
        {"patch_size", (uint64_t)info->patch_size},
        {"merge_size", (uint64_t)info->merge_size},
        {"mtp_layers", (uint64_t)info->mtp_layers},
        {"mtp_tensors", (uint64_t)info->mtp_tensors},
        {"text_parameters", info->text_parameters},
        {"vision_parameters", info->vision_parameters},
        {"mtp_parameters", info->mtp_parameters},
        {"active_parameters", info->active_parameters},
        {"experts", (uint64_t)info->experts},
        {"experts_per_token", (uint64_t)info->experts_per_token},
        {"expert_intermediate_size", (uint64_t)info->expert_intermediate_size},
        {"shared_expert_intermediate_size", (uint64_t)info->shared_expert_intermediate_size},
        {"weight_bytes", info->weight_bytes},
        {"tensor_count", info->tensor_count},
        {"file_count", info->file_count},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        cli_json_whole(root, numbers[i].name, numbers[i].value);
    cli_json_bool(root, "tied_embeddings", info->tied_embeddings);
    cli_json_bool(root, "has_tokenizer", info->has_tokenizer);
    cli_json_bool(root, "has_template", info->has_template);
    cli_json_bool(root, "has_vision", info->has_vision);
    cli_json_number(root, "video_fps", info->video_fps);
    cli_json_bool(root, "video_files", fore_video_files());
    cli_json_bool(root, "mtp_declared", info->mtp_declared);
    cli_json_bool(root, "mtp_attached", info->mtp_attached);
    cli_json_string(root, "mtp_source", info->mtp_source);
    cli_json_string(root, "mtp_note", info->mtp_note);
    cli_json_whole(root, "draft_vocabulary", (uint64_t)info->draft_vocabulary);
    cli_json_whole(root, "draft_head_bits", (uint64_t)info->draft_head_bits);
    if (info->mtp_attached) add_contract(root, model);
    add_forms(root, model);
    cJSON *memory = cli_need(cJSON_AddObjectToObject(root, "memory"));
    cli_json_whole(memory, "context", (uint64_t)(context ? context : default_context(info)));
    cli_json_whole(memory, "weights", plan->weights);
    cli_json_whole(memory, "kv", plan->kv);
    cli_json_whole(memory, "recurrent", plan->recurrent);
    cli_json_whole(memory, "scratch", plan->scratch);
    cli_json_whole(memory, "draft", plan->draft);
    cli_json_whole(memory, "draft_head", plan->draft_head);
    cli_json_whole(memory, "total", plan->total);
    kept k = find_packs(options, dir, model);
    cJSON *packs = cli_need(cJSON_AddObjectToObject(root, "packs"));
    cli_json_whole(packs, "repacked_bytes", info->repacked_bytes);
    cli_json_whole(packs, "wanted", (uint64_t)k.wanted);
    cli_json_whole(packs, "present", (uint64_t)k.present);
    cli_json_whole(packs, "bytes", k.bytes);
    if (k.present) cli_json_string(packs, "path", k.path.data);
    cli_text_free(&k.path);
    cJSON *remarks = cli_need(cJSON_AddArrayToObject(root, "remarks"));
    findings f = find_remarks(info, options->no_mtp);
    for (int i = 0; i < f.count; i++) cJSON_AddItemToArray(remarks, cli_need(cJSON_CreateString(f.remarks[i])));
    int code = cli_json_print(root);
    cJSON_Delete(root);
    return code;
}

static int print_problem(const char *dir, fore_status status, const fore_error *err) {
    cJSON *root = cli_need(cJSON_CreateObject());
    cli_json_bool(root, "ok", false);
    cli_json_string(root, "model", dir);
    cli_json_string(root, "error", err->text[0] ? err->text : fore_status_name(status));
    cli_json_print(root);
    cJSON_Delete(root);
    return CLI_FAILED;
}

static int run(const cli_options *options) {
    if (options->operand && options->model) return cli_fail_usage(options->verb, "--model and DIR exclude each other");
    cli_text dir = {0};
    int code = cli_find_model(options->operand ? options->operand : options->model, &dir);
    fore_model_options how = {.isa = cli_isa(options)};
    char *contract = NULL;
    if (code == CLI_OK) code = cli_model_options(options, &how, &contract);
    cli_text pack = {0};
    if (code == CLI_OK && options->pack) code = cli_pack_dir(options->pack, dir.data, &pack);
    how.pack_dir = pack.data;
    how.pack_read_only = true;
    if (code == CLI_OK) {
        fore_model *model = NULL;
        fore_error err = {0};
        fore_status status = fore_model_open(dir.data, &how, &model, &err);
        if (status && options->json) {
            code = print_problem(dir.data, status, &err);
        } else if (status) {
            code = cli_fail_status(status, &err);
        } else {
            int context = options->context > 0 ? options->context : 0;
            code = cli_check_contract(options, model);
            if (code == CLI_OK)
                code = options->json ? print_json(options, dir.data, model, context)
                                     : print_table(options, dir.data, model, context);
        }
        fore_model_close(model);
    }
    free(contract);
    cli_text_free(&pack);
    cli_text_free(&dir);
    return code;
}

const cli_verb cli_inspect_verb = {
    .name = "inspect",
    .bit = CLI_INSPECT,
    .operand = "DIR",
    .usage = "[flags] [DIR]",
    .summary = "say what a checkpoint is and what it will need",
    .about = "Opens the checkpoint folder DIR and says what it is, how much memory it will\n"
             "take, how its draft head is fed, and what is wrong with it if anything.\n",
    .run = run,
};
