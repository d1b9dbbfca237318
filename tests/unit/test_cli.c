/* The command's parts: flags, the nearest name, text made valid, reasoning told from the answer, JSON of files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/args.h"
#include "cli/json.h"
#include "cli/text.h"
#include "cli/view.h"

static const cli_verb run = {
    .name = "run", .bit = CLI_RUN, .operand = "PROMPT", .usage = "", .summary = "", .about = ""};

static int parse(cli_options *options, int argc, const char **argv) {
    cli_options_init(options, &run);
    return cli_parse(options, argc, (char **)(uintptr_t)argv);
}

static void test_flags(void **state) {
    (void)state;
    const char *argv[] = {"--image",           "a",       "-ib", "-i=c",   "--think", "--no-think",
                          "--temperature=0.5", "--top-k", "7",   "--seed", "9",       "--json",
                          "--system=",         "--stop",  "=",   "--",     "--raw"};
    cli_options o;
    assert_int_equal(parse(&o, sizeof argv / sizeof *argv, argv), CLI_OK);
    assert_int_equal(o.images.count, 3);
    assert_string_equal(o.images.items[0], "a");
    assert_string_equal(o.images.items[1], "b");
    assert_string_equal(o.images.items[2], "c");
    assert_int_equal(o.think, -1); /* the last one wins */
    assert_true(o.temperature == 0.5 && o.top_k == 7 && o.has_seed && o.seed == 9 && o.json && !o.raw);
    assert_string_equal(o.system, "");
    assert_string_equal(o.stops.items[0], "=");
    assert_string_equal(o.operand, "--raw");
    assert_true(o.top_p != o.top_p && o.max_tokens == -1); /* absent */
    cli_options_free(&o);
}

/* All up to the next flag, a group for each --frames. */
static void test_frames_flags(void **state) {
    (void)state;
    const char *argv[] = {"--frames", "a", "b", "-", "--fps", "2", "--frames=c", "d", "--fps=x", "word", "--video", "e"};
    cli_options o;
    assert_int_equal(parse(&o, sizeof argv / sizeof *argv, argv), CLI_OK);
    static const char *const want[] = {NULL, "a", "b", "-", NULL, "c", "d"};
    assert_int_equal(o.frames.count, 7);
    for (size_t i = 0; i < 7; i++) {
        if (want[i]) assert_string_equal(o.frames.items[i], want[i]);
        else assert_null(o.frames.items[i]);
    }
    assert_true(o.fps.count == 2 && o.videos.count == 1);
    assert_string_equal(o.operand, "word");
    cli_options_free(&o);
    assert_int_equal(parse(&o, 1, argv), CLI_USAGE);
    cli_options_free(&o);
    const char *none[] = {"--frames", "--fps", "2"};
    assert_int_equal(parse(&o, 3, none), CLI_USAGE);
    cli_options_free(&o);
}

static void test_draft_flags(void **state) {
    (void)state;
    const char *argv[] = {"--draft-depth=3",  "--draft-depth", "auto",    "--draft-sampler", "rejection",
                          "--ablate=history", "--ablate",      "splice", "--color=never",   "--draft-depth=8"};
    cli_options o;
    assert_int_equal(parse(&o, 0, argv), CLI_OK);
    assert_true(o.draft_depth == FORE_DRAFT_AUTO && o.draft_sampler == -1 && !o.ablate); /* absent */
    cli_options_free(&o);
    assert_int_equal(parse(&o, 9, argv), CLI_OK);
    assert_true(o.draft_depth == FORE_DRAFT_AUTO && o.draft_sampler == FORE_SAMPLER_REJECTION);
    assert_true(o.ablate == (FORE_ABLATE_HISTORY | FORE_ABLATE_SPLICE) && o.color == CLI_COLOR_NEVER);
    cli_options_free(&o);
    assert_int_equal(parse(&o, 10, argv), CLI_OK);
    assert_int_equal(o.draft_depth, FORE_DRAFT_MAX);
    cli_options_free(&o);
}

