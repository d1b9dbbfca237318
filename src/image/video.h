/* Video: which of its frames the model sees, how large, and when; frames to the patches of the vision tower. Reference:
 * transformers video_processing_qwen3_vl.py (Qwen3VLVideoProcessor) and _calculate_timestamps of processing_qwen3_vl.py; for
 * Qwen2.5-VL video_processing_qwen2_vl.py (Qwen2VLVideoProcessor) and processing_qwen2_5_vl.py. */
#ifndef FORE_IMAGE_VIDEO_H
#define FORE_IMAGE_VIDEO_H

#include "image/image.h"

/* Which class of the reference takes the frames. */
typedef enum fore_video_kind {
    FORE_VIDEO_QWEN3,  /* Qwen3VLVideoProcessor: evenly from the first to the last; the frames share one volume */
    FORE_VIDEO_QWEN2,  /* Qwen2VLVideoProcessor: whole temporal patches, from equal parts; each frame is resized as a picture is */
    FORE_VIDEO_UNKNOWN /* one that the settings name and nobody here knows */
} fore_video_kind;

/* Settings of video_processor in processor_config.json, else of video_preprocessor_config.json, else of
 * preprocessor_config.json. */
typedef struct fore_video_processor {
    fore_video_kind kind;
    char class_name[64];        /* of FORE_VIDEO_UNKNOWN, for messages */
    fore_processor frame;       /* min_pixels and max_pixels: FORE_VIDEO_QWEN3 volumes, of all frames together; FORE_VIDEO_QWEN2 areas */
    double fps;                 /* frames a second that are taken; 0: it does not say */
    int num_frames;             /* how many are taken instead; 0: it does not say */
    int min_frames, max_frames; /* how many are taken, whatever the fps; but no more than there are */
    bool samples;               /* false: every frame is taken, unless the caller says how many */
    bool cap_frames;            /* FORE_VIDEO_QWEN3: a frame has at most max_tokens tokens; FORE_VIDEO_QWEN2: all have 0.9 of them together */
    int max_tokens;
} fore_video_processor;
/* The class is that of video_processor_type, else of image_processor_type, else the family's (NULL: Qwen3.5), as in the reference;
 * missing keys have its defaults. A folder with none of the files gets the family's published values. */
fore_status fore_video_processor_read(const char *dir, const fore_processor_family *family, fore_video_processor *out, fore_error *err);

/* The frames to take of `total` at `fps`, with `wanted` a second (0: as many as the processor says): increasing *indices [*count],
 * owned by the caller (free). FORE_ERR_INVALID: an fps that is no number above 0, too few frames, a processor that does not say how
 * many; FORE_ERR_FORMAT: one that says it twice. */
fore_status fore_video_sample(const fore_video_processor *processor, size_t total, double fps, double wanted, size_t **indices,
                              size_t *count, fore_error *err);
/* Size of each of `frames` frames of height x width for the tower. FORE_ERR_INVALID: none, or (FORE_VIDEO_QWEN3) fewer than a temporal
 * patch has. */
fore_status fore_video_size(const fore_video_processor *processor, size_t frames, int height, int width, const char *name,
                            int *out_height, int *out_width, fore_error *err);
/* Temporal patches of `frames` frames: the last one is filled up with the last frame. */
size_t fore_video_steps(const fore_video_processor *processor, size_t frames);
/* Seconds of each temporal patch: halfway between its first and last frame. out [fore_video_steps]. */
void fore_video_step_times(const fore_video_processor *processor, const double *times, size_t frames, double *out);

/* The frames of a video that the model sees. */
typedef struct fore_frames {
    fore_pixels *items; /* [count] all of one size, as the tower takes them; owned */
    double *times;      /* [count] seconds; owned */
    size_t count;
    double patch_seconds; /* of a temporal patch: its frames over the frames a second that were taken; >= 0 */
} fore_frames;
void fore_frames_free(fore_frames *frames);

/* Takes and resizes the frames of a video that is given as pictures or as a file. Stage "video" of progress counts frames.
 * FORE_ERR_INVALID: frames of different sizes, too few, times or fps that make no sense; FORE_ERR_UNSUPPORTED: a file, and
 * the library was built without FFmpeg's; FORE_ERR_LIMIT: more than `tokens` of them for the model (0: any number), said after the first
 * frame; else what the decoder says, with the frame's name. */
fore_status fore_frames_take(const fore_video_processor *processor, const fore_video *video, const char *name, const fore_limits *limits,
                             size_t tokens, fore_progress progress, void *user, fore_frames *out, fore_error *err);
/* pixel_values of one temporal patch [h*w, 3*temporal*patch*patch] in merge order and its grid (1,h,w); *patches is owned
 * (free). */
fore_status fore_video_patches(const fore_video_processor *processor, const fore_frames *frames, size_t step, float **patches,
                               int grid[3], fore_error *err);
/* BLAKE2b of the frames first .. first+count-1 (past the last one: the last one). */
void fore_frames_digest(const fore_frames *frames, size_t first, size_t count, uint8_t digest[FORE_DIGEST]);

/* ---- files: video_ffmpeg.c, or video_none.c without FFmpeg's libraries ----------------------------------------- */

typedef struct fore_video_reader fore_video_reader;
/* Opens video->path or video->data. *total frames at *fps on average, both by what the file holds, not what it announces.
 * Nothing but that one file is read. */
fore_status fore_video_reader_open(const fore_video *video, const char *name, const fore_limits *limits, fore_video_reader **out,
                                   size_t *total, double *fps, fore_error *err);
/* Decodes the next frame; out (NULL: it is passed over) gets it as RGB, upright. FORE_ERR_FORMAT: there is none, or it is
 * damaged. */
fore_status fore_video_reader_next(fore_video_reader *reader, fore_pixels *out, fore_error *err);
void fore_video_reader_close(fore_video_reader *reader); /* may be NULL */

#endif
