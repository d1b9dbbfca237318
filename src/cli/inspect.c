/* foresight inspect: what a checkpoint is, what it will need, what is wrong with it, also when it would not open. */
#include "cli/inspect.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/files.h"
#include "cli/model.h"
#include "cli/pack.h"

enum { MOST_ALIKE = 5 };

int cli_inspect_context(const fore_model_info *info) { return info->context_length < 32768 ? info->context_length : 32768; }

int cli_inspect_contexts(const fore_model_info *info, int given, int out[CLI_CONTEXTS]) {
    static const int usual[] = {4096, 32768, 131072};
    int count = 0;
    out[count++] = given ? given : cli_inspect_context(info);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (usual[i] < info->context_length && usual[i] != out[0]) out[count++] = usual[i];
    if (info->context_length != out[0]) out[count++] = info->context_length;
    return count;
}

static void add_row(cli_text *out, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add_row(cli_text *out, const char *name, const char *format, ...) {
    char value[1000], line[1100];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    snprintf(line, sizeof line, "%-14s %s\n", name, value);
    cli_text_add_printable(out, line, strlen(line));
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

/* The packs of --pack's folder, else those beside the model, else those of the user's cache. */
cli_kept cli_inspect_packs(const cli_options *options, const char *dir, const fore_model *model) {
    static const char *const usual[] = {"beside", "cache"};
    cli_kept k = {0};
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

/* "MLX, 4 bits in groups of 32, in memory 8 bits": one form of a part. */
static void add_form(cli_text *out, const fore_stored_form *form) {
    cli_text_puts(out, form->name);
    if (form->memory_bits != form->bits || form->group || form->bits < 16) cli_text_print(out, ", %d bits", form->bits);
    if (form->group) cli_text_print(out, " in groups of %d", form->group);
    if (form->memory_bits != form->bits) cli_text_print(out, ", in memory %d bits%s", form->memory_bits, form->memory_bits > 8 ? " (floats)" : "");
}

static void add_parts(cli_text *out, const fore_model *model) {
    fore_model_part part;
    fore_stored_form form;
    char a[32];
    for (int i = 0; fore_model_get_part(model, i, &part); i++) {
        cli_text forms = {0};
        for (int k = 0; fore_model_get_part_form(model, i, k, &form); k++) {
            cli_text_puts(&forms, k ? "; " : ": ");
            add_form(&forms, &form);
        }
        add_row(out, i ? "" : "parts", "%-12s %" PRIu64 " parameters, %s in %" PRIu64 " tensor%s%s", part.name, part.parameters,
                bytes_text(part.file_bytes, a), part.tensors, part.tensors == 1 ? "" : "s", cli_text_string(&forms));
        cli_text_free(&forms);
    }
}

static void add_readings(cli_text *out, const fore_model *model) {
    fore_reading r;
    for (int i = 0; fore_model_get_reading(model, i, &r); i++) add_row(out, i ? "" : "read as", "%-14s %s (%s)", r.name, r.value, r.source);
}

static void add_memory(cli_text *out, const fore_model *model, const fore_model_info *info, int given) {
    char a[32], b[32], c[32], d[32];
    fore_plan plan;
    int contexts[CLI_CONTEXTS], count = cli_inspect_contexts(info, given, contexts);
    fore_model_plan(model, given, &plan);
    add_row(out, "memory", "weights %s mapped, %s repacked, %s of vectors; a session %s at %s%d tokens of context", bytes_text(plan.mapped, a),
            bytes_text(plan.repacked, b), bytes_text(plan.vectors, c), bytes_text(plan.total, d), given ? "" : "the default ", contexts[0]);
    if (plan.draft_head) add_row(out, "", "(and %s for the draft head's words)", bytes_text(plan.draft_head, a));
    add_row(out, "", "(keys and values %s, recurrent %s, scratch %s, drafting %s)", bytes_text(plan.kv, a), bytes_text(plan.recurrent, b),
            bytes_text(plan.scratch, c), bytes_text(plan.draft, d));
    if (plan.idle_experts)
        add_row(out, "", "(%s of the mapped bytes are experts, each on the disk until a token picks it; a token reads %s of them)",
                bytes_text(plan.idle_experts, a), bytes_text(plan.token_experts, b));
    else if (plan.token_experts) add_row(out, "", "(a token reads %s of the experts)", bytes_text(plan.token_experts, a));
    add_row(out, "", "(a token of context takes %s)", bytes_text(plan.kv_token, a));
    for (int i = 1; i < count; i++) {
        fore_plan other;
        fore_model_plan(model, contexts[i], &other);
        add_row(out, "", "(at %d tokens a session takes %s)", contexts[i], bytes_text(other.total, a));
    }
}

static void add_sizes_of_all(cli_text *out, const fore_model_info *info) {
    add_row(out, "architecture", "%s (%s)", info->architecture, info->model_type);
    add_row(out, "layers", "%d: %d linear attention, %d full attention", info->layers, info->linear_attention_layers, info->full_attention_layers);
    add_sizes(out, info);
    add_row(out, "heads", "%d query, %d key and value, of %d; linear: %d key, %d value", info->attention_heads, info->kv_heads, info->head_dim,
            info->linear_key_heads, info->linear_value_heads);
    add_row(out, "embeddings", "%s", info->tied_embeddings ? "tied to the output" : "apart from the output");
    if (!info->has_vision) {
        add_row(out, "vision", info->vision_declared ? "none in the files: text alone" : "none: text alone");
        return;
    }
    add_row(out, "vision", "%d blocks, hidden %d, patches of %d, merged %d by %d", info->vision_depth, info->vision_hidden_size, info->patch_size,
            info->merge_size, info->merge_size);
    const char *files = fore_video_files() ? "through FFmpeg" : "not in this build";
    if (info->video_fps > 0)
        add_row(out, "videos", "%g frames a second, %d to %d frames; files %s", info->video_fps, info->video_min_frames, info->video_max_frames, files);
    else
        add_row(out, "videos", "every frame, or with --take-fps %d to %d; files %s", info->video_min_frames, info->video_max_frames, files);
}

static void add_repacked(cli_text *out, const cli_options *options, const char *dir, const fore_model *model, const fore_model_info *info) {
    char a[32], b[32];
    if (!info->repacked_bytes) return;
    cli_kept k = cli_inspect_packs(options, dir, model);
    bytes_text(info->repacked_bytes, a);
    if (k.present)
        add_row(out, "repacked", "%s, kept in %d of %d file%s (%s): %s", a, k.present, k.wanted, k.wanted == 1 ? "" : "s", bytes_text(k.bytes, b),
                k.path.data);
    else
        add_row(out, "repacked", "%s at every start: kept in no file (`foresight pack` makes one)", a);
    cli_text_free(&k.path);
}

static void add_findings(cli_text *out, const cli_findings *f) {
    size_t more = 0, last = 0;
    for (size_t i = 0; i < f->problem_count; i++) {
        const cli_problem *p = &f->problems[i];
        bool alike = i && !strcmp(p->advice.data, f->problems[last].advice.data) && !strcmp(p->topic, f->problems[last].topic);
        if (alike && i - last >= MOST_ALIKE) {
            more++;
            continue;
        }
        if (!alike) last = i;
        add_row(out, i ? "" : "PROBLEMS", "%s: %s", p->topic, cli_text_string(&p->text));
        if (!alike) add_row(out, "", "    %s", cli_text_string(&p->advice));
    }
    if (more) add_row(out, "", "(and %zu more of the same kinds; --json lists all)", more);
    for (int i = 0; i < f->remark_count; i++) add_row(out, i ? "" : "remarks", "%s", cli_text_string(&f->remarks[i]));
    if (!f->problem_count && !f->remark_count) add_row(out, "problems", "none found");
}

static int print_table(const cli_options *options, const char *dir, const fore_model *model, int context, const cli_findings *findings) {
    cli_text out = {0};
    char a[32];
    fore_model_info of;
    const fore_model_info *info = &of;
    fore_model_get_info(model, &of);
    add_row(&out, "folder", "%s", dir);
    if (info->configured) {
        add_sizes_of_all(&out, info);
        add_head(&out, model, info);
        add_row(&out, "parameters", "text %" PRIu64 ", vision %" PRIu64 ", MTP %" PRIu64, info->text_parameters, info->vision_parameters,
                info->mtp_parameters);
        if (info->experts) add_row(&out, "", "(%" PRIu64 " of the text's are active for a token)", info->active_parameters);
    }
    add_row(&out, "weights", "%s in %" PRIu64 " tensors of %" PRIu64 " file%s%s%s", bytes_text(info->weight_bytes, a), info->tensor_count,
            info->file_count, info->file_count == 1 ? "" : "s", info->dtypes[0] ? ", " : "", info->dtypes);
    add_parts(&out, model);
    if (info->configured) {
        add_quantised(&out, model);
        add_repacked(&out, options, dir, model, info);
        add_readings(&out, model);
    }
    add_row(&out, "tokenizer", "%s", info->has_tokenizer ? "present" : "missing");
    add_row(&out, "chat template", "%s", info->has_template ? "present" : "missing");
    add_row(&out, "instructions", "%s", info->isa);
    if (info->configured) add_memory(&out, model, info, context);
    add_findings(&out, findings);
    int code = cli_print(out.data, out.size);
    cli_text_free(&out);
    return code;
}

/* Nothing could be opened that could be looked at. */
static int fail(const cli_options *options, const char *dir, fore_status status, const fore_error *err) {
    if (options->json && status != FORE_ERR_CANCELLED) {
        cli_inspect_json_failure(dir, err->text[0] ? err->text : fore_status_name(status));
        return CLI_FAILED;
    }
    return cli_fail_status(status, err);
}

static int print(const cli_options *options, const char *dir, const fore_model *model) {
    fore_model_info info;
    cli_findings findings;
    fore_model_get_info(model, &info);
    int context = options->context > 0 ? options->context : 0, code = cli_check_contract(options, model);
    if (code != CLI_OK) return code;
    cli_find_findings(model, &info, dir, options->no_mtp, &findings);
    code = options->json ? cli_inspect_json(options, dir, model, context, &findings) : print_table(options, dir, model, context, &findings);
    if (code == CLI_OK && findings.problem_count) {
        if (!options->json) fprintf(stderr, "foresight: %s: it would not open: %s\n", dir, cli_text_string(&findings.problems[0].text));
        code = CLI_FAILED;
    }
    cli_findings_free(&findings);
    return code;
}

static int run(const cli_options *options) {
    if (options->operand && options->model) return cli_fail_usage(options->verb, "--model and DIR exclude each other");
    cli_text dir = {0};
    int code = cli_find_model(options->operand ? options->operand : options->model, &dir);
    fore_model_options how = {.isa = cli_isa(options), .look = true};
    char *contract = NULL;
    if (code == CLI_OK) code = cli_model_options(options, &how, &contract);
    cli_text pack = {0};
    if (code == CLI_OK && options->pack) code = cli_pack_dir(options->pack, dir.data, &pack);
    cli_text_free(&pack);
    if (code == CLI_OK) {
        fore_model *model = NULL;
        fore_error err = {0};
        fore_status status = fore_model_open(dir.data, &how, &model, &err);
        code = status ? fail(options, dir.data, status, &err) : print(options, dir.data, model);
        fore_model_close(model);
    }
    free(contract);
    cli_text_free(&dir);
    return code;
}

const cli_verb cli_inspect_verb = {
    .name = "inspect",
    .bit = CLI_INSPECT,
    .operand = "DIR",
    .usage = "[flags] [DIR]",
    .summary = "say what a checkpoint is and what it will need",
    .about = "Looks at the checkpoint in the folder DIR and says what it is, how much memory\n"
             "it will take, how it is read, what is wrong with it and what would do, also\n"
             "when it would not open (exit 1).\n",
    .run = run,
};
