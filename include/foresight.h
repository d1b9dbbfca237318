/* Foresight: vision-language models of the Qwen3.5 family on CPUs. The one public header; the command uses only this.
 *
 * Objects: a fore_model is immutable after open and may be shared by threads; a fore_session is one timeline and belongs
 * to one thread at a time. Pointers that the library gives out say whether they are owned by the caller (free with
 * fore_free) or borrowed until a named event. Every function that can fail returns a fore_status and fills `err` (which
 * may be NULL) with what, where and what to do; on failure nothing is left changed unless the comment says so.
 * Axis letters in comments: S tokens of a sequence, C hidden size, V vocabulary, P patches, I image rows. */
#ifndef FORESIGHT_H
#define FORESIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FORE_API __attribute__((visibility("default")))

/* ---- status and error text ------------------------------------------------------------------------------------- */

#define FORE_STATUS_MAP(XX)                             \
    XX(OK, 0, "ok")                                     \
    XX(ERR_NOMEM, -1, "out of memory")                  \
    XX(ERR_IO, -2, "a file cannot be read or written")  \
    XX(ERR_FORMAT, -3, "malformed input")               \
    XX(ERR_UNSUPPORTED, -4, "not supported")            \
    XX(ERR_LIMIT, -5, "a limit is exceeded")            \
    XX(ERR_INVALID, -6, "an argument makes no sense")   \
    XX(ERR_CANCELLED, -7, "cancelled")                  \
    XX(ERR_BUG, -8, "an internal check failed")

typedef int fore_status;
enum {
#define FORE_XX(name, value, text) FORE_##name = (value),
    FORE_STATUS_MAP(FORE_XX)
#undef FORE_XX
};

typedef struct fore_error {
    fore_status code;
    char text[512];
} fore_error;

FORE_API const char *fore_status_name(fore_status code); /* static text */
FORE_API const char *fore_version(void);                 /* static text, "0.1.0" */
FORE_API void fore_free(void *p);                        /* anything that a comment calls "owned by the caller" */

/* ---- tokenizer --------------------------------------------------------------------------------------------------- */

/* Byte-level BPE of a Hugging Face tokenizer.json; immutable, shared by threads. */
typedef struct fore_tokenizer fore_tokenizer;

/* path: a checkpoint folder (tokenizer.json, with tokenizer_config.json merged when it is there) or a tokenizer.json. */
FORE_API fore_status fore_tokenizer_open(const char *path, fore_tokenizer **out, fore_error *err);
FORE_API void fore_tokenizer_close(fore_tokenizer *tokenizer);
/* text[0..size) to ids; special tokens inside the text become their ids; invalid UTF-8 is replaced by U+FFFD.
 * *ids is owned by the caller. */
FORE_API fore_status fore_tokenizer_encode(const fore_tokenizer *tokenizer, const char *text, size_t size, int32_t **ids,
                                           size_t *count, fore_error *err);
/* ids to UTF-8 (invalid bytes replaced), NUL-terminated; *text is owned by the caller. Ids outside the vocabulary are
 * skipped. */
FORE_API fore_status fore_tokenizer_decode(const fore_tokenizer *tokenizer, const int32_t *ids, size_t count,
                                           bool skip_special, char **text, size_t *size, fore_error *err);
/* The bytes of one token (borrowed until close, not NUL-terminated, not always UTF-8), or NULL for an unknown id. */
FORE_API const char *fore_tokenizer_piece(const fore_tokenizer *tokenizer, int32_t id, size_t *size);
FORE_API int32_t fore_tokenizer_id(const fore_tokenizer *tokenizer, const char *token); /* -1: no such token */
FORE_API bool fore_tokenizer_is_special(const fore_tokenizer *tokenizer, int32_t id);
FORE_API size_t fore_tokenizer_size(const fore_tokenizer *tokenizer); /* largest id + 1 */

/* ---- chat templates ---------------------------------------------------------------------------------------------- */

typedef struct fore_template fore_template; /* compiled Jinja; immutable, shared by threads */

FORE_API fore_status fore_template_compile(const char *source, size_t size, fore_template **out, fore_error *err);
FORE_API void fore_template_free(fore_template *t);
/* variables: a JSON object, one member a template variable (messages, tools, add_generation_prompt, bos_token, ...).
 * `tools` and `documents` are none and `add_generation_prompt` is false when they are not given, as apply_chat_template
 * has it; messages are taken as they are (fore_model_render also drops their null members and gives reasoning under its
 * other names). *text is owned by the caller. FORE_ERR_FORMAT: what jinja2 would raise, with the template's line;
 * FORE_ERR_LIMIT: too many steps, too deep, too long; FORE_ERR_UNSUPPORTED: what this engine leaves out. */
