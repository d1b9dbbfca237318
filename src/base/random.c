/* Philox4x32-10; see random.h. */
#include "base/random.h"

void fore_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t a = counter[0], b = counter[1], c = counter[2], d = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p = (uint64_t)0xD2511F53u * a, q = (uint64_t)0xCD9E8D57u * c;
        a = (uint32_t)(q >> 32) ^ b ^ k0;
        c = (uint32_t)(p >> 32) ^ d ^ k1;
        b = (uint32_t)q;
        d = (uint32_t)p;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
}

void fore_random_block(uint64_t seed, uint64_t position, uint32_t block, uint32_t stream, uint32_t out[4]) {
    uint32_t counter[4] = {block, stream, (uint32_t)position, (uint32_t)(position >> 32)};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    fore_philox(counter, key, out);
}

uint32_t fore_random_bits(uint64_t seed, uint64_t position, uint32_t index, uint32_t stream) {
    uint32_t out[4];
    fore_random_block(seed, position, index / 4, stream, out);
    return out[index % 4];
}
