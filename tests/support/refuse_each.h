/* Runs something again and again while memory runs out at another request each time: "out of memory" whenever it fails (what may get
 * by without does), and nothing left behind. Under a sanitizer, which looks for leaks and bad accesses, it runs once, undisturbed.
 * For a test program that includes this once, after cmocka. */
#ifndef FORE_TESTS_REFUSE_EACH_H
#define FORE_TESTS_REFUSE_EACH_H

#include <string.h>

#include "foresight.h"
#include "support/failing_malloc.h"

typedef struct refusals {
    const char *what;
    fore_status (*act)(void *user, fore_error *err);
    /* Around each act, and not refused anything; may be NULL. after: n: of the request that failed; status: what act said. */
    void (*before)(void *user);
    void (*after)(void *user, long n, fore_status status);
    void *user;
    long least;      /* requests that it makes at least */
    int spare;       /* of those that fail, how many it may do without */
    long all, step;  /* every request up to `all` fails, then one in `step`; step 0: every one */
} refusals;

static fore_status refuse_once(const refusals *r, fore_error *err) {
    *err = (fore_error){0};
    if (r->before) r->before(r->user);
    return r->act(r->user, err);
}

#ifdef FORE_WRAP_ALLOCATIONS
#define EXACT 0 /* the project also frees what libraries made; leaks are the sanitizer's to find */
#else
#define EXACT 1
#endif

#if FAILING_MALLOC
/* false: it came to its end without the n-th request. */
static bool refuse_nth(const refusals *r, long n, int *survived) {
    fore_error err = {0};
    if (r->before) r->before(r->user);
    long live = malloc_live;
    malloc_refused = false;
    malloc_left = n;
    malloc_armed = true;
    fore_status s = r->act(r->user, &err);
    malloc_armed = false;
    if (EXACT && malloc_live != live) fail_msg("%s: %ld blocks left after request %ld failed", r->what, malloc_live - live, n);
    if (!malloc_refused && s) fail_msg("%s: %s", r->what, err.text);
    if (s && (s != FORE_ERR_NOMEM || err.code != s || !strstr(err.text, "out of memory")))
        fail_msg("%s: request %ld: %d %s", r->what, n, s, err.text);
    *survived += malloc_refused && !s;
    if (r->after) r->after(r->user, n, s);
    return malloc_refused;
}

static void refuse_each(const refusals *r) {
    fore_error err;
    int survived = 0;
    long n = 0;
    if (refuse_once(r, &err)) fail_msg("%s: %s", r->what, err.text); /* and libraries have what they take once */
    if (r->after) r->after(r->user, -1, FORE_OK);
    while (refuse_nth(r, n, &survived)) n += r->step && n >= r->all ? r->step : 1;
    if (EXACT && n <= r->least) fail_msg("%s: %ld requests, expected more than %ld", r->what, n, r->least);
    if (survived > r->spare) fail_msg("%s: %d requests were done without, expected at most %d", r->what, survived, r->spare);
}
#else
static void refuse_each(const refusals *r) {
    fore_error err;
    if (refuse_once(r, &err)) fail_msg("%s: %s", r->what, err.text);
    if (r->after) r->after(r->user, -1, FORE_OK);
}
#endif
#endif