FORE_API fore_status fore_template_render(const fore_template *t, const char *variables, size_t size, char **text,
                                          size_t *text_size, fore_error *err);

/* ---- model ------------------------------------------------------------------------------------------------------- */

typedef struct fore_model fore_model;

/* Called now and then from long calls (after each layer, mostly); `done` of `total` units of `stage` ("load", "vision",
 * "video", "prefill"). A return other
 * than 0 cancels the call (FORE_ERR_CANCELLED). */
typedef int (*fore_progress)(void *user, const char *stage, uint64_t done, uint64_t total);

typedef struct fore_model_options {
    const char *isa;        /* "ref", "avx2", "avx512", "avx512vnni", "amx", "neon", "neondot"; NULL: the best of this machine */
    fore_progress progress; /* may be NULL */
    void *user;
    bool no_mtp;              /* leaves the draft head out */
    const char *mtp_contract; /* JSON object of contract fields that win over the checkpoint's own; NULL: none */
    /* Quantised matrices are repacked for the kernels at every open. In this folder (of which the last part is made) they are
     * kept repacked for the next one, which then only maps them; NULL: nowhere. What cannot be used or written never fails
     * an open: see pack_note of fore_model_info. Borrowed until open returns. */
    const char *pack_dir;
    bool pack_read_only; /* uses what is there, writes nothing */
    bool pack_verify;    /* reads all of it, and refuses what is not what was written */
    /* The output head that drafts come from: a part of the model's own, at fewer bits, where that has more than 32,768 ids. */
    int draft_head_bits;  /* 4 or 8; 16: the model's own weights; 0: chosen (4) */
    int draft_vocabulary; /* ids by rank that may be drafted, besides added tokens and what a session has seen; -1: all; 0: chosen (those
                             of the folder's draft_vocabulary.json, else 32,768; the model's own head drafts while that does not
                             suit the text) */
    const char *mmproj; /* the GGUF file with the vision tower of a model in GGUF files; NULL: that of the folder, if a folder is given */
} fore_model_options;

/* Opens a Hugging Face checkpoint folder, a GGUF file or a folder of such; weights are mapped, not copied, but for those that have
 * another form in memory. options may be NULL. A model without a tokenizer or template opens; what needs them fails later and
 * says so. */
FORE_API fore_status fore_model_open(const char *dir, const fore_model_options *options, fore_model **out, fore_error *err);
FORE_API void fore_model_close(fore_model *model); /* after its sessions */
FORE_API const fore_tokenizer *fore_model_tokenizer(const fore_model *model); /* borrowed until close; may be NULL */
FORE_API const fore_template *fore_model_template(const fore_model *model);   /* borrowed until close; may be NULL */

typedef struct fore_model_info {
    const char *architecture, *model_type, *isa, *dtypes; /* borrowed until close; dtypes like "BF16 F32" */
    int layers, full_attention_layers, linear_attention_layers;
    int hidden_size, intermediate_size, vocab_size, context_length;
    int attention_heads, kv_heads, head_dim, linear_key_heads, linear_value_heads;
    bool tied_embeddings, has_tokenizer, has_template;
    bool has_vision;
    int vision_depth, vision_hidden_size, patch_size, merge_size;
    double video_fps; /* frames a second that are taken of a video, from min to max of them; 0: all, unless a request says how many */
    int video_min_frames, video_max_frames;
    bool mtp_declared;
    int mtp_layers, mtp_tensors; /* declared layers, and tensors found under the MTP prefixes */
    bool mtp_attached;           /* the draft head is ready */
    const char *mtp_source;      /* where its weights come from, with how its norms are encoded; "" when not attached */
    const char *mtp_note;        /* why it is not attached; "" when it is */
    int draft_vocabulary, draft_head_bits; /* ids and bits of the draft-only output head; 0: the model's own head drafts */
    uint64_t text_parameters, vision_parameters, mtp_parameters, weight_bytes, tensor_count, file_count;
    /* Mixture of experts; 0 in a dense model, and then intermediate_size is not. */
    int experts, experts_per_token, expert_intermediate_size, shared_expert_intermediate_size;
    uint64_t active_parameters; /* of text_parameters, what one token uses: all of them in a dense model */
    uint64_t repacked_bytes;    /* of quantised matrices as the kernels read them; 0: none is quantised */
    int packs_used, packs_written; /* files of pack_dir that they are mapped from, and those of them made by this open */
    const char *pack_note;         /* why there is none, though pack_dir asked for it; "" */
} fore_model_info;

