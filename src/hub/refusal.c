/* Words for refusals; see refusal.h. */
#include "hub/refusal.h"

#include <string.h>

static fore_status refuse_access(const fore_hub_settings *settings, const fore_hub_name *name, const fore_http_reply *r, fore_error *err) {
    const char *repo = name->repo, *endpoint = settings->endpoint;
    bool gated = strcmp(r->code, "GatedRepo") == 0;
    if (gated && !settings->token)
        return fore_fail(err, FORE_ERR_IO, "%s: gated (%ld): accept its licence at %s/%s, then set HF_TOKEN to a token of that account "
                         "(%s/settings/tokens)", repo, r->status, endpoint, repo, endpoint);
    if (gated)
        return fore_fail(err, FORE_ERR_IO, "%s: gated (%ld), and the token's account has no access: accept its licence at %s/%s",
                         repo, r->status, endpoint, repo);
    if (r->status == 401 && !settings->token)
        return fore_fail(err, FORE_ERR_IO, "%s: refused (401): there is no such repository, or it is private or gated; check the name, or "
                         "set HF_TOKEN (%s/settings/tokens)", repo, endpoint);
    if (r->status == 401)
        return fore_fail(err, FORE_ERR_IO, "%s: the token is refused (401): HF_TOKEN, or the token file, may be wrong or out of date, or "
                         "there is no such repository", repo);
    return fore_fail(err, FORE_ERR_IO, "%s: forbidden (403)%s%s; a token needs the right to read it: set HF_TOKEN (%s/settings/tokens)",
                     repo, *r->message ? ": " : "", r->message, endpoint);
}

fore_status fore_hub_refuse(const fore_hub_settings *settings, const fore_hub_name *name, const char *path,
                            const fore_http_reply *r, fore_error *err) {
    const char *repo = name->repo, *endpoint = settings->endpoint;
    if (r->from_endpoint && (r->status == 401 || r->status == 403)) return refuse_access(settings, name, r, err);
    if (r->status == 404 && strcmp(r->code, "RevisionNotFound") == 0)
        return fore_fail(err, FORE_ERR_IO, "%s: has no revision '%s' (404): give a branch, a tag or a commit with --revision", repo,
                         name->revision);
    if (r->status == 404 && path)
        return fore_fail(err, FORE_ERR_IO, "%s: %.200s: not there (404), though it is listed; try again", repo, path);
    if (r->status == 404)
        return fore_fail(err, FORE_ERR_IO, "%s: there is no such repository at %s (404), or the token may not see it; check the name",
                         repo, endpoint);
    return fore_fail(err, FORE_ERR_IO, "%s%s%.200s: the server answered with status %ld%s%s", repo, path ? ": " : "", path ? path : "",
                     r->status, *r->message ? ": " : "", r->message);
}
