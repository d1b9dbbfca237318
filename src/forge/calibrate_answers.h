/* The answers along which calibration tries drafts: asking for them, and asking again to see that drafts change nothing. */
#ifndef FORE_FORGE_CALIBRATE_ANSWERS_H
#define FORE_FORGE_CALIBRATE_ANSWERS_H

#include "decode/rehearsal.h"

extern const char *const fore_calibrate_texts[]; /* what is asked for want of requests; ended by NULL */

typedef struct fore_calibrate_answers {
    fore_rehearsal *items; /* [count] owned */
    size_t *lengths;       /* [count] places of each; owned */
    size_t count, room, places, pictures; /* pictures: answers to prompts with some */
} fore_calibrate_answers;

/* depth: of the drafts to be judged. Hiddens before the final norm are kept if the model's contract wants them. free in any case. */
fore_status fore_calibrate_ask(const fore_model *model, const fore_calibrate_options *options, int depth, fore_calibrate_answers *out,
                               fore_error *err);
void fore_calibrate_answers_free(fore_calibrate_answers *answers);
/* Drafts of the model's head at every place of every answer: right [places], as fore_rehearsal_try has it. */
fore_status fore_calibrate_try(const fore_model *model, const fore_calibrate_options *options, int depth, const fore_calibrate_answers *answers,
                               uint8_t *right, fore_error *err);
/* Asks the same with drafts. FORE_ERR_BUG: an answer is another one. */
fore_status fore_calibrate_confirm(const fore_model *model, const fore_calibrate_options *options, int depth,
                                   const fore_calibrate_answers *answers, fore_error *err);

#endif
