/* Quantised matrices in memory; see panels.h. */
#include "model/panels.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "kernels/quant.h"
#include "model/pack.h"

enum { HUGE_PAGE = 2 << 20 };
enum { LINE = 64, SLACK_ROWS = 32, PART_BYTES = 1 << 20 };

fore_weight fore_weight_part(const fore_weight *w, int n0, int n) {
    fore_weight before = *w, part = *w;
    before.N = n0;
    part.N = n;
    if (n0) part.data = (const unsigned char *)w->data + fore_weight_bytes(&before);
    return part;
}

size_t fore_weight_bytes(const fore_weight *w) {
    if (!w->bits) return (size_t)w->N * (size_t)w->K * fore_dtype_size(w->dtype);
    const fore_qweight q = fore_weight_quantised(w);
    return fore_qweight_bytes(&q);
}

void fore_weight_row(const fore_kern *kern, const fore_weight *w, int row, float *y) {
    size_t K = (size_t)w->K, at = (size_t)row * K;
    if (w->bits) {
        const fore_qweight q = fore_weight_quantised(w);
        fore_qweight_dequantize(&q, row, y);
    } else if (w->dtype == FORE_DTYPE_BF16) {
        kern->widen_bf16(y, (const char *)w->data + 2 * at, K);
    } else if (w->dtype == FORE_DTYPE_F16) {
        kern->widen_f16(y, (const char *)w->data + 2 * at, K);
    } else {
        memcpy(y, (const char *)w->data + 4 * at, K * sizeof *y);
    }
}

/* No fewer bytes than the panels of the matrices of a tensor take, also when each is cut in two: rows may be filled up. */
static bool bound(const fore_store *store, const fore_entry *scales, size_t *bytes) {
    char name[512];
    size_t stem = strlen(scales->name) - strlen(".scales"), rows = 1, matrices = 1;
    *bytes = 0;
    if (stem + sizeof ".weight" > sizeof name || scales->dims < 2) return true;
    memcpy(name, scales->name, stem);
    strcpy(name + stem, ".weight");
    const fore_entry *q = fore_store_find(store, name);
    if (!q) {
        name[stem] = 0;
        q = fore_store_find(store, name);
    }
    if (!q) return true;
    for (int d = 0; d < scales->dims - 1; d++) {
        if (scales->shape[d] > SIZE_MAX / 64 || __builtin_mul_overflow(rows, (size_t)scales->shape[d], &rows)) return false;
        if (d < scales->dims - 2) matrices = rows;
    }
    if (!rows) return true;
    size_t row = 2 * (q->bytes / rows) + 2 * (scales->bytes / rows) + 1, all; /* twice: 2 bits become 4 */
    return !__builtin_mul_overflow(matrices, (size_t)SLACK_ROWS, &all) && !__builtin_add_overflow(all, rows, &all) &&
           !__builtin_mul_overflow(all, row, bytes) && !__builtin_add_overflow(*bytes, 2 * LINE * matrices, bytes);
}

/* Address space that begins where a huge page can, also one of a file whose panels begin at such a place. */
static unsigned char *reserve_aligned(size_t size) {
    size_t most;
    if (__builtin_add_overflow(size, (size_t)HUGE_PAGE, &most)) return NULL;
    unsigned char *memory = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    size_t skip = (size_t)(-(uintptr_t)memory % HUGE_PAGE), page = (size_t)sysconf(_SC_PAGESIZE), end = skip + (size + page - 1) / page * page;
    if (skip) munmap(memory, skip);
    if (end < most) munmap(memory + end, most - end);
    return memory + skip;
}

