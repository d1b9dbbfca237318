/* Names that come from outside: of repositories and revisions (the user), of files, digests and commits (the server). They
 * become parts of paths and URLs only after they were checked here. */
#ifndef FORE_HUB_NAMES_H
#define FORE_HUB_NAMES_H

#include <stdbool.h>

#include "base/buf.h"

enum { FORE_HUB_REPO = 196, FORE_HUB_REVISION = 256, FORE_HUB_DIGEST = 65 }; /* with the NUL */

typedef struct fore_hub_name {
    char repo[FORE_HUB_REPO];         /* OWNER/NAME */
    char revision[FORE_HUB_REVISION]; /* a branch, a tag or a commit; "main" when none was given */
} fore_hub_name;

/* OWNER/NAME or OWNER/NAME@REVISION, by the hub's own rules for both. False: it is none. */
bool fore_hub_name_parse(const char *text, fore_hub_name *out);
/* Puts another revision in; false: it is none. */
bool fore_hub_name_revise(fore_hub_name *name, const char *revision);
/* A relative path that may be made below a folder: no empty, "." or ".." part, no part above 255 bytes, no control character
 * (of Unicode) or backslash, at most 1024 bytes. */
bool fore_hub_path_is_safe(const char *path);
bool fore_hub_is_commit(const char *text); /* 40 digits of lower-case hexadecimal */
bool fore_hub_is_digest(const char *text); /* 40 (a Git blob) or 64 (SHA-256) */
/* Appends text with everything but letters, digits and -._~ (and, when asked, the slash) as %XX. */
fore_status fore_hub_escape(fore_buf *out, const char *text, bool keep_slashes);

#endif
