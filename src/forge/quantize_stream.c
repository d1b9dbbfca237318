/* Streaming tensors through the quantiser; see quantize_stream.h. */
#include "forge/quantize_stream.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "forge/quantize_rows.h"
#include "kernels/half.h"
#include "kernels/quant.h"

enum { BLOCK_BYTES = 8 << 20, TASK_WEIGHTS = 1 << 16, TASK_ROWS_LEAST = 64 };

/* The places of a job's tensors in its file; scales and biases of a quantised matrix alone. */
typedef struct places {
    uint64_t weight, scales, biases, order;
} places;

typedef struct sums {
    double error, weights; /* of squares */
} sums;

/* What came of a part of a block. */
typedef struct outcome {
    sums of;
    fore_status status;
    const char *problem; /* of the source's numbers, or NULL */
} outcome;

/* Some rows of one piece on their way through the pool. */
typedef struct block {
    const fore_quantize_job *job;
    const fore_quantize_piece *piece;
    uint64_t first, rows, task_rows; /* rows first .. first+rows-1 of the piece */
    const unsigned char *from;       /* [rows,K] as floats; written by the tasks when the piece's rows lie otherwise */
    fore_rows room;
    unsigned char *q, *scales, *biases;
    outcome *of; /* [tasks] */
} block;

fore_status fore_quantize_stream_step(const fore_quantize_stream *stream, fore_error *err) {
    if (stream->progress && stream->progress(stream->user, stream->stage, stream->done, stream->plan->source_bytes))
        return fore_fail(err, FORE_ERR_CANCELLED, "cancelled while quantising");
    return FORE_OK;
}

/* ---- quantising rows --------------------------------------------------------------------------------------------- */

static float load(fore_dtype dtype, const unsigned char *p, uint64_t i) {
    if (dtype == FORE_DTYPE_F32) return fore_load_f32(p + 4 * i);
    return dtype == FORE_DTYPE_BF16 ? fore_load_bf16(p + 2 * i) : fore_load_f16(p + 2 * i);
}

static fore_qweight shape_of(const fore_quantize_job *j, uint64_t rows) {
    return (fore_qweight){.bits = j->bits, .group = j->group, .N = (int)rows, .K = (int)j->K, .dtype = j->affine};
}

static uint64_t q_row(const fore_quantize_job *j) { return j->K / 8 * (uint64_t)j->bits; }
static uint64_t affine_row(const fore_quantize_job *j) { return j->K / (uint64_t)j->group * fore_dtype_size(j->affine); }
static uint64_t float_row(const fore_quantize_job *j) { return j->K * fore_dtype_size(j->dtype); }

/* What the stored numbers stand for, against what they were made from. */
static sums compare(const block *b, uint64_t first, uint64_t rows) {
    const fore_quantize_job *j = b->job;
    const unsigned char *q = b->q + first * q_row(j), *scales = b->scales + first * affine_row(j);
    const unsigned char *biases = b->biases + first * affine_row(j), *from = b->from + first * float_row(j);
    uint64_t group = (uint64_t)j->group;
    sums s = {0, 0};
    for (uint64_t g = 0; g < rows * (j->K / group); g++) {
        double scale = (double)load(j->affine, scales, g), bias = (double)load(j->affine, biases, g), error = 0, weights = 0;
        for (uint64_t k = g * group; k < (g + 1) * group; k++) {
            double w = (double)load(j->dtype, from, k);
            int u = j->bits == 8 ? q[k] : q[k / 2] >> 4 * (k % 2) & 15;
            double d = scale * u + bias - w;
            error += d * d;
            weights += w * w;
        }
        s.error += error;
        s.weights += weights;
    }
    return s;
}

/* At 8 bits the error is that of the rounding whatever the scale. */
static fore_status quantize_rows(const block *b, const fore_qweight *w, unsigned char *q, unsigned char *scales,
                                 unsigned char *biases, const unsigned char *from) {
    return (w->bits == 4 ? fore_quantize_rows_fitted : fore_quantize_rows)(w, q, scales, biases, b->job->dtype, from, NULL);
}

