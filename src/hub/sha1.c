/* SHA-1; see sha1.h. */
#include "hub/sha1.h"

#include <string.h>

static uint32_t turn(uint32_t x, int n) { return x << n | x >> (32 - n); }

void fore_sha1_init(fore_sha1 *h) {
    *h = (fore_sha1){.state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}};
}

static void add_block(uint32_t state[5], const uint8_t *p) {
    uint32_t w[80], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (int t = 0; t < 16; t++, p += 4) w[t] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    for (int t = 16; t < 80; t++) w[t] = turn(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    for (int t = 0; t < 80; t++) {
        uint32_t f, k;
        if (t < 20) f = (b & c) | (~b & d), k = 0x5a827999;
        else if (t < 40) f = b ^ c ^ d, k = 0x6ed9eba1;
        else if (t < 60) f = (b & c) | (b & d) | (c & d), k = 0x8f1bbcdc;
        else f = b ^ c ^ d, k = 0xca62c1d6;
        uint32_t next = turn(a, 5) + f + e + k + w[t];
        e = d, d = c, c = turn(b, 30), b = a, a = next;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e;
}

void fore_sha1_update(fore_sha1 *h, const void *data, size_t size) {
    const uint8_t *p = data;
    while (size) {
        size_t at = (size_t)(h->size % 64), room = 64 - at, n = size < room ? size : room;
        if (n == 64) {
            add_block(h->state, p);
        } else {
            memcpy(h->block + at, p, n);
            if (n == room) add_block(h->state, h->block);
        }
        h->size += n;
        p += n;
        size -= n;
    }
}

void fore_sha1_final(fore_sha1 *h, uint8_t digest[20]) {
    static const uint8_t padding[64] = {0x80};
    uint64_t bits = h->size * 8;
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
    fore_sha1_update(h, padding, (size_t)(119 - h->size % 64) % 64 + 1);
    fore_sha1_update(h, length, sizeof length);
    for (int i = 0; i < 20; i++) digest[i] = (uint8_t)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}