FORE_API void fore_model_get_info(const fore_model *model, fore_model_info *out);

/* The files in which a folder keeps this model repacked (one, and one for the draft head), whether or not it was opened with them. */
typedef struct fore_packs {
    int wanted, present;
    uint64_t bytes;
    char *path; /* of the first that is present, or else would be made; owned by the caller; NULL: nothing is quantised */
} fore_packs;
FORE_API fore_status fore_model_find_packs(const fore_model *model, const char *pack_dir, fore_packs *out, fore_error *err);
/* Removes this model's other files of that kind: those of earlier weights, and halves that a crash has left. files, bytes: how
 * many, and how large together. */
FORE_API fore_status fore_model_prune_packs(const fore_model *model, const char *pack_dir, int *files, uint64_t *bytes, fore_error *err);

/* Field `index` of the draft head's contract (how the head is fed), as text, and which source set it; false past the last. */
FORE_API bool fore_model_get_contract(const fore_model *model, int index, const char **name, const char **value, const char **source);

/* How the files hold quantised matrices, and what became of them. */
typedef struct fore_stored_form {
    const char *name;    /* "MLX", "FP8", "compressed-tensors", "AWQ", "GPTQ", ...; borrowed until the model is closed */
    int bits, group;     /* of a weight in the files; weights of a row that share a scale, 0: all of it, or blocks */
    int memory_bits;     /* 4 or 8: read as integers; 16 or 32: became floats */
    uint64_t parameters; /* of the matrices of this kind, the draft head's among them */
} fore_stored_form;
/* Kind `index` of quantised matrix (bits and groups may differ between modules); false past the last. */
FORE_API bool fore_model_get_form(const fore_model *model, int index, fore_stored_form *out);

/* Bytes that a session will take, before they are taken. */
typedef struct fore_plan {
    uint64_t weights;                      /* mapped */
    uint64_t draft_head;                   /* the draft-only output head, of the model and not of a session */
    uint64_t kv, recurrent, scratch, draft, total; /* of one session with this context; total without the weights and the draft head */
} fore_plan;
FORE_API void fore_model_plan(const fore_model *model, int context, fore_plan *out); /* context 0: the default one */

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* One picture: an encoded file in memory (JPEG, PNG, WebP), or prepared patches. Borrowed until begin returns. */
typedef struct fore_image {
    const void *data; /* encoded bytes */
    size_t size;
    const char *name;      /* for messages; may be NULL */
    const float *patches;  /* instead of data: pixel_values [P, 3*2*16*16] in merge order */
    int grid[3];           /* with patches: t, h, w in patches */
} fore_image;

/* One video, as the checkpoint's video processor takes it: frames that are given as pictures, or a file (where the library was
 * built with FFmpeg's: fore_video_files), or prepared patches. Borrowed until begin returns. */
typedef struct fore_video {
    const fore_image *frames; /* encoded pictures of one size, in order */
    size_t frame_count;
    double fps;          /* of the frames: frame i was seen at i / fps seconds */
    const double *times; /* [frame_count] seconds instead of fps; then every frame is taken */
    const char *path;    /* instead of frames: a file of any form that FFmpeg knows */
    const void *data;    /* instead of path: its bytes */
    size_t size;
    const char *name;       /* for messages; may be NULL */
    double sample_fps;      /* frames a second that are taken, evenly; 0: as the checkpoint says (2, or all of them) */
    bool every_frame;       /* all of them are taken */
    const float *patches;   /* instead of frames and files: pixel_values_videos [P, 3*2*16*16]; with times [grid[0]] of the temporal */
    int grid[3];            /* patches, which a prompt of ids does without; t, h, w in patches */
} fore_video;
FORE_API bool fore_video_files(void); /* whether files can be read; while one is, FFmpeg's log is silent in the whole process */

typedef struct fore_logit_bias {
    int32_t id;
    float bias; /* added to the logit */
} fore_logit_bias;

/* Processors apply in this order: bias, repetition, presence, frequency, temperature, top-k, top-p, min-p. */
typedef struct fore_sampling {
    float temperature;        /* 0: greedy */
    int top_k;                /* 0: off */
    float top_p, min_p;       /* 1 and 0: off */
    float repetition_penalty; /* 1: off; counts prompt and answer, as transformers */
    float presence_penalty, frequency_penalty; /* 0: off; count the answer only, as OpenAI */
    uint64_t seed;
    const fore_logit_bias *bias; /* borrowed until the request's end */
    size_t bias_count;
} fore_sampling;

/* The checkpoint's generation_config.json, else greedy. */
FORE_API void fore_model_default_sampling(const fore_model *model, fore_sampling *out);

