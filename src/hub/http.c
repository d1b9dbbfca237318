/* GET through libcurl; see http.h. */
#include "hub/http.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "base/random.h"

enum { MAX_REDIRECTS = 10, MAX_TRIES = 6, MAX_WAIT = 300, CONNECT_SECONDS = 20, SILENT_SECONDS = 30, POLL_MS = 100, HEADER = 1 << 14 };

fore_status fore_http_open(fore_http_shared *shared, fore_http *out, fore_error *err) {
    *out = (fore_http){.shared = shared, .easy = curl_easy_init(), .base = curl_url(), .url = curl_url()};
    if (!out->easy || !out->base || !out->url) return fore_fail_nomem(err, "a connection");
    const char *endpoint = shared->settings->endpoint;
    CURLUcode bad = curl_url_set(out->base, CURLUPART_URL, endpoint, 0);
    if (bad == CURLUE_OUT_OF_MEMORY) return fore_fail_nomem(err, "a connection");
    if (bad || (strncmp(endpoint, "http://", 7) && strncmp(endpoint, "https://", 8)))
        return fore_fail(err, FORE_ERR_INVALID, "%s: expected an address such as https://huggingface.co (HF_ENDPOINT)", endpoint);
    return FORE_OK;
}

void fore_http_close(fore_http *http) {
    curl_easy_cleanup(http->easy);
    curl_url_cleanup(http->base);
    curl_url_cleanup(http->url);
    *http = (fore_http){0};
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

/* Parts of a URL; "" when it is not there. Owned (curl_free); NULL when memory is out. */
static char *part_of(CURLU *url, CURLUPart part) {
    char *text = NULL;
    return curl_url_get(url, part, &text, part == CURLUPART_PORT ? CURLU_DEFAULT_PORT : 0) ? NULL : text;
}

/* The same scheme, host and port: there the token may go. */
static bool same_origin(CURLU *a, CURLU *b) {
    static const CURLUPart parts[] = {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT};
    bool same = true;
    for (int i = 0; i < 3 && same; i++) {
        char *x = part_of(a, parts[i]), *y = part_of(b, parts[i]);
        same = x && y && strcasecmp(x, y) == 0;
        curl_free(x);
        curl_free(y);
    }
    return same;
}

static bool has_scheme(CURLU *url, const char *scheme) {
    char *found = part_of(url, CURLUPART_SCHEME);
    bool same = found && strcasecmp(found, scheme) == 0;
    curl_free(found);
    return same;
}

/* Goes where a redirect says: over HTTP(S) only, and never from an encrypted connection to an open one. */
static fore_status follow(fore_http *http, const char *location, fore_error *err) {
    bool safe = has_scheme(http->url, "https");
    CURLUcode bad = curl_url_set(http->url, CURLUPART_URL, location, CURLU_URLENCODE);
    if (bad == CURLUE_OUT_OF_MEMORY) return fore_fail_nomem(err, "an address");
    if (bad || !(has_scheme(http->url, "https") || (!safe && has_scheme(http->url, "http"))))
        return fore_fail(err, FORE_ERR_FORMAT, "the server redirects to '%.100s', which is not followed", location);
    return FORE_OK;
}

/* ---- one exchange ------------------------------------------------------------------------------------------------ */

typedef struct exchange {
    fore_http *http;
    const fore_http_call *call;
    fore_http_reply *reply;
    char location[HEADER]; /* those of storages are long */
    bool started;
    fore_status failed; /* of the call's functions */
    fore_error *err;
} exchange;

/* Copies a header's value without white space around it and with nothing that a terminal would obey. */
static void copy_value(char *to, size_t room, const char *value, size_t size) {
    while (size && (*value == ' ' || *value == '\t')) value++, size--;
    while (size && (unsigned char)value[size - 1] <= ' ') size--;
    if (size >= room) size = room - 1;
    for (size_t i = 0; i < size; i++) to[i] = value[i] >= ' ' && value[i] < 0x7f ? value[i] : '?';
    to[size] = 0;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* "bytes 100-199/200" */
static void read_range(fore_http_reply *r, const char *value) {
    uint64_t first, last, total;
    char *end;
    if (strncasecmp(value, "bytes ", 6) || !is_digit(value[6])) return;
    first = strtoull(value + 6, &end, 10);
    if (*end != '-' || !is_digit(end[1])) return;
    last = strtoull(end + 1, &end, 10);
    if (*end != '/' || !is_digit(end[1])) return;
    total = strtoull(end + 1, &end, 10);
    if (*end || last < first || last >= total) return;
    r->ranged = true;
    r->first = first;
    r->total = total;
}

/* <URL>; rel="next", among others */
static void read_next(fore_http_reply *r, const char *value, bool whole) {
    r->lost = !whole;
    while ((value = strchr(value, '<'))) {
        const char *end = strchr(value, '>');
        if (!end) return;
        size_t size = (size_t)(end - value) - 1, rest = strcspn(end, "<");
        const char *rel = strstr(end, "rel=\"next\"");
        if (rel && rel < end + rest) {
            r->lost = size >= sizeof r->next;
            if (r->lost) return;
            memcpy(r->next, value + 1, size);
            r->next[size] = 0;
            return;
        }
        value = end;
    }
}

static size_t on_header(char *line, size_t one, size_t size, void *user) {
    (void)one;
    exchange *x = user;
    fore_http_reply *r = x->reply;
    char value[HEADER];
    if (size > 5 && strncmp(line, "HTTP/", 5) == 0) { /* also after an interim answer */
        *r = (fore_http_reply){0};
        x->location[0] = 0;
        const char *space = memchr(line, ' ', size);
        if (space) r->status = strtol(space, NULL, 10);
        return size;
    }
    const char *colon = memchr(line, ':', size);
    if (!colon) return size;
    size_t name = (size_t)(colon - line);
    copy_value(value, sizeof value, colon + 1, size - name - 1);
#define IS(text) (name == sizeof(text) - 1 && strncasecmp(line, text, name) == 0)
    bool whole = size - name < sizeof value;
    if (IS("location") && whole) memcpy(x->location, value, strlen(value) + 1);
    else if (IS("content-range")) read_range(r, value);
    else if (IS("link")) read_next(r, value, whole);
    else if (IS("x-error-code")) snprintf(r->code, sizeof r->code, "%.63s", value);
    else if (IS("x-error-message")) snprintf(r->message, sizeof r->message, "%.199s", value);
    else if (IS("ratelimit")) { /* "api";r=0;t=55 */
        const char *t = strstr(value, ";t=");
        if (t && is_digit(t[3])) r->wait = strtod(t + 3, NULL);
    }
#undef IS
    return size;
}

static size_t on_body(char *data, size_t one, size_t size, void *user) {
    (void)one;
    exchange *x = user;
    if (x->reply->status != 200 && x->reply->status != 206) return size;
    if (!x->started && x->call->start) x->failed = x->call->start(x->call->user, x->reply, x->err);
    x->started = true;
    if (!x->failed) x->failed = x->call->take(x->call->user, data, size, x->err);
    return x->failed ? 0 : size;
}

static int on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    (void)a, (void)b, (void)c, (void)d;
    return fore_http_report(((const exchange *)user)->http->shared) != FORE_OK;
}

static fore_status fail_transport(exchange *x, CURLcode code, const char *detail, bool *again, fore_error *err) {
    fore_http_shared *shared = x->http->shared;
    const char *endpoint = shared->settings->endpoint, *why = *detail ? detail : curl_easy_strerror(code);
    *again = false;
    if (code == CURLE_OUT_OF_MEMORY) return fore_fail_nomem(err, "a connection");
    if (code == CURLE_ABORTED_BY_CALLBACK) return fore_fail(err, FORE_ERR_CANCELLED, "cancelled");
    bool absent = code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY || code == CURLE_COULDNT_CONNECT;
    if (absent && !atomic_load(&shared->reached))
        return fore_fail(err, FORE_ERR_IO, "%s: cannot be reached (%.200s); is there a network, or a proxy to set in https_proxy? "
                         "HF_ENDPOINT sets another address, --offline uses what is cached", endpoint, why);
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
        return fore_fail(err, FORE_ERR_IO, "%s: no trusted connection (%.200s); install the package ca-certificates, or name a file of "
                         "certificates in SSL_CERT_FILE", endpoint, why);
    *again = absent || code == CURLE_OPERATION_TIMEDOUT || code == CURLE_PARTIAL_FILE || code == CURLE_RECV_ERROR ||
             code == CURLE_SEND_ERROR || (code == CURLE_SSL_CONNECT_ERROR && atomic_load(&shared->reached)) || code == CURLE_GOT_NOTHING || code == CURLE_HTTP2 || code == CURLE_HTTP2_STREAM ||
             code == CURLE_HTTP3 || code == CURLE_WEIRD_SERVER_REPLY;
    return fore_fail(err, FORE_ERR_IO, "the connection failed (%.200s)", why);
}

#define SET(option, value) (code = code ? code : curl_easy_setopt(easy, option, value))

static CURLcode prepare(exchange *x, struct curl_slist *headers, char *detail) {
    const fore_hub_settings *settings = x->http->shared->settings;
    CURL *easy = x->http->easy;
    CURLcode code = CURLE_OK;
    char range[32];
    snprintf(range, sizeof range, "%" PRIu64 "-", x->call->from);
    curl_easy_reset(easy);
    SET(CURLOPT_CURLU, x->http->url);
    SET(CURLOPT_HTTPHEADER, headers);
    SET(CURLOPT_USERAGENT, "foresight/" FORE_VERSION);
    if (x->call->from) SET(CURLOPT_RANGE, range);
    if (settings->ca_file) SET(CURLOPT_CAINFO, settings->ca_file);
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    SET(CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
    SET(CURLOPT_LOW_SPEED_TIME, (long)SILENT_SECONDS);
    SET(CURLOPT_BUFFERSIZE, 1L << 18);
    SET(CURLOPT_ERRORBUFFER, detail);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, x);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, x);
    SET(CURLOPT_XFERINFOFUNCTION, on_progress);
    SET(CURLOPT_XFERINFODATA, x);
    SET(CURLOPT_NOPROGRESS, 0L);
    return code;
}

