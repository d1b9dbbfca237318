/* From a request to what the trunk can prefill: rendered, tokenised, pictures measured, pads expanded. */
#ifndef FORE_DECODE_PREPARE_H
#define FORE_DECODE_PREPARE_H

#include "decode/model.h"
#include "multimodal/splice.h"

typedef struct fore_prepared {
    int32_t *ids; /* [n] expanded; owned */
    size_t n;
    int (*grids)[3];                     /* [images]; owned */
    uint8_t (*digests)[FORE_DIGEST];     /* [images]; owned */
    size_t *pads;                        /* [images] merged patches; owned */
    size_t *starts;                      /* [images] index of the first pad in ids; owned */
    size_t images;
} fore_prepared;

/* limit: tokens that fit (0: any number). Pictures are decoded for their digest and grid only. */
fore_status fore_prepare(const fore_model *model, const fore_request *request, size_t limit, fore_prepared *out, fore_error *err);
void fore_prepared_free(fore_prepared *prepared);
/* Patches of picture `index` of the request, owned by the caller (free). */
fore_status fore_prepare_patches(const fore_model *model, const fore_request *request, size_t index, float **patches, fore_error *err);

#endif
