/* The `foresight` command: what its files share. The command knows include/foresight.h and nothing else of the library;
 * beside it, src/hub/hub.h.
 * A verb is one file with one cli_verb; options.c says which flags there are and which verb takes them. A command that
 * runs out of memory ends at once (exit 1): only the library has to survive that. */
#ifndef FORE_CLI_CLI_H
#define FORE_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "foresight.h"

/* Exit codes, as docs/foresight.1 has them. */
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,        /* the work could not be done; standard error says why */
    CLI_USAGE = 2,         /* the command line makes no sense */
    CLI_INTERRUPTED = 130, /* stopped by Ctrl-C */
};

typedef struct cli_list {
    const char **items; /* owned; the strings are borrowed from argv */
    size_t count;
} cli_list;

/* What the flags of all verbs set. Absent: NULL, false, empty, -1 for whole numbers, NAN for real ones. */
typedef struct cli_options {
    const struct cli_verb *verb;
    const char *operand; /* PROMPT, TEXT, DIR or SOURCE; NULL when absent */
    const char *second;  /* OUT */
    bool help;
    const char *model, *mmproj, *isa, *cpus, *pack;
    int threads, context, chunk;
    cli_list images;
    cli_list frames; /* groups, each after a NULL */
    cli_list fps, videos;
    double take_fps;
    bool all_frames, nested;
    const char *system;
    int think; /* 1: --think, -1: --no-think, 0: the template's default */
    int max_tokens;
    cli_list stops, biases;
    bool ignore_eos, json, stats, raw, decode, generation_prompt;
    int color; /* cli_color */
    bool prune, verify; /* of pack */
    bool no_mtp, show_drafts;
    int draft_depth; /* FORE_DRAFT_AUTO when absent */
    int draft_vocabulary; /* -1: auto, or absent */
    int draft_head_bits;  /* index of the word; -1 when absent */
    int lookup;        /* fore_draft_lookup; -1 when absent */
    bool has_depth;
    int draft_sampler; /* fore_draft_sampler; -1 when absent */
    cli_list contract;
    unsigned ablate; /* FORE_ABLATE_* */
    bool draft_wrong;
    const char *draft_replay;
    double temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
    int top_k;
    bool has_seed;
    uint64_t seed;
    const char *ids, *pixels, *out;
    int bits, group, head_bits, mtp_bits, mtp_policy, vision_bits; /* indexes of the flags' words */
    const char *check;
    bool verbose;
    const char *tokenizer, *template, *messages, *tools;
    cli_list variables;
    bool quick;
    const char *plot;
    int runs, prompt_tokens, decode_tokens;
    const char *depths, *sides, *acceptance; /* lists */
    bool dry_run, show, forget, exact;
    const char *from, *into;
    cli_list questions;
    const char *prompts; /* of calibrate */
    int depth;
    bool all, reset;
    const char *revision; /* of pull */
    cli_list includes, excludes;
    int jobs;
    bool offline;
    double retry_seconds;
} cli_options;

/* Bits of the verbs in a flag's `verbs`. */
enum {
    CLI_RUN = 1,
    CLI_CHAT = 2,
    CLI_LOGITS = 4,
    CLI_TOKENIZE = 8,
    CLI_RENDER = 16,
    CLI_INSPECT = 32,
    CLI_VERIFY = 64,
    CLI_QUANTIZE = 128,
    CLI_BENCH = 256,
    CLI_TUNE = 512,
    CLI_PACK = 1024,
    CLI_PULL = 2048,
    CLI_GRAFT = 1 << 20, /* parts of forge */
    CLI_CHECK = 1 << 21,
    CLI_EXTRACT = 1 << 22,
    CLI_ATTACH = 1 << 23,
    CLI_HEAL = 1 << 24,
    CLI_MTP_VERIFY = 1 << 25,
    CLI_CONVERT = 1 << 26,
    CLI_CALIBRATE = 1 << 27,
    CLI_ALL = 4095 | CLI_GRAFT | CLI_CHECK | CLI_EXTRACT | CLI_ATTACH | CLI_HEAL | CLI_MTP_VERIFY | CLI_CONVERT | CLI_CALIBRATE
};

/* --color, in the order of its words. */
typedef enum cli_color { CLI_COLOR_AUTO, CLI_COLOR_ALWAYS, CLI_COLOR_NEVER } cli_color;

typedef struct cli_verb {
    const char *name;
    unsigned bit;
    const char *operand;                    /* name of the one operand, or NULL when there is none */
    const char *second;                     /* name of a second one, or NULL */
    const char *usage;                      /* after the verb's name */
    const char *summary;                    /* one line */
    const char *about;                      /* lines of the help, ended by a newline */
    int (*run)(const cli_options *options); /* returns an exit code */
    const struct cli_verb *const *parts;    /* of a verb in several words, ended by NULL: "forge graft"; NULL: a verb of one */
} cli_verb;

extern const cli_verb cli_run_verb, cli_chat_verb, cli_logits_verb, cli_tokenize_verb, cli_render_verb,
    cli_inspect_verb, cli_verify_verb, cli_quantize_verb, cli_bench_verb, cli_tune_verb, cli_pack_verb, cli_pull_verb,
    cli_forge_verb;

/* Say it on standard error as "foresight: ..." and return the exit code, so that a verb ends with `return
 * cli_fail(...)`. */
int cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
int cli_fail_usage(const cli_verb *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));
int cli_fail_status(fore_status status, const fore_error *err); /* CLI_INTERRUPTED for FORE_ERR_CANCELLED, silently */

#endif
