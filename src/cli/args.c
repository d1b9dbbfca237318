/* The parser of the command line and the help made from its table; see args.h. */
#include "cli/args.h"

#include <errno.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/text.h"

enum { HELP_COLUMN = 26, HELP_WIDTH = 79 };

void cli_options_init(cli_options *options, const cli_verb *verb) {
    *options = (cli_options){.verb = verb};
    for (const cli_flag *f = cli_flags; f->name; f++) {
        char *at = (char *)options + f->offset;
        if (f->kind == CLI_WHOLE || f->kind == CLI_WORD || f->kind == CLI_DEPTH) *(int *)(void *)at = -1;
        if (f->kind == CLI_REAL) *(double *)(void *)at = NAN;
    }
}

void cli_options_free(cli_options *options) {
    for (const cli_flag *f = cli_flags; f->name; f++) {
        if (f->kind == CLI_LIST || f->kind == CLI_FILES) free(((cli_list *)(void *)((char *)options + f->offset))->items);
    }
    *options = (cli_options){0};
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

size_t cli_distance(const char *a, const char *b) {
    enum { LONGEST = 63 };
    size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST) return n > m ? n : m;
    size_t rows[3][LONGEST + 1]; /* the rows i-2, i-1 and i of the table of prefixes */
    for (size_t j = 0; j <= m; j++) rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

const char *cli_nearest(const char *typed, const char *const *names, size_t count) {
    size_t length = strlen(typed), best = length > 3 ? (length + 3) / 2 : 2; /* farther than this is another word */
    const char *found = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t d = cli_distance(typed, names[i]);
        if (length >= 2 && strncmp(typed, names[i], length) == 0) d = 1; /* an abbreviation */
        if (d < best) {
            best = d;
            found = names[i];
        }
    }
    return found;
}

static const cli_flag *find_flag(const cli_verb *verb, const char *name, size_t size) {
    for (const cli_flag *f = cli_flags; f->name; f++) {
        if ((f->verbs & verb->bit) && strlen(f->name) == size && memcmp(f->name, name, size) == 0) return f;
    }
    return NULL;
}

static int fail_unknown(const cli_verb *verb, const char *dashes, const char *name, size_t size) {
    enum { MOST = 64 };
    const char *names[MOST];
    size_t count = 0;
    for (const cli_flag *f = cli_flags; f->name && count < MOST; f++) {
        if ((f->verbs & verb->bit) && f->help != cli_hidden) names[count++] = f->name;
    }
    char typed[64];
    snprintf(typed, sizeof typed, "%.*s", (int)least(size, sizeof typed - 1), name);
    const char *nearest = cli_nearest(typed, names, count);
    if (!nearest) return cli_fail_usage(verb, "unknown flag %s%s", dashes, typed);
    return cli_fail_usage(verb, "unknown flag %s%s; did you mean --%s?", dashes, typed, nearest);
}

/* Index of the word among those of `words`, which are split by |; -1 when it is none of them. */
static int word_index(const char *words, const char *word) {
    size_t length = strlen(word);
    for (int i = 0;; i++) {
        size_t size = strcspn(words, "|");
        if (size == length && memcmp(words, word, size) == 0) return i;
        if (!words[size]) return -1;
        words += size + 1;
    }
}

static int fail_word(const cli_verb *verb, const cli_flag *f, const char *value) {
    return cli_fail_usage(verb, "--%s: expected %s, found '%s'", f->name, f->value, value);
}

static int store_value(cli_options *options, const cli_flag *f, const char *value) {
    void *at = (char *)options + f->offset;
    char *end = NULL;
    errno = 0;
    switch (f->kind) {
    case CLI_ON: *(bool *)at = true; return CLI_OK;
    case CLI_SET: *(int *)at = f->set; return CLI_OK;
    case CLI_TEXT: *(const char **)at = value; return CLI_OK;
    case CLI_LIST:
    case CLI_FILES: {
        cli_list *list = at;
        list->items = cli_need(realloc(list->items, (list->count + 1) * sizeof *list->items));
        list->items[list->count++] = value;
        return CLI_OK;
    }
    case CLI_WHOLE: {
        long number = strtol(value, &end, 10);
        if (end == value || *end || errno || (double)number < f->low || (double)number > f->high) {
            if (f->high >= INT_MAX)
                return cli_fail_usage(options->verb, "--%s: expected a whole number from %.0f up, found '%s'", f->name,
                                      f->low, value);
            return cli_fail_usage(options->verb, "--%s: expected a whole number from %.0f to %.0f, found '%s'", f->name,
                                  f->low, f->high, value);
        }
        *(int *)at = (int)number;
        return CLI_OK;
    }
    case CLI_DEPTH: {
        long number = strtol(value, &end, 10);
        if (strcmp(value, "auto") == 0)
            number = FORE_DRAFT_AUTO;
        else if (end == value || *end || errno || (double)number < f->low || (double)number > f->high)
            return cli_fail_usage(options->verb, "--%s: expected auto or a whole number from %.0f to %.0f, found '%s'",
                                  f->name, f->low, f->high, value);
        *(int *)at = (int)number;
        options->has_depth = true;
        return CLI_OK;
    }
    case CLI_WORD:
    case CLI_BITS: {
        int index = word_index(f->value, value);
        if (index < 0) return fail_word(options->verb, f, value);
        if (f->kind == CLI_WORD) *(int *)at = index;
        else *(unsigned *)at |= 1u << index;
        return CLI_OK;
    }
    case CLI_REAL: {
        double number = strtod(value, &end);
        if (end == value || *end || !(number >= f->low && number <= f->high)) {
            char range[64];
            if (f->low == FLT_MIN)
                snprintf(range, sizeof range, "above 0%s", f->high <= 1 ? ", at most 1" : "");
            else if (f->high == FLT_MAX)
                snprintf(range, sizeof range, "from %g up", f->low);
            else
                snprintf(range, sizeof range, "from %g to %g", f->low, f->high);
            return cli_fail_usage(options->verb, "--%s: expected a number %s, found '%s'", f->name, range, value);
        }
        *(double *)at = number;
        return CLI_OK;
    }
    case CLI_SEED:
        options->seed = strtoull(value, &end, 10);
        if (end == value || *end || errno || *value < '0' || *value > '9')
            return cli_fail_usage(options->verb,
                                  "--%s: expected a whole number from 0 to 18446744073709551615, found '%s'", f->name,
                                  value);
        options->has_seed = true;
        return CLI_OK;
    }
    return CLI_OK;
}

