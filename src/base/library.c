/* What the library as a whole offers: its version, and freeing what it gave. */
#include <stdlib.h>

#include "foresight.h"

const char *fore_version(void) { return FORE_VERSION; }

void fore_free(void *p) { free(p); }
