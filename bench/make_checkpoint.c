/* Writes a checkpoint folder with random weights in the sizes of a real model of the family, and a tokenizer, template
 * and configs of real size, for benchmarks: speed does not depend on the values. The same bytes in every run.
 * The mixture of experts is written in 4 bits, groups of 64 (what `foresight quantize` makes of one: 16 bits of it would be 70 GB).
 * usage: make_checkpoint 0.8b|4b|35b-a3b FOLDER     (1.8, 9.3 or 20 GB) */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    VOCAB = 248320,  /* rows of the embedding */
    ORDINARY = 248044, /* tokens before the special ones */
    HEAD = 256,        /* of full attention */
    LINEAR = 128,      /* key and value heads of linear attention */
    POSITIONS = 2304,
    PATCH = 3 * 2 * 16 * 16,
    MAX_TENSORS = 2000,
    GROUP = 64, /* neighbours that share a scale and a bias, in 4 bits */
};

typedef struct geometry {
    const char *name;
    int hidden, layers, mlp, heads, kv_heads, key_heads, value_heads;
    int experts, top; /* 0: one MLP a layer; else mlp is the size of an expert, and of the shared one */
    int vision_depth, vision_hidden, vision_heads, vision_mlp;
} geometry;

static const geometry geometries[] = {
    {"0.8b", 1024, 24, 3584, 8, 2, 16, 16, 0, 0, 12, 768, 12, 3072},
    {"4b", 2560, 32, 9216, 16, 4, 16, 32, 0, 0, 24, 1024, 16, 4096},
    {"35b-a3b", 2048, 40, 512, 16, 2, 16, 32, 256, 8, 27, 1152, 16, 4304},
};

static void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("make_checkpoint: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static FILE *create(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL) die("%s: %s", path, strerror(errno));
    return f;
}

static void finish(FILE *f, const char *name) {
    if (ferror(f) != 0 || fclose(f) != 0) die("%s: %s", name, strerror(errno));
}

/* ---- the list of tensors ---------------------------------------------------------------------------------------- */

typedef struct tensor {
    char name[96];
    uint64_t shape[5];
    int dims;
    float mean, std;
    enum { WIDE, PACKED, HALF } type; /* f32, words of eight 4-bit weights, bf16: the wider ones lie first, so all are aligned */
} tensor;

static tensor tensors[MAX_TENSORS];
static int tensor_count;

static unsigned bytes_of(const tensor *t) { return t->type == HALF ? 2 : 4; }
static const char *const type_names[] = {"F32", "U32", "BF16"};

/* std < 0: as large as keeps the size of what goes through a product, 0.8 / sqrt(inputs). Sizes end with a 0. */
static void put(float mean, float std, bool f32, const char *name, ...) {
    tensor *t = &tensors[tensor_count++];
    if (tensor_count == MAX_TENSORS) die("too many tensors");
    snprintf(t->name, sizeof t->name, "%s", name);
    va_list sizes;
    va_start(sizes, name);
    for (int size; (size = va_arg(sizes, int)) != 0;) t->shape[t->dims++] = (uint64_t)size;
    va_end(sizes);
    t->mean = mean;
    t->std = std < 0 ? 0.8f / sqrtf((float)t->shape[t->dims - 1]) : std;
    t->type = f32 ? WIDE : HALF;
}

static const char *join(const char *prefix, const char *name) {
    static char text[96];
    if (snprintf(text, sizeof text, "%s%s", prefix, name) >= (int)sizeof text) die("a name is too long");
    return text;
}

static void put_matrix(const char *prefix, const char *name, int rows, int columns) {
    put(0, -1, false, join(prefix, name), rows, columns, 0);
}
static void put_vector(const char *prefix, const char *name, int size) {
    put(0, 0.05f, false, join(prefix, name), size, 0);
}

/* A matrix, or `count` of them in one tensor, in 4 bits where the geometry has experts. Weights are scale * (0 .. 15) + bias, so their
 * deviation is 4.6 scales. */
