/* GET through libcurl, for one thread: redirects, what a hub's answers say beside their bodies, waiting between tries.
 * The token goes to the endpoint's own scheme, host and port and nowhere else, whatever a redirect says; that is why redirects
 * are followed here and not by libcurl. */
#ifndef FORE_HUB_HTTP_H
#define FORE_HUB_HTTP_H

#include <curl/curl.h>
#include <stdatomic.h>

#include "hub/hub.h"

/* What the connections of one piece of work share. */
typedef struct fore_http_shared {
    const fore_hub_settings *settings; /* borrowed */
    atomic_bool stop;    /* one failed: the others end */
    atomic_bool reached; /* some server answered: what cannot be reached later is tried again */
    _Atomic uint64_t done;
    uint64_t total; /* bytes, for the progress */
} fore_http_shared;

typedef struct fore_http {
    fore_http_shared *shared; /* borrowed */
    CURL *easy;               /* owned */
    CURLU *base, *url;        /* owned: the endpoint, where we are */
} fore_http;

fore_status fore_http_open(fore_http_shared *shared, fore_http *out, fore_error *err); /* close in any case */
void fore_http_close(fore_http *http);

typedef struct fore_http_reply {
    long status;
    bool from_endpoint;    /* whether the endpoint itself said it, or who it redirected to */
    bool ranged;           /* 206 with a Content-Range that makes sense: */
    uint64_t first, total; /* where the body begins, size of the whole */
    double wait;           /* seconds that the server asks to wait; 0: it does not say */
    char next[2048];       /* URL of the next page, or empty */
    bool lost;             /* there is a next page whose URL is too long */
    char code[64], message[200]; /* X-Error-Code, X-Error-Message; printable */
} fore_http_reply;

typedef struct fore_http_call {
    const char *url;
    uint64_t from; /* asks for the bytes from here on; 0: for all */
    /* What is done with a body of status 200 or 206: start once before it, then each piece. A failure ends the call with it. */
    fore_status (*start)(void *user, const fore_http_reply *reply, fore_error *err); /* may be NULL */
    fore_status (*take)(void *user, const void *data, size_t size, fore_error *err);
    void *user;
} fore_http_call;

/* FORE_OK: there is an answer, of any status. *again (with a failure): the connection was cut or the like. */
fore_status fore_http_get(fore_http *http, const fore_http_call *call, fore_http_reply *reply, bool *again, fore_error *err);
/* Whether such a status may go away by waiting. */
bool fore_http_is_passing(const fore_http_reply *reply);
/* Waits before try `failures` + 1; err says why there has to be one, and is returned when it is useless to wait: there were too many,
 * or the server asks for too long a time. FORE_ERR_CANCELLED. */
fore_status fore_http_wait(const fore_http_shared *shared, int failures, double asked, fore_error *err);
/* Says the progress; FORE_ERR_CANCELLED when the work is to end. */
fore_status fore_http_report(const fore_http_shared *shared);

#endif
