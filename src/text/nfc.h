/* Unicode normal form C, as the reference tokenizer's normaliser makes it (see unicode_tables.h for where utf8proc
 * would differ). Linear time, also for endless runs of combining marks. */
#ifndef FORE_TEXT_NFC_H
#define FORE_TEXT_NFC_H

#include <stdbool.h>

#include "base/buf.h"

/* True when text has no code point from U+0300 on, which means that it is in normal form; false says nothing. */
bool fore_nfc_is_plain(const char *text, size_t size);
/* Appends the normal form of text (valid UTF-8) to out. FORE_ERR_NOMEM; out may then hold a part. */
fore_status fore_nfc_append(fore_buf *out, const char *text, size_t size);

#endif
