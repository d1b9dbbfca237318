/* What is said about drafting: the figures of --stats and --json. */
#ifndef FORE_CLI_DRAFTS_H
#define FORE_CLI_DRAFTS_H

#include "cli/cli.h"
#include "cli/json.h"

/* Adds the figures of one answer to those of several: [0] without a picture before, [1] after one. */
void cli_drafts_add(fore_draft_stats sum[2], const fore_draft_stats more[2]);
/* A table on standard error of each of the two that has rounds; `of` says whose they are, as in "drafts". */
void cli_drafts_print(const char *of, const fore_draft_stats drafts[2]);
/* A line on standard error for each source that drafted, the head and look-ups, and one for tokens that the head could not draft. */
void cli_sources_print(const fore_stats *stats);
/* Rounds, drafted, accepted, dropped; owned (cJSON_Delete). */
cJSON *cli_source_json(const fore_source_stats *source);
/* Rounds, tokens, and by depth what was drafted, what was accepted, and the share; owned (cJSON_Delete). */
cJSON *cli_drafts_json(const fore_draft_stats *drafts);
/* "plain", "accepted", "correction" or "bonus". */
const char *cli_mark_name(fore_mark mark);

#endif
