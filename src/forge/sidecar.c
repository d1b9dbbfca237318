/* Finding the draft head's own file; see sidecar.h. */
#include "forge/sidecar.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "forge/quantize_plan.h"
#include "model/mtp.h"

static fore_status try_file(const char *dir, const char *name, fore_store **out, char **found, fore_error *err) {
    char *path = fore_path_join(dir, name);
    if (!path) return fore_fail_nomem(err, name);
    fore_status s = FORE_OK;
    if (fore_file_exists(path)) s = fore_store_open_file(path, out, err);
    free(path);
    if (s || !*out) return s;
    bool head = false;
    for (size_t i = 0; i < fore_store_count(*out); i++) head = head || fore_quantize_is_draft(fore_store_at(*out, i)->name);
    *found = head ? strdup(name) : NULL;
    if (head && !*found) s = fore_fail_nomem(err, name);
    if (head && !s) return FORE_OK;
    fore_store_close(*out); /* a file of that name without a head in it */
    *out = NULL;
    return s;
}

fore_status fore_sidecar_open(const char *dir, const cJSON *config, fore_store **out, char **name, fore_error *err) {
    const char *named = NULL;
    *out = NULL;
    *name = NULL;
    fore_status s = fore_json_string(fore_json_get(config, "mlx_lm_extra_tensors"), "mtp_file", NULL, &named, err);
    if (s) return fore_fail_prefix(err, s, "%s/config.json: mlx_lm_extra_tensors", dir);
    if (named && !fore_path_stays_inside(named))
        return fore_fail(err, FORE_ERR_FORMAT, "%s/config.json: mlx_lm_extra_tensors.mtp_file: \"%.100s\" leaves the model's folder", dir, named);
    if (named) s = try_file(dir, named, out, name, err);
    for (int i = 0; i < FORE_MTP_SIDECARS && !s && !*out; i++) s = try_file(dir, fore_mtp_sidecars[i], out, name, err);
    return s;
}