/* Drafting: the checkpoint's own head proposes tokens, or what followed the last tokens where they stood before in prompt or answer
 * (look-ups, which cost nothing), and the model checks several at once. It changes the speed, never the answer (with the rejection
 * sampler: never the distribution). */
enum { FORE_DRAFT_MAX = 8, FORE_DRAFT_AUTO = -1 };
typedef enum fore_draft_sampler {
    FORE_SAMPLER_SEEDED,   /* every row is sampled with the noise of its position: the text is that of the seed at any depth */
    FORE_SAMPLER_REJECTION /* drafts are accepted with probability min(1, p/q): the same distribution, other texts by depth */
} fore_draft_sampler;

typedef enum fore_draft_lookup {
    FORE_LOOKUP_AUTO, /* with FORE_DRAFT_AUTO on, at a fixed depth off */
    FORE_LOOKUP_OFF,
    FORE_LOOKUP_ON    /* at a fixed depth: where three tokens or more match, what followed them fills the round, up to FORE_DRAFT_MAX;
                          else the head's drafts come first and what followed them behind */
} fore_draft_lookup;

/* What a draft head may be denied, to measure what it is worth. */
enum { FORE_ABLATE_SPLICE = 1, FORE_ABLATE_DELTA = 2, FORE_ABLATE_HISTORY = 4 };

typedef struct fore_draft {
    int depth; /* drafts of the head a round, 0 (none) to FORE_DRAFT_MAX, or FORE_DRAFT_AUTO: head and look-ups as measured cost,
                  recent acceptance and the head's own confidence make fastest; look-ups alone where there is no head */
    fore_draft_sampler sampler; /* greedy (temperature 0) is the same with either */
    fore_draft_lookup lookup;
    unsigned ablate;            /* FORE_ABLATE_*: for experiments; accepts fewer drafts, the answer stays */
    bool wrong;                 /* for experiments: every draft is made wrong; not with the rejection sampler */
    const int32_t *replay;      /* for experiments: the head's drafts are replaced by this answer's tokens (the head works all the same, */
    size_t replay_count;        /* where there is one); borrowed until the last next */
    const double *replay_right; /* with replay, for experiments: [FORE_DRAFT_MAX] shares of replayed drafts that stay right, each given */
    uint64_t replay_seed;       /* that those before it in the round did; drawn by this seed; NULL: all stay. Borrowed likewise */
} fore_draft;

typedef struct fore_limits {
    uint64_t image_bytes, image_pixels; /* of one picture: 64 MiB encoded, 100 million pixels decoded */
    int image_side;                     /* 30,000 */
    int image_count;                    /* 64 */
    int video_count;                    /* 16 */
    uint64_t video_frames;              /* of one video, before frames are left out: 1,000,000 */
} fore_limits;
FORE_API void fore_limits_init(fore_limits *limits);

/* Exactly one of messages, prompt and ids. Everything is borrowed until begin returns, sampling.bias and stop until the
 * last next. Initialise with fore_request_init. */
typedef struct fore_request {
    const char *messages; /* JSON list as transformers takes it: {"role","content": text or parts}; {"type":"image"} parts
                             take the pictures of `images` in order, {"type":"video"} parts the videos of `videos` */
    const char *tools;    /* JSON list, or NULL */
    const char *options;  /* JSON object of further template variables, or NULL */
    bool continue_final;  /* no generation prompt after the last message */
    const char *prompt;   /* text as after the template; each image pad token takes the next picture, each video pad the next video */
    const int32_t *ids;   /* token ids, with one pad a picture and temporal patch of a video, or already expanded */
    size_t id_count;
    const fore_image *images;
    size_t image_count;
    const fore_video *videos;
    size_t video_count;
    bool nested_videos; /* the prompt keeps the vision start and end around a video's own ones, as transformers has it since 5 */
    fore_sampling sampling;
    int max_tokens; /* 0: until the context is full */
    const char *const *stop;
    size_t stop_count;
    bool ignore_eos;
    int prefill_chunk; /* 0: the default */
    fore_draft draft;  /* FORE_DRAFT_AUTO by fore_request_init; without drafts when its model is NULL */
    fore_limits limits;
    fore_progress progress;
    void *user;
} fore_request;

/* Zeroes, then the model's default sampling and the default limits. model may be NULL (greedy). */
FORE_API void fore_request_init(fore_request *request, const fore_model *model);
/* The exact prompt text of a request with messages, before the pads are expanded; *text is owned by the caller. */
FORE_API fore_status fore_model_render(const fore_model *model, const fore_request *request, char **text, size_t *size,
                                       fore_error *err);

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

