/* Streaming tensors through the quantiser; see quantize_stream.h. */
#include "forge/quantize_stream.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "kernels/half.h"
#include "kernels/quant.h"
#include "kernels/turn.h"

enum { BLOCK_BYTES = 8 << 20, TASK_WEIGHTS = 1 << 16 };

/* The places of a job's tensors in its file; scales and biases of a quantised matrix alone. */
typedef struct places {
    uint64_t weight, scales, biases;
} places;

typedef struct sums {
    double error, weights; /* of squares */
} sums;

/* Some rows of one matrix on their way through the pool. */
typedef struct block {
    const fore_quantize_job *job;
    fore_dtype dtype;
    const unsigned char *from; /* [rows,K] */
    unsigned char *turned;     /* room for as many, when some piece is transposed or in another form */
    uint64_t rows, task_rows;
    unsigned char *q, *scales, *biases;
    sums *of;            /* [tasks] */
    fore_status *status; /* [tasks] */
} block;

fore_status fore_quantize_stream_step(const fore_quantize_stream *stream, fore_error *err) {
    if (stream->progress && stream->progress(stream->user, "quantize", stream->done, stream->plan->source_bytes))
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
static uint64_t affine_row(const fore_quantize_job *j) { return j->K / (uint64_t)j->group * 2; }

/* What the stored numbers stand for, against what they were made from. */
static sums compare(const block *b, uint64_t first, uint64_t rows) {
    const fore_quantize_job *j = b->job;
    const unsigned char *q = b->q + first * q_row(j), *scales = b->scales + first * affine_row(j);
    const unsigned char *biases = b->biases + first * affine_row(j), *from = b->from + first * j->K * fore_dtype_size(b->dtype);
    uint64_t group = (uint64_t)j->group;
    sums s = {0, 0};
    for (uint64_t g = 0; g < rows * (j->K / group); g++) {
        double scale = (double)load(j->affine, scales, g), bias = (double)load(j->affine, biases, g), error = 0, weights = 0;
        for (uint64_t k = g * group; k < (g + 1) * group; k++) {
            double w = (double)load(b->dtype, from, k);
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
    return (w->bits == 4 ? fore_quantize_rows_fitted : fore_quantize_rows)(w, q, scales, biases, b->dtype, from, NULL);
}

static void quantize_task(void *context, int index, int worker) {
    (void)worker;
    block *b = context;
    uint64_t first = (uint64_t)index * b->task_rows, rows = b->rows - first < b->task_rows ? b->rows - first : b->task_rows;
    const fore_quantize_job *j = b->job;
    fore_qweight w = shape_of(j, rows);
    b->status[index] = quantize_rows(b, &w, b->q + first * q_row(j), b->scales + first * affine_row(j),
                                     b->biases + first * affine_row(j), b->from + first * j->K * fore_dtype_size(b->dtype));
    if (!b->status[index]) b->of[index] = compare(b, first, rows);
}

/* Names the first row that could not be quantised, `base` rows into the tensor that it is from. */
static fore_status name_row(const block *b, const fore_quantize_piece *piece, uint64_t base, fore_error *err) {
    const fore_quantize_job *j = b->job;
    for (uint64_t r = 0; r < b->rows; r++) {
        fore_qweight w = shape_of(j, 1);
        const unsigned char *row = b->from + r * j->K * fore_dtype_size(b->dtype);
        if (!quantize_rows(b, &w, b->q, b->scales, b->biases, row)) continue;
        uint64_t k = 0;
        while (k < j->K && isfinite(load(b->dtype, row, k))) k++;
        if (k < j->K)
            return fore_fail(err, FORE_ERR_FORMAT, "quantize: %s: row %" PRIu64 ", column %" PRIu64 " is not a finite number: the "
                             "checkpoint is damaged; fetch this file of it again", piece->from->name, base + r, k);
        return fore_fail(err, FORE_ERR_FORMAT, "quantize: %s: row %" PRIu64 " has weights too large for 16-bit scales",
                         piece->from->name, base + r);
    }
    return fore_fail(err, FORE_ERR_BUG, "quantize: %s: rows fail together and not alone", piece->from->name);
}

static fore_status quantize_block(const fore_quantize_stream *st, block *b, const fore_quantize_piece *piece, uint64_t base,
                                  sums *total, fore_error *err) {
    int tasks = (int)((b->rows - 1) / b->task_rows + 1);
    fore_pool_run(st->pool, quantize_task, b, tasks);
    for (int i = 0; i < tasks; i++)
        if (b->status[i]) return name_row(b, piece, base, err);
    for (int i = 0; i < tasks; i++) {
        total->error += b->of[i].error;
        total->weights += b->of[i].weights;
    }
    return FORE_OK;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Rows r .. r+rows-1 of a piece, which lie together: in the file, or written or turned into the room given. NULL: a form has no
 * such numbers. */
static const unsigned char *piece_rows(const fore_quantize_job *j, const fore_quantize_piece *p, uint64_t r, uint64_t rows, void *room,
                                       fore_error *err) {
    size_t size = fore_dtype_size(p->from->dtype);
    if (p->form) {
        const fore_form_rows to = {.q = room};
        const char *problem = p->form->form->write(p->form, (size_t)(p->row + r), (size_t)rows, &to);
        if (!problem) return room;
        fore_fail(err, FORE_ERR_FORMAT, "quantize: %s: %s", p->from->name, problem);
        return NULL;
    }
    if (!p->across) return p->from->data + (p->row + r) * j->K * size;
    const unsigned char *from = p->from->data + (p->skip + p->row + r) * size;
    if (size == 4) fore_turn_32(room, from, j->K, p->across, rows);
    else fore_turn_16(room, from, j->K, p->across, rows);
    return room;
}

/* Whether rows lie in the file only turned, or in another form. */
static bool is_turned(const fore_quantize_job *j) {
    bool turned = false;
    for (size_t i = 0; i < j->piece_count; i++) turned = turned || j->pieces[i].across || j->pieces[i].form;
    return turned;
}

/* A matrix whose numbers stay as they are, but for their axes and their form. */
static fore_status copy_turned(fore_quantize_stream *st, const fore_quantize_job *j, const fore_folder_file *file, uint64_t at,
                               fore_error *err) {
    enum { ROWS = 64 };
    size_t row = j->K * fore_dtype_size(j->dtype);
    unsigned char *room = malloc(ROWS * row);
    fore_status s = room ? FORE_OK : fore_fail_nomem(err, j->name);
    for (size_t i = 0; i < j->piece_count; i++)
        for (uint64_t r = 0, rows; r < j->pieces[i].rows && !s; r += rows, at += rows * row) {
            rows = j->pieces[i].rows - r < ROWS ? j->pieces[i].rows - r : ROWS;
            s = fore_quantize_stream_step(st, err);
            const unsigned char *from = s ? NULL : piece_rows(j, &j->pieces[i], r, rows, room, err);
            if (!s) s = from ? fore_folder_write_at(file, at, from, (size_t)(rows * row), err) : FORE_ERR_FORMAT;
            st->done += rows * row;
        }
    free(room);
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
            fore_map_release(from, size);
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
        const fore_quantize_piece *p = &j->pieces[i];
        b->dtype = p->from->dtype;
        uint64_t row_bytes = j->K * fore_dtype_size(b->dtype);
        for (uint64_t r = 0; r < p->rows; r += b->rows) {
            b->rows = p->rows - r < most ? p->rows - r : most;
            b->from = piece_rows(j, p, r, b->rows, b->turned, err);
            fore_status s = b->from ? fore_quantize_stream_step(st, err) : FORE_ERR_FORMAT;
            if (!s) s = quantize_block(st, b, p, p->row + r, total, err);
            if (!s) s = write_block(file, b, at, written, err);
            if (s) return s;
            if (!p->across && !p->form) fore_map_release(b->from, (size_t)(b->rows * row_bytes));
            written += b->rows;
            st->done += b->rows * row_bytes;
        }
    }
    return FORE_OK;
}

static fore_status quantize_job(fore_quantize_stream *st, const fore_quantize_job *j, const fore_folder_file *file,
                                const places *at, double *error, fore_error *err) {
    uint64_t most = BLOCK_BYTES / 4 / j->K + 1; /* rows at a time */
    if (most > j->rows) most = j->rows;
    block b = {.job = j, .task_rows = TASK_WEIGHTS / j->K + 1};
    size_t tasks = (size_t)((most - 1) / b.task_rows + 1);
    b.q = malloc((size_t)(most * q_row(j)));
    b.scales = malloc((size_t)(most * affine_row(j)));
    b.biases = malloc((size_t)(most * affine_row(j)));
    b.of = malloc(tasks * sizeof *b.of);
    b.status = malloc(tasks * sizeof *b.status);
    b.turned = is_turned(j) ? malloc((size_t)(most * j->K) * fore_dtype_size(j->dtype)) : NULL;
    sums total = {0, 0};
    fore_status s = b.q && b.scales && b.biases && b.of && b.status && (b.turned || !is_turned(j)) ? FORE_OK : fore_fail_nomem(err, "rows to be quantised");
    if (!s) s = stream_rows(st, &b, most, file, at, &total, err);
    *error = total.weights > 0 ? sqrt(total.error / total.weights) : 0;
    free(b.q);
    free(b.scales);
    free(b.biases);
    free(b.of);
    free(b.status);
    free(b.turned);
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
