/* The journal of a folder in the making; see journal.h. */
#include "forge/journal.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"

enum { VERSION = 1, MAX_JOURNAL = 64 << 20 };

const char fore_journal_name[] = "quantization_journal.json";

static fore_status write_journal(const fore_journal *j, fore_error *err) {
    char *text = cJSON_PrintUnformatted(j->tree);
    if (!text) return fore_fail_nomem(err, fore_journal_name);
    fore_status s = fore_folder_write(j->folder, fore_journal_name, text, strlen(text), err);
    free(text);
    return s;
}

static fore_status begin(fore_journal *j, const char *fingerprint, const char *settings, fore_error *err) {
    char *other = NULL;
    fore_status s = fore_folder_find_any(j->folder, &other, err);
    if (s) return s;
    if (other) {
        s = fore_fail(err, FORE_ERR_INVALID, "%s: not empty (it has %.200s), and no unfinished run of this command to go on with; "
                      "give another folder", j->folder->path, other);
        free(other);
        return s;
    }
    j->tree = cJSON_CreateObject();
    if (!j->tree || !cJSON_AddNumberToObject(j->tree, "version", VERSION) ||
        !cJSON_AddStringToObject(j->tree, "fingerprint", fingerprint) ||
        !cJSON_AddStringToObject(j->tree, "settings", settings) || !cJSON_AddArrayToObject(j->tree, "files"))
        return fore_fail_nomem(err, fore_journal_name);
    j->begun = true;
    return write_journal(j, err);
}

static fore_status check(const fore_journal *j, const char *fingerprint, const char *settings, fore_error *err) {
    const char *path = j->folder->path, *old = NULL, *old_settings = NULL;
    int64_t version = 0;
    fore_status s = fore_json_int(j->tree, "version", 1, INT32_MAX, 0, &version, err);
    if (!s) s = fore_json_string(j->tree, "fingerprint", "", &old, err);
    if (!s) s = fore_json_string(j->tree, "settings", "", &old_settings, err);
    if (s) return fore_fail_prefix(err, s, "%s/%s", path, fore_journal_name);
    if (version == VERSION && !strcmp(old, fingerprint) && cJSON_IsArray(fore_json_get(j->tree, "files"))) return FORE_OK;
    if (version == VERSION && strcmp(old_settings, settings))
        return fore_fail(err, FORE_ERR_INVALID, "%s: begun with other settings (%.120s; asked for: %s): ask for the same to go on, or "
                         "remove the folder to begin anew", path, old_settings, settings);
    return fore_fail(err, FORE_ERR_INVALID, "%s: begun from another source, or the source has changed since: remove the folder to "
                     "begin anew", path);
}

fore_status fore_journal_open(const fore_folder *folder, const char *fingerprint, const char *settings, fore_journal *out,
                              fore_error *err) {
    *out = (fore_journal){.folder = folder};
    fore_status s;
    if (!fore_folder_has(folder, fore_journal_name, NULL)) {
        s = begin(out, fingerprint, settings, err);
    } else {
        char *path = fore_path_join(folder->path, fore_journal_name);
        s = path ? fore_json_read(path, MAX_JOURNAL, &out->tree, err) : fore_fail_nomem(err, fore_journal_name);
        free(path);
        if (!s) s = check(out, fingerprint, settings, err);
    }
    if (s) fore_journal_close(out);
    return s;
}

void fore_journal_close(fore_journal *journal) {
    cJSON_Delete(journal->tree);
    *journal = (fore_journal){0};
}

static cJSON *find(const fore_journal *journal, const char *name) {
    cJSON *file;
    cJSON_ArrayForEach(file, fore_json_get(journal->tree, "files")) {
        const cJSON *item = fore_json_get(file, "name");
        if (cJSON_IsString(item) && !strcmp(item->valuestring, name)) return file;
    }
    return NULL;
}

bool fore_journal_find(const fore_journal *journal, const char *name, double *values, size_t count) {
    const cJSON *file = find(journal, name), *bytes = fore_json_get(file, "bytes"), *list = fore_json_get(file, "values");
    uint64_t size;
    if (!cJSON_IsNumber(bytes) || !fore_folder_has(journal->folder, name, &size) || (double)size != bytes->valuedouble ||
        (size_t)cJSON_GetArraySize(list) != count)
        return false;
    size_t i = 0;
    for (const cJSON *v = count ? list->child : NULL; v; v = v->next) {
        if (!cJSON_IsNumber(v)) return false;
        values[i++] = v->valuedouble;
    }
    return true;
}

fore_status fore_journal_add(fore_journal *journal, const char *name, const double *values, size_t count, fore_error *err) {
    cJSON *files = cJSON_GetObjectItemCaseSensitive(journal->tree, "files"), *old = find(journal, name);
    uint64_t size = 0;
    if (old) cJSON_Delete(cJSON_DetachItemViaPointer(files, old));
    if (!fore_folder_has(journal->folder, name, &size))
        return fore_fail(err, FORE_ERR_IO, "%s/%s: gone while it was being finished", journal->folder->path, name);
    cJSON *file = cJSON_CreateObject(), *list;
    bool good = file && cJSON_AddStringToObject(file, "name", name) && cJSON_AddNumberToObject(file, "bytes", (double)size);
    list = good ? cJSON_AddArrayToObject(file, "values") : NULL;
    good = list != NULL;
    for (size_t i = 0; i < count && good; i++) {
        cJSON *v = cJSON_CreateNumber(values[i]);
        good = v && cJSON_AddItemToArray(list, v);
    }
    if (!good || !cJSON_AddItemToArray(files, file)) {
        cJSON_Delete(file);
        return fore_fail_nomem(err, fore_journal_name);
    }
    return write_journal(journal, err);
}

fore_status fore_journal_end(fore_journal *journal, fore_error *err) {
    return fore_folder_remove(journal->folder, fore_journal_name, err);
}