fore_status fore_panels_reserve(fore_panels *p, const fore_store *store, const char *prefix, fore_error *err) {
    *p = (fore_panels){0};
    size_t total = 0;
    for (size_t i = 0; i < fore_store_count(store); i++) {
        const fore_entry *e = fore_store_at(store, i);
        size_t bytes;
        if (!fore_name_ends_with(e->name, ".scales") || strncmp(e->name, prefix, strlen(prefix))) continue;
        if (!bound(store, e, &bytes) || __builtin_add_overflow(total, bytes, &total))
            return fore_fail(err, FORE_ERR_LIMIT, "weights: %s: the quantised matrices do not fit the address space", e->name);
    }
    if (!total) return FORE_OK;
    unsigned char *memory = reserve_aligned(total);
    if (!memory) return fore_fail(err, FORE_ERR_NOMEM, "out of memory: %zu MiB for the quantised weights", total >> 20);
    madvise(memory, total, MADV_HUGEPAGE); /* streamed from end to end for each token */
    p->memory = memory;
    p->reserved = total;
    return FORE_OK;
}

fore_status fore_panels_add(fore_panels *p, const fore_panel_job *job, fore_weight *out, fore_error *err) {
    const fore_qweight *w = &job->w;
    size_t size, at = (p->used + LINE - 1) / LINE * LINE;
    fore_status s = fore_qweight_check(w->bits, w->group, w->N, w->K, w->dtype, &size, err);
    if (s) return s;
    if (at > p->reserved || size > p->reserved - at)
        return fore_fail(err, FORE_ERR_BUG, "weights: a quantised matrix [%d,%d] has no room in %zu bytes", w->N, w->K, p->reserved);
    if (p->count == p->capacity) {
        size_t capacity = p->capacity ? 2 * p->capacity : 256;
        fore_panel_job *jobs = realloc(p->jobs, capacity * sizeof *jobs);
        if (!jobs) return fore_fail_nomem(err, "the list of quantised matrices");
        p->jobs = jobs;
        p->capacity = capacity;
    }
    p->jobs[p->count] = *job;
    p->jobs[p->count++].w.panels = p->memory + at;
    p->used = at + size;
    p->parameters += (uint64_t)w->N * (uint64_t)w->K;
    *out = (fore_weight){.data = p->memory + at, .dtype = w->dtype, .N = w->N, .K = w->K, .bits = w->bits, .group = w->group};
    return FORE_OK;
}

/* Bytes of a row as the file has it: a multiple of 4, since K is one of 32. */
static size_t stored_row(const fore_panel_job *job) { return (size_t)job->w.K / 8 * (size_t)job->stored_bits; }

/* Parts of a job: rows by multiples of 16, about PART_BYTES of the stored form each. */
static int part_rows(const fore_panel_job *job) {
    size_t row = fore_qweight_stored_q(&job->w) / (size_t)job->w.N + 1, rows = PART_BYTES / row / 16 * 16;
    return rows < 16 ? 16 : rows < (size_t)job->w.N ? (int)rows : job->w.N;
}

typedef struct make_run {
    const fore_panels *panels;
    const int *first;   /* [count+1] part at which each job begins */
    unsigned char *wide; /* [threads, wide_bytes] stored form of a part with weights widened */
    size_t wide_bytes;
} make_run;

/* n weights of `bits` each, one behind the other from the lowest bit on, to weights of 4 or 8. */
static void widen_bits(unsigned char *to, int to_bits, const unsigned char *from, int bits, size_t n) {
    unsigned held = 0, have = 0, mask = (1u << bits) - 1;
    for (size_t k = 0; k < n; k++) {
        if (have < (unsigned)bits) {
            held |= (unsigned)*from++ << have;
            have += 8;
        }
        unsigned char v = (unsigned char)(held & mask);
        held >>= bits;
        have -= (unsigned)bits;
        if (to_bits == 8) to[k] = v;
        else if (k % 2 == 0) to[k / 2] = v;
        else to[k / 2] |= (unsigned char)(v << 4);
    }
}

