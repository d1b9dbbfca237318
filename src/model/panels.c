/* Quantised matrices in memory; see panels.h. */
#include "model/panels.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pages.h"
#include "kernels/quant.h"
#include "model/pack.h"

enum { LINE = FORE_PANELS_LINE, SLACK_ROWS = 32, PART_BYTES = 1 << 20 };

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
    if (w->bits && w->order) {
        const fore_qweight q = fore_weight_quantised(w);
        float group[128];
        for (int k = 0; k < w->K; k += w->group) {
            fore_qweight_dequantize_group(&q, row, k / w->group, group);
            for (int i = 0; i < w->group; i++) y[w->order[k + i]] = group[i];
        }
    } else if (w->bits) {
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

/* Room for the rows of `matrices` matrices that take `bytes` in all, also when each is cut in two and rows are filled up. */
static bool with_slack(size_t matrices, size_t rows, size_t bytes, size_t *out) {
    size_t slack;
    return !__builtin_mul_overflow(matrices, SLACK_ROWS * (bytes / rows + 1) + 2 * LINE, &slack) && !__builtin_add_overflow(bytes, slack, out);
}

/* The same of the matrices whose weights a tensor in one of the forms has. What is wrong with one is told when it is bound. */
static bool bound_form(const fore_store *store, const fore_entry *weights, const fore_stored_settings *settings, size_t *bytes) {
    fore_form_matrix m;
    size_t all, rows;
    *bytes = 0;
    if (fore_forms_read(store, weights, settings, &m, NULL) || !m.form) return true;
    if (!fore_form_bytes(&m, &all) || __builtin_mul_overflow(m.matrices, m.rows, &rows)) return false;
    return !rows || with_slack(m.matrices, rows, all, bytes);
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
    if (__builtin_add_overflow(size, (size_t)FORE_LARGE_PAGE, &most)) return NULL;
    unsigned char *memory = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    size_t skip = (size_t)(-(uintptr_t)memory % FORE_LARGE_PAGE), page = (size_t)sysconf(_SC_PAGESIZE), end = skip + (size + page - 1) / page * page;
    if (skip) munmap(memory, skip);
    if (end < most) munmap(memory + end, most - end);
    return memory + skip;
}

fore_status fore_panels_reserve(fore_panels *p, const fore_store *store, const char *prefix, const fore_stored_settings *settings,
                                fore_error *err) {
    *p = (fore_panels){.settings = settings};
    size_t total = 0;
    for (size_t i = 0; i < fore_store_count(store); i++) {
        const fore_entry *e = fore_store_at(store, i);
        size_t bytes;
        if (strncmp(e->name, prefix, strlen(prefix))) continue;
        bool fits = fore_name_ends_with(e->name, ".scales") ? bound(store, e, &bytes) : bound_form(store, e, settings, &bytes);
        if (!fits || __builtin_add_overflow(total, bytes, &total))
            return fore_fail(err, FORE_ERR_LIMIT, "weights: %s: the quantised matrices do not fit the address space", e->name);
    }
    if (!total) return FORE_OK;
    unsigned char *memory = reserve_aligned(total);
    if (!memory) return fore_fail(err, FORE_ERR_NOMEM, "out of memory: %zu MiB for the quantised weights", total >> 20);
    fore_pages_wish_large(memory, total);
    p->memory = memory;
    p->reserved = total;
    return FORE_OK;
}

/* Bytes of a job's matrix before its row N, a multiple of 16 or the last. */
static size_t made_bytes(const fore_panel_job *job, int N) {
    fore_qweight before = job->w;
    before.N = N;
    return job->w.bits ? fore_qweight_bytes(&before) : (size_t)N * (size_t)job->w.K * fore_dtype_size(job->w.dtype);
}

static void count_kind(fore_panels *p, const fore_panel_job *job) {
    const fore_form_matrix *m = job->from;
    const fore_qweight *w = &job->w;
    fore_panels_kind kind = {.label = m ? m->label : "MLX", .bits = m ? m->file_bits : job->stored_bits, .group = m ? m->file_group : w->group,
                             .memory_bits = w->bits ? w->bits : 8 * (int)fore_dtype_size(w->dtype)};
    int i = 0;
    for (; i < p->kind_count; i++) {
        const fore_panels_kind *k = &p->kinds[i];
        if (!strcmp(k->label, kind.label) && k->bits == kind.bits && k->group == kind.group && k->memory_bits == kind.memory_bits) break;
    }
    const fore_tally_kind like = {.label = kind.label, .bits = kind.bits, .group = kind.group, .memory_bits = kind.memory_bits};
    fore_tally_made(&p->tally, &like, (uint64_t)w->N * (uint64_t)w->K, made_bytes(job, w->N));
    if (i == FORE_PANELS_KINDS) return;
    if (i == p->kind_count) p->kinds[p->kind_count++] = kind;
    p->kinds[i].parameters += (uint64_t)w->N * (uint64_t)w->K;
}

fore_status fore_panels_add(fore_panels *p, const fore_panel_job *job, fore_weight *out, fore_error *err) {
    const fore_qweight *w = &job->w;
    size_t size = w->bits ? 0 : made_bytes(job, w->N), at = (p->used + LINE - 1) / LINE * LINE;
    fore_status s = w->bits ? fore_qweight_check(w->bits, w->group, w->N, w->K, w->dtype, &size, err) : FORE_OK;
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
    count_kind(p, job);
    *out = (fore_weight){.data = p->memory + at, .dtype = w->dtype, .N = w->N, .K = w->K, .bits = w->bits, .group = w->group,
                         .order = fore_panel_job_order(job)};
    return FORE_OK;
}

/* Bytes of a row as the file has it: a multiple of 4, since K is one of 32. */
static size_t stored_row(const fore_panel_job *job) { return (size_t)job->w.K / 8 * (size_t)job->stored_bits; }

/* Parts of a job: rows by multiples of 16, about PART_BYTES of the stored form, or of floats, each. */
static int part_rows(const fore_panel_job *job) {
    size_t row = made_bytes(job, job->w.N) / (size_t)job->w.N + 1, rows;
    if (job->w.bits) row = fore_qweight_stored_q(&job->w) / (size_t)job->w.N + 1;
    rows = PART_BYTES / row / 16 * 16;
    return rows < 16 ? 16 : rows < (size_t)job->w.N ? (int)rows : job->w.N;
}

typedef struct make_run {
    const fore_panels *panels;
    const int *first;   /* [count+1] part at which each job begins */
    unsigned char *wide; /* [threads, wide_bytes] stored form of a part that the file has otherwise */
    size_t wide_bytes;
    const fore_panel_job *_Atomic failed; /* one whose numbers are wrong */
    const char *_Atomic problem;          /* ... and how */
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

/* Rows of a form, n0 .. of a job: floats to where they stay, else to the worker's room and from there to panels. */
static void make_form_part(make_run *run, const fore_panel_job *job, const fore_qweight *part, int n0, unsigned char *wide, unsigned char *to) {
    const fore_form_matrix *m = job->from;
    size_t row0 = job->row0 + (size_t)n0, rows = (size_t)part->N;
    fore_form_rows out = {.q = to};
    if (part->bits) {
        out.q = wide;
        out.scales = out.q + fore_qweight_stored_q(part);
        out.biases = out.scales + fore_qweight_stored_affine(part);
    }
    const char *problem = m->form->write(m, row0, rows, &out);
    if (part->bits && !problem) fore_qweight_pack(part, to, out.q, out.scales, out.biases);
    size_t row = m->part[0]->bytes / (m->matrices * m->rows);
    if (m->form->by_rows) fore_map_release(m->part[0]->data + row0 * row, rows * row);
    const fore_panel_job *none = NULL;
    if (problem && atomic_compare_exchange_strong(&run->failed, &none, job)) atomic_store(&run->problem, problem);
}

static void make_part(void *context, int index, int worker) {
    make_run *run = context;
    size_t low = 0, high = run->panels->count;
    while (high - low > 1) { /* the job whose parts hold the index */
        size_t middle = (low + high) / 2;
        if (run->first[middle] <= index) low = middle;
        else high = middle;
    }
    const fore_panel_job *job = &run->panels->jobs[low];
    int rows = part_rows(job), n0 = (index - run->first[low]) * rows;
    fore_qweight part = job->w;
    part.N = job->w.N - n0 < rows ? job->w.N - n0 : rows;
    unsigned char *wide = run->wide ? run->wide + (size_t)worker * run->wide_bytes : NULL, /* NULL: nothing is widened */
                   *to = (unsigned char *)job->w.panels + made_bytes(job, n0);
    if (job->from) {
        make_form_part(run, job, &part, n0, wide, to);
        return;
    }
    const unsigned char *q = job->q + stored_row(job) * (size_t)n0, *from = q;
    size_t affine = fore_qweight_stored_affine(&job->w) / (size_t)job->w.N * (size_t)n0;
    if (job->stored_bits != job->w.bits) {
        widen_bits(wide, job->w.bits, q, job->stored_bits, (size_t)part.N * (size_t)part.K);
        from = wide;
    }
    fore_qweight_pack(&part, to, from, job->scales + affine, job->biases + affine);
    fore_map_release(q, stored_row(job) * (size_t)part.N);
}

/* Room for the widest part that is not packed right from the file. */
static fore_status reserve_wide(const fore_panels *p, fore_pool *pool, make_run *run, fore_error *err) {
    for (size_t i = 0; i < p->count; i++) {
        const fore_panel_job *job = &p->jobs[i];
        if (!job->w.bits || (!job->from && job->stored_bits == job->w.bits)) continue;
        fore_qweight part = job->w;
        part.N = part_rows(job);
        size_t bytes = fore_qweight_stored_q(&part) + (job->from ? 2 * fore_qweight_stored_affine(&part) : 0);
        if (bytes > run->wide_bytes) run->wide_bytes = bytes;
    }
    if (!run->wide_bytes) return FORE_OK;
    run->wide = malloc(run->wide_bytes * (size_t)(pool ? fore_pool_threads(pool) : 1));
    return run->wide ? FORE_OK : fore_fail_nomem(err, "repacking the quantised weights");
}

/* Where there are several nodes of memory, a part of each matrix near the threads that will read it. */
static void place_panels(const fore_panels *p, fore_pool *pool) {
    for (size_t i = 0; i < p->count; i++) {
        const fore_qweight *w = &p->jobs[i].w;
        int panels = w->bits ? fore_qweight_panels(w) : w->N / FORE_LANES;
        if (panels) fore_pool_place(pool, (unsigned char *)w->panels, made_bytes(&p->jobs[i], FORE_LANES), panels);
    }
}

/* Of tensors whose rows do not follow each other no part can be let go alone. */
static void release_columns(const fore_panels *p) {
    for (size_t i = 0; i < p->count; i++) {
        const fore_form_matrix *m = p->jobs[i].from;
        if (m && !m->form->by_rows) fore_map_release(m->part[0]->data, m->part[0]->bytes);
    }
}

fore_status fore_panels_fill(fore_panels *p, fore_pool *pool, fore_error *err) {
    enum { BATCH = 1024 };
    int first[BATCH + 1] = {0};
    make_run run = {0};
    fore_status s = reserve_wide(p, pool, &run, err);
    if (s) return s;
    if (pool) place_panels(p, pool);
    for (size_t at = 0; at < p->count && !s; at += BATCH) {
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
        release_columns(&batch);
        const fore_panel_job *failed = atomic_load(&run.failed);
        if (failed) s = fore_fail(err, FORE_ERR_FORMAT, "weights: %s: %s", failed->from->part[0]->name, atomic_load(&run.problem));
    }
    free(run.wide);
    return s;
}

fore_status fore_panels_make(fore_panels *p, const fore_store *store, const fore_load *load, fore_error *err) {
    static const fore_load plain = {0};
    fore_status s = FORE_OK;
    if (p->count && load && load->notes) fore_pack_look(p, store);
    else if (p->count) s = fore_pack_load(p, store, load ? load : &plain, err);
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
