/* What AMX reaches: products of int8 tiles that stay where they are, 16 rows by 16 outputs by 64; see roofline.h. */
#include "kernels/roofline_avx512.h"

enum { TILE = 1024, OPERATIONS = 4 * 2 * 16 * 16 * 64 };

static uint32_t roof_integer(size_t rounds) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    _Alignas(64) uint8_t data[TILE];
    _Alignas(64) uint32_t sums[TILE / 4], all = 0;
    for (int i = 0; i < 8; i++) config.bytes[i] = 64, config.rows[i] = 16;
    for (uint32_t i = 0; i < TILE; i++) data[i] = (uint8_t)(i * 2654435761u >> 13); /* zeros cost less */
    __asm__ volatile("" : : "r"(&config), "r"(data) : "memory"); /* which the compiler does not know that tiles read */
    _tile_loadconfig(&config);
    _tile_loadd(4, data, 64);
    _tile_loadd(5, data, 64);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t r = 0; r < rounds; r++) {
        _tile_dpbsud(0, 4, 5);
        _tile_dpbsud(1, 4, 5);
        _tile_dpbsud(2, 4, 5);
        _tile_dpbsud(3, 4, 5);
    }
    /* They are all the same. */
    _tile_stored(0, sums, 64);
    __asm__ volatile("" : : "r"(sums) : "memory");
    _tile_release();
    for (int i = 0; i < TILE / 4; i++) all += sums[i];
    return all;
}

const fore_roof fore_roof_amx = {roof_read, roof_float, roof_integer, ROOF_SUMS * 16 * 2, OPERATIONS};
