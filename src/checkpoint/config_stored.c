/* How config.json says that weights are quantised; see config_stored.h. The tensors themselves say most of it: here is refused
 * what the program cannot read, and read what the tensors leave open. The names are those of transformers' quantisation configs
 * (utils/quantization_config.py) and of compressed-tensors. */
#include "checkpoint/config_stored.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MOST_BLOCK = 1 << 20 };

/* One object, and the name by which the caller knows it. */
typedef struct block {
    const cJSON *q;
    const char *what, *key;
    fore_stored_settings *out;
    fore_error *err;
} block;

static bool is_empty(const cJSON *q) {
    return !q || cJSON_IsNull(q) || cJSON_IsFalse(q) || ((cJSON_IsObject(q) || cJSON_IsArray(q)) && !q->child);
}

static const char *text_of(const cJSON *object, const char *name, const char *fallback) {
    const cJSON *v = fore_json_get(object, name);
    return cJSON_IsString(v) ? v->valuestring : fallback;
}

static fore_status refuse(const block *b, const char *form) {
    const cJSON *bits = fore_json_get(b->q, "bits");
    char with[40] = "";
    if (cJSON_IsNumber(bits)) snprintf(with, sizeof with, " with %g bits", bits->valuedouble);
    return fore_fail(b->err, FORE_ERR_UNSUPPORTED, "%s: %s: weights quantised as %.80s%s are not supported; supported: BF16, F16 and F32 "
                     "weights; MLX's affine form; FP8 E4M3 with scales; integers of compressed-tensors, AWQ (4 bits) and GPTQ (2, 4 and 8). Take the "
                     "model's BF16 checkpoint, of which `foresight quantize` makes a smaller one", b->what, b->key, form, with);
}

/* ---- MLX --------------------------------------------------------------------------------------------------------- */

/* MLX's affine form, or a module's part of it. Bits and group sizes follow from the tensors. */
static bool is_affine(const cJSON *q) {
    const cJSON *mode = fore_json_get(q, "mode"), *method = fore_json_get(q, "quant_method");
    if (mode && !(cJSON_IsString(mode) && strcmp(mode->valuestring, "affine") == 0)) return false;
    return !method && cJSON_IsNumber(fore_json_get(q, "bits")) && cJSON_IsNumber(fore_json_get(q, "group_size"));
}

/* The affine form as a whole: of its members that are objects, each is a module with bits of its own. */
static fore_status read_mlx(const block *b) {
    bool affine = is_affine(b->q);
    for (const cJSON *c = b->q->child; affine && c; c = c->next)
        if (cJSON_IsObject(c) && !is_affine(c)) affine = false;
    if (!affine) return refuse(b, text_of(b->q, "mode", "MLX"));
    b->out->method = "mlx";
    return FORE_OK;
}

/* ---- FP8 --------------------------------------------------------------------------------------------------------- */

static fore_status read_block_size(const block *b, const cJSON *size, const char *name) {
    if (!size || cJSON_IsNull(size)) return FORE_OK;
    int n[2] = {0, 0}, count = 0;
    for (const cJSON *c = cJSON_IsArray(size) ? size->child : NULL; c; c = c->next, count++)
        if (count < 2 && cJSON_IsNumber(c) && c->valuedouble >= 1 && c->valuedouble <= MOST_BLOCK && c->valuedouble == floor(c->valuedouble))
            n[count] = (int)c->valuedouble;
    if (count != 2 || !n[0] || !n[1])
        return fore_fail(b->err, FORE_ERR_FORMAT, "%s: %s: %s: expected two sizes, rows and columns of a block", b->what, b->key, name);
    b->out->block_rows = n[0];
    b->out->block_columns = n[1];
    return FORE_OK;
}

static fore_status read_fp8(const block *b) {
    const char *format = text_of(b->q, "fmt", "e4m3");
    char form[64];
    snprintf(form, sizeof form, "fp8 of the format %.32s", format);
    if (strcasecmp(format, "e4m3")) return refuse(b, form);
    b->out->method = "fp8";
    return read_block_size(b, fore_json_get(b->q, "weight_block_size"), "weight_block_size");
}

/* ---- compressed-tensors ------------------------------------------------------------------------------------------ */

