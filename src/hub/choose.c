/* Which files of a repository are wanted; see listing.h. */
#include <fnmatch.h>
#include <string.h>

#include "hub/listing.h"

/* Of the top folder alone, where checkpoints have what is read; other folders hold the same for other programs. */
static const char *const needed[] = {"*.json", "*.jinja", "*.safetensors", "merges.txt", "vocab.txt", "tokenizer.model"};
/* The draft head's own files (model/mtp_weights.c), and templates beside the main one. */
static const char *const needed_below[] = {"mtp/*.json", "mtp/*.safetensors", "additional_chat_templates/*.jinja"};
/* The same weights once more, and what belongs to copies in other forms. */
static const char *const useless[] = {"consolidated*.safetensors", "*.bin.index.json", "*.h5.index.json", "*.msgpack.index.json"};

#define COUNT(list) (sizeof(list) / sizeof *(list))

bool fore_hub_matches(fore_hub_patterns patterns, const char *path) {
    for (size_t i = 0; i < patterns.count; i++) {
        const char *p = patterns.items[i];
        size_t n = strlen(p);
        if (n && p[n - 1] == '/' ? strncmp(path, p, n) == 0 : fnmatch(p, path, FNM_NOESCAPE) == 0) return true;
    }
    return false;
}

static bool is_needed(const char *path) {
    const fore_hub_patterns top = {needed, COUNT(needed)}, below = {needed_below, COUNT(needed_below)}, not = {useless, COUNT(useless)};
    return (strchr(path, '/') ? fore_hub_matches(below, path) : fore_hub_matches(top, path)) && !fore_hub_matches(not, path);
}

size_t fore_hub_choose(fore_hub_listing *listing, fore_hub_patterns include, fore_hub_patterns exclude) {
    size_t count = 0;
    for (size_t i = 0; i < listing->count; i++) {
        fore_hub_file *file = &listing->files[i];
        file->wanted = (include.count ? fore_hub_matches(include, file->path) : is_needed(file->path)) &&
                       !fore_hub_matches(exclude, file->path);
        count += file->wanted;
    }
    return count;
}
