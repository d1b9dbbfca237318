/* Which flags there are, which verbs take them, what the help says of them. */
#include <float.h>
#include <limits.h>

#include "cli/args.h"
#include "cli/figures.h"

#define AT(member) offsetof(cli_options, member)

enum {
    SHOW = CLI_RUN | CLI_CHAT,   /* verbs that show an answer */
    ASK = SHOW | CLI_VERIFY,     /* verbs that generate */
    PROMPT = ASK | CLI_LOGITS,   /* verbs that read a prompt */
    HEAD = ASK | CLI_INSPECT | CLI_BENCH | CLI_TUNE | CLI_PACK, /* verbs that attach the draft head */
    OPEN = PROMPT | CLI_TOKENIZE | CLI_RENDER | CLI_INSPECT | CLI_BENCH | CLI_TUNE | CLI_PACK | CLI_CHECK | CLI_MTP_VERIFY |
           CLI_CALIBRATE,
};

const char cli_sampling[] = "sampling (the checkpoint has defaults):";
const char cli_drafting[] = "drafting (the answer stays the same):";
const char cli_machine[] = "machine (the answer stays the same):";
const char cli_video[] = "videos:";
const char cli_hidden[] = "";

const cli_flag cli_flags[] = {
    {"model", 'm', CLI_TEXT, AT(model), OPEN, "DIR", "or OWNER/NAME, or FILE.gguf and --mmproj FILE.gguf", 0, 0, 0},
    {"mmproj", 0, CLI_TEXT, AT(mmproj), OPEN & ~CLI_TOKENIZE & ~CLI_RENDER, "FILE", cli_hidden, 0, 0, 0},
    {"tokenizer", 0, CLI_TEXT, AT(tokenizer), CLI_TOKENIZE, "FILE", "a tokenizer.json instead of a model", 0, 0, 0},
    {"template", 0, CLI_TEXT, AT(template), CLI_RENDER, "FILE", "a chat template instead of a model", 0, 0, 0},
    {"image", 'i', CLI_LIST, AT(images), PROMPT | CLI_TUNE | CLI_MTP_VERIFY | CLI_CALIBRATE, "FILE", "a JPEG, PNG or WebP picture; may be repeated", 0, 0, 0},
    {"frames", 0, CLI_FILES, AT(frames), PROMPT, "FILE..", cli_video, 0, 0, 0},
    {"fps", 0, CLI_LIST, AT(fps), PROMPT, "X", cli_video, 0, 0, 0},
    {"video", 0, CLI_LIST, AT(videos), PROMPT, "FILE", cli_video, 0, 0, 0},
    {"take-fps", 0, CLI_REAL, AT(take_fps), PROMPT, "X", cli_video, FLT_MIN, FLT_MAX, 0},
    {"all-frames", 0, CLI_ON, AT(all_frames), PROMPT, NULL, cli_video, 0, 0, 0},
    {"nested", 0, CLI_ON, AT(nested), PROMPT, NULL, cli_video, 0, 0, 0},
    {"system", 0, CLI_TEXT, AT(system), PROMPT, "TEXT", "system message", 0, 0, 0},
    {"think", 0, CLI_SET, AT(think), PROMPT, NULL, "ask for an answer with reasoning; --no-think: without", 0, 0, 1},
    {"no-think", 0, CLI_SET, AT(think), PROMPT, NULL, NULL, 0, 0, -1},
    {"raw", 0, CLI_ON, AT(raw), CLI_RUN | CLI_LOGITS | CLI_VERIFY, NULL, "PROMPT is the text after the chat template", 0, 0, 0},
    {"prompts", 0, CLI_TEXT, AT(prompts), CLI_CALIBRATE, "FILE", "what to ask: JSON a line, with prompt or messages, and\nimages", 0, 0, 0},
    {"raw", 0, CLI_ON, AT(raw), CLI_CALIBRATE, NULL, "its prompts are the text after the chat template", 0, 0, 0},
    {"depth", 0, CLI_WHOLE, AT(depth), CLI_CALIBRATE, "N", "drafts at each place; else 3", 1, FORE_DRAFT_MAX, 0},
    {"max-tokens", 'n', CLI_WHOLE, AT(max_tokens), CLI_CALIBRATE, "N", "of an answer; else 96", 1, 1 << 20, 0},
    {"all", 0, CLI_ON, AT(all), CLI_CALIBRATE, NULL, "also try what the checkpoint's files state", 0, 0, 0},
    {"reset", 0, CLI_ON, AT(reset), CLI_CALIBRATE, NULL, "remove what an earlier calibration wrote", 0, 0, 0},
    {"ids", 0, CLI_TEXT, AT(ids), CLI_LOGITS, "FILE", "token ids, a JSON list, instead of PROMPT", 0, 0, 0},
    {"pixels", 0, CLI_TEXT, AT(pixels), CLI_LOGITS, "FILE",
     "a safetensors file instead of pictures, with\npixel_values F32 [P,1536], image_grid_thw [n,3]", 0, 0, 0},
    {"out", 'o', CLI_TEXT, AT(out), CLI_LOGITS, "FILE", "the safetensors file to write", 0, 0, 0},
    {"max-tokens", 'n', CLI_WHOLE, AT(max_tokens), ASK | CLI_TUNE, "N", "stop after N tokens; else when the context is full", 1,
     INT_MAX, 0},
    {"stop", 0, CLI_LIST, AT(stops), ASK, "TEXT", "stop before TEXT; may be repeated", 0, 0, 0},
    {"ignore-eos", 0, CLI_ON, AT(ignore_eos), ASK, NULL, cli_sampling, 0, 0, 0},
    {"bits", 0, CLI_WORD, AT(bits), CLI_QUANTIZE, "4|8", "bits of a weight", 0, 0, 0},
    {"mmproj", 0, CLI_TEXT, AT(mmproj), CLI_CONVERT, "FILE", "the vision tower of a GGUF file", 0, 0, 0},
    {"bits", 0, CLI_WORD, AT(bits), CLI_CONVERT, "4|8", "quantise every matrix anew", 0, 0, 0},
    {"exact", 0, CLI_ON, AT(exact), CLI_CONVERT, NULL, "change no weight; what no group holds stays floats", 0, 0, 0},
    {"group", 0, CLI_WORD, AT(group), CLI_QUANTIZE | CLI_CONVERT, "32|64|128", "weights that share a scale and a bias; else 64", 0, 0, 0},
    {"head-bits", 0, CLI_WORD, AT(head_bits), CLI_QUANTIZE | CLI_CONVERT, "4|8|16",
     "of the output head, also where it is tied to the\nembedding; 16: as it is; else as --bits", 0, 0, 0},
    {"mtp-bits", 0, CLI_WORD, AT(mtp_bits), CLI_QUANTIZE | CLI_CONVERT, "4|8|16", "of the draft head; else as --bits", 0, 0, 0},
    {"mtp-policy", 0, CLI_WORD, AT(mtp_policy), CLI_QUANTIZE | CLI_CONVERT, "all|cyankiwi",
     "\nof the draft head: cyankiwi leaves its fc as it is", 0, 0, 0},
    {"vision-bits", 0, CLI_WORD, AT(vision_bits), CLI_QUANTIZE | CLI_CONVERT, "8|16", "of the vision tower; else 16, as it is", 0, 0, 0},
    {"check", 0, CLI_TEXT, AT(check), CLI_QUANTIZE, "FILE",
     "then compare the logits of both over this text", 0, 0, 0},
    {"verbose", 0, CLI_ON, AT(verbose), CLI_QUANTIZE | CLI_CONVERT, NULL, "print a line for every matrix", 0, 0, 0},
    {"verbose", 0, CLI_ON, AT(verbose), CLI_CHECK, NULL, "print a line for every tensor", 0, 0, 0},
    {"json", 0, CLI_ON, AT(json), CLI_RUN | CLI_TOKENIZE | CLI_INSPECT | CLI_VERIFY | CLI_QUANTIZE | CLI_BENCH | CLI_TUNE |
     CLI_GRAFT | CLI_CHECK | CLI_EXTRACT | CLI_ATTACH | CLI_HEAL | CLI_MTP_VERIFY | CLI_CONVERT | CLI_CALIBRATE, NULL, "print one JSON object", 0, 0, 0},
    {"stats", 0, CLI_ON, AT(stats), SHOW, NULL, "print tokens, seconds and drafts on standard error", 0, 0, 0},
    {"decode", 0, CLI_ON, AT(decode), CLI_TOKENIZE, NULL, "TEXT is token ids; print what they say", 0, 0, 0},
    {"messages", 0, CLI_TEXT, AT(messages), CLI_RENDER, "FILE", "messages, a JSON list; -: standard input", 0, 0, 0},
    {"tools", 0, CLI_TEXT, AT(tools), CLI_RENDER, "FILE", "tool definitions, a JSON list", 0, 0, 0},
    {"option", 0, CLI_LIST, AT(variables), CLI_RENDER, "NAME=JSON", "a template variable; may be repeated", 0, 0, 0},
    {"generation-prompt", 0, CLI_ON, AT(generation_prompt), CLI_RENDER, NULL, "end with the opening of an answer", 0, 0,
     0},
    {"context", 0, CLI_WHOLE, AT(context), PROMPT | CLI_INSPECT, "N",
     "tokens of context; else the model's, at most 32768", 1, INT_MAX, 0},
    {"chunk", 0, CLI_WHOLE, AT(chunk), PROMPT, "N", cli_machine, 1, INT_MAX, 0},
    {"plot", 0, CLI_TEXT, AT(plot), CLI_BENCH, "FILE", "also draw an SVG picture", 0, 0, 0},
    {"quick", 0, CLI_ON, AT(quick), CLI_BENCH, NULL, "few short runs: a first look, no figures to quote", 0, 0, 0},
    {"question", 0, CLI_LIST, AT(questions), CLI_TUNE, "TEXT", "ask this, not the built-in questions; repeatable", 0, 0, 0},
    {"show", 0, CLI_ON, AT(show), CLI_TUNE, NULL, "print what is kept for this model and machine", 0, 0, 0},
    {"forget", 0, CLI_ON, AT(forget), CLI_TUNE, NULL, "forget it", 0, 0, 0},
    {"dry-run", 0, CLI_ON, AT(dry_run), CLI_TUNE, NULL, "measure, keep nothing", 0, 0, 0},
    {"from", 0, CLI_TEXT, AT(from), CLI_GRAFT, "SOURCE", "folder of the checkpoint with the tower", 0, 0, 0},
    {"into", 0, CLI_TEXT, AT(into), CLI_GRAFT, "MODEL", "folder of the checkpoint that gets it", 0, 0, 0},
    {"dry-run", 0, CLI_ON, AT(dry_run), CLI_GRAFT | CLI_HEAL | CLI_CONVERT | CLI_CALIBRATE, NULL, "say what would be done, write nothing", 0, 0, 0},
    {"runs", 0, CLI_WHOLE, AT(runs), CLI_BENCH | CLI_TUNE, "N", "runs of each measurement; else 5", 1, CLI_RUNS, 0},
    {"prompt", 0, CLI_WHOLE, AT(prompt_tokens), CLI_BENCH, "N", "tokens of the prompt; else 512", 1, 1 << 20, 0},
    {"decode", 0, CLI_WHOLE, AT(decode_tokens), CLI_BENCH, "N", "tokens of each answer; else 64", 1, 1 << 16, 0},
    {"depths", 0, CLI_TEXT, AT(depths), CLI_BENCH, "N,N,..", "drafts a round to try; else 1,2,3,4", 0, 0, 0},
    {"acceptance", 0, CLI_TEXT, AT(acceptance), CLI_BENCH, "X,X,..", "accepted drafts by depth, to say what to expect", 0, 0, 0},
    {"vision", 0, CLI_TEXT, AT(sides), CLI_BENCH, "N,N,..", "sides of pictures, pixels; else 448,1024", 0, 0, 0},
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
    {"lookup", 0, CLI_WORD, AT(lookup), SHOW, "auto|off|on", cli_drafting, 0, 0, 0},
    {"draft-sampler", 0, CLI_WORD, AT(draft_sampler), ASK, "seeded|rejection", cli_drafting, 0, 0, 0},
    {"draft-vocabulary", 0, CLI_DEPTH, AT(draft_vocabulary), HEAD, "N|auto", cli_drafting, 1, INT_MAX, 0},
    {"draft-head-bits", 0, CLI_WORD, AT(draft_head_bits), HEAD, "auto|4|8|16", cli_drafting, 0, 0, 0},
    {"no-mtp", 0, CLI_ON, AT(no_mtp), HEAD & ~CLI_TUNE, NULL, cli_drafting, 0, 0, 0},
    {"mtp-contract", 0, CLI_LIST, AT(contract), HEAD & ~(CLI_BENCH | CLI_TUNE), "FIELD=VALUE", cli_drafting, 0, 0, 0},
    {"show-drafts", 0, CLI_ON, AT(show_drafts), SHOW, NULL, cli_drafting, 0, 0, 0},
    {"color", 0, CLI_WORD, AT(color), SHOW, "auto|always|never", cli_drafting, 0, 0, 0},
    {"threads", 't', CLI_WHOLE, AT(threads), PROMPT | CLI_QUANTIZE | CLI_BENCH | CLI_TUNE | CLI_CHECK | CLI_MTP_VERIFY | CLI_CONVERT | CLI_CALIBRATE, "N", cli_machine, 1, 1024, 0},
    {"cpus", 0, CLI_TEXT, AT(cpus), SHOW | CLI_LOGITS | CLI_BENCH, "LIST", cli_machine, 0, 0, 0},
    {"isa", 0, CLI_TEXT, AT(isa), PROMPT | CLI_INSPECT | CLI_QUANTIZE | CLI_BENCH | CLI_TUNE | CLI_CHECK | CLI_MTP_VERIFY | CLI_CALIBRATE, "NAME", cli_machine, 0, 0, 0},
    {"pack", 0, CLI_TEXT, AT(pack), PROMPT | CLI_INSPECT | CLI_BENCH | CLI_TUNE | CLI_PACK | CLI_CALIBRATE, "beside|cache|DIR", cli_machine, 0, 0, 0},
    {"verify", 0, CLI_ON, AT(verify), CLI_PACK, NULL, "read a file that is there, remake a damaged one", 0, 0, 0},
    {"prune", 0, CLI_ON, AT(prune), CLI_PACK, NULL, "remove those of this model's earlier weights", 0, 0, 0},
    {"revision", 0, CLI_TEXT, AT(revision), CLI_PULL, "R", "a branch, a tag or a commit; else main", 0, 0, 0},
    {"include", 0, CLI_LIST, AT(includes), CLI_PULL, "PATTERN",
     "files to download, as in '*.gguf'; may be repeated;\nelse what a checkpoint in safetensors needs", 0, 0, 0},
    {"exclude", 0, CLI_LIST, AT(excludes), CLI_PULL, "PATTERN", "files to leave; may be repeated", 0, 0, 0},
    {"jobs", 'j', CLI_WHOLE, AT(jobs), CLI_PULL, "N", "files at once; else 4", 1, 64, 0},
    {"offline", 0, CLI_ON, AT(offline), CLI_PULL, NULL, "look into the cache only, also with $HF_HUB_OFFLINE", 0, 0, 0},
    {"retry-seconds", 0, CLI_REAL, AT(retry_seconds), CLI_PULL, "X", cli_hidden, 0, 3600, 0},
    {"ablate", 0, CLI_BITS, AT(ablate), ASK, "splice|delta|history", cli_hidden, 0, 0, 0},
    {"draft-wrong", 0, CLI_ON, AT(draft_wrong), ASK, NULL, cli_hidden, 0, 0, 0},
    {"draft-replay", 0, CLI_TEXT, AT(draft_replay), CLI_RUN, "FILE", cli_hidden, 0, 0, 0},
    {"help", 'h', CLI_ON, AT(help), CLI_ALL, NULL, "print this and end", 0, 0, 0},
    {0},
};