static void test_wrong_flags(void **state) {
    (void)state;
    const char *const wrong[] = {"--imag",
                                 "--image",
                                 "--json=1",
                                 "--top-k=-1",
                                 "--top-k=1x",
                                 "--top-k=",
                                 "--top-p=nan",
                                 "--seed=+1",
                                 "--top-k=1e400",
                                 "-z",
                                 "--=x",
                                 "---",
                                 "--seed=99999999999999999999",
                                 "--draft-depth=9",
                                 "--draft-depth=-1",
                                 "--draft-depth=",
                                 "--draft-depth=autos",
                                 "--draft-sampler=seed",
                                 "--draft-sampler=seeded|rejection",
                                 "--color=",
                                 "--ablate=splice,delta"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cli_options o;
        if (parse(&o, 1, (const char **)(uintptr_t)&wrong[i]) != CLI_USAGE) fail_msg("%s was taken", wrong[i]);
        cli_options_free(&o);
    }
}

static void test_nearest(void **state) {
    (void)state;
    static const char *const names[] = {"temperature", "top-k", "top-p", "image", "ids"};
    const size_t count = sizeof names / sizeof *names;
    assert_int_equal(cli_distance("", "abc"), 3);
    assert_int_equal(cli_distance("kitten", "sitting"), 3);
    assert_int_equal(cli_distance("form", "from"), 1);
    assert_int_equal(cli_distance("same", "same"), 0);
    assert_string_equal(cli_nearest("tmeperature", names, count), "temperature");
    assert_string_equal(cli_nearest("imgae", names, count), "image");
    assert_string_equal(cli_nearest("id", names, count), "ids");
    assert_string_equal(cli_nearest("temp", names, count), "temperature");
    assert_null(cli_nearest("verbose", names, count));
    char longer[200];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    assert_int_equal(cli_distance(longer, "a"), sizeof longer - 1);
}

