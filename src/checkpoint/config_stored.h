/* Inside the checkpoint room: what config.json says of quantised weights. */
#ifndef FORE_CHECKPOINT_CONFIG_STORED_H
#define FORE_CHECKPOINT_CONFIG_STORED_H

#include "base/json.h"
#include "checkpoint/config.h"

/* Reads quantization_config, quantization and dtype of the top and of the text model (which may be the same object).
 * FORE_ERR_UNSUPPORTED names a way of quantising that is not read, and says what to do. */
fore_status fore_config_read_stored(const cJSON *top, const cJSON *text, const char *what, fore_stored_settings *out, fore_error *err);

#endif
