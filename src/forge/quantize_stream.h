/* The numbers of a plan's files, streamed: a few megabytes of rows at a time are read from the source, quantised on a pool,
 * written to their places and let go. Knows neither the names of modules nor what was finished before. */
#ifndef FORE_FORGE_QUANTIZE_STREAM_H
#define FORE_FORGE_QUANTIZE_STREAM_H

#include "base/pool.h"
#include "forge/folder.h"
#include "forge/quantize_plan.h"

typedef struct fore_quantize_stream {
    const fore_quantize_plan *plan;
    const fore_folder *folder;
    fore_pool *pool;
    const char *stage; /* what this work is called in progress and messages; static */
    fore_progress progress; /* bytes of the source as floats; may be NULL */
    void *user;
    uint64_t done;
    double *errors; /* [plan->count], filled: relative RMS error of each quantised matrix, else 0 */
} fore_quantize_stream;

/* Writes one file of the plan, whole or not at all. FORE_ERR_FORMAT names the tensor and row of a weight that is not finite;
 * FORE_ERR_CANCELLED when progress says so. */
fore_status fore_quantize_stream_file(fore_quantize_stream *stream, size_t file, fore_error *err);
/* Reports progress; FORE_ERR_CANCELLED when it says so. */
fore_status fore_quantize_stream_step(const fore_quantize_stream *stream, fore_error *err);

#endif