static fore_status check_format(const block *b, const cJSON *of, bool top) {
    static const char *const read[] = {"pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "dense"};
    const char *format = text_of(of, "format", "dense");
    bool good = top && !strcmp(format, "mixed-precision"); /* each group has its own */
    for (size_t i = 0; i < sizeof read / sizeof *read; i++) good = good || !strcmp(format, read[i]);
    if (good) return FORE_OK;
    char form[96];
    snprintf(form, sizeof form, "compressed-tensors of the format %.40s", format);
    return refuse(b, form);
}

static fore_status read_compressed(const block *b) {
    const cJSON *sparsity = fore_json_get(b->q, "sparsity_config");
    fore_status s = check_format(b, b->q, true);
    if (!s && strcmp(text_of(sparsity, "format", "dense"), "dense")) s = refuse(b, "compressed-tensors with sparse storage");
    if (!s && !is_empty(fore_json_get(fore_json_get(b->q, "transform_config"), "config_groups")))
        s = refuse(b, "compressed-tensors with transforms of the activations");
    const cJSON *groups = fore_json_get(b->q, "config_groups");
    for (const cJSON *g = cJSON_IsObject(groups) ? groups->child : NULL; g && !s; g = g->next) {
        s = check_format(b, g, false);
        if (!s) s = read_block_size(b, fore_json_get(fore_json_get(g, "weights"), "block_structure"), "block_structure");
    }
    b->out->method = "compressed-tensors";
    return s;
}

/* ---- AWQ and GPTQ ------------------------------------------------------------------------------------------------ */

/* Reads them; false: they are not supported. */
static bool read_bits(const block *b, bool four_only) {
    const cJSON *bits = fore_json_get(b->q, "bits");
    if (!bits) bits = fore_json_get(b->q, "w_bit");
    if (!bits) return true;
    double n = cJSON_IsNumber(bits) ? bits->valuedouble : 0;
    if (n != 4 && (four_only || (n != 2 && n != 8))) return false;
    b->out->bits = (int)n;
    return true;
}

static fore_status read_awq(const block *b) {
    const char *version = text_of(b->q, "version", "gemm");
    char form[64];
    if (!read_bits(b, true)) return refuse(b, "awq");
    snprintf(form, sizeof form, "awq of the version %.32s", version);
    if (strcasecmp(version, "gemm") && strcasecmp(version, "exllama")) return refuse(b, form);
    b->out->method = "awq";
    return FORE_OK;
}

static fore_status read_gptq(const block *b) {
    const char *format = text_of(b->q, "checkpoint_format", cJSON_IsTrue(fore_json_get(b->q, "is_marlin_format")) ? "marlin" : "gptq");
    char form[64];
    if (!read_bits(b, false)) return refuse(b, "gptq");
    snprintf(form, sizeof form, "gptq of the format %.32s", format);
    if (strcmp(format, "gptq") && strcmp(format, "gptq_v2")) return refuse(b, form);
    b->out->method = "gptq";
    b->out->zeros_less_one = !strcmp(format, "gptq");
    return FORE_OK;
}

/* ---- which of them ----------------------------------------------------------------------------------------------- */

static fore_status read_block(const block *b) {
    static const struct {
        const char *method;
        fore_status (*read)(const block *b);
    } methods[] = {{"fp8", read_fp8}, {"compressed-tensors", read_compressed}, {"awq", read_awq}, {"gptq", read_gptq}};
    if (is_empty(b->q)) return FORE_OK;
    if (!fore_json_get(b->q, "quant_method")) return read_mlx(b);
    const char *method = text_of(b->q, "quant_method", "(no name)");
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (!strcmp(method, methods[i].method)) return methods[i].read(b);
    return refuse(b, method);
}

static fore_dtype dtype_of(const cJSON *object) {
    const char *name = text_of(object, "dtype", text_of(object, "torch_dtype", ""));
    if (!strncmp(name, "torch.", 6)) name += 6;
    return !strcmp(name, "bfloat16") ? FORE_DTYPE_BF16 : !strcmp(name, "float16") ? FORE_DTYPE_F16 : !strcmp(name, "float32") ? FORE_DTYPE_F32
                                                                                                                           : FORE_DTYPE_OTHER;
}

fore_status fore_config_read_stored(const cJSON *top, const cJSON *text, const char *what, fore_stored_settings *out, fore_error *err) {
    static const char *const keys[] = {"quantization_config", "quantization"};
    const cJSON *const objects[] = {top, text == top ? NULL : text};
    fore_status s = FORE_OK;
    *out = (fore_stored_settings){.method = "", .dtype = dtype_of(text)};
    if (out->dtype == FORE_DTYPE_OTHER) out->dtype = dtype_of(top);
    for (size_t o = 0; o < 2; o++)
        for (size_t k = 0; k < 2 && objects[o] && !s; k++) {
            const block b = {fore_json_get(objects[o], keys[k]), what, keys[k], out, err};
            s = read_block(&b);
        }
    return s;
}
