/* The vision_config of config.json. deepstack_visual_indexes is read only in the families whose reference reads it. */
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

void fore_config_read_vision(fore_config_part *p, const fore_family *family, fore_vision_config *out) {
    static const char *const act[] = {"gelu_pytorch_tanh", NULL}, *const kinds[] = {"axial", "default", NULL};
    fore_config_only(p, "hidden_act", "gelu_pytorch_tanh", act);
    out->depth = fore_config_int(p, "depth", 1, FORE_CONFIG_LAYERS, 27);
    out->hidden_size = fore_config_int(p, "hidden_size", 1, FORE_CONFIG_WIDTH, 1152);
    out->intermediate_size = fore_config_int(p, "intermediate_size", 1, FORE_CONFIG_WIDTH, 4304);
    out->num_heads = fore_config_int(p, "num_heads", 1, FORE_CONFIG_HEADS, 16);
    out->in_channels = fore_config_int(p, "in_channels", 3, 3, 3);
    out->patch_size = fore_config_int(p, "patch_size", 1, 1024, 16);
    out->temporal_patch_size = fore_config_int(p, "temporal_patch_size", 1, 64, 2);
    out->spatial_merge_size = fore_config_int(p, "spatial_merge_size", 1, 64, 2);
    out->out_hidden_size = fore_config_int(p, "out_hidden_size", 1, FORE_CONFIG_WIDTH, 3584);
    out->num_position_embeddings = fore_config_int(p, "num_position_embeddings", 1, FORE_CONFIG_WIDTH, 2304);
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
