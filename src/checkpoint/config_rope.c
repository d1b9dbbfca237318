/* The rotary embedding of config.json: frequencies, axes, and how they are stretched for contexts longer than the model was
 * trained on. The frequencies themselves are model/rope.c's. Mirrors the reference's modeling_rope_utils. */
#include <math.h>
#include <string.h>

#include "checkpoint/config_part.h"

static void read_section(fore_config_part *rope, const fore_family *f, int half, int section[3]) {
    const int *usual = f->mrope_section;
    const cJSON *list = fore_json_get(rope->object, "mrope_section");
    int sum = 0, given[3];
    if (rope->status) return;
    if (list) {
        int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0, i = 0;
        for (const cJSON *c = n == 3 ? list->child : NULL; c; c = c->next) {
            double v = c->valuedouble;
            if (!cJSON_IsNumber(c) || v != floor(v) || v < 0 || v > half) break;
            given[i] = (int)v;
            sum += given[i++];
        }
        fore_config_check(rope, i == 3 && sum == half,
                          "mrope_section: expected three whole numbers whose sum is half the rotary dimensions");
        if (!rope->status) memcpy(section, given, sizeof given);
        return;
    }
    if (f->mrope_blocks) {
        fore_config_check(rope, usual[0] + usual[1] + usual[2] == half, "mrope_section: expected it, for heads of this size have no usual one");
        memcpy(section, usual, 3 * sizeof *section);
        return;
    }
    /* The reference takes frequency 3i+1 for rows while i < section[1] and 3i+2 for columns while i < section[2], as far
     * as there are frequencies; time has the rest. */
    for (int axis = 1; axis < 3; axis++) {
        int room = (half - axis + 2) / 3;
        section[axis] = room < usual[axis] ? room : usual[axis];
    }
    section[0] = half - section[1] - section[2];
}

static void read_yarn(fore_config_part *rope, int outer_length, fore_text_config *t) {
    fore_rope_scaling *s = &t->rope_scaling;
    int length = fore_config_int(rope, "original_max_position_embeddings", 1, 1 << 30, t->max_position_embeddings);
    if (outer_length) length = outer_length; /* beside the block it counts more, as in the reference */
    s->yarn = true;
    s->original_max_position_embeddings = length;
    s->beta_fast = fore_config_number(rope, "beta_fast", 32);
    s->beta_slow = fore_config_number(rope, "beta_slow", 1);
    s->truncate = fore_config_bool(rope, "truncate", true);
    s->mscale = fore_config_number(rope, "mscale", 0);
    s->mscale_all_dim = fore_config_number(rope, "mscale_all_dim", 0);
    s->attention_factor = fore_config_number(rope, "attention_factor", 0);
    fore_config_check(rope, s->beta_fast >= 0 && s->beta_slow >= 0, "beta_fast, beta_slow: expected numbers that are not negative");
    fore_config_check(rope, s->mscale >= 0 && s->mscale_all_dim >= 0, "mscale, mscale_all_dim: expected numbers that are not negative");
    fore_config_check(rope, !fore_json_get(rope->object, "attention_factor") || (s->attention_factor > 0 && s->attention_factor < 1e6),
                      "attention_factor: expected a number above 0");
    fore_config_check(rope, t->rope_theta > 1, "rope_theta: expected a number above 1, which yarn takes the logarithm of");
    if (rope->status) return;
    if (s->beta_fast == 0) s->beta_fast = 32;
    if (s->beta_slow == 0) s->beta_slow = 1;
    if (!fore_json_get(rope->object, "factor")) s->factor = (double)t->max_position_embeddings / length;
    /* The models' documents leave max_position_embeddings as it was before. */
    double most = floor(length * s->factor);
    if (most > t->max_position_embeddings) t->max_position_embeddings = most < 1 << 30 ? (int)most : 1 << 30;
}

static void read_scaling(fore_config_part *rope, int outer_length, fore_text_config *t) {
    /* "type" is the older spelling; "mrope" the name that some files have for none. */
    static const char *const kinds[] = {"default", "mrope", "linear", "yarn", NULL};
    const char *name = fore_json_get(rope->object, "rope_type") ? "rope_type" : "type";
    t->rope_scaling = (fore_rope_scaling){.factor = 1};
    fore_config_only(rope, name, kinds[0], kinds);
    const char *kind = fore_config_string(rope, name, kinds[0]);
    if (rope->status || !strcmp(kind, "default") || !strcmp(kind, "mrope")) return;
    bool yarn = !strcmp(kind, "yarn");
    bool ratio = yarn && (outer_length || fore_json_get(rope->object, "original_max_position_embeddings"));
    fore_config_check(rope, ratio || fore_json_get(rope->object, "factor"), "factor: expected it, for this rope_type divides frequencies by it");
    t->rope_scaling.factor = fore_config_number(rope, "factor", 1);
    fore_config_check(rope, t->rope_scaling.factor >= 1 && t->rope_scaling.factor <= 1e6, "factor: expected a number of at least 1");
    if (yarn) read_yarn(rope, outer_length, t);
}

/* A rope_scaling that is not empty replaces rope_parameters, as in the reference; theta and the rotated part are looked up
 * in the text config when the block lacks them. */
void fore_config_read_rope(fore_config_part *p, const fore_family *f, fore_text_config *t) {
    const char *name = "rope_scaling";
    const cJSON *block = fore_json_get(p->object, name);
    if (!block || !cJSON_IsObject(block) || !block->child) {
        fore_config_check(p, !block || cJSON_IsObject(block) || cJSON_IsFalse(block), "rope_scaling: expected an object");
        name = "rope_parameters";
        block = fore_json_get(p->object, name);
        fore_config_check(p, !block || cJSON_IsObject(block), "rope_parameters: expected an object");
    }
    double theta = fore_config_number(p, "rope_theta", f->rope_theta);
    double part = fore_config_number(p, "partial_rotary_factor", f->partial_rotary_factor);
    int outer_length = fore_config_int(p, "original_max_position_embeddings", 0, 1 << 30, 0);
    if (p->status) return;
    fore_config_part rope = {.object = block, .section = name, .what = p->what, .err = p->err};
    t->rope_theta = fore_config_number(&rope, "rope_theta", theta);
    part = fore_config_number(&rope, "partial_rotary_factor", part);
    fore_config_check(&rope, t->rope_theta > 0, "rope_theta: expected a positive number");
    fore_config_check(&rope, part > 0 && part <= 1, "partial_rotary_factor: expected a number above 0 and at most 1");
    if (f->partial_rotary_factor >= 1 && part < 1) /* the reference turns the whole head all the same, others do not */
        fore_config_refuse(&rope, FORE_ERR_UNSUPPORTED, "partial_rotary_factor below 1 is not supported in this family; supported: 1");
    if (!rope.status) {
        t->rotary_dim = (int)(t->head_dim * part);
        fore_config_check(&rope, t->rotary_dim > 0 && t->rotary_dim % 2 == 0,
                          "head_dim * partial_rotary_factor: expected an even number");
    }
    read_scaling(&rope, outer_length, t);
    if (f->mrope) read_section(&rope, f, t->rotary_dim / 2, t->mrope_section);
    else t->mrope_section[0] = t->rotary_dim / 2; /* the axes of text are equal, so this is plain rope */
    p->status = rope.status;
}
