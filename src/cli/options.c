/* Which flags there are, which verbs take them, what the help says of them. */
#include <float.h>
#include <limits.h>

#include "cli/args.h"

#define AT(member) offsetof(cli_options, member)

enum {
    SHOW = CLI_RUN | CLI_CHAT,   /* verbs that show an answer */
    ASK = SHOW | CLI_VERIFY,     /* verbs that generate */
    PROMPT = ASK | CLI_LOGITS,   /* verbs that read a prompt */
    HEAD = ASK | CLI_INSPECT,    /* verbs that attach the draft head */
    OPEN = PROMPT | CLI_TOKENIZE | CLI_RENDER | CLI_INSPECT,
};

const char cli_sampling[] = "sampling (the checkpoint has defaults):";
const char cli_drafting[] = "drafting (the answer stays the same):";
const char cli_hidden[] = "";

const cli_flag cli_flags[] = {
    {"model", 'm', CLI_TEXT, AT(model), OPEN, "DIR", "checkpoint folder; else $FORESIGHT_MODEL, models/tiny", 0, 0, 0},
    {"tokenizer", 0, CLI_TEXT, AT(tokenizer), CLI_TOKENIZE, "FILE", "a tokenizer.json instead of a model", 0, 0, 0},
    {"template", 0, CLI_TEXT, AT(template), CLI_RENDER, "FILE", "a chat template instead of a model", 0, 0, 0},
    {"image", 'i', CLI_LIST, AT(images), PROMPT, "FILE", "a JPEG, PNG or WebP picture; may be repeated", 0, 0, 0},
    {"system", 0, CLI_TEXT, AT(system), PROMPT, "TEXT", "system message", 0, 0, 0},
    {"think", 0, CLI_SET, AT(think), PROMPT, NULL, "ask for an answer with reasoning; --no-think: without", 0, 0, 1},
    {"no-think", 0, CLI_SET, AT(think), PROMPT, NULL, NULL, 0, 0, -1},
    {"raw", 0, CLI_ON, AT(raw), CLI_RUN | CLI_LOGITS | CLI_VERIFY, NULL, "PROMPT is the text after the chat template", 0, 0, 0},
    {"ids", 0, CLI_TEXT, AT(ids), CLI_LOGITS, "FILE", "token ids, a JSON list, instead of PROMPT", 0, 0, 0},
    {"pixels", 0, CLI_TEXT, AT(pixels), CLI_LOGITS, "FILE",
     "a safetensors file instead of pictures, with\npixel_values F32 [P,1536], image_grid_thw [n,3]", 0, 0, 0},
    {"out", 'o', CLI_TEXT, AT(out), CLI_LOGITS, "FILE", "the safetensors file to write", 0, 0, 0},
    {"max-tokens", 'n', CLI_WHOLE, AT(max_tokens), ASK, "N", "stop after N tokens; else when the context is full", 1,
     INT_MAX, 0},
    {"stop", 0, CLI_LIST, AT(stops), ASK, "TEXT", "stop before TEXT; may be repeated", 0, 0, 0},
    {"ignore-eos", 0, CLI_ON, AT(ignore_eos), ASK, NULL, "go on after an end token", 0, 0, 0},
    {"json", 0, CLI_ON, AT(json), CLI_RUN | CLI_TOKENIZE | CLI_INSPECT | CLI_VERIFY, NULL, "print one JSON object", 0, 0, 0},
    {"stats", 0, CLI_ON, AT(stats), SHOW, NULL, "print tokens, seconds and drafts on standard error", 0, 0, 0},
    {"decode", 0, CLI_ON, AT(decode), CLI_TOKENIZE, NULL, "TEXT is token ids; print what they say", 0, 0, 0},
    {"messages", 0, CLI_TEXT, AT(messages), CLI_RENDER, "FILE", "messages, a JSON list; -: standard input", 0, 0, 0},
    {"tools", 0, CLI_TEXT, AT(tools), CLI_RENDER, "FILE", "tool definitions, a JSON list", 0, 0, 0},
    {"option", 0, CLI_LIST, AT(variables), CLI_RENDER, "NAME=JSON", "a template variable; may be repeated", 0, 0, 0},
    {"generation-prompt", 0, CLI_ON, AT(generation_prompt), CLI_RENDER, NULL, "end with the opening of an answer", 0, 0,
     0},
    {"context", 0, CLI_WHOLE, AT(context), PROMPT | CLI_INSPECT, "N",
     "tokens of context; else the model's, at most 32768", 1, INT_MAX, 0},
    {"chunk", 0, CLI_WHOLE, AT(chunk), PROMPT, "N", "prompt tokens computed at a time", 1, INT_MAX, 0},
    {"threads", 't', CLI_WHOLE, AT(threads), PROMPT, "N", "threads; else the processors of this process", 1, 1024, 0},
    {"isa", 0, CLI_TEXT, AT(isa), PROMPT | CLI_INSPECT, "NAME",
     "ref, avx2, avx512[vnni], neon[dot]; else $FORESIGHT_ISA", 0, 0, 0},
    {"temperature", 0, CLI_REAL, AT(temperature), ASK, "X", cli_sampling, 0, FLT_MAX, 0},
    {"top-k", 0, CLI_WHOLE, AT(top_k), ASK, "N", cli_sampling, 0, INT_MAX, 0},
    {"top-p", 0, CLI_REAL, AT(top_p), ASK, "X", cli_sampling, FLT_MIN, 1, 0},
    {"min-p", 0, CLI_REAL, AT(min_p), ASK, "X", cli_sampling, 0, 1, 0},
    {"repetition-penalty", 0, CLI_REAL, AT(repetition_penalty), ASK, "X", cli_sampling, FLT_MIN, FLT_MAX, 0},
    {"presence-penalty", 0, CLI_REAL, AT(presence_penalty), ASK, "X", cli_sampling, -2, 2, 0},
    {"frequency-penalty", 0, CLI_REAL, AT(frequency_penalty), ASK, "X", cli_sampling, -2, 2, 0},
    {"logit-bias", 0, CLI_LIST, AT(biases), ASK, "ID=X", cli_sampling, 0, 0, 0},
    {"seed", 0, CLI_SEED, 0, ASK, "N", cli_sampling, 0, 0, 0},
    {"draft-depth", 0, CLI_DEPTH, AT(draft_depth), SHOW, "N|auto", cli_drafting, 0, FORE_DRAFT_MAX, 0},
    {"draft-sampler", 0, CLI_WORD, AT(draft_sampler), ASK, "seeded|rejection", cli_drafting, 0, 0, 0},
    {"no-mtp", 0, CLI_ON, AT(no_mtp), HEAD, NULL, cli_drafting, 0, 0, 0},
    {"mtp-contract", 0, CLI_LIST, AT(contract), HEAD, "FIELD=VALUE", cli_drafting, 0, 0, 0},
    {"show-drafts", 0, CLI_ON, AT(show_drafts), SHOW, NULL, cli_drafting, 0, 0, 0},
    {"color", 0, CLI_WORD, AT(color), SHOW, "auto|always|never", cli_drafting, 0, 0, 0},
    {"ablate", 0, CLI_BITS, AT(ablate), ASK, "splice|delta|history", cli_hidden, 0, 0, 0},
    {"draft-wrong", 0, CLI_ON, AT(draft_wrong), ASK, NULL, cli_hidden, 0, 0, 0},
    {"draft-replay", 0, CLI_TEXT, AT(draft_replay), CLI_RUN, "FILE", cli_hidden, 0, 0, 0},
    {"help", 'h', CLI_ON, AT(help), CLI_ALL, NULL, "print this and end", 0, 0, 0},
    {0},
};
