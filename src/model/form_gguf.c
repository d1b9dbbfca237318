/* Matrices of GGUF files: blocks of Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 and IQ4_NL, which are panels of groups of 32 with f16 scales, exactly;
 * blocks of Q4_K, Q5_K and Q6_K, whose scales are products: panels with these products, or, where columns lie in another order that
 * parts the blocks, with f32 scales; and floats whose rows or columns lie in another order than the checkpoint's (fore_order), as rows
 * of the same floats. Blocks whose columns are parted even within a group become rows of f32. */
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

/* Whether columns that lie in another order keep together in runs of n. */
static bool is_whole(const fore_order *o, int n) { return !o || !o->columns || (o->begin % n == 0 && o->size % n == 0); }

static void choose_panels(fore_form_matrix *m, const fore_gguf_type *type) {
    const fore_order *o = m->part[0]->order;
    const int part = fore_gguf_part(type), group = part ? part : FORE_GGUF_GROUP;
    const int bits = part ? fore_gguf_part_bits(type) : fore_gguf_affine_bits(type);
    m->dtype = type->block > 1 ? FORE_DTYPE_F32 : type->dtype;
    if (!bits || !is_whole(o, group)) return; /* a group would have numbers of several blocks */
    m->bits = bits;
    m->group = group;
    if (!part) m->dtype = FORE_DTYPE_F16;
    else if (is_whole(o, FORE_GGUF_SUPER)) m->dtype = part == 16 ? FORE_DTYPE_I8 : FORE_DTYPE_U8;
}

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
    choose_panels(m, type);
    m->label = type->block > 1 ? type->name : reordered[type->dtype];
    m->file_bits = bits_of(type);
    m->file_group = type->block == 1 ? 0 : fore_gguf_part(type) ? fore_gguf_part(type) : FORE_GGUF_GROUP;
    return FORE_OK;
}

/* Whole numbers as q of panels; what comes behind them. */
static unsigned char *put_q(unsigned char *to, int bits, const uint8_t *q, size_t count) {
    if (bits == 8) memcpy(to, q, count);
    for (size_t i = 0; bits == 4 && i < count; i += 8) {
        uint64_t x = 0; /* a nibble in each byte */
        for (unsigned j = 0; j < 8; j++) x |= (uint64_t)q[i + j] << 8 * j;
        x = (x | x >> 4) & 0x00ff00ff00ff00ffu;
        x = (x | x >> 8) & 0x0000ffff0000ffffu;
        x |= x >> 16;
        for (size_t j = 0; j < 4; j++) to[i / 2 + j] = (unsigned char)(x >> 8 * j);
    }
    return to + count * (size_t)bits / 8;
}

static void put_half(unsigned char *to, uint16_t h) {
    to[0] = (unsigned char)h;
    to[1] = (unsigned char)(h >> 8);
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
        q = put_q(q, m->bits, block.q, FORE_GGUF_GROUP);
        put_half(scales + 2 * b, block.scale);
        put_half(biases + 2 * b, block.bias);
    }
    return true;
}

/* One row of a K type as panels' stored form: with scales that are products, a block at a time. */
static bool write_products(const fore_gguf_type *type, const fore_form_matrix *m, const fore_order *columns, const unsigned char *row,
                           unsigned char *q, unsigned char *scales, unsigned char *biases) {
    const size_t parts = FORE_GGUF_SUPER / (size_t)m->group;
    for (size_t b = 0; b < m->K / FORE_GGUF_SUPER; b++) {
        fore_gguf_products block;
        size_t from = columns ? fore_order_place(columns, b * FORE_GGUF_SUPER) / FORE_GGUF_SUPER : b;
        if (!fore_gguf_unpack_products(type, row + from * type->bytes, &block)) return false;
        q = put_q(q, m->bits, block.q, FORE_GGUF_SUPER);
        put_half(scales, block.step);
        put_half(biases, block.base);
        memcpy(scales + 2, block.u, parts);
        memcpy(biases + 2, block.v, parts);
        scales += 2 + parts;
        biases += 2 + parts;
    }
    return true;
}

/* The same with scales of f32, a group at a time. */
static bool write_wide(const fore_gguf_type *type, const fore_form_matrix *m, const fore_order *columns, const unsigned char *row,
                       unsigned char *q, unsigned char *scales, unsigned char *biases) {
    const size_t group = (size_t)m->group;
    fore_gguf_products block;
    size_t held = SIZE_MAX;
    for (size_t k = 0; k < m->K; k += group, scales += sizeof(float), biases += sizeof(float)) {
        size_t from = columns ? fore_order_place(columns, k) : k, in = from % FORE_GGUF_SUPER;
        if (from / FORE_GGUF_SUPER != held) {
            held = from / FORE_GGUF_SUPER;
            if (!fore_gguf_unpack_products(type, row + held * type->bytes, &block)) return false;
        }
        float affine[2];
        fore_gguf_part_affine(type, &block, in / group, &affine[0], &affine[1]);
        q = put_q(q, m->bits, block.q + in, group);
        memcpy(scales, &affine[0], sizeof(float));
        memcpy(biases, &affine[1], sizeof(float));
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
    const size_t bytes = m->K / type->block * type->bytes;
    const fore_qweight one = {.bits = m->bits, .group = m->group, .N = 1, .K = (int)m->K, .dtype = m->dtype};
    const size_t q_row = m->bits ? fore_qweight_stored_q(&one) : 0, affine_row = m->bits ? fore_qweight_stored_affine(&one) : 0;
    bool good = true;
    for (size_t r = 0; r < rows && good; r++) {
        size_t n = row0 + r, at = n % m->rows;
        if (order.size && !order.columns) at = fore_order_place(&order, at);
        const unsigned char *row = m->part[0]->data + (n / m->rows * m->rows + at) * bytes;
        if (!m->bits) {
            good = write_floats(type, m, columns, row, to->q + r * m->K * fore_dtype_size(m->dtype));
            continue;
        }
        unsigned char *q = to->q + r * q_row, *scales = to->scales + r * affine_row, *biases = to->biases + r * affine_row;
        if (!fore_gguf_part(type)) good = write_affine(type, m, columns, row, q, scales, biases);
        else if (m->dtype == FORE_DTYPE_F32) good = write_wide(type, m, columns, row, q, scales, biases);
        else good = write_products(type, m, columns, row, q, scales, biases);
    }
    return good ? NULL : "a scale is not finite, or too large";
}

const fore_form fore_form_gguf = {.name = "GGUF", .version = 2, .by_rows = true, .recognise = recognise, .read = read, .write = write};
