/* Checking names from outside; see names.h. */
#include "hub/names.h"

#include <string.h>

static bool is_alphanumeric(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

/* An owner or a name: 1 to 96 of A-Z a-z 0-9 _ - . that neither begins nor ends with - or . */
static bool is_repo_part(const char *text, size_t size) {
    if (size < 1 || size > 96) return false;
    for (size_t i = 0; i < size; i++) {
        bool inner = text[i] == '-' || text[i] == '.';
        if (inner ? i == 0 || i + 1 == size : !is_alphanumeric(text[i]) && text[i] != '_') return false;
    }
    return true;
}

bool fore_hub_name_revise(fore_hub_name *name, const char *revision) {
    size_t size = strlen(revision);
    if (size >= sizeof name->revision || !fore_hub_path_is_safe(revision)) return false;
    memcpy(name->revision, revision, size + 1);
    return true;
}

bool fore_hub_name_parse(const char *text, fore_hub_name *out) {
    *out = (fore_hub_name){0};
    const char *slash = strchr(text, '/'), *at = strchr(text, '@');
    size_t size = at ? (size_t)(at - text) : strlen(text);
    if (!slash || slash >= text + size || size >= sizeof out->repo) return false;
    const char *name = slash + 1;
    size_t name_size = size - (size_t)(name - text);
    if (!is_repo_part(text, (size_t)(slash - text)) || !is_repo_part(name, name_size)) return false;
    memcpy(out->repo, text, size);
    if (strstr(out->repo, "--") || strstr(out->repo, "..")) return false;
    if (name_size >= 4 && strcmp(out->repo + size - 4, ".git") == 0) return false;
    return fore_hub_name_revise(out, at ? at + 1 : "main");
}

bool fore_hub_path_is_safe(const char *path) {
    if (strlen(path) > 1024) return false;
    for (const char *c = path; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == '\\' || (*c == '\xc2' && (unsigned char)c[1] >= 0x80 && (unsigned char)c[1] < 0xa0))
            return false;
    for (const char *part = path;;) {
        size_t size = strcspn(part, "/");
        if (size == 0 || size > 255) return false;
        if (part[0] == '.' && (size == 1 || (size == 2 && part[1] == '.'))) return false;
        if (!part[size]) return true;
        part += size + 1;
    }
}

static bool is_hexadecimal(const char *text, size_t digits) {
    return strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

bool fore_hub_is_commit(const char *text) { return is_hexadecimal(text, 40); }
bool fore_hub_is_digest(const char *text) { return is_hexadecimal(text, 40) || is_hexadecimal(text, 64); }

fore_status fore_hub_escape(fore_buf *out, const char *text, bool keep_slashes) {
    fore_status s = FORE_OK;
    for (const char *c = text; *c && !s; c++) {
        static const char digits[] = "0123456789ABCDEF";
        const char coded[3] = {'%', digits[(unsigned char)*c >> 4], digits[(unsigned char)*c & 15]};
        bool plain = is_alphanumeric(*c) || strchr("-._~", *c) || (keep_slashes && *c == '/');
        s = plain ? fore_buf_putc(out, *c) : fore_buf_append(out, coded, sizeof coded);
    }
    return s;
}
