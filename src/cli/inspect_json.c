/* inspect --json: the schema is that of docs/foresight.1, where members are added and never change their meaning. */
#include <string.h>

#include "cli/inspect.h"
#include "cli/json.h"

enum { SCHEMA = 1 };

static cJSON *add_object(cJSON *list) {
    cJSON *item = cli_need(cJSON_CreateObject());
    cJSON_AddItemToArray(list, item);
    return item;
}

static void add_form(cJSON *list, const fore_stored_form *form) {
    cJSON *item = add_object(list);
    cli_json_string(item, "form", form->name);
    cli_json_whole(item, "bits", (uint64_t)form->bits);
    cli_json_whole(item, "group", (uint64_t)form->group);
    cli_json_whole(item, "memory_bits", (uint64_t)form->memory_bits);
    cli_json_whole(item, "parameters", form->parameters);
}

static void add_forms(cJSON *root, const fore_model *model) {
    fore_stored_form form;
    cJSON *forms = cli_need(cJSON_AddArrayToObject(root, "quantised"));
    for (int i = 0; fore_model_get_form(model, i, &form); i++) add_form(forms, &form);
}

static void add_parts(cJSON *root, const fore_model *model) {
    fore_model_part part;
    fore_stored_form form;
    cJSON *parts = cli_need(cJSON_AddArrayToObject(root, "parts"));
    for (int i = 0; fore_model_get_part(model, i, &part); i++) {
        cJSON *item = add_object(parts);
        cli_json_string(item, "name", part.name);
        cli_json_whole(item, "parameters", part.parameters);
        cli_json_whole(item, "tensors", part.tensors);
        cli_json_whole(item, "file_bytes", part.file_bytes);
        cli_json_whole(item, "mapped_bytes", part.mapped_bytes);
        cli_json_whole(item, "memory_bytes", part.memory_bytes);
        cJSON *forms = cli_need(cJSON_AddArrayToObject(item, "forms"));
        for (int k = 0; fore_model_get_part_form(model, i, k, &form); k++) add_form(forms, &form);
    }
}

