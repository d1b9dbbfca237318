/* The vision_config of config.json. deepstack_visual_indexes, and what is said of windows, are read only in the families whose
 * reference reads it. */
#include <math.h>

#include "checkpoint/config_part.h"

static void read_deepstack(fore_config_part *p, fore_vision_config *out) {
    static const int usual[] = {8, 16, 24};
    const cJSON *list = fore_json_get(p->object, "deepstack_visual_indexes");
    int n = list ? cJSON_GetArraySize(list) : 3, last = -1;
    fore_config_check(p, !list || cJSON_IsArray(list), "deepstack_visual_indexes: expected a list of blocks");
    if (!p->status && n > FORE_CONFIG_DEEPSTACK)
        fore_config_refuse(p, FORE_ERR_LIMIT, "deepstack_visual_indexes: too many blocks, the limit is 64");
    if (p->status) return;
    const cJSON *c = list ? list->child : NULL;
    for (int i = 0; i < n && !p->status; i++, c = list ? c->next : NULL) {
        double v = list ? c->valuedouble : usual[i];
        fore_config_check(p, (!list || cJSON_IsNumber(c)) && v == floor(v) && v > last && v < out->depth,
                          "deepstack_visual_indexes: expected increasing whole numbers below depth");
        if (!p->status) last = out->deepstack_visual_indexes[out->deepstack_count++] = (int)v;
    }
}

/* The windows of Qwen2.5-VL and the blocks without; blocks that the tower lacks may be named, as in the reference. */
static void read_windows(fore_config_part *p, fore_arena *arena, fore_vision_config *out) {
    static const int usual[] = {7, 15, 23, 31};
    const cJSON *list = fore_json_get(p->object, "fullatt_block_indexes");
    int n = list ? cJSON_GetArraySize(list) : 4;
    fore_config_check(p, !list || cJSON_IsArray(list), "fullatt_block_indexes: expected a list of blocks");
    out->gated = true;
    out->num_position_embeddings = 0;
    out->window_size = fore_config_int(p, "window_size", 1, FORE_CONFIG_WIDTH, 112);
    out->tokens_per_second = fore_config_int(p, "tokens_per_second", 1, 1 << 16, 4);
    fore_config_check(p, out->window_size / out->spatial_merge_size >= out->patch_size,
                      "window_size: expected at least patch_size * spatial_merge_size");
    if (p->status) return;
    bool *full = fore_arena_alloc(arena, (size_t)out->depth, sizeof *full);
    if (!full) {
        p->status = fore_fail_nomem(p->err, "the list of vision blocks");
        return;
    }
    out->full_attention = full;
    const cJSON *c = list ? list->child : NULL;
    for (int i = 0; i < n && !p->status; i++, c = list ? c->next : NULL) {
        double v = list ? c->valuedouble : usual[i];
        fore_config_check(p, (!list || cJSON_IsNumber(c)) && v == floor(v) && v >= 0, "fullatt_block_indexes: expected whole numbers of blocks");
        if (!p->status && v < out->depth) full[(int)v] = true;
    }
}

void fore_config_read_vision(fore_config_part *p, const fore_family *family, fore_arena *arena, fore_vision_config *out) {
    static const char *const gelu[] = {"gelu_pytorch_tanh", NULL}, *const silu[] = {"silu", "swish", NULL};
    static const char *const kinds[] = {"axial", "default", NULL};
    const bool w = family->windows;
    fore_config_only(p, "hidden_act", w ? "silu" : "gelu_pytorch_tanh", w ? silu : gelu);
    out->depth = fore_config_int(p, "depth", 1, FORE_CONFIG_LAYERS, w ? 32 : 27);
    out->hidden_size = fore_config_int(p, "hidden_size", 1, FORE_CONFIG_WIDTH, w ? 3584 : 1152);
    out->intermediate_size = fore_config_int(p, "intermediate_size", 1, FORE_CONFIG_WIDTH, w ? 3420 : 4304);
    out->num_heads = fore_config_int(p, "num_heads", 1, FORE_CONFIG_HEADS, 16);
    out->in_channels = fore_config_int(p, "in_channels", 3, 3, 3);
    out->patch_size = fore_config_int(p, "patch_size", 1, 1024, w ? 14 : 16);
    out->temporal_patch_size = fore_config_int(p, "temporal_patch_size", 1, 64, 2);
    out->spatial_merge_size = fore_config_int(p, "spatial_merge_size", 1, 64, 2);
    out->out_hidden_size = fore_config_int(p, "out_hidden_size", 1, FORE_CONFIG_WIDTH, 3584);
    if (w) read_windows(p, arena, out);
    else out->num_position_embeddings = fore_config_int(p, "num_position_embeddings", 1, FORE_CONFIG_WIDTH, 2304);
    if (family->deepstack && !p->status) read_deepstack(p, out);
    if (p->status) return;
    /* Each head is rotated by rows and columns, each in pairs: four parts of equal size. */
    fore_config_check(p, out->hidden_size % out->num_heads == 0 && out->hidden_size / out->num_heads % 4 == 0,
                      "hidden_size: expected a multiple of 4 * num_heads");
    const cJSON *block = fore_json_get(p->object, "rope_parameters");
    fore_config_check(p, !block || cJSON_IsObject(block), "rope_parameters: expected an object");
    if (p->status) return;
    fore_config_part rope = {.object = block, .section = "vision_config.rope_parameters", .what = p->what, .err = p->err};
    fore_config_only(&rope, "rope_type", "default", kinds);
    out->rope_theta = fore_config_number(&rope, "rope_theta", 10000);
    fore_config_check(&rope, out->rope_theta > 0, "rope_theta: expected a positive number");
    p->status = rope.status;
}
