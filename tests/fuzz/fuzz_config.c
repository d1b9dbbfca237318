/* config.json: any bytes; what is accepted must keep the promises of config.h. */
#include "checkpoint/config.h"
#include "foresight.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good) {
    if (!good) __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fore_error err = {0};
    fore_arena arena = {0};
    fore_config c;
    fore_status s = fore_config_parse((const char *)data, size, "input", &arena, &c, &err);
    if (s) {
        check(err.code == s && err.text[0]);
    } else {
        const fore_text_config *t = &c.text;
        int full = 0;
        for (int i = 0; i < t->num_hidden_layers; i++) full += t->full_attention[i];
        check(full <= t->num_hidden_layers && t->num_hidden_layers > 0);
        check(t->vocab_size > 0 && t->hidden_size > 0 && (full == t->num_hidden_layers || t->linear_conv_kernel_dim > 0));
        int sparse = 0;
        for (int i = 0; t->sparse && i < t->num_hidden_layers; i++) sparse += t->sparse[i];
        check(!t->sparse == !t->num_experts && (sparse == t->num_hidden_layers || t->intermediate_size > 0));
        check(!sparse || (t->num_experts_per_tok > 0 && t->num_experts_per_tok <= t->num_experts && t->moe_intermediate_size > 0));
        check(t->num_attention_heads % t->num_key_value_heads == 0);
        check(!t->linear_num_key_heads || t->linear_num_value_heads % t->linear_num_key_heads == 0);
        check(t->rotary_dim > 0 && t->rotary_dim % 2 == 0 && t->rotary_dim <= t->head_dim);
        check(t->mrope_section[0] >= 0 && t->mrope_section[1] >= 0 && t->mrope_section[2] >= 0);
        check(t->mrope_section[0] + t->mrope_section[1] + t->mrope_section[2] == t->rotary_dim / 2);
        check(t->rms_norm_eps > 0 && t->rope_theta > 0 && c.architecture && c.model_type);
        check(c.eos_count >= 0 && c.eos_count <= FORE_CONFIG_EOS);
        check(c.has_vision || c.image_token_id == -1);
        check(c.image_token_id < t->vocab_size && c.video_token_id < t->vocab_size);
        if (c.has_vision) {
            check(c.vision.hidden_size % c.vision.num_heads == 0 && c.vision.rope_theta > 0);
            check(c.vision.out_hidden_size == t->hidden_size && c.vision.patch_size > 0);
            for (int i = 0; i < c.vision.deepstack_count; i++)
                check(c.vision.deepstack_visual_indexes[i] >= i && c.vision.deepstack_visual_indexes[i] < c.vision.depth);
        }
    }
    fore_arena_free(&arena);
    return 0;
}