static int take_operand(cli_options *options, const char *text) {
    const cli_verb *verb = options->verb;
    if (!verb->operand) return cli_fail_usage(verb, "what is '%s'? this command takes flags only", text);
    if (options->operand && verb->second && !options->second) {
        options->second = text;
        return CLI_OK;
    }
    if (options->second) return cli_fail_usage(verb, "what is '%s'? %s and %s are given", text, verb->operand, verb->second);
    if (options->operand)
        return cli_fail_usage(verb,
                              "one %s expected, '%s' is a second one; put quotes around words that belong together",
                              verb->operand, text);
    options->operand = text;
    return CLI_OK;
}

int cli_parse(cli_options *options, int argc, char **argv) {
    const cli_verb *verb = options->verb;
    bool flags_ended = false;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        const cli_flag *f = NULL;
        const char *value = NULL;
        if (flags_ended || arg[0] != '-' || !arg[1]) {
            int code = take_operand(options, arg);
            if (code) return code;
            continue;
        }
        if (arg[1] == '-' && !arg[2]) {
            flags_ended = true;
            continue;
        }
        if (arg[1] == '-') {
            size_t size = strcspn(arg + 2, "=");
            f = find_flag(verb, arg + 2, size);
            if (!f) return fail_unknown(verb, "--", arg + 2, size);
            if (arg[2 + size]) value = arg + 3 + size;
        } else {
            for (const cli_flag *g = cli_flags; g->name && !f; g++) {
                if ((g->verbs & verb->bit) && g->letter == arg[1]) f = g;
            }
            if (!f) return fail_unknown(verb, "-", arg + 1, strcspn(arg + 1, "="));
            if (arg[2]) value = arg + 2 + (arg[2] == '=');
        }
        bool takes = f->kind != CLI_ON && f->kind != CLI_SET;
        if (value && !takes) return cli_fail_usage(verb, "--%s takes no value, found '%s'", f->name, value);
        if (!value && takes) {
            if (i + 1 >= argc || (f->kind == CLI_FILES && argv[i + 1][0] == '-' && argv[i + 1][1]))
                return cli_fail_usage(verb, "--%s: a value is missing: --%s %s", f->name, f->name, f->value);
            value = argv[++i];
        }
        int code = f->kind == CLI_FILES ? store_value(options, f, NULL) : CLI_OK;
        if (code == CLI_OK) code = store_value(options, f, value);
        while (code == CLI_OK && f->kind == CLI_FILES && i + 1 < argc && (argv[i + 1][0] != '-' || !argv[i + 1][1]))
            code = store_value(options, f, argv[++i]);
        if (code) return code;
    }
    return CLI_OK;
}

/* The flags under one heading, by name only. */
static void print_group(const cli_verb *verb, const char *heading, FILE *out) {
    int column = 0;
    for (const cli_flag *f = cli_flags; f->name; f++) {
        if (!(f->verbs & verb->bit) || f->help != heading) continue;
        int width = (int)(strlen(f->name) + (f->value ? strlen(f->value) + 1 : 0)) + 3;
        if (!column) column = fprintf(out, "%s", heading);
        if (column + width > HELP_WIDTH) column = fprintf(out, "\n ") - 1;
        column += fprintf(out, " --%s%s%s", f->name, f->value ? " " : "", f->value ? f->value : "");
    }
    if (column) fputc('\n', out);
}

void cli_print_help(const cli_verb *verb, FILE *out) {
    fprintf(out, "usage: foresight %s %s\n%s", verb->name, verb->usage, verb->about);
    for (const cli_flag *f = cli_flags; f->name; f++) {
        const char *help = f->help;
        if (!(f->verbs & verb->bit) || !help || help == cli_hidden) continue;
        if (help == cli_sampling || help == cli_drafting || help == cli_machine || help == cli_video) continue;
        char letter[8] = "    ", left[64];
        if (f->letter) snprintf(letter, sizeof letter, "-%c, ", f->letter);
        snprintf(left, sizeof left, "  %s--%s%s%s", letter, f->name, f->value ? " " : "", f->value ? f->value : "");
        size_t line = strcspn(help, "\n");
        fprintf(out, "%-*s %.*s\n", HELP_COLUMN - 1, left, (int)line, help);
        if (help[line]) fprintf(out, "%*s%s\n", HELP_COLUMN, "", help + line + 1);
    }
    print_group(verb, cli_video, out);
    print_group(verb, cli_machine, out);
    print_group(verb, cli_drafting, out);
    print_group(verb, cli_sampling, out);
}