typedef struct fore_session fore_session;

typedef struct fore_session_options {
    int threads; /* 0: as many as `cpus` has, without these the processors that this process may use */
    int context; /* tokens; 0: the model's context length, at most 32,768 */
    /* Processors as cpusets list them, "0-3,8": each thread is held on one of its own, the calling thread too until it frees
     * the session. NULL: the system places threads. */
    const char *cpus;
} fore_session_options;

FORE_API fore_status fore_session_new(const fore_model *model, const fore_session_options *options, fore_session **out,
                                      fore_error *err);
FORE_API void fore_session_free(fore_session *session);

/* Takes the full conversation: renders, tokenises, sees the pictures, prefills (a prefix that the session has already
 * seen is not computed again). After a failure the session is as before, or empty, or has seen a beginning of the prompt; it
 * can begin again. */
FORE_API fore_status fore_session_begin(fore_session *session, const fore_request *request, fore_error *err);

typedef enum fore_finish { FORE_FINISH_NONE, FORE_FINISH_STOP, FORE_FINISH_LENGTH } fore_finish;

typedef enum fore_mark {
    FORE_MARK_PLAIN,      /* no draft was made for its place */
    FORE_MARK_ACCEPTED,   /* drafted, and right */
    FORE_MARK_CORRECTION, /* in the place of a wrong draft */
    FORE_MARK_BONUS       /* after the last draft, all of them right */
} fore_mark;

typedef struct fore_chunk {
    const char *text; /* whole characters, borrowed until the next call on the session */
    size_t size;      /* 0 when a character or a possible stop string is still incomplete */
    const int32_t *ids; /* tokens of this round, end token included; borrowed likewise */
    size_t id_count;
    const uint8_t *marks;     /* [id_count] fore_mark; borrowed likewise */
    const size_t *text_ends;  /* [id_count] bytes of text after each token; borrowed likewise */
    fore_finish finish; /* NONE: call again; STOP: end token or stop string; LENGTH: max_tokens or context full */
} fore_chunk;

/* One round: computes at least one token. Cancelling is not calling again. After a chunk with a finish it fails with
 * FORE_ERR_INVALID until the next begin. */
FORE_API fore_status fore_session_next(fore_session *session, fore_chunk *chunk, fore_error *err);

typedef struct fore_draft_stats {
    uint64_t rounds, tokens;                   /* with at least one draft, and tokens of those rounds */
    uint64_t drafted[FORE_DRAFT_MAX], accepted[FORE_DRAFT_MAX]; /* by depth: made; right together with all before it */
} fore_draft_stats;

typedef struct fore_source_stats {
    uint64_t rounds;            /* with at least one draft of this source */
    uint64_t drafted, accepted; /* judged; right together with all before them in their round */
    uint64_t dropped;           /* made by the head and not checked: it was not confident enough */
} fore_source_stats;

typedef struct fore_stats {
    fore_draft_stats draft[2]; /* [1]: after a picture or video, [0]: none before it */
    fore_source_stats head, lookups; /* the same drafts by where they came from */
    uint64_t rounds;           /* passes of the trunk while generating */
    uint64_t outside;          /* tokens said that the draft vocabulary lacked, so that no draft could be right */
    uint64_t history_missing;  /* rows of the prompt that the draft head has not seen */
    double draft_seconds, verify_seconds, commit_seconds; /* parts of decode_seconds */
    uint64_t prompt_tokens, image_tokens, reused_tokens, generated_tokens, images;
    uint64_t videos, video_frames, video_tokens; /* frames: those that were taken */
    double image_seconds, vision_seconds, prefill_seconds, decode_seconds, sample_seconds;
    uint64_t state_bytes;
    /* Mixture of experts: those that some token picked, over all layers, with their bytes; and the bytes that passes read of
     * them, where a pass reads an expert once for all of its rows. */
    uint64_t experts_touched, expert_bytes_touched, expert_bytes_read;
    const char *stop; /* the stop string that ended it, or NULL; borrowed until the next begin */
} fore_stats;
FORE_API void fore_session_get_stats(const fore_session *session, fore_stats *out); /* of the request begun last */

/* A digest of everything that the session would go on from: the tokens that were said, keys, values and recurrent state. Two
 * sessions of one model with equal digests answer equally. */
FORE_API void fore_session_digest(const fore_session *session, uint8_t digest[32]);

