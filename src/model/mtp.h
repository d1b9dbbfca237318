/* The draft head (multi-token prediction) that the checkpoint ships with: its weights, and its forward pass. The contract
 * says how it is fed. References: transformers modeling_layers.py (MtpModel), vLLM qwen3_5_mtp.py. */
#ifndef FORE_MODEL_MTP_H
#define FORE_MODEL_MTP_H

#include "model/contract.h"
#include "model/trunk.h"

/* Where a draft head may lie: the prefixes of its tensors' names, and files of its own inside the folder, first ones first. */
enum { FORE_MTP_PREFIXES = 4, FORE_MTP_SIDECARS = 3 };
extern const char *const fore_mtp_prefixes[FORE_MTP_PREFIXES], *const fore_mtp_sidecars[FORE_MTP_SIDECARS];

typedef struct fore_mtp {
    bool attached;
    char why[256];      /* when not attached: why */
    char source[256];   /* where the weights come from: a sidecar's path, or "the checkpoint's own files" */
    bool norms_absolute; /* the norms hold the gain itself, not gain - 1 */
    const char *norms_rule; /* how that was decided; static */
    fore_contract contract;
    const char *calibration_note; /* why a calibration that is there is not used; "" else; static */
    fore_store *sidecar;   /* owned; NULL when the weights lie in the checkpoint's own files */
    fore_arena arena;
    fore_panels panels;    /* its quantised matrices */
    fore_text_config text; /* of the head's layers: full attention only */
    const float *norm_embedding, *norm_hidden, *norm; /* [C] gains */
    fore_weight fc;        /* [C, 2C] */
    fore_layer *layers;    /* [text.num_hidden_layers] */
} fore_mtp;

/* Attaches the head of an open network when its config declares one. `contract` (may be NULL) is the caller's own, a JSON
 * object. load: as in fore_network_open. Not declared, absent or quantised in an unknown form: *out is not attached and says why.
 * Present but incomplete, misshapen, or a contract that makes no sense: an error. *out borrows from the network; free
 * it first. */
fore_status fore_mtp_open(const char *dir, const fore_network *network, const cJSON *contract, const fore_load *load, fore_mtp *out,
                          fore_error *err);
void fore_mtp_close(fore_mtp *mtp);

/* What measuring found about a head's contract (src/forge/calibrate.h), in the checkpoint's folder: {"mtp_contract": {...}, "head": digest}.
 * Without "head" it is for any. */
extern const char fore_mtp_calibration_file[];
enum { FORE_MTP_DIGEST = 16 };
/* Tells one head from another by its norms, in hexadecimal. */
void fore_mtp_digest(const fore_store *store, const char *prefix, const fore_kern *kern, char hex[2 * FORE_MTP_DIGEST + 1]);
/* The contract, source by source, into m->contract; store: where the head is, NULL: nowhere. For fore_mtp_open. */
fore_status fore_mtp_read_contract(const char *dir, const cJSON *config, const cJSON *caller, const fore_store *store, const fore_kern *kern,
                                   fore_mtp *m, fore_error *err);

/* The prefix under which a store has a head; NULL: it has none. */
const char *fore_mtp_prefix(const fore_store *store);
/* Whether the head in a store fits a model: every tensor there, with its shape. Of the network, config and kern alone are used;
 * config_tree is its config.json. FORE_ERR_FORMAT names what is wrong. */
fore_status fore_mtp_fits(const fore_network *network, const fore_store *store, const cJSON *config_tree, fore_error *err);

/* Scratch memory of the head for up to `rows` rows a call. */
typedef struct fore_mtp_scratch {
    int rows;
    float *x, *h, *mix; /* [rows,C] */
    float *pair;        /* [rows,2C] normed embedding and hidden side by side */
    float *fc, *post;   /* [C] of the last row */
    void *memory;       /* owned */
    size_t bytes;
} fore_mtp_scratch;
fore_status fore_mtp_scratch_new(const fore_mtp *mtp, int rows, fore_mtp_scratch *out, fore_error *err);
void fore_mtp_scratch_free(fore_mtp_scratch *scratch);

typedef struct fore_mtp_batch {
    int T;                       /* 1 .. scratch rows, also of the trunk's scratch */
    int from;                    /* rows before it only append their keys and values; T: all of them */
    const float *hidden;         /* [T,C] by the contract: the trunk's, or what the head gave back */
    const float *embeddings;     /* [T,C] of the tokens that follow, as the trunk saw them */
    const int32_t *positions[3]; /* [T] each */
    float *post_norm;            /* out, [T,C]: rows from `from` are set; what the output head takes; may be NULL */
    float *next;                 /* out, [C]: the hidden state that the contract feeds to the next depth; may be NULL */
} fore_mtp_batch;

/* Appends T rows to the head's state (key/value rows of its layers) and computes rows from .. T-1. scratch: the trunk's,
 * whose memory is used meanwhile. Takes no memory, cannot fail. */
void fore_mtp_forward(const fore_engine *engine, const fore_network *network, const fore_mtp *mtp, fore_state *state,
                      fore_scratch *scratch, fore_mtp_scratch *own, const fore_mtp_batch *batch);

#endif
