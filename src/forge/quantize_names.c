/* A table of the names that matrices have; see quantize_names.h. */
#include "forge/quantize_names.h"

#include <string.h>

#include "model/mtp.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* How many numbers a row has. */
typedef enum width {
    UNKNOWN,
    HIDDEN,      /* the text model's hidden size */
    QUERIES,     /* of all heads of full attention */
    VALUES,      /* of all heads of a linear layer */
    INNER,       /* of a dense MLP */
    SHARED,      /* of the shared expert */
    EXPERT,
    SEEN,        /* the tower's hidden size */
    SEEN_INNER,  /* of its MLPs, in a merger as MERGED */
    MERGED,      /* rows of the tower that become one of the text's, in its blocks as SEEN */
} width;

static const struct leaf {
    const char *name;
    fore_name_kind kind;
    width width;
} text_leaves[] = {
    {"self_attn.q_proj.weight", FORE_NAME_LINEAR, HIDDEN},
    {"self_attn.k_proj.weight", FORE_NAME_LINEAR, HIDDEN},
    {"self_attn.v_proj.weight", FORE_NAME_LINEAR, HIDDEN},
    {"self_attn.o_proj.weight", FORE_NAME_LINEAR, QUERIES},
    {"linear_attn.in_proj_qkv.weight", FORE_NAME_LINEAR, HIDDEN},
    {"linear_attn.in_proj_z.weight", FORE_NAME_LINEAR, HIDDEN},
    {"linear_attn.in_proj_qkvz.weight", FORE_NAME_LINEAR, HIDDEN},
    {"linear_attn.out_proj.weight", FORE_NAME_LINEAR, VALUES},
    {"linear_attn.in_proj_a.weight", FORE_NAME_SMALL, HIDDEN},
    {"linear_attn.in_proj_b.weight", FORE_NAME_SMALL, HIDDEN},
    {"linear_attn.in_proj_ba.weight", FORE_NAME_SMALL, HIDDEN},
    {"mlp.gate_proj.weight", FORE_NAME_LINEAR, HIDDEN},
    {"mlp.up_proj.weight", FORE_NAME_LINEAR, HIDDEN},
    {"mlp.down_proj.weight", FORE_NAME_LINEAR, INNER},
    {"mlp.shared_expert.gate_proj.weight", FORE_NAME_LINEAR, HIDDEN},
    {"mlp.shared_expert.up_proj.weight", FORE_NAME_LINEAR, HIDDEN},
    {"mlp.shared_expert.down_proj.weight", FORE_NAME_LINEAR, SHARED},
    {"mlp.switch_mlp.gate_proj.weight", FORE_NAME_STACK, HIDDEN},
    {"mlp.switch_mlp.up_proj.weight", FORE_NAME_STACK, HIDDEN},
    {"mlp.switch_mlp.down_proj.weight", FORE_NAME_STACK, EXPERT},
    {"mlp.experts.gate_up_proj", FORE_NAME_FUSED, HIDDEN},
    {"mlp.experts.down_proj", FORE_NAME_DOWN, EXPERT},
    {"mlp.gate.weight", FORE_NAME_ROUTER, HIDDEN},
    {"mlp.shared_expert_gate.weight", FORE_NAME_SHARED_GATE, HIDDEN},
    {"embed_tokens.weight", FORE_NAME_EMBEDDING, HIDDEN},
    {"lm_head.weight", FORE_NAME_HEAD, HIDDEN},
}, vision_leaves[] = {
    {"attn.qkv.weight", FORE_NAME_LINEAR, SEEN},
    {"attn.proj.weight", FORE_NAME_LINEAR, SEEN},
    {"linear_fc1.weight", FORE_NAME_LINEAR, MERGED}, /* of blocks and mergers */
    {"linear_fc2.weight", FORE_NAME_LINEAR, SEEN_INNER},
    {"mlp.gate_proj.weight", FORE_NAME_LINEAR, SEEN},
    {"mlp.up_proj.weight", FORE_NAME_LINEAR, SEEN},
    {"mlp.down_proj.weight", FORE_NAME_LINEAR, SEEN_INNER},
    {"merger.mlp.0.weight", FORE_NAME_LINEAR, MERGED},
    {"merger.mlp.2.weight", FORE_NAME_LINEAR, MERGED},
    {"patch_embed.proj.weight", FORE_NAME_PATCHES, UNKNOWN},
    {"pos_embed.weight", FORE_NAME_POSITIONS, SEEN},
};

static const char *const vision_prefixes[] = {"model.visual.", "visual.", "vision_tower.", "model.vision_tower."};
const char *const fore_name_parts[FORE_NAME_PARTS] = {"gate_proj", "up_proj", "down_proj"};

static const char *prefix_of(const char *name, const char *const *prefixes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!strncmp(name, prefixes[i], strlen(prefixes[i]))) return prefixes[i];
    return NULL;
}