/* Rows of a block: read, and quantised unless they are stored as they are. */
static void block_task(void *context, int index, int worker) {
    (void)worker;
    block *b = context;
    uint64_t first = (uint64_t)index * b->task_rows, rows = b->rows - first < b->task_rows ? b->rows - first : b->task_rows;
    const fore_quantize_job *j = b->job;
    unsigned char *q = b->q + first * q_row(j), *scales = b->scales + first * affine_row(j), *biases = b->biases + first * affine_row(j);
    outcome *out = &b->of[index];
    *out = (outcome){.problem = NULL};
    if (j->exact) {
        const fore_form_rows to = {q, scales, biases};
        out->problem = fore_rows_stored(&b->room, j, b->piece, b->first + first, rows, first, &to);
        return;
    }
    if (!fore_rows_lie(b->piece) && fore_rows_part(b->piece)) out->problem = fore_rows_floats(&b->room, j, b->piece, b->first + first, rows, first);
    if (out->problem) return;
    fore_qweight w = shape_of(j, rows);
    out->status = quantize_rows(b, &w, q, scales, biases, b->from + first * float_row(j));
    if (!out->status) out->of = compare(b, first, rows);
}

static fore_status name_problem(const fore_quantize_stream *st, const fore_quantize_piece *piece, const char *problem, fore_error *err) {
    return fore_fail(err, FORE_ERR_FORMAT, "%s: %s: %s", st->stage, piece->from->name, problem);
}

/* Names the first row that could not be quantised. */
static fore_status name_row(const fore_quantize_stream *st, const block *b, fore_error *err) {
    const fore_quantize_job *j = b->job;
    const char *name = b->piece->from->name;
    for (uint64_t r = 0; r < b->rows; r++) {
        fore_qweight w = shape_of(j, 1);
        const unsigned char *row = b->from + r * float_row(j);
        uint64_t number = b->piece->row + b->first + r, k = 0; /* in the tensor that it is from */
        if (!quantize_rows(b, &w, b->q, b->scales, b->biases, row)) continue;
        while (k < j->K && isfinite(load(j->dtype, row, k))) k++;
        if (k < j->K)
            return fore_fail(err, FORE_ERR_FORMAT, "%s: %s: row %" PRIu64 ", column %" PRIu64 " is not a finite number: the "
                             "checkpoint is damaged; fetch this file of it again", st->stage, name, number, k);
        return fore_fail(err, FORE_ERR_FORMAT, "%s: %s: row %" PRIu64 " has weights too large for 16-bit scales", st->stage, name, number);
    }
    return fore_fail(err, FORE_ERR_BUG, "%s: %s: rows fail together and not alone", st->stage, name);
}

