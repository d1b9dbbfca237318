/* Matrices of GGUF files: blocks of Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 and IQ4_NL, which are panels of groups of 32 with f16 scales, exactly;
 * blocks of Q4_K, Q5_K and Q6_K, whose scales are products that 16 bits do not hold, as rows of f32; and floats whose rows or columns
 * lie in another order than the checkpoint's (fore_order), as rows of the same floats. */
#include <string.h>

#include "kernels/quant.h"
#include "model/form_list.h"
#include "model/gguf_blocks.h"

enum { COLUMNS, BEGIN, SIZE, INNER, OUTER_STRIDE, INNER_STRIDE }; /* own: the order; SIZE 0: as it is */
enum { MOST = 256 };                                              /* numbers in a block */

static bool recognise(const fore_store *store, const fore_entry *e) {
    (void)store;
    return e->order || fore_gguf_find_blocks(e->dtype_name);
}

/* Floats are blocks of one number. */
static const fore_gguf_type *type_of(const fore_entry *e) {
    const fore_gguf_type *blocks = fore_gguf_find_blocks(e->dtype_name);
    if (blocks) return blocks;
    return fore_gguf_find_type(!strcmp(e->dtype_name, "F32") ? FORE_GGUF_TYPE_F32 : !strcmp(e->dtype_name, "F16") ? FORE_GGUF_TYPE_F16 : FORE_GGUF_TYPE_BF16);
}

/* A number's bits in the files, scales aside. */
static int bits_of(const fore_gguf_type *type) {
    if (type->block == 1) return (int)type->bytes * 8;
    return type->name[0] == 'I' ? type->name[2] - '0' : type->name[1] - '0'; /* IQ4_NL, Q5_K */
}

static fore_order order_of(const fore_form_matrix *m) {
    const int *n = m->own;
    return (fore_order){n[COLUMNS] != 0, n[BEGIN], n[SIZE], n[INNER], n[OUTER_STRIDE], n[INNER_STRIDE]};
}

static const char *const reordered[] = {
    [FORE_DTYPE_F32] = "F32 in another order", [FORE_DTYPE_F16] = "F16 in another order", [FORE_DTYPE_BF16] = "BF16 in another order"};

static fore_status read(const fore_store *store, const fore_stored_settings *settings, fore_form_matrix *m, fore_error *err) {
    (void)store;
    (void)settings;
    const fore_entry *e = m->part[0];
    const fore_order *o = e->order;
    const fore_gguf_type *type = type_of(e);
    if (e->dims != 2 && e->dims != 3) return fore_form_refuse_shape(e, "a matrix, or several of one shape", err);
    m->matrices = e->dims == 3 ? (size_t)e->shape[0] : 1;
    m->rows = (size_t)e->shape[e->dims - 2];
    m->K = (size_t)e->shape[e->dims - 1];
    if (o) memcpy(m->own, (const int[]){o->columns, o->begin, o->size, o->inner, o->outer_stride, o->inner_stride}, 6 * sizeof(int));
    bool whole = !o || !o->columns || (o->begin % FORE_GGUF_GROUP == 0 && o->size % FORE_GGUF_GROUP == 0);
    m->bits = whole ? fore_gguf_affine_bits(type) : 0; /* else a group would have numbers of several blocks */
    m->group = m->bits ? FORE_GGUF_GROUP : 0;
    m->label = type->block > 1 ? type->name : reordered[type->dtype];
    m->file_bits = bits_of(type);
    m->file_group = type->block == 1 ? 0 : type->id == FORE_GGUF_TYPE_Q6_K ? 16 : FORE_GGUF_GROUP;
    m->dtype = m->bits ? FORE_DTYPE_F16 : type->block > 1 ? FORE_DTYPE_F32 : type->dtype;
    return FORE_OK;
}

/* One row as panels' stored form. */
static bool write_affine(const fore_gguf_type *type, const fore_form_matrix *m, const fore_order *columns, const unsigned char *row,
                         unsigned char *q, unsigned char *scales, unsigned char *biases) {
    bool good = true;
    for (size_t b = 0; b < m->K / FORE_GGUF_GROUP; b++) {
        fore_gguf_affine block;
        size_t from = columns ? fore_order_place(columns, b * FORE_GGUF_GROUP) / FORE_GGUF_GROUP : b;
        good &= fore_gguf_unpack(type, row + from * type->bytes, &block);
        if (!good) return false;
        for (int i = 0; i < FORE_GGUF_GROUP && m->bits == 8; i++) *q++ = block.q[i];
        for (int i = 0; i < FORE_GGUF_GROUP && m->bits == 4; i += 2) *q++ = (unsigned char)(block.q[i] | block.q[i + 1] << 4);
        scales[2 * b] = (unsigned char)block.scale;
        scales[2 * b + 1] = (unsigned char)(block.scale >> 8);
        biases[2 * b] = (unsigned char)block.bias;
        biases[2 * b + 1] = (unsigned char)(block.bias >> 8);
    }
    return true;
}

/* One row as floats: f32 out of blocks, else the file's own. */
static bool write_floats(const fore_gguf_type *type, const fore_form_matrix *m, const fore_order *columns, const unsigned char *row,
                         unsigned char *to) {
    const size_t size = fore_dtype_size(m->dtype);
    float block[MOST];
    bool good = true;
    size_t held = SIZE_MAX;
    if (type->block == 1 && !columns) {
        memcpy(to, row, m->K * size);
        return true;
    }
    for (size_t k = 0; k < m->K; k++) {
        size_t from = columns ? fore_order_place(columns, k) : k;
        if (type->block == 1) {
            memcpy(to + k * size, row + from * size, size);
            continue;
        }
        if (from / type->block != held) {
            held = from / type->block;
            fore_gguf_dequantize(type, row + held * type->bytes, type->block, block);
        }
        float x = block[from % type->block];
        good &= x - x == 0; /* neither infinite nor no number */
        memcpy(to + k * size, &x, size);
    }
    return good;
}

static const char *write(const fore_form_matrix *m, size_t row0, size_t rows, const fore_form_rows *to) {
    const fore_gguf_type *type = type_of(m->part[0]);
    const fore_order order = order_of(m), *columns = order.size && order.columns ? &order : NULL;
    const size_t bytes = m->K / type->block * type->bytes, groups = m->K / FORE_GGUF_GROUP;
    bool good = true;
    for (size_t r = 0; r < rows && good; r++) {
        size_t n = row0 + r, at = n % m->rows;
        if (order.size && !order.columns) at = fore_order_place(&order, at);
        const unsigned char *row = m->part[0]->data + (n / m->rows * m->rows + at) * bytes;
        if (m->bits)
            good = write_affine(type, m, columns, row, to->q + r * (m->K / 8 * (size_t)m->bits), to->scales + r * 2 * groups,
                                to->biases + r * 2 * groups);
        else
            good = write_floats(type, m, columns, row, to->q + r * m->K * fore_dtype_size(m->dtype));
    }
    return good ? NULL : "a scale is not finite, or too large";
}

const fore_form fore_form_gguf = {.name = "GGUF", .version = 1, .by_rows = true, .recognise = recognise, .read = read, .write = write};
