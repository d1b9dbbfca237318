/* Counting what is no number, on a pool; see check_tensors.h. */
#include "forge/check_tensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/safetensors.h"
#include "kernels/half.h"
#include "model/gguf_blocks.h"

enum { PIECE_BYTES = 4 << 20, RUN = 64 };

/* How a float of some bits is laid out; exponent_bits 0: no float, looked at for zeros alone. */
typedef struct layout {
    const char *name;
    unsigned bits, mantissa_bits;
    uint64_t infinite; /* without the sign: above it are NaNs; UINT64_MAX: there is no infinity, and `nan` is the one NaN */
    uint64_t nan;
} layout;

static const layout layouts[] = {
    {"F64", 64, 52, 0x7ff0000000000000u, 0}, {"F32", 32, 23, 0x7f800000u, 0}, {"F16", 16, 10, 0x7c00u, 0},
    {"BF16", 16, 7, 0x7f80u, 0},             {"F8_E5M2", 8, 2, 0x7cu, 0},     {"F8_E4M3", 8, 3, UINT64_MAX, 0x7fu},
};

typedef struct piece {
    const fore_entry *entry;
    const layout *layout; /* NULL: bytes */
    const fore_gguf_type *blocks; /* not NULL: blocks of GGUF, looked at by the weights that they stand for */
    size_t at, size;      /* of its bytes */
    bool mapped;          /* they lie in the file's map; else in memory that a GGUF's tensor was put in order in */
    uint64_t nan, infinite;
    bool any;             /* some number is not 0 */
} piece;

static uint64_t load(const unsigned char *p, unsigned bytes) {
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++) v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static void look_at_bytes(piece *p, const unsigned char *data) {
    unsigned char any = 0;
    for (size_t i = 0; i < p->size; i++) any |= data[i];
    p->any = any != 0;
}

/* The common width, in a loop that the compiler makes vectors of. */
static bool is_plain_16(piece *p, const unsigned char *data) {
    unsigned infinite = (unsigned)p->layout->infinite, any = 0, bad = 0;
    for (size_t i = 0; i + 1 < p->size; i += 2) {
        unsigned v = fore_load_u16(data + i) & 0x7fffu;
        any |= v;
        bad |= v >= infinite;
    }
    p->any = any != 0;
    return !bad;
}

static void look_at_floats(piece *p, const unsigned char *data) {
    const layout *l = p->layout;
    unsigned bytes = l->bits / 8;
    uint64_t mask = (l->bits == 64 ? UINT64_MAX : ((uint64_t)1 << l->bits) - 1) >> 1;
    if (bytes == 2 && is_plain_16(p, data)) return;
    for (size_t i = 0; i + bytes <= p->size; i += bytes) {
        uint64_t v = load(data + i, bytes) & mask;
        p->any = p->any || v;
        if (l->infinite == UINT64_MAX) p->nan += v == l->nan;
        else if (v == l->infinite) p->infinite++;
        else if (v > l->infinite) p->nan++;
    }
}

static void look_at_blocks(piece *p, const unsigned char *data) {
    enum { MOST = 256 }; /* numbers in a block */
    float x[MOST];
    for (size_t at = 0; at + p->blocks->bytes <= p->size; at += p->blocks->bytes) {
        fore_gguf_dequantize(p->blocks, data + at, p->blocks->block, x);
        for (unsigned i = 0; i < p->blocks->block; i++) {
            p->any = p->any || x[i] != 0;
            if (isnan(x[i])) p->nan++;
            else if (isinf(x[i])) p->infinite++;
        }
    }
}

static void look_task(void *context, int index, int worker) {
    (void)worker;
    piece *p = (piece *)context + index;
    const unsigned char *data = p->entry->data + p->at;
    if (p->blocks) look_at_blocks(p, data);
    else if (p->layout) look_at_floats(p, data);
    else look_at_bytes(p, data);
    if (p->mapped) fore_map_release(data, p->size);
}

static fore_status run(fore_check_look *look, piece *pieces, fore_check_tensor *const *of, int count, fore_error *err) {
    fore_pool_run(look->pool, look_task, pieces, count);
    for (int i = 0; i < count; i++) {
        of[i]->nan += pieces[i].nan;
        of[i]->infinite += pieces[i].infinite;
        of[i]->zero = of[i]->zero && !pieces[i].any;
        look->done += pieces[i].size;
    }
    if (look->progress && look->progress(look->user, "check", look->done, look->total)) return fore_fail(err, FORE_ERR_CANCELLED, "cancelled while checking");
    return FORE_OK;
}

static bool lies_in(const fore_map *map, const unsigned char *p) {
    const uintptr_t first = (uintptr_t)map->data, at = (uintptr_t)p;
    return map->data && at >= first && at - first < map->size;
}

static const layout *layout_of(const fore_entry *e) {
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (!strcmp(layouts[i].name, e->dtype_name)) return &layouts[i];
    return NULL;
}

static fore_status describe(const fore_store *store, const fore_entry *e, fore_arena *arena, fore_check_tensor *t, fore_error *err) {
    const char *path = fore_store_file_path(store, e->file), *slash = strrchr(path, '/');
    if (slash) path = slash + 1;
    *t = (fore_check_tensor){.name = fore_arena_copy(arena, e->name, strlen(e->name)),
                             .dtype = fore_arena_copy(arena, e->dtype_name, strlen(e->dtype_name)),
                             .file = fore_arena_copy(arena, path, strlen(path)),
                             .dims = e->dims,
                             .zero = e->bytes > 0};
    memcpy(t->shape, e->shape, sizeof t->shape);
    return t->name && t->dtype && t->file ? FORE_OK : fore_fail_nomem(err, "the list of tensors");
}

fore_status fore_check_tensors(fore_check_look *look, const fore_store *store, fore_arena *arena, fore_check_tensor *tensors,
                               fore_error *err) {
    piece pieces[RUN];
    fore_check_tensor *of[RUN];
    int count = 0;
    for (size_t i = 0; i < fore_store_count(store); i++) {
        const fore_entry *e = fore_store_at(store, i);
        fore_status s = describe(store, e, arena, &tensors[i], err);
        const fore_gguf_type *blocks = fore_gguf_find_blocks(e->dtype_name);
        const size_t most = blocks ? PIECE_BYTES / blocks->bytes * blocks->bytes : PIECE_BYTES;
        for (size_t at = 0; at < e->bytes && !s;) {
            size_t size = e->bytes - at < most ? e->bytes - at : most;
            of[count] = &tensors[i];
            pieces[count++] = (piece){.entry = e, .layout = layout_of(e), .blocks = blocks, .at = at, .size = size,
                                      .mapped = lies_in(fore_store_file_map(store, e->file), e->data)};
            at += size;
            if (count < RUN) continue;
            s = run(look, pieces, of, count, err);
            count = 0;
        }
        if (s) return s;
    }
    return count ? run(look, pieces, of, count, err) : FORE_OK;
}