/* What another implementation needs to compare with: everything of one forward pass over the prompt. */
typedef struct fore_trace {
    size_t tokens;     /* S */
    int hidden, vocab; /* C, V */
    size_t image_rows; /* I */
    int32_t *ids;       /* [S] expanded */
    int32_t *positions; /* [3,S]: t, h, w */
    int32_t delta;
    float *embeddings; /* [S,C] after the splice */
    float *final_hidden; /* [S,C] after the final norm */
    float *logits;       /* [S,V] */
} fore_trace;

/* Runs the prompt of the request (nothing is generated). The session is empty afterwards. *out is owned by the caller
 * (fore_trace_free). */
FORE_API fore_status fore_session_trace(fore_session *session, const fore_request *request, fore_trace **out, fore_error *err);
FORE_API void fore_trace_free(fore_trace *trace);

/* ---- measuring --------------------------------------------------------------------------------------------------- */

/* What a session's passes spend on one operator since its profile began. Bytes are counted once a pass: what must be read at
 * least (and written, of recurrent state), whatever the caches do. A multiply-add counts 2 operations. */
typedef struct fore_operator {
    const char *name; /* "qkv", "mtp.qkv" of the draft head, "vision.qkv" of the tower; static */
    uint64_t calls;
    double seconds; /* of all threads together, by the clock; operators never overlap */
    uint64_t weight_bytes, state_bytes;
    double float_operations, integer_operations; /* with f32 sums; with quantised weights */
} fore_operator;

/* Begins a profile anew (on) or ends it. Ordinary work pays next to nothing for it, and nothing without it. */
FORE_API fore_status fore_session_profile(fore_session *session, bool on, fore_error *err);
/* Operator `index` of those that were called, in the order of a pass; false past the last one. */
FORE_API bool fore_session_get_operator(const fore_session *session, int index, fore_operator *out);

/* One pass over `rows` tokens at the session's length, as a round with rows - 1 drafts makes it, and its commit of all of them (0
 * for one row, which needs none). The timeline is as before; the expert counts of fore_stats are not. FORE_ERR_LIMIT: the context has no room. */
enum { FORE_PASS_MAX = 16 };
typedef struct fore_pass_time {
    double pass, commit; /* seconds; the pass with the logits of every row */
} fore_pass_time;
FORE_API fore_status fore_session_time_pass(fore_session *session, int rows, fore_pass_time *out, fore_error *err);

/* What this machine can do with `threads` threads (0: the processors of this process) and the instruction set `isa` (NULL: the
 * best), each the best of a few short tries. */
enum { FORE_MACHINE_READ = 1, FORE_MACHINE_FLOAT = 2, FORE_MACHINE_INTEGER = 4 };
typedef struct fore_machine {
    char cpu[96];            /* as the system names it */
    const char *isa;         /* static */
    int processors, threads; /* that this process may use; that were used */
    uint64_t cache_bytes;    /* of the last level, 0 when nobody says */
    double read_speed;       /* bytes a second: a streaming read of memory much larger than the last-level cache */
    double float_speed, integer_speed; /* operations a second: f32 multiply-adds; int8 ones summed in int32 or int16 */
    double vector_speed;     /* int8 ones on vector registers: less than integer_speed where the set has tiles (amx), else the same */
} fore_machine;
/* what: FORE_MACHINE_*, the others stay 0; 0: the names and counts alone. Takes memory for the read and gives it back. */
FORE_API fore_status fore_machine_measure(const char *isa, int threads, unsigned what, fore_machine *out, fore_error *err);

/* A digest of what a model is: its config.json, as it lies in the folder, and its tensors' names, types and shapes (not their
 * values). Measured figures of one model hold for another one with the same digest. */
FORE_API fore_status fore_model_digest(const fore_model *model, uint8_t digest[32], fore_error *err);

/* ---- tensors in files -------------------------------------------------------------------------------------------- */

/* A named tensor for fore_tensors_write, and what fore_tensors_read gives back. */
typedef struct fore_tensor {
    const char *name;
    const char *dtype; /* "F32", "I32", ... as safetensors spells them */
    int dims;
    uint64_t shape[8];
    const void *data;
} fore_tensor;

/* A safetensors file, whole or not at all. */
FORE_API fore_status fore_tensors_write(const char *path, const fore_tensor *tensors, size_t count, fore_error *err);
/* Opens one safetensors file; tensors are borrowed until close (data may be unaligned). */
typedef struct fore_tensor_file fore_tensor_file;
FORE_API fore_status fore_tensors_open(const char *path, fore_tensor_file **out, fore_error *err);
FORE_API const fore_tensor *fore_tensors_get(const fore_tensor_file *file, const char *name); /* NULL: not there */
FORE_API const fore_tensor *fore_tensors_at(const fore_tensor_file *file, size_t index);      /* NULL: past the end */
FORE_API void fore_tensors_close(fore_tensor_file *file);

