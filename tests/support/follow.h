/* Asks the draft head for drafts at every place of a greedy answer, without taking them: the answer itself is made one token at
 * a time. Failures end the test (cmocka). */
#ifndef FORE_TESTS_FOLLOW_H
#define FORE_TESTS_FOLLOW_H

#include <cjson/cJSON.h>

#include "decode/session.h"

enum { FOLLOW_DEPTH = 3, FOLLOW_MOST = 256 };

/* A prompt as {"images": [names], "question": text}; what it points to lives here. */
typedef struct follow_prompt {
    fore_request r;
    char *messages;
    fore_image images[4];
    char *files[4];
} follow_prompt;
void follow_open(follow_prompt *p, const fore_model *model, const char *folder, const cJSON *entry);
void follow_close(follow_prompt *p);

/* slot[a]: what the head proposes while answer token a is the last one known, for tokens a+1, a+2, a+3. */
typedef struct follow_answer {
    int n; /* tokens, end token included */
    int32_t ids[FOLLOW_MOST];
    struct follow_slot {
        int made;
        int32_t draft[FOLLOW_DEPTH];
    } slot[FOLLOW_MOST];
} follow_answer;
/* Runs the request from an empty session with FORE_ABLATE_* settings, one token a round. gaps [FOLLOW_MOST]: how far the best logit
 * of every draft is from the second best (the head is asked again for each); NULL: not wanted. */
void follow_run(fore_session *s, follow_prompt *p, unsigned ablate, follow_answer *out, float (*gaps)[FOLLOW_DEPTH]);

#endif
