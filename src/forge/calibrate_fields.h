/* Which fields of a draft head's contract calibration tries, and with which values. */
#ifndef FORE_FORGE_CALIBRATE_FIELDS_H
#define FORE_FORGE_CALIBRATE_FIELDS_H

#include "model/mtp.h"

enum { FORE_TRIED_FIELDS = 5, FORE_TRIED_VALUES = 6 };

/* One field. Quantisation is none of them: it says how the head is stored, and what is stored says that better. */
typedef struct fore_tried_field {
    fore_contract_field field;
    const char *values[FORE_TRIED_VALUES]; /* [count] the present one first; static, or in the contract that it was made from */
    const char *usual; /* what a contract that says nothing has */
    int count;       /* 1: it stays as it is */
    bool essential;  /* drafts are hopeless while it is wrong, so it is tried together with the others of this kind */
    const char *why; /* why it stays; "" when it does not */
} fore_tried_field;

/* contract: the present one, of the head, which must outlive the fields. all: also those that the checkpoint's files state. depth:
 * of the drafts that are judged; pictures: whether some prompts have one. */
void fore_tried_fields(const fore_mtp *head, const fore_contract *contract, bool all, int depth, bool pictures,
                       fore_tried_field out[FORE_TRIED_FIELDS]);

#endif
