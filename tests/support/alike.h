/* Two models, weight by weight: each matrix' rows as floats, each vector. */
#ifndef FORE_TESTS_ALIKE_H
#define FORE_TESTS_ALIKE_H

#include "model/mtp.h"

typedef struct opened {
    fore_network n;
    fore_mtp mtp;
} opened;

/* A folder, or GGUF files (mmproj may be NULL). Fails the test when it does not open. */
opened alike_open(const char *path, const char *mmproj);
void alike_close(opened *o);

typedef struct alike {
    const char *name; /* for messages */
    double most;      /* 0: to the bit; else of the root mean square of the row's errors, relative to the row's */
    double decay;     /* of the linear layers' decays, each */
    int matrices, quantised; /* out: compared; those of them that the second one has in panels */
} alike;

/* Fails the test unless b is as a. */
void alike_compare(alike *how, const opened *a, const opened *b);

#endif
