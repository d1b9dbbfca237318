/* From a request to what the trunk can prefill: rendered, tokenised, pictures measured, videos sampled, pads expanded. Each
 * temporal patch of a video is a picture here. */
#ifndef FORE_DECODE_PREPARE_H
#define FORE_DECODE_PREPARE_H

#include "decode/model.h"
#include "image/video.h"
#include "multimodal/splice.h"

/* Where the pixels of a picture are. */
typedef struct fore_origin {
    size_t index; /* in images or videos of the request */
    size_t step;  /* of the video: which temporal patch */
    bool video;
} fore_origin;

typedef struct fore_prepared {
    int32_t *ids; /* [n] expanded; owned */
    size_t n;
    int (*grids)[3];                     /* [images]; owned */
    uint8_t (*digests)[FORE_DIGEST];     /* [images]; owned */
    size_t *pads;                        /* [images] merged patches; owned */
    size_t *starts;                      /* [images] index of the first pad in ids; owned */
    fore_origin *origins;                /* [images]; owned */
    fore_mrope_time *times;              /* [images]; owned; NULL: the family has no absolute time */
    size_t images;                       /* pictures and temporal patches, in the order of the prompt */
    fore_frames *videos;                 /* [video_count] the frames that are seen (none of a video of patches); owned */
    size_t video_count;
    uint64_t picture_count, video_frames, picture_pads, video_pads;
} fore_prepared;

/* limit: tokens that fit (0: any number). Pictures are decoded for their digest and grid only; of videos the frames are kept that
 * are seen, in the tower's size. */
fore_status fore_prepare(const fore_model *model, const fore_request *request, size_t limit, fore_prepared *out, fore_error *err);
void fore_prepared_free(fore_prepared *prepared);
/* Patches of picture `index` of the prepared prompt, owned by the caller (free). */
fore_status fore_prepare_patches(const fore_model *model, const fore_request *request, const fore_prepared *prepared, size_t index,
                                 float **patches, fore_error *err);

#endif
