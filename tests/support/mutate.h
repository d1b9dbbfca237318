/* Broken files for tests: what a checkpoint's file becomes when a part of it says something else, by its structure (a field, a
 * length, an entry) or by its bytes. The same dice make the same file. Failures end the test (cmocka). */
#ifndef FORE_TESTS_MUTATE_H
#define FORE_TESTS_MUTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dice {
    uint64_t state;
} dice;
dice dice_of(uint64_t seed, uint64_t number); /* independent of those of other seeds and numbers */
uint32_t dice_roll(dice *d, size_t below);    /* 0 when below is 0 */

typedef struct mutant {
    unsigned char *data; /* owned: mutant_free */
    size_t size;
    bool same;     /* it says the same as the original */
    char what[256]; /* was done to it */
} mutant;
void mutant_free(mutant *m);
void mutant_says(mutant *m, const char *format, ...) __attribute__((format(printf, 2, 3))); /* more of `what` */
/* A mutant of a copy of data, with room for `spare` bytes more. */
void mutant_copy(mutant *m, const void *data, size_t size, size_t spare);

/* Bytes changed, put in, taken out, or the end cut off. */
void mutate_bytes(dice *d, const void *data, size_t size, mutant *out);
/* A place of a JSON text, found from the root section by section: another value, another name, none, one more; or the text. */
void mutate_json(dice *d, const void *data, size_t size, mutant *out);
/* Value by value: place step % places of the JSON text gets one of the values that numbers are wrong with. Steps up to
 * mutate_json_steps try each value in each place. */
void mutate_json_value(size_t step, const void *data, size_t size, mutant *out);
size_t mutate_json_steps(const void *data, size_t size);
/* The length, the header's entries (types, shapes, offsets, names), tensors' numbers, the end. `dear`: names that hold one of these
 * words are taken more often; ended by NULL. */
void mutate_safetensors(dice *d, const void *data, size_t size, const char *const *dear, mutant *out);
/* Counts, lengths, types and values of the metadata, the tensors' entries, blocks, alignment, the end. */
void mutate_gguf(dice *d, const void *data, size_t size, mutant *out);

/* Without the keys of the list (ended by NULL), and with `count` further ones, as the format writes them. */
void mutate_gguf_keys(const void *data, size_t size, const char *const *without, const unsigned char *more, size_t more_size, size_t count,
                      mutant *out);

#endif
