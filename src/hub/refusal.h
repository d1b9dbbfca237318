/* What a status other than success means to the user: which repository, and what to do. */
#ifndef FORE_HUB_REFUSAL_H
#define FORE_HUB_REFUSAL_H

#include "hub/http.h"

/* Fills err and returns FORE_ERR_IO. path: the file that was asked for, or NULL. */
fore_status fore_hub_refuse(const fore_hub_settings *settings, const fore_hub_name *name, const char *path,
                            const fore_http_reply *reply, fore_error *err);

#endif