static void test_utf8(void **state) {
    (void)state;
    static const char *const good[] = {
        "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xef\xbf\xbf", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf"};
    static const char *const bad[] = {"\x80",
                                      "\xc3",
                                      "\xc1\xbf",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xe2\x82"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(cli_utf8_length(good[i], strlen(good[i])), strlen(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_int_equal(cli_utf8_length(bad[i], strlen(bad[i])), 0);
    cli_text t = {0};
    cli_text_add_clean(&t, "a\xff\xc3\xa9\xe2\x82", 6);
    assert_string_equal(t.data, "a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd");
    cli_text_free(&t);
    cli_text_add_printable(&t, "a\033[1m\n\tb\x7f\xc2\x9b\xc2\xa0", 13);
    assert_string_equal(t.data, "a\xef\xbf\xbd[1m\n\tb\xef\xbf\xbd\xef\xbf\xbd\xc2\xa0");
    cli_text_free(&t);
}

/* Pushes `said` in pieces of `step` bytes. */
static void split(const char *said, bool thinking, const char *reasoning, const char *answer, bool thought) {
    for (size_t step = 1; step < 12; step++) {
        cli_view view;
        cli_view_start(&view, (cli_view_style){false, false, false}, thinking);
        for (size_t i = 0; i < strlen(said); i += step) {
            size_t left = strlen(said) - i;
            assert_int_equal(cli_view_push(&view, said + i, left < step ? left : step, FORE_MARK_PLAIN), CLI_OK);
        }
        assert_int_equal(cli_view_end(&view), CLI_OK);
        assert_string_equal(cli_text_string(&view.text), said);
        assert_string_equal(cli_view_reasoning(&view), reasoning);
        assert_string_equal(cli_view_answer(&view), answer);
        assert_int_equal(view.thought, thought);
        cli_view_free(&view);
    }
}

static void test_reasoning(void **state) {
    (void)state;
    split("an answer", false, "", "an answer", false);
    split("", false, "", "", false);
    split("why\n</think>\n\nso", true, "why", "so", true);
    split("<think>\nwhy\n</think>\n\nso", false, "why", "so", true);
    split("a < b <thin <<think>x</thinker</think> <", false, "x</thinker", "a < b <thin < <", true);
    split("never ends </think", true, "never ends </think", "", true);
    split("one </think> two", false, "", "one </think> two", false);
}

/* What is shown of tokens with marks; taken from standard output. */
static void show(const char *const *tokens, const fore_mark *marks, size_t count, cli_view_style style, bool thinking, const char *want) {
    char said[512] = "";
    int out = dup(STDOUT_FILENO), ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    dup2(ends[1], STDOUT_FILENO);
    cli_view view;
    cli_view_start(&view, style, thinking);
    for (size_t i = 0; i < count; i++) {
        cli_view_push(&view, tokens[i], strlen(tokens[i]), marks[i]);
        if (marks[i] != FORE_MARK_ACCEPTED) cli_view_pause(&view);
    }
    cli_view_end(&view);
    cli_view_free(&view);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    ssize_t n = read(ends[0], said, sizeof said - 1);
    close(ends[0]);
    close(ends[1]);
    close(out);
    assert_true(n > 0);
    assert_string_equal(said, want);
}

static void test_marks(void **state) {
    (void)state;
    const fore_mark P = FORE_MARK_PLAIN, A = FORE_MARK_ACCEPTED, C = FORE_MARK_CORRECTION, B = FORE_MARK_BONUS;
    static const char *const plain[] = {"There", " is", " a", " blue", "", " cat", "."};
    const fore_mark plain_marks[] = {P, A, A, C, A, B, B};
    show(plain, plain_marks, 7, (cli_view_style){true, true, false}, false, "There[+ is a][~ blue][* cat][*.]\n");
    show(plain, plain_marks, 7, (cli_view_style){true, false, false}, false, "There is a blue cat.\n");
    show(plain, plain_marks, 4, (cli_view_style){true, true, true}, false,
         "There\033[32m is a\033[0m\033[31m blue\033[0m\n");
    /* What may start a tag is held back and keeps its own marks. */
    static const char *const tags[] = {"a<", "th", "x", "</th", "ink", ">b"};
    const fore_mark tag_marks[] = {A, C, A, A, B, A};
    show(tags, tag_marks, 3, (cli_view_style){true, true, false}, false, "[+a][+<][~th][+x]\n");
    show(tags + 3, tag_marks + 3, 3, (cli_view_style){true, true, true}, true,
         "\033[2m\033[32m</th\033[0m\033[2m\033[36mink\033[0m\033[2m\033[32m>\033[0m\033[32mb\033[0m\n");
}

static void test_json(void **state) {
    (void)state;
    cJSON *json = NULL;
    assert_int_equal(cli_json_parse("x", " [1, \"\xc3\xa9\"]\n", 10, &json), CLI_OK);
    assert_int_equal(cJSON_GetArraySize(json), 2);
    cJSON_Delete(json);
    static const char *const bad[] = {"", "[1", "[1] 2", "\"\xff\"", "nul"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(cli_json_parse("x", bad[i], strlen(bad[i]), &json), CLI_FAILED);
        assert_null(json);
    }
    cJSON *object = cJSON_CreateObject();
    cli_json_whole(object, "n", UINT64_MAX);
    cli_json_string(object, "s", "a\xff");
    cli_json_number(object, "x", 0.25);
    cli_json_bool(object, "b", true);
    char *text = cli_json_text(object);
    assert_string_equal(text, "{\"n\":18446744073709551615,\"s\":\"a\xef\xbf\xbd\",\"x\":0.25,\"b\":true}");
    free(text);
    cJSON_Delete(object);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags), cmocka_unit_test(test_frames_flags),   cmocka_unit_test(test_draft_flags), cmocka_unit_test(test_wrong_flags),
        cmocka_unit_test(test_nearest), cmocka_unit_test(test_utf8),        cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_marks),   cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
