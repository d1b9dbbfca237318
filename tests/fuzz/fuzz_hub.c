/* What the hub says: any bytes as a commit and as a page of files. Whatever is taken can be kept, and is found by choosing all. */
#include <stdlib.h>

#include "hub/listing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const all[] = {"*"};
    fore_error err;
    fore_hub_listing l = {0};
    if (!fore_hub_listing_read_commit(&l, (const char *)data, size, "input", &err) && !fore_hub_is_commit(l.commit)) abort();
    (void)fore_hub_listing_add(&l, (const char *)data, size, "input", &err);
    for (size_t i = 0; i < l.count; i++)
        if (!fore_hub_path_is_safe(l.files[i].path) || !fore_hub_is_digest(l.files[i].digest) || l.files[i].size > (uint64_t)1 << 53) abort();
    (void)fore_hub_choose(&l, (fore_hub_patterns){0}, (fore_hub_patterns){0});
    if (fore_hub_choose(&l, (fore_hub_patterns){all, 1}, (fore_hub_patterns){0}) != l.count) abort();
    fore_hub_listing_free(&l);
    return 0;
}
