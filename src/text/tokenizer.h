/* The inside of a fore_tokenizer, for the files of this room and for tests. The public calls are in foresight.h.
 *
 * A text goes: added tokens that are not normalised -> NFC -> added tokens that are -> words (split.h) -> bytes ->
 * merges (bpe.h). Nothing is put before or after the ids: the file's post_processor, truncation and padding are not
 * looked at. */
#ifndef FORE_TEXT_TOKENIZER_H
#define FORE_TEXT_TOKENIZER_H

#include "base/json_walk.h"
#include "text/added.h"
#include "text/bpe.h"
#include "text/names.h"
#include "text/split.h"

enum {
    FORE_TOKEN_PRESENT = 1, /* the id has a token */
    FORE_TOKEN_ADDED = 2,
    FORE_TOKEN_SPECIAL = 4,
};

typedef struct fore_piece {
    uint32_t at, size; /* in piece_bytes: what the token decodes to */
    uint8_t flags;
} fore_piece;

struct fore_tokenizer {
    fore_names vocab; /* as the file spells them: bytes as visible characters ("Ġthe") */
    fore_merges merges;
    int32_t byte_ids[256]; /* the token of a single byte, or -1 */
    int32_t unk_id;        /* stands for a byte without a token; -1: such a byte is left out */
    bool fuse_unk;         /* one for a run of them */
    bool ignore_merges;    /* a word that is a token is that token, whatever the merges say */
    bool nfc;
    fore_split split;
    fore_added added;
    fore_piece *pieces; /* owned, [piece_count] by id */
    size_t piece_count;
    fore_buf piece_bytes;
};

/* tokenizer.json, parsed, and what else counts. */
typedef struct fore_tokenizer_source {
    cJSON *file; /* owned by the caller (cJSON_Delete); without model.vocab and model.merges, which are text: in a tree they would take */
    fore_json_text vocab, merges; /* more memory than everything that is made of them */
    size_t size;                  /* of the file */
    const cJSON *config; /* tokenizer_config.json, or NULL */
    const char *regex; /* instead of the regex of the first Split step and of config's pretokenize_regex; NULL: none */
    bool no_jit;
} fore_tokenizer_source;

/* Fills file, vocab, merges and size from a tokenizer.json, whose text must live as long as they. `what` names it in messages. */
fore_status fore_tokenizer_parse(const char *text, size_t size, const char *what, fore_tokenizer_source *out, fore_error *err);
/* Fills a zeroed tokenizer; on failure too it must be given to fore_tokenizer_close. */
fore_status fore_tokenizer_read(const fore_tokenizer_source *source, fore_tokenizer *t, fore_error *err);
/* A tokenizer from parsed files; messages do not name files. */
fore_status fore_tokenizer_make(const fore_tokenizer_source *source, fore_tokenizer **out, fore_error *err);
/* fore_tokenizer_open with another regex (may be NULL), interpreted instead of compiled if no_jit. */
fore_status fore_tokenizer_open_with(const char *path, const char *regex, bool no_jit, fore_tokenizer **out,
                                     fore_error *err);
/* fore_tokenizer_encode that also tells how many merge candidates it took up: work, for tests of linear time. */
fore_status fore_tokenizer_encode_counted(const fore_tokenizer *t, const char *text, size_t size, int32_t **ids,
                                          size_t *count, uint64_t *steps, fore_error *err);

/* The visible character that stands for a byte in token spellings (GPT-2's table): printable bytes of Latin-1 stand for
 * themselves, the others follow from U+0100 on. */
uint32_t fore_byte_to_char(unsigned char byte);

#endif