static void put_packed(const geometry *g, const char *prefix, const char *name, int count, int rows, int columns) {
    if (!g->experts) {
        put_matrix(prefix, name, rows, columns);
        return;
    }
    char full[96];
    memcpy(full, join(prefix, name), sizeof full);
    size_t stem = strlen(full);
    if (stem > 7 && strcmp(full + stem - 7, ".weight") == 0) stem -= 7;
    float scale = 0.8f / sqrtf((float)columns) / 4.61f;
    const char *const ends[] = {full + stem, ".scales", ".biases"};
    for (int i = 0; i < 3; i++) {
        char part[96];
        if (snprintf(part, sizeof part, "%.*s%s", (int)stem, full, ends[i]) >= (int)sizeof part) die("a name is too long");
        float mean = i == 1 ? scale : -7.5f * scale;
        int width = i ? columns / GROUP : columns / 8;
        if (count) put(mean, 0.02f * fabsf(mean), false, part, count, rows, width, 0);
        else put(mean, 0.02f * fabsf(mean), false, part, rows, width, 0);
        if (i == 0) tensors[tensor_count - 1].type = PACKED;
    }
}

static void put_attention(const geometry *g, const char *p) {
    put_packed(g, p, "self_attn.q_proj.weight", 0, g->heads * HEAD * 2, g->hidden);
    put_packed(g, p, "self_attn.k_proj.weight", 0, g->kv_heads * HEAD, g->hidden);
    put_packed(g, p, "self_attn.v_proj.weight", 0, g->kv_heads * HEAD, g->hidden);
    put_packed(g, p, "self_attn.o_proj.weight", 0, g->hidden, g->heads * HEAD);
    put_vector(p, "self_attn.q_norm.weight", HEAD);
    put_vector(p, "self_attn.k_norm.weight", HEAD);
}

static void put_linear_attention(const geometry *g, const char *p) {
    int values = g->value_heads * LINEAR, channels = 2 * g->key_heads * LINEAR + values;
    put_packed(g, p, "linear_attn.in_proj_qkv.weight", 0, channels, g->hidden);
    put_packed(g, p, "linear_attn.in_proj_z.weight", 0, values, g->hidden);
    put_packed(g, p, "linear_attn.in_proj_b.weight", 0, g->value_heads, g->hidden);
    put_packed(g, p, "linear_attn.in_proj_a.weight", 0, g->value_heads, g->hidden);
    put(0, 0.5f, false, join(p, "linear_attn.conv1d.weight"), channels, 1, 4, 0);
    put(0, 1, false, join(p, "linear_attn.dt_bias"), g->value_heads, 0);
    put(2, 0.5f, true, join(p, "linear_attn.A_log"), g->value_heads, 0);
    put(1, 0.05f, true, join(p, "linear_attn.norm.weight"), LINEAR, 0);
    put_packed(g, p, "linear_attn.out_proj.weight", 0, g->hidden, values);
}

static void put_mlp(const geometry *g, const char *p) {
    if (!g->experts) {
        put_matrix(p, "mlp.gate_proj.weight", g->mlp, g->hidden);
        put_matrix(p, "mlp.up_proj.weight", g->mlp, g->hidden);
        put_matrix(p, "mlp.down_proj.weight", g->hidden, g->mlp);
        return;
    }
    put_matrix(p, "mlp.gate.weight", g->experts, g->hidden);
    put_matrix(p, "mlp.shared_expert_gate.weight", 1, g->hidden);
    put_packed(g, p, "mlp.shared_expert.gate_proj.weight", 0, g->mlp, g->hidden);
    put_packed(g, p, "mlp.shared_expert.up_proj.weight", 0, g->mlp, g->hidden);
    put_packed(g, p, "mlp.shared_expert.down_proj.weight", 0, g->hidden, g->mlp);
    put_packed(g, p, "mlp.experts.gate_up_proj", g->experts, 2 * g->mlp, g->hidden);
    put_packed(g, p, "mlp.experts.down_proj", g->experts, g->hidden, g->mlp);
}

static void put_layer(const geometry *g, const char *p, bool full) {
    put_vector(p, "input_layernorm.weight", g->hidden);
    put_vector(p, "post_attention_layernorm.weight", g->hidden);
    if (full)
        put_attention(g, p);
    else
        put_linear_attention(g, p);
    put_mlp(g, p);
}

static void put_affine(const char *prefix, const char *name, int rows, int columns) {
    char full[96];
    memcpy(full, join(prefix, name), sizeof full);
    put_matrix(full, ".weight", rows, columns);
    put_vector(full, ".bias", rows);
}

