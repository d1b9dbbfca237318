/* models/tiny without its draft head, and the head in a file of its own, for the tests of forge mtp. Failures end the test (cmocka). */
#ifndef FORE_TESTS_HEADS_H
#define FORE_TESTS_HEADS_H

#include "support/hosts.h"

/* declared: config.json still says that it has one. */
void head_take(scratch *s, bool declared);
/* The head in the file dir/name, its norms in F32; those for which `gains` says so are stored as gains. */
void head_write(const scratch *s, const char *name, bool (*gains)(const char *name));

#endif