/* ---- making quantised checkpoints -------------------------------------------------------------------------------- */

typedef struct fore_quantize_options {
    int bits;  /* 4 or 8 */
    int group; /* 32, 64 or 128 neighbours of a row share a scale and a bias; 0: 64 */
    int head_bits;   /* of the output head, and of the embedding that is tied to it: 4, 8, 16 (as it is); 0: bits */
    int mtp_bits;    /* of the draft head: likewise */
    int vision_bits; /* of the vision tower: 8 or 16; 0: 16 */
    bool mtp_layers_only; /* the draft head's fc stays as it is */
    uint64_t shard_bytes; /* of tensors in a file, at most (unless one tensor has more); 0: 4,000,000,000 */
    int threads;          /* 0: the processors that this process may use */
    fore_progress progress; /* stages "quantize" (bytes of the source) and "finish" (files); may be NULL */
    void *user;
} fore_quantize_options;

/* A matrix of the checkpoint. */
typedef struct fore_quantized {
    const char *name;  /* of the module, as in the output */
    int bits, group;   /* 0: in floats, as it was or as its form stands for */
    bool copied;       /* with bits: the source's own integers, scales and biases */
    const char *why;   /* why it is in floats; "" when it is not */
    uint64_t weights;
    double error; /* root of the mean square of the difference, relative to that of the weights */
} fore_quantized;

typedef struct fore_quantize_report {
    const fore_quantized *modules; /* [count], in the order of the files */
    size_t count, quantized, copied; /* quantized: those with bits that are not copied */
    double mean_error;             /* of the quantised ones, each weighing the same */
    uint64_t source_bytes, bytes;  /* of all tensors */
    int files, files_kept;         /* weight files, and how many of them an earlier, interrupted run had finished */
} fore_quantize_report;

FORE_API void fore_quantize_options_init(fore_quantize_options *options, int bits);
/* Makes a quantised checkpoint in the folder `out` from the one in `source`: weights in MLX's affine form (w = scale * q +
 * bias), config.json and index that say so, the other files copied, and quantization_report.json. `out` must be empty, not
 * there, or what an interrupted run with the same source and options left: that is gone on with. Memory does not depend on the
 * model. On failure what was finished stays, and no file is half written; config.json comes last. FORE_ERR_INVALID: options or
 * folders; FORE_ERR_UNSUPPORTED: the source; FORE_ERR_FORMAT: the source, also a weight that is not finite (named);
 * FORE_ERR_LIMIT: no room on the disk. *report (may be NULL) is owned by the caller (fore_quantize_report_free). */
FORE_API fore_status fore_quantize(const char *source, const char *out, const fore_quantize_options *options,
                                   fore_quantize_report **report, fore_error *err);
FORE_API void fore_quantize_report_free(fore_quantize_report *report);

typedef struct fore_convert_options {
    fore_quantize_options quantize; /* bits 0: as below; head_bits and mtp_bits 0: as bits */
    bool exact;         /* no weight is changed: what would be quantised becomes floats */
    bool dry_run;       /* looks and reports, writes nothing */
    const char *mmproj; /* as in fore_model_options */
} fore_convert_options;

FORE_API void fore_convert_options_init(fore_convert_options *options);
/* Makes a checkpoint such as fore_quantize makes, from a source in any form that fore_model_open opens: a folder, or GGUF files, whose
 * metadata become the files around the weights. With bits every matrix that fore_quantize would quantise is, from what its form
 * stands for. Without, matrices of integers in groups of neighbours keep them, with scales and biases in as many bits as hold them;
 * those in other integers are quantised at 8 bits; floats and FP8 at 4, unless other matrices of the source are in integers: then
 * floats stay, and FP8 becomes 8 bits. `out` as for fore_quantize, and not inside the source; there is nothing in it, nor is it made,
 * when the failure is one of the source or of room on the disk. Stages "convert" and "finish". options may be NULL. */
FORE_API fore_status fore_convert(const char *source, const char *out, const fore_convert_options *options,
                                  fore_quantize_report **report, fore_error *err);

/* ---- a vision tower for a checkpoint that lost it ---------------------------------------------------------------- */

typedef struct fore_graft_options {
    bool dry_run; /* looks and reports, writes nothing */
    fore_progress progress; /* stage "graft", bytes of tensors; may be NULL */
    void *user;
} fore_graft_options;

typedef struct fore_graft_report {
    bool already;           /* the model has a whole tower: nothing was touched */
    uint64_t tensors, bytes, parameters; /* of the tower */
    const char *files[8];   /* [file_count] written (dry run: to be written), in this order; static */
    int file_count;
} fore_graft_report;

