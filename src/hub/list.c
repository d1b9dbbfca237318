/* Asking the hub for a revision's commit and files; see hub.h. */
#include <string.h>

#include "hub/refusal.h"

enum { MAX_PAGES = 1000, MAX_PAGE = 16 << 20 };

static fore_status start_page(void *user, const fore_http_reply *reply, fore_error *err) {
    (void)reply, (void)err;
    ((fore_buf *)user)->size = 0; /* of a try before this one */
    return FORE_OK;
}

static fore_status take_page(void *user, const void *data, size_t size, fore_error *err) {
    fore_status s = fore_buf_append(user, data, size);
    if (s == FORE_ERR_NOMEM) return fore_fail_nomem(err, "the list of files");
    return s ? fore_fail(err, s, "the server's answer has more than %d bytes, which is the limit", MAX_PAGE) : FORE_OK;
}

/* One answer of the API, with as many tries as it takes. */
static fore_status get_page(fore_http *http, const fore_hub_name *name, const char *url, fore_buf *body, fore_http_reply *reply,
                            fore_error *err) {
    const fore_http_call call = {.url = url, .start = start_page, .take = take_page, .user = body};
    for (int failures = 1;; failures++) {
        bool again;
        body->size = 0;
        fore_status s = fore_http_get(http, &call, reply, &again, err);
        if (!s && reply->status == 200) return body->data ? FORE_OK : fore_buf_putc(body, 0);
        if (!s) {
            again = fore_http_is_passing(reply);
            s = fore_hub_refuse(http->shared->settings, name, NULL, reply, err);
        }
        if (again) s = fore_http_wait(http->shared, failures, reply->wait, err);
        if (s) return s;
    }
}

static fore_status make_url(fore_buf *url, const char *endpoint, const fore_hub_name *name, const char *kind, const char *revision,
                            const char *query, fore_error *err) {
    url->size = 0;
    fore_status s = fore_buf_puts(url, endpoint);
    if (!s) s = fore_buf_puts(url, "/api/models/");
    if (!s) s = fore_buf_puts(url, name->repo);
    if (!s) s = fore_buf_puts(url, kind);
    if (!s) s = fore_hub_escape(url, revision, false);
    if (!s) s = fore_buf_puts(url, query);
    return s ? fore_fail_nomem(err, "an address") : FORE_OK;
}

static fore_status list(fore_http *http, const fore_hub_name *name, fore_hub_listing *out, fore_buf *url, fore_buf *body, fore_error *err) {
    fore_http_reply reply;
    const char *endpoint = http->shared->settings->endpoint;
    fore_status s = make_url(url, endpoint, name, "/revision/", name->revision, "", err);
    if (!s) s = get_page(http, name, url->data, body, &reply, err);
    if (!s) s = fore_hub_listing_read_commit(out, body->data, body->size, url->data, err);
    if (!s) s = make_url(url, endpoint, name, "/tree/", out->commit, "?recursive=true", err);
    for (int pages = 0; !s; pages++) {
        if (pages == MAX_PAGES) return fore_fail(err, FORE_ERR_LIMIT, "%s: its list has more than %d pages", name->repo, MAX_PAGES);
        s = get_page(http, name, url->data, body, &reply, err);
        if (!s) s = fore_hub_listing_add(out, body->data, body->size, url->data, err);
        if (!s && reply.lost) s = fore_fail(err, FORE_ERR_LIMIT, "%s: the address of the next page is too long", url->data);
        if (s || !reply.next[0]) return s;
        url->size = 0;
        s = fore_buf_puts(url, reply.next) ? fore_fail_nomem(err, "an address") : FORE_OK;
    }
    return s;
}

fore_status fore_hub_list(const fore_hub_settings *settings, const fore_hub_name *name, fore_hub_listing *out, fore_error *err) {
    *out = (fore_hub_listing){0};
    if (curl_global_init(CURL_GLOBAL_DEFAULT)) return fore_fail(err, FORE_ERR_BUG, "libcurl does not start");
    fore_http_shared shared = {.settings = settings};
    fore_http http;
    fore_buf url = {0}, body = {.limit = MAX_PAGE};
    fore_status s = fore_http_open(&shared, &http, err);
    if (!s) s = list(&http, name, out, &url, &body, err);
    fore_buf_free(&url);
    fore_buf_free(&body);
    fore_http_close(&http);
    curl_global_cleanup();
    return s;
}
