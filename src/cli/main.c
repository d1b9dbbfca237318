/* The `foresight` command: finds the verb and hands it its flags; help and version. */
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "cli/args.h"
#include "cli/files.h"

static const cli_verb *const verbs[] = {&cli_run_verb,      &cli_chat_verb,   &cli_inspect_verb, &cli_verify_verb,
                                        &cli_tokenize_verb, &cli_render_verb, &cli_logits_verb,  &cli_quantize_verb,
                                        &cli_bench_verb,    &cli_tune_verb,   &cli_pack_verb,    &cli_pull_verb,
                                        &cli_forge_verb};
enum { VERBS = sizeof verbs / sizeof *verbs };

static void print_help(FILE *out) {
    fputs("foresight looks at pictures and writes text, with models of the Qwen3.5 family.\n\n"
          "usage: foresight COMMAND [flags]\n\n",
          out);
    for (int i = 0; i < VERBS; i++) fprintf(out, "  %-10s %s\n", verbs[i]->name, verbs[i]->summary);
    fputs("  help       print this, or the help of a command; version: print the version\n\n"
          "  foresight run --image photo.jpg 'Describe the picture.'\n"
          "  foresight help run\n\n"
          "environment: FORESIGHT_MODEL stands for --model, FORESIGHT_ISA for --isa\n"
          "exit codes: 0 done, 1 the work failed, 2 wrong usage, 130 stopped by Ctrl-C\n",
          out);
}

static const cli_verb *find_verb(const char *name) {
    for (int i = 0; i < VERBS; i++) {
        if (strcmp(verbs[i]->name, name) == 0) return verbs[i];
    }
    return NULL;
}

/* A part of a verb, whose name is both words. */
static const cli_verb *find_part(const cli_verb *verb, const char *name) {
    size_t n = strlen(verb->name) + 1;
    for (const cli_verb *const *part = verb->parts; *part; part++) {
        if (strcmp((*part)->name + n, name) == 0) return *part;
    }
    return NULL;
}

static void print_parts(const cli_verb *verb, FILE *out) {
    fprintf(out, "usage: foresight %s %s\n%s\n", verb->name, verb->usage, verb->about);
    for (const cli_verb *const *part = verb->parts; *part; part++) fprintf(out, "  %-18s %s\n", (*part)->name, (*part)->summary);
    fprintf(out, "\n  foresight help %s\n", verb->parts[0]->name);
}

static int fail_unknown_part(const cli_verb *verb, const char *name) {
    enum { MOST = 16 };
    const char *names[MOST];
    size_t count = 0, n = strlen(verb->name) + 1;
    for (const cli_verb *const *part = verb->parts; *part && count < MOST; part++) names[count++] = (*part)->name + n;
    const char *nearest = cli_nearest(name, names, count);
    if (nearest) return cli_fail_usage(verb, "unknown command '%s %s'; did you mean '%s %s'?", verb->name, name, verb->name, nearest);
    return cli_fail_usage(verb, "unknown command '%s %s'", verb->name, name);
}

static int fail_unknown_verb(const char *name) {
    const char *names[VERBS + 2] = {"help", "version"};
    for (int i = 0; i < VERBS; i++) names[i + 2] = verbs[i]->name;
    if (name[0] == '-')
        return cli_fail_usage(NULL, "unknown flag %s; a command comes first, as in: foresight run", name);
    const char *nearest = cli_nearest(name, names, VERBS + 2);
    if (nearest) return cli_fail_usage(NULL, "unknown command '%s'; did you mean '%s'?", name, nearest);
    return cli_fail_usage(NULL, "unknown command '%s'", name);
}

static int finish_output(void) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return CLI_OK;
    return cli_fail("standard output: cannot write: %s", strerror(errno));
}

static int run_verb(const cli_verb *verb, int argc, char **argv) {
    if (verb->parts) {
        if (argc < 1) {
            print_parts(verb, stderr);
            return CLI_USAGE;
        }
        if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0) {
            print_parts(verb, stdout);
            return finish_output();
        }
        const cli_verb *part = find_part(verb, argv[0]);
        return part ? run_verb(part, argc - 1, argv + 1) : fail_unknown_part(verb, argv[0]);
    }
    cli_options options;
    cli_options_init(&options, verb);
    int code = cli_parse(&options, argc, argv);
    if (code == CLI_OK && options.help) {
        cli_print_help(verb, stdout);
        code = finish_output();
    } else if (code == CLI_OK) {
        code = verb->run(&options);
    }
    cli_options_free(&options);
    return code;
}

int main(int argc, char **argv) {
    setlocale(LC_CTYPE, "");
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        const cli_verb *verb = argc > 2 ? find_verb(argv[2]) : NULL;
        for (int i = 3; verb && verb->parts && i < argc; i++) {
            const cli_verb *part = find_part(verb, argv[i]);
            if (!part) return fail_unknown_part(verb, argv[i]);
            verb = part;
        }
        if (verb && verb->parts)
            print_parts(verb, stdout);
        else if (verb)
            cli_print_help(verb, stdout);
        else if (argc > 2 && strcmp(argv[2], "--help") != 0 && strcmp(argv[2], "version") != 0)
            return fail_unknown_verb(argv[2]);
        else
            print_help(stdout);
        return finish_output();
    }
    if (strcmp(name, "version") == 0 || strcmp(name, "--version") == 0) {
        printf("foresight %s\n", fore_version());
        return finish_output();
    }
    const cli_verb *verb = find_verb(name);
    if (!verb) return fail_unknown_verb(name);
    return run_verb(verb, argc - 2, argv + 2);
}
