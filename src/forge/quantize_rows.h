/* Rows of a piece of a plan's matrix out of the source's files: as floats, or as the integers with their scales and biases that the
 * files have. Knows forms, and neither names nor output files. */
#ifndef FORE_FORGE_QUANTIZE_ROWS_H
#define FORE_FORGE_QUANTIZE_ROWS_H

#include "forge/quantize_plan.h"

/* Room for rows on their way, of one job; what the job does not need is NULL. Rows lie one behind the other. */
typedef struct fore_rows {
    unsigned char *floats;              /* [most,K] of the job's type, when some piece's rows do not lie in the file as they are */
    unsigned char *q, *scales, *biases; /* [most] as a form writes them */
    unsigned char *whole;               /* all rows of the largest transposed matrix that is in a form */
} fore_rows;

fore_status fore_rows_new(const fore_quantize_job *job, uint64_t most, fore_rows *out, fore_error *err);
void fore_rows_free(fore_rows *rows);

/* Whether the rows of a piece lie in the file as they are. */
bool fore_rows_lie(const fore_quantize_piece *piece);
/* Whether parts of a block of rows can be read apart: fore_rows_floats, by several threads. */
bool fore_rows_part(const fore_quantize_piece *piece);
/* Rows r .. r+count-1 of the piece as floats, to the place of row `at` of the room's floats. What is wrong with the numbers, or NULL. */
const char *fore_rows_floats(const fore_rows *rows, const fore_quantize_job *job, const fore_quantize_piece *piece, uint64_t r, uint64_t count,
                             uint64_t at);
/* The same rows, all of them integers that the form has: stored with the job's bits. to: where these rows go. `at`: the row of the room
 * that is free. */
const char *fore_rows_stored(const fore_rows *rows, const fore_quantize_job *job, const fore_quantize_piece *piece, uint64_t r, uint64_t count,
                             uint64_t at, const fore_form_rows *to);
/* Gives back the pages of the piece's rows, where they lie one behind the other; whole: of all of its matrix. */
void fore_rows_release(const fore_quantize_piece *piece, uint64_t r, uint64_t count, bool whole);

#endif