static fore_status make_block(const fore_quantize_stream *st, block *b, sums *total, fore_error *err) {
    int tasks = (int)((b->rows - 1) / b->task_rows + 1);
    const char *problem = NULL;
    b->from = fore_rows_lie(b->piece) ? b->piece->from->data + (b->piece->row + b->first) * float_row(b->job) : b->room.floats;
    if (!fore_rows_part(b->piece)) problem = fore_rows_floats(&b->room, b->job, b->piece, b->first, b->rows, 0);
    if (!problem) fore_pool_run(st->pool, block_task, b, tasks);
    for (int i = 0; i < tasks && !problem; i++) problem = b->of[i].problem;
    if (problem) return name_problem(st, b->piece, problem, err);
    for (int i = 0; i < tasks; i++)
        if (b->of[i].status) return name_row(st, b, err);
    for (int i = 0; i < tasks; i++) {
        total->error += b->of[i].of.error;
        total->weights += b->of[i].of.weights;
    }
    return FORE_OK;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Whether rows lie in the file only turned, or in another form. */
static bool is_turned(const fore_quantize_job *j) {
    bool turned = false;
    for (size_t i = 0; i < j->piece_count; i++) turned = turned || !fore_rows_lie(&j->pieces[i]);
    return turned;
}

/* A matrix whose numbers stay as they are, but for their axes and their form. */
static fore_status copy_turned(fore_quantize_stream *st, const fore_quantize_job *j, const fore_folder_file *file, uint64_t at,
                               fore_error *err) {
    enum { ROWS = 64 };
    size_t row = (size_t)float_row(j);
    fore_rows room;
    fore_status s = fore_rows_new(j, ROWS, &room, err);
    for (size_t i = 0; i < j->piece_count && !s; i++) {
        const fore_quantize_piece *p = &j->pieces[i];
        for (uint64_t r = 0, rows; r < p->rows && !s; r += rows, at += rows * row) {
            rows = p->rows - r < ROWS ? p->rows - r : ROWS;
            s = fore_quantize_stream_step(st, err);
            const char *problem = s || fore_rows_lie(p) ? NULL : fore_rows_floats(&room, j, p, r, rows, 0);
            if (problem) s = name_problem(st, p, problem, err);
            const unsigned char *from = fore_rows_lie(p) ? p->from->data + (p->row + r) * row : room.floats;
            if (!s) s = fore_folder_write_at(file, at, from, (size_t)(rows * row), err);
            fore_rows_release(p, r, rows, r + rows == p->rows);
            st->done += rows * row;
        }
    }
    fore_rows_free(&room);
    return s;
}

static fore_status copy_job(fore_quantize_stream *st, const fore_quantize_job *j, const fore_folder_file *file, uint64_t at,
                            fore_error *err) {
    if (is_turned(j)) return copy_turned(st, j, file, at, err);
    for (size_t i = 0; i < j->piece_count; i++) {
        const fore_quantize_piece *p = &j->pieces[i];
        uint64_t row = p->rows && j->source_bytes ? j->source_bytes / j->rows : 0;
        const unsigned char *from = p->from->data + p->row * row;
        for (uint64_t left = j->piece_count == 1 ? j->source_bytes : p->rows * row; left;) {
            size_t size = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
            fore_status s = fore_quantize_stream_step(st, err);
            if (!s) s = fore_folder_write_at(file, at, from, size, err);
            if (s) return s;
            if (p->mapped) fore_map_release(from, size);
            from += size;
            at += size;
            left -= size;
            st->done += size;
        }
    }
    return FORE_OK;
}

static fore_status write_block(const fore_folder_file *file, const block *b, const places *at, uint64_t row, fore_error *err) {
    const fore_quantize_job *j = b->job;
    size_t affine = (size_t)(b->rows * affine_row(j));
    fore_status s = fore_folder_write_at(file, at->weight + row * q_row(j), b->q, (size_t)(b->rows * q_row(j)), err);
    if (!s) s = fore_folder_write_at(file, at->scales + row * affine_row(j), b->scales, affine, err);
    return s ? s : fore_folder_write_at(file, at->biases + row * affine_row(j), b->biases, affine, err);
}

static fore_status stream_rows(fore_quantize_stream *st, block *b, uint64_t most, const fore_folder_file *file, const places *at,
                               sums *total, fore_error *err) {
    const fore_quantize_job *j = b->job;
    uint64_t written = 0;
    for (size_t i = 0; i < j->piece_count; i++) {
        const fore_quantize_piece *p = b->piece = &j->pieces[i];
        for (b->first = 0; b->first < p->rows; b->first += b->rows) {
            b->rows = p->rows - b->first < most ? p->rows - b->first : most;
            fore_status s = fore_quantize_stream_step(st, err);
            if (!s) s = make_block(st, b, total, err);
            if (!s) s = write_block(file, b, at, written, err);
            if (s) return s;
            fore_rows_release(p, b->first, b->rows, b->first + b->rows == p->rows);
            written += b->rows;
            st->done += b->rows * float_row(j);
        }
    }
    return FORE_OK;
}

static fore_status quantize_job(fore_quantize_stream *st, const fore_quantize_job *j, const fore_folder_file *file,
                                const places *at, double *error, fore_error *err) {
    uint64_t most = BLOCK_BYTES / 4 / j->K + 1; /* rows at a time */
    block b = {.job = j, .task_rows = TASK_WEIGHTS / j->K + 1};
    /* Rows of integers that lie in columns share cache lines. */
    if (j->pieces[0].form && b.task_rows < TASK_ROWS_LEAST) b.task_rows = TASK_ROWS_LEAST;
    if (most > j->rows) most = j->rows;
    size_t tasks = (size_t)((most - 1) / b.task_rows + 1);
    b.q = malloc((size_t)(most * q_row(j)));
    b.scales = malloc((size_t)(most * affine_row(j)));
    b.biases = malloc((size_t)(most * affine_row(j)));
    b.of = malloc(tasks * sizeof *b.of);
    sums total = {0, 0};
    fore_status s = b.q && b.scales && b.biases && b.of ? fore_rows_new(j, most, &b.room, err) : fore_fail_nomem(err, "rows to be quantised");
    if (!s) s = stream_rows(st, &b, most, file, at, &total, err);
    if (!s && j->order) s = fore_folder_write_at(file, at->order, j->order, (size_t)j->K * sizeof *j->order, err);
    *error = total.weights > 0 ? sqrt(total.error / total.weights) : 0;
    fore_rows_free(&b.room);
    free(b.q);
    free(b.scales);
    free(b.biases);
    free(b.of);
    return s;
}

/* Where each job's tensors lie, in the order of jobs. */
static void find_places(const fore_quantize_plan *plan, const fore_quantize_file *f, const fore_safetensors_item *items,
                        size_t count, places *at) {
    for (size_t i = 0; i < count; i++) {
        const fore_quantize_job *j = items[i].user;
        places *p = &at[(size_t)(j - plan->jobs) - f->first];
        if (items[i].name == j->scales) p->scales = items[i].offset;
        else if (items[i].name == j->biases) p->biases = items[i].offset;
        else if (items[i].name == j->order_name) p->order = items[i].offset;
        else p->weight = items[i].offset;
    }
}

static fore_status stream_jobs(fore_quantize_stream *st, const fore_quantize_file *f, const fore_folder_file *file,
                               const places *at, fore_error *err) {
    for (size_t i = 0; i < f->count; i++) {
        const fore_quantize_job *j = &st->plan->jobs[f->first + i];
        fore_status s = j->bits ? quantize_job(st, j, file, &at[i], &st->errors[f->first + i], err)
                                : copy_job(st, j, file, at[i].weight, err);
        if (s) return s;
    }
    return fore_quantize_stream_step(st, err);
}

fore_status fore_quantize_stream_file(fore_quantize_stream *st, size_t index, fore_error *err) {
    const fore_quantize_file *f = &st->plan->files[index];
    fore_safetensors_item *items = calloc(f->count * FORE_QUANTIZE_TENSORS + 1, sizeof *items);
    places *at = calloc(f->count + 1, sizeof *at);
    fore_buf header = {0};
    fore_folder_file file = {.fd = -1};
    size_t count = 0;
    uint64_t size = 0;
    fore_status s = items && at ? FORE_OK : fore_fail_nomem(err, f->name);
    if (!s) {
        fore_quantize_plan_items(st->plan, f, items, &count);
        s = fore_safetensors_layout(items, count, &header, &size, err);
    }
    if (!s) {
        find_places(st->plan, f, items, count, at);
        s = fore_folder_begin(st->folder, f->name, &file, err);
    }
    if (!s) s = fore_folder_write_at(&file, 0, header.data, header.size, err);
    if (!s) s = stream_jobs(st, f, &file, at, err);
    if (!s) s = fore_folder_commit(&file, err);
    else if (file.folder) fore_folder_abandon(&file);
    fore_buf_free(&header);
    free(items);
    free(at);
    return s;
}