fore_name_region fore_name_region_of(const char *name) {
    if (prefix_of(name, fore_mtp_prefixes, FORE_MTP_PREFIXES)) return FORE_NAME_DRAFT;
    return prefix_of(name, vision_prefixes, COUNT(vision_prefixes)) ? FORE_NAME_VISION : FORE_NAME_TEXT;
}

bool fore_quantize_is_draft(const char *name) { return fore_name_region_of(name) == FORE_NAME_DRAFT; }

/* Whether the name is the leaf, alone or after a dot. */
static bool has_leaf(const char *name, const char *leaf) {
    size_t n = strlen(name), k = strlen(leaf);
    return n >= k && !strcmp(name + n - k, leaf) && (n == k || name[n - k - 1] == '.');
}

static const struct leaf *leaf_of(const char *name, fore_name_region region) {
    bool vision = region == FORE_NAME_VISION;
    const struct leaf *leaves = vision ? vision_leaves : text_leaves;
    for (size_t i = 0; i < (vision ? COUNT(vision_leaves) : COUNT(text_leaves)); i++)
        if (has_leaf(name, leaves[i].name)) return &leaves[i];
    return NULL;
}

bool fore_name_is_numbered(const char *name, size_t *stem, size_t *part) {
    const char *at = strstr(name, "mlp.experts.");
    if (!at || (at != name && at[-1] != '.')) return false;
    const char *p = at + strlen("mlp.experts.");
    size_t digits = strspn(p, "0123456789");
    if (!digits || p[digits] != '.') return false;
    for (size_t i = 0; i < FORE_NAME_PARTS; i++) {
        size_t n = strlen(fore_name_parts[i]);
        if (strncmp(p + digits + 1, fore_name_parts[i], n) || strcmp(p + digits + 1 + n, ".weight")) continue;
        *stem = (size_t)(at - name) + strlen("mlp.");
        *part = i;
        return true;
    }
    return false;
}

size_t fore_name_fused_stem(const char *name, fore_name_kind kind) {
    return strlen(name) - strlen(kind == FORE_NAME_FUSED ? "experts.gate_up_proj" : "experts.down_proj");
}

/* The draft head's only matrix outside its layers. */
static bool is_fc(const char *name, fore_name_region region) {
    const char *prefix = region == FORE_NAME_DRAFT ? prefix_of(name, fore_mtp_prefixes, FORE_MTP_PREFIXES) : NULL;
    return prefix && !strcmp(name + strlen(prefix), "fc.weight");
}

fore_name_kind fore_name_kind_of(const char *name, fore_name_region region) {
    size_t stem, part;
    const struct leaf *leaf = leaf_of(name, region);
    if (leaf) return leaf->kind;
    if (is_fc(name, region)) return FORE_NAME_FC;
    return region != FORE_NAME_VISION && fore_name_is_numbered(name, &stem, &part) ? FORE_NAME_NUMBERED : FORE_NAME_OTHER;
}

int64_t fore_name_columns(const fore_config *config, const char *name) {
    const fore_text_config *t = &config->text;
    const fore_vision_config *v = &config->vision;
    fore_name_region region = fore_name_region_of(name);
    const struct leaf *leaf = leaf_of(name, region);
    size_t stem, part;
    int64_t seen = v->hidden_size, merged = seen * v->spatial_merge_size * v->spatial_merge_size;
    bool merger = strstr(name, "merger") != NULL;
    if (!leaf && is_fc(name, region)) return 2 * (int64_t)t->hidden_size;
    if (!leaf && fore_name_is_numbered(name, &stem, &part)) return part == 2 ? t->moe_intermediate_size : t->hidden_size;
    switch (leaf ? leaf->width : UNKNOWN) {
    case HIDDEN: return t->hidden_size;
    case QUERIES: return (int64_t)t->num_attention_heads * t->head_dim;
    case VALUES: return (int64_t)t->linear_num_value_heads * t->linear_value_head_dim;
    case INNER: return t->intermediate_size;
    case SHARED: return t->shared_expert_intermediate_size;
    case EXPERT: return t->moe_intermediate_size;
    case SEEN: return seen;
    case SEEN_INNER: return merger ? merged : v->intermediate_size;
    case MERGED: return merger ? merged : seen;
    case UNKNOWN: break;
    }
    return 0;
}

fore_status fore_quantize_mlx_path(const char *module, fore_buf *out) {
    static const char inner[] = "model.language_model.", own[] = "language_model.";
    fore_status s = FORE_OK;
    if (!strncmp(module, inner, sizeof inner - 1)) {
        module += sizeof inner - 1;
        s = fore_buf_puts(out, strncmp(module, "mtp.", 4) ? "language_model.model." : own);
    } else if (strncmp(module, own, sizeof own - 1) && fore_name_region_of(module) != FORE_NAME_VISION) {
        s = fore_buf_puts(out, own);
    }
    return s ? s : fore_buf_puts(out, module);
}
