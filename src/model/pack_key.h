/* The digests of packs (libsodium's BLAKE2b): of what panels are made from, and of what they are. */
#ifndef FORE_MODEL_PACK_KEY_H
#define FORE_MODEL_PACK_KEY_H

#include "model/panels.h"

/* Of the matrices that wait to be repacked and of the files that they lie in. */
void fore_pack_key(const fore_panels *panels, const fore_store *store, uint8_t key[32]);
/* Whether the files still are what they were when the store opened them. */
bool fore_pack_sources_same(const fore_store *store);
/* Of the region, by all threads of the pool (may be NULL). False when memory is out. */
bool fore_pack_content(const fore_panels *panels, fore_pool *pool, uint8_t digest[32]);

#endif
