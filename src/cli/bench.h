/* What foresight bench measures, and how it is shown. Every figure is a series of runs; what is compared takes turns within a run,
 * so that a change of the machine's mood hits both sides of a ratio. */
#ifndef FORE_CLI_BENCH_H
#define FORE_CLI_BENCH_H

#include <cjson/cJSON.h>

#include "cli/figures.h"
#include "cli/model.h"
#include "cli/text.h"

enum { CLI_BENCH_SIDES = 4, CLI_BENCH_OPERATORS = 64 };

typedef struct cli_bench_plan {
    int runs, prompt, decode;
    bool cold;     /* also load with the files dropped from the page cache */
    int widths[FORE_PASS_MAX], width_count; /* rows of the timed passes, 1 first */
    int depths[FORE_DRAFT_MAX + 2], depth_count; /* 0 first, FORE_DRAFT_AUTO last */
    int sides[CLI_BENCH_SIDES], side_count;      /* pixels */
    double acceptance[FORE_DRAFT_MAX];           /* shares of rounds in which the drafts up to a depth are right, for what is expected */
    bool accepts;                                /* they are given */
} cli_bench_plan;

/* Operators of one kind of work, summed over `steps` of it. */
typedef struct cli_bench_profile {
    const char *name, *step; /* "decode", "token" */
    fore_operator rows[CLI_BENCH_OPERATORS];
    int count, steps;
    double seconds; /* of all operators */
} cli_bench_profile;

typedef struct cli_bench_depth {
    int depth;
    cli_series seconds, ratio;     /* a token; the speed against depth 0 of the same run */
    double accepted[FORE_DRAFT_MAX]; /* share of rounds in which the draft of a depth and all before it were right */
    int accepted_count;              /* depths that were tried */
    double expected, expected_at;  /* ratio to depth 0 by the costs measured: with these shares; with the plan's; 0: not known */
    cli_series at;                 /* the speed against depth 0 with drafts that are right in the plan's shares of rounds */
} cli_bench_depth;

typedef struct cli_bench {
    cli_bench_plan plan;
    const char *dir, *pack_dir; /* borrowed; pack_dir NULL: weights are repacked at every open */
    fore_model_info info; /* its texts are gone but for isa */
    char dtypes[64];
    fore_plan memory;
    fore_machine machine; /* its speeds are medians */
    cli_series read_speed, float_speed, integer_speed, vector_speed;
    cli_series read_warm, open_warm, ready_warm, read_cold, ready_cold; /* seconds: reading the files; open; until a first token */
    uint64_t peak_bytes, own_bytes; /* most memory of the process with the mapped files; of it not the files' */
    cli_series prefill, token;                /* seconds */
    cli_series pass[FORE_PASS_MAX + 1], one[FORE_PASS_MAX + 1], commit[FORE_PASS_MAX + 1]; /* one: the pass of one row beside it */
    cli_series draft, draft_one;    /* seconds of a draft; of a pass of one row beside it */
    cli_series vision[CLI_BENCH_SIDES], whole[CLI_BENCH_SIDES]; /* the tower; until the first token */
    cli_bench_depth depths[FORE_DRAFT_MAX + 2];
    cli_bench_profile profiles[4]; /* decode, prefill, draft, vision; without steps: not measured */
} cli_bench;

/* Fills everything after `plan`. Returns an exit code. */
int cli_bench_measure(cli_bench *bench, const cli_options *options);

const char *cli_bench_depth_name(int depth, char out[12]); /* "3", "auto" */
/* Medians of the machine, and what is to be expected of the depths. */
void cli_bench_conclude(cli_bench *bench);
/* The least time that the bytes and operations take at the measured speeds, and which of the two it is: "memory", "compute" or "". */
double cli_bench_least(const fore_operator *o, const fore_machine *machine, const char **limit);
/* Of the speed that the same run read memory with, what decoding read weights with; the median of the runs. */
double cli_bench_read_share(const cli_bench *bench);
/* Of an int8 peak of the same run (&bench->integer_speed or vector_speed), what the quantised products of a prompt reached;
 * the median of the runs. */
double cli_bench_integer_share(const cli_bench *bench, const cli_series *peak);
/* All operators of a profile together. */
fore_operator cli_bench_sum(const cli_bench_profile *profile);

cJSON *cli_bench_json(const cli_bench *bench); /* owned (cJSON_Delete) */
/* An SVG picture: operators against the roofline, speed by depth. */
void cli_bench_plot(const cli_bench *bench, cli_text *out);

#endif