static void put_vision(const geometry *g) {
    const char *v = "model.visual.";
    int h = g->vision_hidden;
    put(0, 0.02f, false, join(v, "patch_embed.proj.weight"), h, 3, 2, 16, 16, 0);
    put_vector(v, "patch_embed.proj.bias", h);
    put(0, 0.02f, false, join(v, "pos_embed.weight"), POSITIONS, h, 0);
    for (int i = 0; i < g->vision_depth; i++) {
        char p[64];
        snprintf(p, sizeof p, "%sblocks.%d.", v, i);
        put(1, 0.05f, false, join(p, "norm1.weight"), h, 0);
        put_vector(p, "norm1.bias", h);
        put(1, 0.05f, false, join(p, "norm2.weight"), h, 0);
        put_vector(p, "norm2.bias", h);
        put_affine(p, "attn.qkv", 3 * h, h);
        put_affine(p, "attn.proj", h, h);
        put_affine(p, "mlp.linear_fc1", g->vision_mlp, h);
        put_affine(p, "mlp.linear_fc2", h, g->vision_mlp);
    }
    put(1, 0.05f, false, join(v, "merger.norm.weight"), h, 0);
    put_vector(v, "merger.norm.bias", h);
    put_affine(v, "merger.linear_fc1", 4 * h, 4 * h);
    put_affine(v, "merger.linear_fc2", g->hidden, 4 * h);
}

static void list_tensors(const geometry *g) {
    const char *text = "model.language_model.";
    if (g->experts) {
        put_packed(g, text, "embed_tokens.weight", 0, VOCAB, g->hidden);
        put_packed(g, "lm_head.", "weight", 0, VOCAB, g->hidden);
    } else {
        put(0, 0.02f, false, join(text, "embed_tokens.weight"), VOCAB, g->hidden, 0);
    }
    for (int i = 0; i < g->layers; i++) {
        char p[64];
        snprintf(p, sizeof p, "%slayers.%d.", text, i);
        put_layer(g, p, (i + 1) % 4 == 0);
    }
    put_vector(text, "norm.weight", g->hidden);
    put_packed(g, "mtp.", "fc.weight", 0, g->hidden, 2 * g->hidden);
    put_vector("mtp.", "pre_fc_norm_embedding.weight", g->hidden);
    put_vector("mtp.", "pre_fc_norm_hidden.weight", g->hidden);
    put_vector("mtp.", "norm.weight", g->hidden);
    put_layer(g, "mtp.layers.0.", true);
    put_vision(g);
}

/* ---- weights ---------------------------------------------------------------------------------------------------- */

enum { QUANTILES = 1 << 16 };
static float normal[QUANTILES]; /* of the normal distribution */

static void fill_normal(void) {
    double x = -4.5; /* the quantile rises with i, so Newton starts at the last one */
    for (int i = 0; i < QUANTILES; i++) {
        double p = (i + 0.5) / QUANTILES;
        for (int step = 0; step < 4; step++) {
            double density = exp(-0.5 * x * x) / sqrt(2 * acos(-1.0));
            double move = (0.5 * erfc(-x / sqrt(2)) - p) / density;
            x -= fmax(-0.5, fmin(0.5, move));
        }
        normal[i] = (float)x;
    }
}

