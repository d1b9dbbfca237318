/* The draft-only output head; see draft_head.h. */
#include "model/draft_head.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/pages.h"
#include "kernels/quant.h"

enum { PANEL = 16 };

bool fore_draft_form(const fore_weight *source, int bits, fore_weight *form) {
    *form = *source;
    form->data = NULL;
    form->N = 0;
    if (bits == 16 || bits == source->bits) return true;
    form->bits = bits;
    form->group = source->K % 64 == 0 ? 64 : 32;
    form->order = NULL;
    form->dtype = source->dtype == FORE_DTYPE_F16 ? FORE_DTYPE_F16 : FORE_DTYPE_BF16;
    return source->K % form->group == 0;
}

static bool same_form(const fore_weight *a, const fore_weight *b) {
    return a->bits == b->bits && a->group == b->group && a->dtype == b->dtype && a->order == b->order;
}

static size_t dense_row(const fore_weight *w) { return (size_t)w->K * fore_dtype_size(w->dtype); }

/* Work memory of up to PANEL rows: as floats, then in the stored form, then as one panel. */
static size_t work_bytes(const fore_weight *form, int rows) {
    if (!form->bits) return 0;
    fore_weight some = *form;
    some.N = rows;
    const fore_qweight q = fore_weight_quantised(&some);
    return (size_t)rows * (size_t)form->K * sizeof(float) + fore_qweight_stored_q(&q) + 2 * fore_qweight_stored_affine(&q) + fore_weight_bytes(&some);
}

size_t fore_draft_row_work(const fore_weight *form) { return work_bytes(form, 1); }

/* Source rows ids[0..count), count <= PANEL, quantised and packed into one panel. */
static bool quantise_panel(const fore_kern *kern, const fore_weight *source, const int32_t *ids, int count, const fore_weight *form, void *panel,
                           void *work) {
    fore_weight some = *form;
    some.N = count;
    const fore_qweight w = fore_weight_quantised(&some);
    float *rows = work;
    unsigned char *q = (unsigned char *)(rows + (size_t)count * (size_t)form->K), *scales = q + fore_qweight_stored_q(&w);
    unsigned char *biases = scales + fore_qweight_stored_affine(&w);
    for (int i = 0; i < count; i++) fore_weight_row(kern, source, ids[i], rows + (size_t)i * (size_t)form->K);
    if (fore_quantize_rows(&w, q, scales, biases, FORE_DTYPE_F32, rows, NULL)) return false;
    fore_qweight_pack(&w, panel, q, scales, biases);
    return true;
}

bool fore_draft_row(const fore_kern *kern, const fore_weight *source, int32_t id, const fore_weight *rows, void *memory, int n, void *work) {
    if (!rows->bits) {
        memcpy((char *)memory + (size_t)n * dense_row(rows), (const char *)source->data + (size_t)id * dense_row(source), dense_row(rows));
        return true;
    }
    if (same_form(source, rows)) {
        const fore_qweight from = fore_weight_quantised(source);
        fore_qweight_copy_row(&from, id, memory, n);
        return true;
    }
    fore_weight one = *rows;
    one.N = 1;
    one.data = (char *)work + work_bytes(rows, 1) - fore_weight_bytes(&one);
    if (!quantise_panel(kern, source, &id, 1, rows, (void *)one.data, work)) return false;
    const fore_qweight from = fore_weight_quantised(&one);
    fore_qweight_copy_row(&from, 0, memory, n);
    return true;
}

typedef struct make_job {
    const fore_kern *kern;
    const fore_weight *source, *rows;
    const int32_t *ids;
    char *memory;   /* of the rows */
    char *work;     /* [threads, work] */
    size_t work_size;
    atomic_bool failed;
} make_job;

/* One panel of rows, which nobody else writes. */
static void make_panel(void *context, int index, int worker) {
    make_job *j = context;
    const fore_weight *rows = j->rows;
    int first = index * PANEL, count = rows->N - first < PANEL ? rows->N - first : PANEL;
    fore_weight before = *rows;
    before.N = first;
    char *panel = j->memory + fore_weight_bytes(&before), *work = j->work + (size_t)worker * j->work_size;
    if (!rows->bits || same_form(j->source, rows))
        for (int i = 0; i < count; i++) fore_draft_row(j->kern, j->source, j->ids[first + i], rows, j->memory, first + i, NULL);
    else if (!quantise_panel(j->kern, j->source, j->ids + first, count, rows, panel, work))
        atomic_store(&j->failed, true);
}

fore_status fore_draft_head_new(const fore_kern *kern, const fore_weight *source, const fore_weight *form, const int32_t *ids, int count,
                                fore_pool *pool, fore_draft_head *out, fore_error *err) {
    *out = (fore_draft_head){.rows = *form};
    out->rows.N = count;
    size_t bytes = fore_weight_bytes(&out->rows), threads = pool ? (size_t)fore_pool_threads(pool) : 1, V = (size_t)source->N, n = (size_t)count;
    out->bytes = bytes + (n + V) * sizeof(int32_t) + 3 * (size_t)FORE_ARENA_ALIGN;
    out->memory = fore_pages_new(out->bytes);
    make_job job = {.kern = kern, .source = source, .rows = &out->rows, .ids = ids};
    job.work_size = (work_bytes(form, PANEL) + FORE_ARENA_ALIGN - 1) / FORE_ARENA_ALIGN * FORE_ARENA_ALIGN;
    job.work = malloc(threads * job.work_size + 1);
    if (!out->memory || !job.work) {
        free(job.work);
        fore_draft_head_free(out);
        return fore_fail_nomem(err, "the draft-only output head");
    }
    char *at = out->memory;
    job.memory = (char *)fore_carve(&at, (bytes + 3) / sizeof(float));
    out->rows.data = job.memory;
    out->ids = (int32_t *)(void *)fore_carve(&at, n);
    out->places = (int32_t *)(void *)fore_carve(&at, V);
    memcpy(out->ids, ids, n * sizeof *ids);
    memset(out->places, -1, V * sizeof *out->places);
    for (int i = 0; i < count; i++) out->places[ids[i]] = i;
    int panels = (count + PANEL - 1) / PANEL;
    if (pool) fore_pool_run(pool, make_panel, &job, panels);
    else
        for (int i = 0; i < panels; i++) make_panel(&job, i, 0);
    free(job.work);
    if (!atomic_load(&job.failed)) return FORE_OK;
    fore_draft_head_free(out);
    return fore_fail(err, FORE_ERR_FORMAT, "draft head: the output head has weights that cannot be quantised");
}

void fore_draft_head_free(fore_draft_head *head) {
    free(head->memory);
    *head = (fore_draft_head){0};
}