/* With the token when the address is the endpoint's; NULL when memory is out. */
static struct curl_slist *make_headers(const fore_http *http, bool trusted) {
    struct curl_slist *list = curl_slist_append(NULL, "Accept-Encoding: identity");
    const char *token = http->shared->settings->token;
    if (!list || !token || !trusted) return list;
    fore_buf line = {0};
    struct curl_slist *longer = NULL;
    if (!fore_buf_puts(&line, "Authorization: Bearer ") && !fore_buf_puts(&line, token)) longer = curl_slist_append(list, line.data);
    fore_buf_free(&line);
    if (!longer) curl_slist_free_all(list);
    return longer;
}

static fore_status exchange_once(exchange *x, bool *again, fore_error *err) {
    char detail[CURL_ERROR_SIZE] = "";
    bool trusted = same_origin(x->http->base, x->http->url);
    struct curl_slist *headers = make_headers(x->http, trusted);
    if (!headers) return fore_fail_nomem(err, "a request");
    *x->reply = (fore_http_reply){0};
    x->location[0] = 0;
    x->started = false;
    CURLcode code = prepare(x, headers, detail);
    if (!code) code = curl_easy_perform(x->http->easy);
    curl_off_t wait = 0;
    if (curl_easy_getinfo(x->http->easy, CURLINFO_RETRY_AFTER, &wait) == CURLE_OK && wait > 0) x->reply->wait = (double)wait;
    curl_slist_free_all(headers);
    x->reply->from_endpoint = trusted;
    if (x->reply->status) atomic_store(&x->http->shared->reached, true);
    if (x->failed) return x->failed;
    return code ? fail_transport(x, code, detail, again, err) : FORE_OK;
}