static void add_readings(cJSON *root, const fore_model *model) {
    fore_reading r;
    cJSON *readings = cli_need(cJSON_AddArrayToObject(root, "readings"));
    for (int i = 0; fore_model_get_reading(model, i, &r); i++) {
        cJSON *item = add_object(readings);
        cli_json_string(item, "name", r.name);
        cli_json_string(item, "value", r.value);
        cli_json_string(item, "source", r.source);
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

static void add_session(cJSON *to, int context, const fore_plan *plan) {
    cli_json_whole(to, "context", (uint64_t)context);
    cli_json_whole(to, "kv", plan->kv);
    cli_json_whole(to, "recurrent", plan->recurrent);
    cli_json_whole(to, "scratch", plan->scratch);
    cli_json_whole(to, "draft", plan->draft);
    cli_json_whole(to, "total", plan->total);
}

static void add_memory(cJSON *root, const fore_model *model, const fore_model_info *info, int given) {
    fore_plan plan;
    int contexts[CLI_CONTEXTS], count = cli_inspect_contexts(info, given, contexts);
    cJSON *memory = cli_need(cJSON_AddObjectToObject(root, "memory"));
    fore_model_plan(model, given, &plan);
    add_session(memory, contexts[0], &plan);
    cli_json_whole(memory, "weights", plan.weights);
    cli_json_whole(memory, "mapped", plan.mapped);
    cli_json_whole(memory, "repacked", plan.repacked);
    cli_json_whole(memory, "vectors", plan.vectors);
    cli_json_whole(memory, "idle_experts", plan.idle_experts);
    cli_json_whole(memory, "token_experts", plan.token_experts);
    cli_json_whole(memory, "kv_token", plan.kv_token);
    cli_json_whole(memory, "draft_head", plan.draft_head);
    cJSON *others = cli_need(cJSON_AddArrayToObject(memory, "contexts"));
    for (int i = 0; i < count; i++) {
        fore_model_plan(model, contexts[i], &plan);
        add_session(add_object(others), contexts[i], &plan);
    }
}

static void add_numbers(cJSON *root, const fore_model_info *info) {
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
        {"draft_vocabulary", (uint64_t)info->draft_vocabulary},
        {"draft_head_bits", (uint64_t)info->draft_head_bits},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) cli_json_whole(root, numbers[i].name, numbers[i].value);
    cli_json_number(root, "video_fps", info->video_fps);
}

static void add_words(cJSON *root, const fore_model_info *info) {
    cli_json_string(root, "architecture", info->architecture);
    cli_json_string(root, "model_type", info->model_type);
    cli_json_string(root, "dtypes", info->dtypes);
    cli_json_string(root, "isa", info->isa);
    cli_json_string(root, "mtp_source", info->mtp_source);
    cli_json_string(root, "mtp_note", info->mtp_note);
    const struct {
        const char *name;
        bool value;
    } flags[] = {
        {"gguf", info->gguf},
        {"configured", info->configured},
        {"tied_embeddings", info->tied_embeddings},
        {"has_tokenizer", info->has_tokenizer},
        {"has_template", info->has_template},
        {"has_vision", info->has_vision},
        {"vision_declared", info->vision_declared},
        {"has_processor", info->has_processor},
        {"video_files", fore_video_files()},
        {"mtp_declared", info->mtp_declared},
        {"mtp_attached", info->mtp_attached},
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) cli_json_bool(root, flags[i].name, flags[i].value);
}

static void add_packs(cJSON *root, const cli_options *options, const char *dir, const fore_model *model, const fore_model_info *info) {
    cli_kept k = cli_inspect_packs(options, dir, model);
    cJSON *packs = cli_need(cJSON_AddObjectToObject(root, "packs"));
    cli_json_whole(packs, "repacked_bytes", info->repacked_bytes);
    cli_json_whole(packs, "wanted", (uint64_t)k.wanted);
    cli_json_whole(packs, "present", (uint64_t)k.present);
    cli_json_whole(packs, "bytes", k.bytes);
    if (k.present) cli_json_string(packs, "path", k.path.data);
    cli_text_free(&k.path);
}

static void add_findings(cJSON *root, const cli_findings *f) {
    cJSON *problems = cli_need(cJSON_AddArrayToObject(root, "problems"));
    for (size_t i = 0; i < f->problem_count; i++) {
        const cli_problem *p = &f->problems[i];
        cJSON *item = add_object(problems);
        cli_json_string(item, "topic", p->topic);
        cli_json_string(item, "text", cli_text_string(&p->text));
        cJSON *missing = cli_need(cJSON_AddArrayToObject(item, "missing"));
        for (size_t k = 0; k < p->missing_count; k++) {
            cli_text name = {0};
            cli_text_add_clean(&name, p->missing[k], strlen(p->missing[k]));
            cJSON_AddItemToArray(missing, cli_need(cJSON_CreateString(cli_text_string(&name))));
            cli_text_free(&name);
        }
        cli_json_string(item, "advice", cli_text_string(&p->advice));
    }
    cJSON *remarks = cli_need(cJSON_AddArrayToObject(root, "remarks"));
    for (int i = 0; i < f->remark_count; i++)
        cJSON_AddItemToArray(remarks, cli_need(cJSON_CreateString(cli_text_string(&f->remarks[i]))));
}

int cli_inspect_json(const cli_options *options, const char *dir, const fore_model *model, int context, const cli_findings *findings) {
    fore_model_info info;
    fore_model_get_info(model, &info);
    cJSON *root = cli_need(cJSON_CreateObject());
    cli_json_whole(root, "schema", SCHEMA);
    cli_json_bool(root, "ok", !findings->problem_count);
    cli_json_string(root, "model", dir);
    if (findings->problem_count) cli_json_string(root, "error", cli_text_string(&findings->problems[0].text));
    add_words(root, &info);
    add_numbers(root, &info);
    if (info.mtp_attached) add_contract(root, model);
    add_parts(root, model);
    add_forms(root, model);
    add_readings(root, model);
    add_memory(root, model, &info, context);
    add_packs(root, options, dir, model, &info);
    add_findings(root, findings);
    int code = cli_json_print(root);
    cJSON_Delete(root);
    return code;
}

int cli_inspect_json_failure(const char *dir, const char *error) {
    cJSON *root = cli_need(cJSON_CreateObject());
    cli_json_whole(root, "schema", SCHEMA);
    cli_json_bool(root, "ok", false);
    cli_json_string(root, "model", dir);
    cli_json_string(root, "error", error);
    int code = cli_json_print(root);
    cJSON_Delete(root);
    return code;
}
