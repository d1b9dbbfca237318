/* The contract: how a draft head wants to be fed. Read from config.json (mtplx_mtp_contract), then mtplx_runtime.json
 * (mtp_contract), then mtp_calibration.json (mtp_contract; what measuring found), then the caller; a later source wins where it
 * sets a field, also to the default value. It changes how many drafts are accepted, never the answer. */
#ifndef FORE_MODEL_CONTRACT_H
#define FORE_MODEL_CONTRACT_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "base/error.h"

typedef enum fore_head_output {
    FORE_HEAD_FC,        /* after fc */
    FORE_HEAD_PRE_NORM,  /* after the layers */
    FORE_HEAD_POST_NORM, /* after the final norm */
    FORE_HEAD_EMBEDDING, /* the token embedding that went in */
    FORE_HEAD_PREV,      /* the hidden state that went in */
} fore_head_output;

typedef enum fore_mtp_position { FORE_MTP_CACHE, FORE_MTP_LOCAL, FORE_MTP_ABSOLUTE } fore_mtp_position;

/* How the head's norms are stored. */
typedef enum fore_mtp_norms {
    FORE_NORMS_DETECTED, /* told from their means */
    FORE_NORMS_DELTA,    /* gain - 1 */
    FORE_NORMS_ABSOLUTE, /* the gain */
} fore_mtp_norms;

typedef enum fore_contract_field {
    FORE_CONTRACT_BASE_HIDDEN,
    FORE_CONTRACT_HIDDEN,
    FORE_CONTRACT_CONCAT,
    FORE_CONTRACT_POSITION,
    FORE_CONTRACT_NORMS,
    FORE_CONTRACT_QUANT_BITS,
    FORE_CONTRACT_QUANT_GROUP,
    FORE_CONTRACT_QUANT_MODE,
    FORE_CONTRACT_QUANT_POLICY,
    FORE_CONTRACT_FIELDS
} fore_contract_field;

typedef enum fore_contract_source {
    FORE_CONTRACT_DEFAULT,
    FORE_CONTRACT_CONFIG,
    FORE_CONTRACT_RUNTIME,
    FORE_CONTRACT_CALIBRATED,
    FORE_CONTRACT_CALLER
} fore_contract_source;

typedef struct fore_contract {
    bool base_pre_norm;          /* base_hidden_variant: which trunk hidden feeds depth 1 */
    fore_head_output left, right; /* hidden_variant: which head output feeds depth d + 1: mix * left + (1 - mix) * right */
    float mix;                   /* 1: left alone */
    bool hidden_first;           /* concat_order hidden_embedding */
    fore_mtp_position position;  /* mtp_position_mode */
    fore_mtp_norms norms;        /* mtp_norm_encoding, which config.json may also have outside the contract */
    int quant_bits, quant_group; /* 0: not quantised; 64 */
    bool quant_layers_only;      /* policy cyankiwi: fc and norms stay */
    fore_contract_source source[FORE_CONTRACT_FIELDS];
    char value[FORE_CONTRACT_FIELDS][48]; /* as text, for people; the longest mix fits */
} fore_contract;

void fore_contract_init(fore_contract *contract);
/* Takes the fields that `object` sets (NULL: none). FORE_ERR_FORMAT names `what`, the field and the allowed values; unknown
 * fields are ignored. */
fore_status fore_contract_read(fore_contract *contract, const cJSON *object, fore_contract_source source, const char *what, fore_error *err);
const char *fore_contract_field_name(fore_contract_field field);
const char *fore_contract_source_name(fore_contract_source source);

#endif