/* Copies the vision tower of the checkpoint in the folder `from` into the one in `into`, which is text alone: the tensors, byte for
 * byte, to model-vision.safetensors, the processor's settings, vision_config and token ids; the index comes last. Every file appears
 * whole or not at all, so that `into` opens as before or as after whenever this ends; the same call again finishes the job. options
 * may be NULL. FORE_ERR_INVALID: folders, or two checkpoints that do not fit, or names that are taken; FORE_ERR_FORMAT: a tower that
 * is not whole; FORE_ERR_LIMIT: no room on the disk. */
FORE_API fore_status fore_graft(const char *from, const char *into, const fore_graft_options *options, fore_graft_report *report,
                                fore_error *err);

/* ---- draft heads in files of their own ------------------------------------------------------------------------------- */

typedef struct fore_head_report {
    bool already; /* there was nothing to do, and nothing was touched */
    uint64_t tensors, bytes; /* of the head */
    int layers;
    int changed;    /* of its norms, by fore_head_heal */
    char note[400]; /* what fore_head_heal found */
    const char *files[2]; /* [file_count] written (dry run: to be written), in this order; static, or the caller's */
    int file_count;
} fore_head_report;

/* Writes the draft head of the checkpoint in `dir` to the safetensors file `out`, byte for byte, its names beginning with "mtp.". A
 * file that is there must be the same. FORE_ERR_INVALID: no head, or a file that is in the way. */
FORE_API fore_status fore_head_extract(const char *dir, const char *out, fore_head_report *report, fore_error *err);
/* Gives the checkpoint in `into` the head of the file `from`: as mtp.safetensors (or the name that config.json has for it), and
 * mtp_num_hidden_layers in config.json where none is declared. The head is checked against the model first; a model with a head of
 * its own is refused. Every file appears whole or not at all. */
FORE_API fore_status fore_head_attach(const char *from, const char *into, fore_head_report *report, fore_error *err);
/* Makes the norms of the head in `dir` all of one encoding, where a conversion has changed some of them: those in the layers are
 * judged together by the queries' and keys', those around the layers by those before fc. Where the two differ, the head is written
 * anew to its own file, every norm as gain - 1; where config.json declares another encoding than the norms have, that is set
 * right. */
FORE_API fore_status fore_head_heal(const char *dir, bool dry_run, fore_head_report *report, fore_error *err);

/* ---- whether a checkpoint is sound ------------------------------------------------------------------------------- */

typedef struct fore_check_options {
    const char *isa; /* as in fore_model_options */
    int threads;     /* 0: the processors that this process may use */
    bool no_answer;  /* tries no answer */
    fore_progress progress; /* stages "check" (bytes of tensors), "load" and "prefill"; may be NULL */
    void *user;
} fore_check_options;

typedef enum fore_check_level { FORE_CHECK_FINE, FORE_CHECK_REMARK, FORE_CHECK_PROBLEM } fore_check_level;

typedef struct fore_check_finding {
    fore_check_level level; /* REMARK: works less than it could; PROBLEM: does not work, or is not what it says */
    const char *topic;      /* "config", "files", "tensors", "model", "norms", "vision", "draft head", "tokenizer", "template", "answer" */
    const char *text;
} fore_check_finding;

typedef struct fore_check_tensor {
    const char *name, *dtype, *file;
    int dims;
    uint64_t shape[8];
    uint64_t nan, infinite; /* of floats: how many numbers are not */
    bool zero;              /* it has numbers, and all are 0 */
} fore_check_tensor;

typedef struct fore_check_report {
    bool sound; /* no PROBLEM among the findings */
    const fore_check_finding *findings; /* [finding_count] at least one a topic that was reached */
    size_t finding_count, problems, remarks;
    const fore_check_tensor *tensors; /* [tensor_count] of the checkpoint's files, then of the draft head's own */
    size_t tensor_count;
    uint64_t bytes;
    const char *prompt, *answer; /* of the trial; "" when there was none */
} fore_check_report;

/* Reads all of a checkpoint: its settings, every number of every tensor, opens it as fore_model_open does, and lets it answer, with
 * drafts and without. What is wrong with it is in the report; a failure is that of the looking. *report is owned by the caller
 * (fore_check_report_free). options may be NULL. FORE_ERR_IO: no such folder. */
FORE_API fore_status fore_check(const char *dir, const fore_check_options *options, fore_check_report **report, fore_error *err);
FORE_API void fore_check_report_free(fore_check_report *report);

#ifdef __cplusplus
}
#endif
#endif
