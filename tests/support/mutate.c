/* Dice, and changes that need no idea of a file's structure; see mutate.h. */
#include "support/mutate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint64_t next(dice *d) { /* splitmix64 */
    uint64_t z = d->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

dice dice_of(uint64_t seed, uint64_t number) {
    dice d = {seed};
    d.state = next(&d) ^ number * 0xd1342543de82ef95u;
    return d;
}

uint32_t dice_roll(dice *d, size_t below) { return below ? (uint32_t)((next(d) >> 32) % below) : 0; }

void mutant_free(mutant *m) {
    free(m->data);
    *m = (mutant){0};
}

void mutant_says(mutant *m, const char *format, ...) {
    size_t used = strlen(m->what);
    va_list args;
    va_start(args, format);
    vsnprintf(m->what + used, sizeof m->what - used, format, args);
    va_end(args);
}

void mutant_copy(mutant *m, const void *data, size_t size, size_t spare) {
    m->data = malloc(size + spare + 1);
    assert_non_null(m->data);
    if (size) memcpy(m->data, data, size);
    m->size = size;
}

void mutate_bytes(dice *d, const void *data, size_t size, mutant *out) {
    static const unsigned char edges[] = {0, 1, 0x7f, 0x80, 0xff, '"', '{', '}', '[', ']', ',', '-', '9', '\n'};
    mutant_copy(out, data, size, 64);
    uint32_t at = dice_roll(d, size), n = 1 + dice_roll(d, 32);
    if (n > size - at) n = (uint32_t)(size - at);
    switch (dice_roll(d, 5)) {
    case 0:
        for (int i = 0; i < 8; i++) out->data[dice_roll(d, size)] ^= (unsigned char)(1u << dice_roll(d, 8));
        mutant_says(out, "8 bits turned");
        break;
    case 1:
        for (uint32_t i = 0; i < n; i++) out->data[at + i] = edges[dice_roll(d, sizeof edges)];
        mutant_says(out, "%u bytes changed at %u", n, at);
        break;
    case 2:
        memmove(out->data + at + n, out->data + at, size - at);
        for (uint32_t i = 0; i < n; i++) out->data[at + i] = edges[dice_roll(d, sizeof edges)];
        out->size += n;
        mutant_says(out, "%u bytes put in at %u", n, at);
        break;
    case 3:
        memmove(out->data + at, out->data + at + n, size - at - n);
        out->size -= n;
        mutant_says(out, "%u bytes taken out at %u", n, at);
        break;
    default:
        out->size = dice_roll(d, 3) ? at : dice_roll(d, size < 17 ? size : 17);
        mutant_says(out, "cut to %zu bytes", out->size);
    }
}