static void make_part(void *context, int index, int worker) {
    const make_run *run = context;
    size_t low = 0, high = run->panels->count;
    while (high - low > 1) { /* the job whose parts hold the index */
        size_t middle = (low + high) / 2;
        if (run->first[middle] <= index) low = middle;
        else high = middle;
    }
    const fore_panel_job *job = &run->panels->jobs[low];
    int rows = part_rows(job), n0 = (index - run->first[low]) * rows;
    fore_qweight part = job->w, before = job->w;
    part.N = job->w.N - n0 < rows ? job->w.N - n0 : rows;
    before.N = n0;
    const unsigned char *q = job->q + stored_row(job) * (size_t)n0, *from = q;
    size_t affine = fore_qweight_stored_affine(&job->w) / (size_t)job->w.N * (size_t)n0;
    unsigned char *to = (unsigned char *)job->w.panels + fore_qweight_bytes(&before);
    if (job->stored_bits != job->w.bits) {
        unsigned char *wide = run->wide + (size_t)worker * run->wide_bytes;
        widen_bits(wide, job->w.bits, q, job->stored_bits, (size_t)part.N * (size_t)part.K);
        from = wide;
    }
    fore_qweight_pack(&part, to, from, job->scales + affine, job->biases + affine);
    fore_map_release(q, stored_row(job) * (size_t)part.N);
}

/* Room for the widest part whose weights are widened. */
static fore_status reserve_wide(const fore_panels *p, fore_pool *pool, make_run *run, fore_error *err) {
    for (size_t i = 0; i < p->count; i++) {
        const fore_panel_job *job = &p->jobs[i];
        fore_qweight part = job->w;
        part.N = part_rows(job);
        if (job->stored_bits != job->w.bits && fore_qweight_stored_q(&part) > run->wide_bytes) run->wide_bytes = fore_qweight_stored_q(&part);
    }
    if (!run->wide_bytes) return FORE_OK;
    run->wide = malloc(run->wide_bytes * (size_t)(pool ? fore_pool_threads(pool) : 1));
    return run->wide ? FORE_OK : fore_fail_nomem(err, "repacking the quantised weights");
}

/* Where there are several nodes of memory, a part of each matrix near the threads that will read it. */
static void place_panels(const fore_panels *p, fore_pool *pool) {
    for (size_t i = 0; i < p->count; i++) {
        const fore_qweight *w = &p->jobs[i].w;
        int panels = fore_qweight_panels(w);
        fore_pool_place(pool, (unsigned char *)w->panels, fore_qweight_bytes(w) / (size_t)panels, panels);
    }
}

fore_status fore_panels_fill(fore_panels *p, fore_pool *pool, fore_error *err) {
    enum { BATCH = 1024 };
    int first[BATCH + 1] = {0};
    make_run run = {0};
    fore_status s = reserve_wide(p, pool, &run, err);
    if (s) return s;
    if (pool) place_panels(p, pool);
    for (size_t at = 0; at < p->count; at += BATCH) {
        fore_panels batch = *p;
        batch.jobs = p->jobs + at;
        batch.count = p->count - at < BATCH ? p->count - at : BATCH;
        for (size_t i = 0; i < batch.count; i++) {
            int rows = part_rows(&batch.jobs[i]);
            first[i + 1] = first[i] + (batch.jobs[i].w.N - 1) / rows + 1;
        }
        run.panels = &batch;
        run.first = first;
        if (pool) fore_pool_run(pool, make_part, &run, first[batch.count]);
        else
            for (int i = 0; i < first[batch.count]; i++) make_part(&run, i, 0);
    }
    free(run.wide);
    return FORE_OK;
}

fore_status fore_panels_make(fore_panels *p, const fore_store *store, const fore_load *load, fore_error *err) {
    static const fore_load plain = {0};
    fore_status s = p->count ? fore_pack_load(p, store, load ? load : &plain, err) : FORE_OK;
    free(p->jobs);
    p->jobs = NULL;
    p->count = p->capacity = 0;
    return s;
}

void fore_panels_free(fore_panels *p) {
    if (p->memory) munmap(p->memory, p->reserved);
    free(p->jobs);
    *p = (fore_panels){0};
}
