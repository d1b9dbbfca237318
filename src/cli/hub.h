/* What the environment says of the hub: its address, the token, the cache. The names are those of the huggingface_hub library. */
#ifndef FORE_CLI_HUB_H
#define FORE_CLI_HUB_H

#include "cli/cli.h"
#include "cli/text.h"
#include "hub/hub.h"

typedef struct cli_hub {
    fore_hub_settings settings; /* borrowed from what follows, until free */
    cli_text endpoint, token, cache;
    bool offline; /* HF_HUB_OFFLINE */
} cli_hub;

/* $HF_HUB_CACHE, else $HUGGINGFACE_HUB_CACHE, else $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else that of
 * ~/.cache; nothing is added when there is no home either. */
void cli_hub_cache(cli_text *out);
/* All of it; an exit code. Free in any case. */
int cli_hub_open(cli_hub *out);
void cli_hub_free(cli_hub *hub);

#endif
