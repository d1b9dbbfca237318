/* Whole answers, and whether two are the same: ids, text, end and the state left behind. */
#ifndef FORE_TESTS_ANSWER_H
#define FORE_TESTS_ANSWER_H

#include "support/timeline.h"

enum { ANSWER_MOST = 240 };

typedef struct answer {
    int32_t ids[ANSWER_MOST];
    size_t n;
    char text[2048];
    fore_finish finish;
    uint8_t digest[32];
    fore_stats stats;
} answer;

/* Begins the request and takes the whole answer; any failure fails the test. */
void answer_run(fore_session *s, const fore_request *r, answer *a);
/* Fails unless b is a, byte by byte; `way` says how b was computed. */
void answer_same(const answer *a, const answer *b, const char *way);

typedef struct subject {
    fore_model *model;
    fore_session *session;
} subject;
/* A model with its draft head, options may be NULL, and a session of two threads. */
subject subject_open(const char *dir, const fore_model_options *options, int context);
void subject_close(subject *s);

#endif
