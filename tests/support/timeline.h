/* Prompts from golden files, and everything that a session's state holds as one run of bytes, for memcmp. */
#ifndef FORE_TESTS_TIMELINE_H
#define FORE_TESTS_TIMELINE_H

#include "decode/session.h"
#include "support/golden.h"

/* A prompt of ids and prepared pictures and videos; borrows from its golden file until closed. */
typedef struct prompt {
    golden g;
    fore_image images[8];
    size_t image_count;
    fore_video videos[4];
    size_t video_count;
    const int32_t *ids;
    size_t n;
} prompt;

void prompt_open(prompt *p, const char *path); /* fails the test when it cannot be opened */
void prompt_close(prompt *p);
/* A request as fore_request_init leaves it, with the prompt; borrows from it. */
void prompt_request(fore_request *r, const fore_model *model, const prompt *p);

/* Key/value rows in use, recurrent and convolution state; owned by the caller (free). */
unsigned char *timeline_bytes(const fore_session *s, size_t *size);

#endif
