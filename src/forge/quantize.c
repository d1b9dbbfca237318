/* fore_quantize and fore_convert: their options; the work is quantize_run.c's. */
#include "forge/quantize_run.h"

void fore_quantize_options_init(fore_quantize_options *options, int bits) {
    *options = (fore_quantize_options){.bits = bits};
}

typedef struct bits {
    const char *name;
    int value;
    bool four, sixteen, none; /* besides 8 */
} bits;

static fore_status check_bits(const char *stage, const bits *b, fore_error *err) {
    if (b->value == 8 || (b->four && b->value == 4) || (b->sixteen && b->value == 16) || (b->none && b->value == 0)) return FORE_OK;
    return fore_fail(err, FORE_ERR_INVALID, "%s: %s: expected %s, found %d", stage, b->name,
                     b->four ? b->sixteen ? "4, 8 or 16" : "4 or 8" : "8 or 16", b->value);
}

fore_status fore_quantize_read_rules(const fore_quantize_options *o, const char *stage, bool any_form, fore_quantize_rules *r, fore_error *err) {
    *r = (fore_quantize_rules){.any_form = any_form,
                               .bits = o->bits,
                               .group = o->group ? o->group : 64,
                               .head_bits = o->head_bits ? o->head_bits : o->bits,
                               .mtp_bits = o->mtp_bits ? o->mtp_bits : o->bits,
                               .vision_bits = o->vision_bits ? o->vision_bits : 16,
                               .mtp_layers_only = o->mtp_layers_only,
                               .shard_bytes = o->shard_bytes ? o->shard_bytes : 4000000000u};
    const bits all[] = {{"bits", r->bits, true, false, any_form},
                        {"head_bits", r->head_bits, true, true, any_form},
                        {"mtp_bits", r->mtp_bits, true, true, any_form},
                        {"vision_bits", r->vision_bits, false, true, false}};
    fore_status s = FORE_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all && !s; i++) s = check_bits(stage, &all[i], err);
    if (!s && r->group != 32 && r->group != 64 && r->group != 128)
        s = fore_fail(err, FORE_ERR_INVALID, "%s: group: expected 32, 64 or 128, found %d", stage, r->group);
    return s;
}

fore_status fore_quantize(const char *source, const char *out, const fore_quantize_options *options,
                          fore_quantize_report **report, fore_error *err) {
    static const char stage[] = "quantize";
    if (report) *report = NULL;
    if (!source || !out || !options) return fore_fail(err, FORE_ERR_INVALID, "fore_quantize: an argument is NULL");
    fore_quantize_run run = {.source = source, .out = out, .stage = stage, .threads = options->threads, .progress = options->progress,
                             .user = options->user};
    fore_status s = fore_quantize_read_rules(options, stage, false, &run.rules, err);
    return s ? s : fore_quantize_run_make(&run, report, err);
}

void fore_convert_options_init(fore_convert_options *options) {
    *options = (fore_convert_options){.exact = false};
}

fore_status fore_convert(const char *source, const char *out, const fore_convert_options *options, fore_quantize_report **report,
                         fore_error *err) {
    static const char stage[] = "convert";
    static const fore_convert_options usual = {.exact = false};
    const fore_convert_options *o = options ? options : &usual;
    if (report) *report = NULL;
    if (!source || !out) return fore_fail(err, FORE_ERR_INVALID, "fore_convert: an argument is NULL");
    if (o->exact && (o->quantize.bits || o->quantize.head_bits || o->quantize.mtp_bits || o->quantize.vision_bits))
        return fore_fail(err, FORE_ERR_INVALID, "convert: exact changes no weight, so that a number of bits makes no sense with it");
    fore_quantize_run run = {.source = source, .out = out, .stage = stage, .mmproj = o->mmproj, .dry_run = o->dry_run,
                             .threads = o->quantize.threads, .progress = o->quantize.progress, .user = o->quantize.user};
    fore_status s = fore_quantize_read_rules(&o->quantize, stage, true, &run.rules, err);
    run.rules.exact = o->exact;
    return s ? s : fore_quantize_run_make(&run, report, err);
}
