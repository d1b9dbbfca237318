/* The videos of a command line: frames that are given as pictures, and files. */
#ifndef FORE_CLI_VIDEOS_H
#define FORE_CLI_VIDEOS_H

#include "cli/request.h"

typedef struct cli_videos {
    fore_video *items;    /* owned, their names too */
    cli_pictures *frames; /* owned: of each video, none of a file */
    size_t count;
} cli_videos;

/* A file, which is read when the request begins; an exit code. */
int cli_videos_add(cli_videos *videos, const char *path, const cli_options *options);
/* Those of --frames, then those of --video; an exit code. */
int cli_videos_add_all(cli_videos *videos, const cli_options *options);
void cli_videos_cut(cli_videos *videos, size_t count); /* drops those beyond the first `count` */

#endif
