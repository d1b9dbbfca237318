/* Binding a vision tower by itself; see tower_check.h. */
#include "forge/tower_check.h"

#include <string.h>

#include "model/weights.h"

static bool under(const char *name, const char *prefix) { return strncmp(name, prefix, strlen(prefix)) == 0; }

static uint64_t count_plain(const fore_store *store, const char *prefix) {
    uint64_t sum = 0;
    for (size_t i = 0; i < fore_store_count(store); i++) {
        const fore_entry *e = fore_store_at(store, i);
        if (!under(e->name, prefix) || fore_bind_is_packed(store, e)) continue;
        uint64_t size = 1;
        for (int d = 0; d < e->dims; d++) size *= e->shape[d];
        sum += size;
    }
    return sum;
}

fore_status fore_tower_check(const fore_config *config, const fore_store *store, const char *prefix, uint64_t *parameters,
                             fore_error *err) {
    fore_network n = {.config = *config};
    fore_status s = fore_kern_get(NULL, &n.kern, err);
    if (!s) s = fore_panels_reserve(&n.panels, store, prefix, &config->stored, err);
    if (!s) {
        /* Borrowed: this network is never closed. */
        n.store = (fore_store *)(uintptr_t)store;
        s = fore_tower_bind(&n, prefix, err);
    }
    if (!s) s = fore_panels_fill(&n.panels, NULL, err);
    if (!s && parameters) *parameters = n.panels.parameters + count_plain(store, prefix);
    fore_panels_free(&n.panels);
    fore_arena_free(&n.arena);
    return s;
}

const fore_entry *fore_tower_find(const fore_store *store, size_t *count) {
    const fore_entry *first = NULL;
    size_t n = 0;
    for (size_t i = 0; i < fore_store_count(store); i++) {
        const fore_entry *e = fore_store_at(store, i);
        bool vision = false;
        for (int p = 0; p < FORE_VISION_PREFIXES; p++) vision = vision || under(e->name, fore_vision_prefixes[p]);
        if (!vision) continue;
        if (!first) first = e;
        n++;
    }
    if (count) *count = n;
    return first;
}