static uint16_t to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* 64 random bits for one place of one tensor (the finaliser of splitmix64). */
static uint64_t bits_at(uint64_t index, uint64_t counter) {
    uint64_t z = index * 0x632be59bd9b4e019u + counter * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t elements(const tensor *t) {
    uint64_t n = 1;
    for (int i = 0; i < t->dims; i++) n *= t->shape[i];
    return n;
}

static void write_values(FILE *f, const tensor *t, uint64_t index) {
    enum { BLOCK = 1 << 18 };
    static uint16_t table[QUANTILES], half[BLOCK];
    static float single[BLOCK];
    if (t->type == PACKED) {
        static uint64_t words[BLOCK / 2];
        for (uint64_t left = elements(t), counter = 0; left > 0;) {
            size_t n = left < BLOCK ? (size_t)left : BLOCK;
            for (size_t i = 0; i < n; i += 2) words[i / 2] = bits_at(index + 1, counter++);
            if (fwrite(words, 4, n, f) != n) die("write: %s", strerror(errno));
            left -= n;
        }
        return;
    }
    for (int i = 0; i < QUANTILES; i++) table[i] = to_bf16(t->mean + t->std * normal[i]);
    for (uint64_t left = elements(t), counter = 0; left > 0;) {
        size_t n = left < BLOCK ? (size_t)left : BLOCK;
        for (size_t i = 0; i < n; i += 4) {
            uint64_t bits = bits_at(index + 1, counter++);
            for (size_t j = i; j < i + 4 && j < n; j++, bits >>= 16) {
                half[j] = table[bits & 0xffff];
                if (t->type == WIDE) single[j] = t->mean + t->std * normal[bits & 0xffff];
            }
        }
        if (fwrite(t->type == WIDE ? (const void *)single : half, bytes_of(t), n, f) != n) die("write: %s", strerror(errno));
        left -= n;
    }
}

static void write_weights(const char *folder) {
    FILE *f = create(folder, "model.safetensors");
    char *header = NULL;
    size_t size = 0;
    FILE *h = open_memstream(&header, &size);
    if (h == NULL) die("out of memory");
    uint64_t at = 0;
    fputs("{\"__metadata__\":{\"format\":\"pt\"}", h);
    for (int type = WIDE; type <= HALF; type++) {
        for (int i = 0; i < tensor_count; i++) {
            const tensor *t = &tensors[i];
            if ((int)t->type != type) continue;
            uint64_t bytes = elements(t) * bytes_of(t);
            fprintf(h, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name, type_names[type]);
            for (int d = 0; d < t->dims; d++) fprintf(h, "%s%llu", d ? "," : "", (unsigned long long)t->shape[d]);
            fprintf(h, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at, (unsigned long long)(at + bytes));
            at += bytes;
        }
    }
    fputc('}', h);
    while (ftell(h) % 8 != 0) fputc(' ', h);
    fclose(h);
    uint64_t length = size; /* the format is little-endian, as every machine that this runs on */
    fwrite(&length, 8, 1, f);
    fwrite(header, 1, size, f);
    free(header);
    fill_normal();
    for (int type = WIDE; type <= HALF; type++)
        for (int i = 0; i < tensor_count; i++)
            if ((int)tensors[i].type == type) write_values(f, &tensors[i], (uint64_t)i);
    finish(f, "model.safetensors");
    printf("%d tensors, %.2f GB\n", tensor_count, (double)at / 1e9);
}

/* ---- the small files -------------------------------------------------------------------------------------------- */

static void write_config(const geometry *g, const char *folder) {
    FILE *f = create(folder, "config.json");
    bool moe = g->experts > 0;
    const char *tied = moe ? "false" : "true";
    fprintf(f,
            "{\"architectures\": [\"Qwen3_5%sForConditionalGeneration\"], \"model_type\": \"qwen3_5%s\",\n"
            " \"image_token_id\": 248056, \"video_token_id\": 248057, \"vision_start_token_id\": 248053,\n"
            " \"vision_end_token_id\": 248054, \"tie_word_embeddings\": %s,\n"
            " \"text_config\": {\"model_type\": \"qwen3_5%s_text\", \"attention_bias\": false, \"attn_output_gate\": true,\n"
            "  \"dtype\": \"bfloat16\", \"eos_token_id\": 248044, \"full_attention_interval\": 4, \"head_dim\": %d,\n"
            "  \"hidden_act\": \"silu\", \"hidden_size\": %d, \"intermediate_size\": %d, \"num_hidden_layers\": %d,\n"
            "  \"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"linear_conv_kernel_dim\": 4,\n"
            "  \"linear_key_head_dim\": %d, \"linear_value_head_dim\": %d, \"linear_num_key_heads\": %d,\n"
            "  \"linear_num_value_heads\": %d, \"mamba_ssm_dtype\": \"float32\", \"max_position_embeddings\": 262144,\n"
            "  \"mtp_num_hidden_layers\": 1, \"mtp_use_dedicated_embeddings\": false, \"rms_norm_eps\": 1e-06,\n"
            "  \"tie_word_embeddings\": %s, \"vocab_size\": %d, \"rope_parameters\": {\"mrope_interleaved\": true,\n"
            "   \"mrope_section\": [11, 11, 10], \"partial_rotary_factor\": 0.25, \"rope_theta\": 10000000,\n"
            "   \"rope_type\": \"default\"}",
            moe ? "Moe" : "", moe ? "_moe" : "", tied, moe ? "_moe" : "", HEAD, g->hidden, g->mlp, g->layers, g->heads, g->kv_heads,
            LINEAR, LINEAR, g->key_heads, g->value_heads, tied, VOCAB);
    if (moe)
        fprintf(f,
                ",\n  \"num_experts\": %d, \"num_experts_per_tok\": %d, \"moe_intermediate_size\": %d,\n"
                "  \"shared_expert_intermediate_size\": %d},\n"
                " \"quantization\": {\"group_size\": %d, \"bits\": 4, \"mode\": \"affine\"},\n",
                g->experts, g->top, g->mlp, g->mlp, GROUP);
    else
        fputs("},\n", f);
    fprintf(f,
            " \"vision_config\": {\"model_type\": \"qwen3_5%s\", \"deepstack_visual_indexes\": [], \"depth\": %d,\n"
            "  \"hidden_act\": \"gelu_pytorch_tanh\", \"hidden_size\": %d, \"in_channels\": 3, \"intermediate_size\": %d,\n"
            "  \"num_heads\": %d, \"num_position_embeddings\": %d, \"out_hidden_size\": %d, \"patch_size\": 16,\n"
            "  \"spatial_merge_size\": 2, \"temporal_patch_size\": 2}}\n",
            moe ? "_moe" : "", g->vision_depth, g->vision_hidden, g->vision_mlp, g->vision_heads, POSITIONS, g->hidden);
    finish(f, "config.json");

    f = create(folder, "preprocessor_config.json");
    fputs("{\"do_normalize\": true, \"do_rescale\": true, \"do_resize\": true, \"image_mean\": [0.5, 0.5, 0.5],\n"
          " \"image_std\": [0.5, 0.5, 0.5], \"image_processor_type\": \"Qwen2VLImageProcessorFast\", \"merge_size\": 2,\n"
          " \"patch_size\": 16, \"temporal_patch_size\": 2, \"rescale_factor\": 0.00392156862745098,\n"
          " \"size\": {\"longest_edge\": 16777216, \"shortest_edge\": 65536}}\n",
          f);
    finish(f, "preprocessor_config.json");

    f = create(folder, "generation_config.json");
    fputs("{\"do_sample\": true, \"eos_token_id\": [248046, 248044], \"pad_token_id\": 248044, \"temperature\": 0.6,\n"
          " \"top_k\": 20, \"top_p\": 0.95}\n",
          f);
    finish(f, "generation_config.json");

    f = create(folder, "tokenizer_config.json");
    fputs("{\"tokenizer_class\": \"Qwen2TokenizerFast\", \"eos_token\": \"<|im_end|>\", \"pad_token\": \"<|endoftext|>\"}\n", f);
    finish(f, "tokenizer_config.json");

    f = create(folder, "chat_template.jinja");
    fputs("{%- for message in messages %}\n"
          "<|im_start|>{{ message.role }}\n"
          "{% if message.content is string %}{{ message.content }}{% else %}\n"
          "{%- for part in message.content %}\n"
          "{%- if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}\n"
          "{%- endfor %}\n"
          "{%- endif %}<|im_end|>\n"
          "{% endfor %}\n"
          "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
          f);
    finish(f, "chat_template.jinja");
}

/* The character that byte-level BPE writes for a byte: itself when it is printable, else the next free one from U+0100. */
static void byte_character(int byte, char out[8]) {
    int code = byte, next = 256;
    for (int b = 0; b <= byte; b++) {
        bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        code = printable ? b : next++;
    }
    if (code == '"' || code == '\\')
        snprintf(out, 8, "\\%c", code);
    else if (code < 128)
        snprintf(out, 8, "%c", code);
    else
        snprintf(out, 8, "%c%c", 0xc0 | code >> 6, 0x80 | (code & 0x3f));
}

/* Tokens after the bytes: first every pair of letters (the left one may be the space's letter), then pairs of those, so
 * that each is the merge of two earlier tokens, as in a real vocabulary. */
enum { LETTERS = 26, PAIRS = (LETTERS + 1) * LETTERS };

static void letter_pair(int index, const char **left, char *right) {
    static char letter[8];
    int first = index / LETTERS;
    snprintf(letter, sizeof letter, "%s", first < LETTERS ? (char[]){(char)('a' + first), 0} : "\xc4\xa0");
    *left = letter;
    *right = (char)('a' + index % LETTERS);
}

/* The two halves of token 256 + index. */
static void merge_of(int index, char left[16], char right[16]) {
    const char *a;
    char b;
    if (index < PAIRS) {
        letter_pair(index, &a, &b);
        snprintf(left, 16, "%s", a);
        snprintf(right, 16, "%c", b);
        return;
    }
    letter_pair((index - PAIRS) / (LETTERS * LETTERS), &a, &b);
    snprintf(left, 16, "%s%c", a, b);
    letter_pair((index - PAIRS) % (LETTERS * LETTERS), &a, &b);
    snprintf(right, 16, "%s%c", a, b);
}

static void write_tokenizer(const char *folder) {
    static const char *const special[] = {
        "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
        "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
        "<|image_pad|>", "<|video_pad|>", "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>",
        "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>",
        "<think>", "</think>"};
    FILE *f = create(folder, "tokenizer.json");
    fputs("{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": [\n", f);
    int specials = (int)(sizeof special / sizeof special[0]);
    for (int i = 0; i < specials; i++)
        fprintf(f,
                "    {\n      \"id\": %d,\n      \"content\": \"%s\",\n      \"single_word\": false,\n      \"lstrip\": false,\n"
                "      \"rstrip\": false,\n      \"normalized\": false,\n      \"special\": %s\n    }%s\n",
                ORDINARY + i, special[i], i < 14 ? "true" : "false", i + 1 < specials ? "," : "");
    fputs("  ],\n  \"normalizer\": {\"type\": \"NFC\"},\n  \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [\n"
          "    {\"type\": \"Split\", \"pattern\": {\"Regex\": \"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
          "[\\\\p{L}\\\\p{M}]+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|"
          "\\\\s+\"}, \"behavior\": \"Isolated\", \"invert\": false},\n"
          "    {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": false, \"use_regex\": false}]},\n"
          "  \"post_processor\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": false, "
          "\"use_regex\": false},\n"
          "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": false, \"use_regex\": "
          "false},\n"
          "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n"
          "    \"continuing_subword_prefix\": \"\",\n    \"end_of_word_suffix\": \"\",\n    \"fuse_unk\": false,\n"
          "    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n    \"vocab\": {\n",
          f);
    for (int byte = 0; byte < 256; byte++) {
        char text[8];
        byte_character(byte, text);
        fprintf(f, "      \"%s\": %d,\n", text, byte);
    }
    char left[16], right[16];
    for (int i = 0; i < ORDINARY - 256; i++) {
        merge_of(i, left, right);
        fprintf(f, "      \"%s%s\": %d%s\n", left, right, 256 + i, i + 1 < ORDINARY - 256 ? "," : "");
    }
    fputs("    },\n    \"merges\": [\n", f);
    for (int i = 0; i < ORDINARY - 256; i++) {
        merge_of(i, left, right);
        fprintf(f, "      [\n        \"%s\",\n        \"%s\"\n      ]%s\n", left, right, i + 1 < ORDINARY - 256 ? "," : "");
    }
    fputs("    ]\n  }\n}\n", f);
    finish(f, "tokenizer.json");
}

int main(int argc, char **argv) {
    const geometry *g = NULL;
    for (size_t i = 0; i < sizeof geometries / sizeof geometries[0]; i++)
        if (argc == 3 && strcmp(argv[1], geometries[i].name) == 0) g = &geometries[i];
    if (g == NULL) die("usage: make_checkpoint 0.8b|4b|35b-a3b FOLDER");
    if (mkdir(argv[2], 0755) != 0 && errno != EEXIST) die("%s: %s", argv[2], strerror(errno));
    list_tensors(g);
    write_config(g, argv[2]);
    write_tokenizer(argv[2]);
    write_weights(argv[2]);
    return 0;
}
