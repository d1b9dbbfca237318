/* Inside the checkpoint room: reading one object of config.json. A part remembers the first failure; the readers of a
 * failed part give their fallback, so that a row of reads needs one check at its end. */
#ifndef FORE_CHECKPOINT_CONFIG_PART_H
#define FORE_CHECKPOINT_CONFIG_PART_H

#include "base/json.h"
#include "checkpoint/config.h"
#include "checkpoint/config_family.h"

/* Bounds that keep products of two sizes, and of three with a small constant, within 63 bits. */
enum { FORE_CONFIG_WIDTH = 1 << 24, FORE_CONFIG_HEADS = 1 << 14, FORE_CONFIG_LAYERS = 1 << 12 };

typedef struct fore_config_part {
    const cJSON *object;
    const char *section; /* its name, for messages; "" for the top */
    const char *what;    /* the source's name */
    fore_error *err;     /* may be NULL */
    fore_status status;
} fore_config_part;

/* Keeps a failure that err already describes, with the part's name before it. */
void fore_config_keep(fore_config_part *p, fore_status s);
int fore_config_int(fore_config_part *p, const char *name, int low, int high, int fallback);
double fore_config_number(fore_config_part *p, const char *name, double fallback);
bool fore_config_bool(fore_config_part *p, const char *name, bool fallback);
const char *fore_config_string(fore_config_part *p, const char *name, const char *fallback);
void fore_config_refuse(fore_config_part *p, fore_status code, const char *problem);
/* FORE_ERR_FORMAT unless good. */
void fore_config_check(fore_config_part *p, bool good, const char *problem);
/* FORE_ERR_UNSUPPORTED unless the string is one of `accepted` (ended by NULL). */
void fore_config_only(fore_config_part *p, const char *name, const char *fallback, const char *const *accepted);

/* mtp_num_hidden_layers, or its other name num_nextn_predict_layers; 0 without both. */
int fore_config_mtp_layers(fore_config_part *p);
void fore_config_read_text(fore_config_part *p, const fore_family *family, fore_arena *arena, fore_text_config *out);
void fore_config_read_rope(fore_config_part *p, const fore_family *family, fore_text_config *out); /* after the sizes */
void fore_config_read_vision(fore_config_part *p, const fore_family *family, fore_arena *arena, fore_vision_config *out);

#endif
