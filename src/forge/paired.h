/* Whether counts at the same places of the same texts differ beyond chance. Neighbouring places are alike (drafts of one overlap
 * those of the next), so the independent pieces are runs of places; the test is the paired t test of their sums. */
#ifndef FORE_FORGE_PAIRED_H
#define FORE_FORGE_PAIRED_H

#include <stddef.h>
#include <stdint.h>

enum { FORE_PAIRED_RUN = 16 /* places; a text's last run may be shorter */ };

typedef struct fore_paired {
    double difference; /* mean of a - b over the places */
    double low, high;  /* each end is past the truth with a chance of `alpha` */
    size_t runs;
} fore_paired;

/* a, b: counts of all texts one after another; lengths [texts]: places of each. With less than two runs the ends are infinite. */
fore_paired fore_paired_compare(const uint8_t *a, const uint8_t *b, const size_t *lengths, size_t texts, double alpha);
/* The number that Student's t with `freedom` >= 1 degrees exceeds with a chance of alpha, 0 < alpha < 1/2. */
double fore_student_t(size_t freedom, double alpha);

#endif