fore_status fore_http_get(fore_http *http, const fore_http_call *call, fore_http_reply *reply, bool *again, fore_error *err) {
    exchange x = {.http = http, .call = call, .reply = reply, .err = err};
    *again = false;
    if (curl_url_set(http->url, CURLUPART_URL, call->url, 0))
        return fore_fail(err, FORE_ERR_FORMAT, "%.200s: not an address", call->url);
    for (int hops = 0; hops <= MAX_REDIRECTS; hops++) {
        fore_status s = exchange_once(&x, again, err);
        if (s) return s;
        bool redirected = reply->status == 301 || reply->status == 302 || reply->status == 303 || reply->status == 307 || reply->status == 308;
        if (!redirected || !x.location[0]) return FORE_OK;
        s = follow(http, x.location, err);
        if (s) return s;
    }
    return fore_fail(err, FORE_ERR_IO, "more than %d redirects", MAX_REDIRECTS);
}

/* ---- trying again ------------------------------------------------------------------------------------------------ */

bool fore_http_is_passing(const fore_http_reply *reply) {
    /* A storage that the endpoint redirects to refuses addresses that have become too old. */
    return reply->status == 408 || reply->status == 429 || (reply->status >= 500 && reply->status != 501) ||
           (reply->status == 403 && !reply->from_endpoint);
}

fore_status fore_http_report(const fore_http_shared *shared) {
    const fore_hub_settings *settings = shared->settings;
    if (atomic_load(&shared->stop)) return FORE_ERR_CANCELLED;
    uint64_t done = atomic_load(&shared->done);
    bool ends = settings->progress && settings->progress(settings->user, "pull", done < shared->total ? done : shared->total, shared->total);
    return ends ? FORE_ERR_CANCELLED : FORE_OK;
}

fore_status fore_http_wait(const fore_http_shared *shared, int failures, double asked, fore_error *err) {
    if (failures >= MAX_TRIES) return fore_fail_prefix(err, FORE_ERR_IO, "given up after %d tries", failures);
    if (asked > MAX_WAIT)
        return fore_fail_prefix(err, FORE_ERR_IO, "the server asks to wait for %.0f seconds; try again then", asked);
    double wait = shared->settings->retry_seconds * (double)(1 << (failures - 1));
    /* Not all at the same moment. */
    wait *= 1 + 0.25 * ((double)fore_random_bits((uint64_t)(fore_clock() * 1e9), 0, 0, 0) / 4294967296.0);
    if (wait < asked) wait = asked;
    for (double end = fore_clock() + wait, left = wait; left > 0; left = end - fore_clock()) {
        long ms = left * 1000 < POLL_MS ? (long)(left * 1000) + 1 : POLL_MS;
        nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
        if (fore_http_report(shared)) return fore_fail(err, FORE_ERR_CANCELLED, "cancelled");
    }
    return FORE_OK;
}
