/* The forms that there are; see forms.h. */
#ifndef FORE_MODEL_FORM_LIST_H
#define FORE_MODEL_FORM_LIST_H

#include "model/forms.h"

extern const fore_form fore_form_fp8; /* form_fp8.c: F8_E4M3 with scales of blocks, rows or the whole */
extern const fore_form fore_form_int; /* form_int.c: integers of 4 and 8 bits as compressed-tensors, AutoAWQ and GPTQ pack them */
extern const fore_form fore_form_gguf; /* form_gguf.c: the blocks of GGUF, and rows and columns in another order */

#endif
