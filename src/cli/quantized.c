/* Options and reports of quantised checkpoints; see quantized.h. */
#include "cli/quantized.h"

#include <stdlib.h>

#include "cli/text.h"

enum { WORST = 5 };

fore_quantize_options cli_quantized_options(const cli_options *o) {
    static const int narrow[] = {4, 8, 16}, vision[] = {8, 16}, groups[] = {32, 64, 128};
    fore_quantize_options q;
    fore_quantize_options_init(&q, o->bits >= 0 ? narrow[o->bits] : 0);
    if (o->group >= 0) q.group = groups[o->group];
    if (o->head_bits >= 0) q.head_bits = narrow[o->head_bits];
    if (o->mtp_bits >= 0) q.mtp_bits = narrow[o->mtp_bits];
    if (o->vision_bits >= 0) q.vision_bits = vision[o->vision_bits];
    q.mtp_layers_only = o->mtp_policy == 1;
    q.threads = o->threads > 0 ? o->threads : 0;
    return q;
}

static int compare_errors(const void *a, const void *b) {
    const fore_quantized *x = *(const fore_quantized *const *)a, *y = *(const fore_quantized *const *)b;
    return (x->error < y->error) - (x->error > y->error);
}

/* The quantised ones, worst first; owned (free). */
static const fore_quantized **sort_worst(const fore_quantize_report *r) {
    const fore_quantized **list = cli_need(calloc(r->count + 1, sizeof *list));
    size_t n = 0;
    for (size_t i = 0; i < r->count; i++)
        if (r->modules[i].bits && !r->modules[i].copied) list[n++] = &r->modules[i];
    if (n) qsort(list, n, sizeof *list, compare_errors);
    return list;
}

void cli_quantized_print_each(const fore_quantize_report *r) {
    for (size_t i = 0; i < r->count; i++) {
        const fore_quantized *m = &r->modules[i];
        if (m->copied) printf("   exact    %d bits  %s\n", m->bits, m->name);
        else if (m->bits) printf("%7.3f %%  %d bits  %s\n", 100 * m->error, m->bits, m->name);
        else printf("      --        --  %s: %s\n", m->name, m->why);
    }
}

void cli_quantized_print_errors(const fore_quantize_report *r) {
    if (!r->quantized) return;
    const fore_quantized **worst = sort_worst(r);
    printf("error of the weights (relative RMS): %.3f %% in the mean, most in\n", 100 * r->mean_error);
    for (size_t i = 0; i < WORST && i < r->quantized; i++)
        printf("%7.3f %%  %d bits  %s\n", 100 * worst[i]->error, worst[i]->bits, worst[i]->name);
    free(worst);
}
