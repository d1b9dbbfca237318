/* The arithmetic and the shapes of foresight bench: medians, ratios, lists of numbers, limits of operators, what is expected of
 * drafts, the JSON object, the SVG picture. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cli/bench.h"

static void near(double found, double expected) {
    if (!(fabs(found - expected) <= 1e-9 * fabs(expected) + 1e-12)) fail_msg("%g, expected %g", found, expected);
}

static cli_series series(int count, const double *values) {
    cli_series s = {0};
    for (int i = 0; i < count; i++) cli_series_add(&s, values[i]);
    return s;
}

static cli_series one(double value) { return series(1, &value); }

static void test_series(void **state) {
    (void)state;
    cli_series none = {0};
    near(cli_series_median(&none), 0);
    cli_series s = series(5, (double[]){5, 1, 4, 2, 3});
    near(cli_series_median(&s), 3);
    near(cli_series_spread(&s), 1);
    near(s.values[0], 5); /* the order of the runs stays */
    s = series(4, (double[]){4, 1, 2, 30});
    near(cli_series_median(&s), 3);
    s = series(2, (double[]){1, 9});
    near(cli_series_spread(&s), 0);
    for (int i = 0; i < CLI_RUNS + 5; i++) cli_series_add(&s, i);
    assert_int_equal(s.count, CLI_RUNS);
    /* Ratios are of neighbours: a machine that slows down by half in the middle changes none of them. */
    cli_series a = series(4, (double[]){2, 2, 4, 4}), b = series(4, (double[]){1, 1, 2, 2});
    near(cli_ratio(&a, &b), 2);
    b = series(2, (double[]){4, 0});
    cli_series r = cli_series_ratio(&a, &b);
    assert_int_equal(r.count, 2);
    near(r.values[0], 0.5);
    near(r.values[1], 0);
}

/* What wins must win by more than chance. */
static void test_choose(void **state) {
    (void)state;
    double gain;
    cli_series usual = series(5, (double[]){1, 1.1, 0.9, 1, 1});
    cli_series fast = series(5, (double[]){0.8, 0.85, 0.75, 0.8, 0.79});
    cli_series faster = series(5, (double[]){0.5, 0.55, 0.45, 0.5, 0.5});
    cli_series little = series(5, (double[]){0.98, 1.08, 0.88, 0.98, 0.98});          /* always faster, by 2 % */
    cli_series wild = series(5, (double[]){0.2, 2, 0.3, 2, 0.4});                     /* faster in the median, slower twice */
    cli_series wide = series(5, (double[]){0.95, 0.4, 0.89, 0.3, 0.9});               /* faster every time, by all sorts of amounts */
    cli_series slower_once = series(5, (double[]){0.5, 0.55, 0.45, 1.2, 0.5});        /* one bad run is forgiven */
    cli_series short_one = series(2, (double[]){0.1, 0.1});                           /* too few runs */
    const cli_series *none[] = {&usual, &little, &wild, &wide, &short_one};
    assert_int_equal(cli_choose(none, 5, 0, &gain), 0);
    near(gain, 1);
    const cli_series *some[] = {&little, &usual, &fast, &faster, &wild};
    assert_int_equal(cli_choose(some, 5, 1, &gain), 3);
    near(gain, 2);
    const cli_series *once[] = {&usual, &slower_once};
    assert_int_equal(cli_choose(once, 2, 0, &gain), 1);
    /* A machine that slows down for all of them in the middle hides nothing. */
    cli_series base = series(4, (double[]){1, 1, 3, 3}), better = series(4, (double[]){0.8, 0.8, 2.4, 2.4});
    const cli_series *both[] = {&base, &better};
    assert_int_equal(cli_choose(both, 2, 0, &gain), 1);
    near(gain, 1.25);
}

static void test_lists(void **state) {
    (void)state;
    int whole[3];
    double share[3];
    assert_int_equal(cli_whole_list("1,20,3", 1, 20, whole, 3), 3);
    assert_true(whole[0] == 1 && whole[1] == 20 && whole[2] == 3);
    static const char *const wrong[] = {"", ",", "1,", ",1", "1,,2", "1 ,2", "-1", "+1", "0", "21", "x", "1x", "1,2,3,4", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (cli_whole_list(wrong[i], 1, 20, whole, 3)) fail_msg("'%s' is taken", wrong[i]);
    assert_int_equal(cli_share_list("0.5,1,0", share, 3), 3);
    assert_true(share[0] == 0.5 && share[1] == 1 && share[2] == 0);
    static const char *const odd[] = {"", "0.5,", "1.1", "-0.1", "nan", "inf", "0,0,0,0", "0.5;0.4"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        if (cli_share_list(odd[i], share, 3)) fail_msg("'%s' is taken", odd[i]);
}

static const fore_machine machine = {.cpu = "a <fast> & \"odd\" machine", .isa = "avx2", .processors = 4, .threads = 2,
                                     .read_speed = 10e9, .float_speed = 100e9, .integer_speed = 400e9, .vector_speed = 200e9};

static void test_limits(void **state) {
    (void)state;
    const char *limit;
    fore_operator o = {.weight_bytes = 15000000000, .state_bytes = 5000000000, .float_operations = 100e9};
    near(cli_bench_least(&o, &machine, &limit), 2);
    assert_string_equal(limit, "memory");
    o = (fore_operator){.weight_bytes = 1, .float_operations = 100e9, .integer_operations = 200e9};
    near(cli_bench_least(&o, &machine, &limit), 1.5);
    assert_string_equal(limit, "compute");
    o = (fore_operator){.seconds = 1};
    near(cli_bench_least(&o, &machine, &limit), 0);
    assert_string_equal(limit, "");
    fore_machine nothing = {0};
    o.weight_bytes = 5;
    near(cli_bench_least(&o, &nothing, &limit), 0);
}

/* A bench of made-up figures. Owned (free). */
static cli_bench *example(void) {
    cli_bench *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->dir = "models/a&b <\"'>\x01";
    b->machine = machine;
    b->info = (fore_model_info){.isa = "avx2", .patch_size = 16, .text_parameters = 7, .weight_bytes = 1000};
    b->plan = (cli_bench_plan){.runs = 2, .prompt = 100, .decode = 10, .widths = {1, 2, 3}, .width_count = 3, .depths = {0, 1, 2}, .depth_count = 3,
                               .sides = {448}, .side_count = 1, .acceptance = {0.8, 0.5, 0.4}, .accepts = true};
    b->read_speed = series(2, (double[]){10e9, 20e9});
    b->float_speed = one(100e9);
    b->integer_speed = one(400e9);
    b->vector_speed = one(200e9);
    b->token = series(2, (double[]){0.2, 0.1});
    b->prefill = one(4);
    static const double cost[] = {0, 1, 1.25, 1.5}, commit[] = {0, 0, 0.1, 0.2};
    for (int rows = 1; rows <= 3; rows++) {
        b->pass[rows] = one(0.2 * cost[rows]);
        b->commit[rows] = one(0.2 * commit[rows]);
        b->one[rows] = one(0.2);
    }
    b->draft = one(0.03);
    b->draft_one = one(0.2);
    for (int i = 0; i < 3; i++) {
        b->depths[i].depth = i;
        b->depths[i].seconds = one(0.2);
        b->depths[i].ratio = one(1 + 0.3 * i);
    }
    b->depths[1].accepted[0] = 0.9;
    b->depths[2].accepted[0] = 0.9;
    b->depths[2].accepted[1] = 0.7;
    b->depths[1].accepted_count = 1;
    b->depths[2].accepted_count = 2;
    b->vision[0] = one(1.5);
    b->whole[0] = one(2);
    b->profiles[0] = (cli_bench_profile){.name = "decode", .step = "token", .steps = 10, .count = 2, .seconds = 2};
    b->profiles[0].rows[0] = (fore_operator){.name = "qkv", .calls = 10, .seconds = 1.5, .weight_bytes = 10000000000};
    b->profiles[0].rows[1] = (fore_operator){.name = "norm", .calls = 30, .seconds = 0.5};
    b->profiles[1] = (cli_bench_profile){.name = "prefill", .step = "prompt", .steps = 1, .count = 1, .seconds = 4};
    b->profiles[1].rows[0] = (fore_operator){.name = "qkv", .calls = 1, .seconds = 4, .weight_bytes = 1000000000, .integer_operations = 800e9};
    cli_bench_conclude(b);
    return b;
}

static void test_conclusions(void **state) {
    (void)state;
    cli_bench *b = example();
    near(b->machine.read_speed, 15e9);
    near(b->depths[0].expected, 1);
    near(b->depths[1].expected, 1.9 / (1.25 + 0.1 + 0.15));
    near(b->depths[2].expected, 2.6 / (1.5 + 0.2 + 0.3));
    near(b->depths[1].expected_at, 1.8 / 1.5);
    near(b->depths[2].expected_at, 2.3 / 2);
    near(cli_bench_integer_share(b, &b->integer_speed), 0.5);
    near(cli_bench_integer_share(b, &b->vector_speed), 1);
    near(cli_bench_read_share(b), 0.5); /* 1 GB a token: 5 GB/s of 10, 10 of 20 */
    fore_operator sum = cli_bench_sum(&b->profiles[0]);
    assert_true(sum.weight_bytes == 10000000000 && sum.calls == 10 && sum.seconds == 2);
    b->pass[3].count = 0; /* a width that was not measured */
    b->depths[1].depth = FORE_DRAFT_AUTO;
    cli_bench_conclude(b);
    near(b->depths[2].expected, 0);
    near(b->depths[2].expected_at, 0);
    near(b->depths[1].expected, 0); /* nobody knows what auto will do */
    free(b);
}

static const cJSON *at(const cJSON *object, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!item) fail_msg("no member %s", name);
    return item;
}

static void test_json(void **state) {
    (void)state;
    cli_bench *b = example();
    cJSON *root = cli_bench_json(b);
    char *text = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    root = cJSON_Parse(text); /* as a reader sees it */
    assert_non_null(root);
    near(at(at(root, "machine"), "read_gb_per_second")->valuedouble, 15);
    assert_string_equal(at(at(root, "machine"), "cpu")->valuestring, machine.cpu);
    near(at(at(root, "decode"), "share_of_read")->valuedouble, 0.5);
    near(at(at(root, "decode"), "weight_bytes_per_token")->valuedouble, 1e9);
    near(at(at(root, "prefill"), "share_of_roofline")->valuedouble, 0.5);
    near(at(at(root, "prefill"), "tokens_per_second")->valuedouble, 25);
    const cJSON *verify = at(root, "verify");
    assert_int_equal(cJSON_GetArraySize(verify), 3);
    near(at(cJSON_GetArrayItem(verify, 2), "ratio")->valuedouble, 1.5);
    near(at(cJSON_GetArrayItem(verify, 1), "commit_ratio")->valuedouble, 0.1);
    near(at(at(root, "draft"), "ratio")->valuedouble, 0.15);
    const cJSON *depths = at(root, "depths"), *two = cJSON_GetArrayItem(depths, 2);
    assert_int_equal(cJSON_GetArraySize(depths), 3);
    near(at(two, "ratio")->valuedouble, 1.6);
    near(at(two, "expected_ratio")->valuedouble, 1.3);
    near(at(two, "expected_ratio_at_acceptance")->valuedouble, 1.15);
    assert_int_equal(cJSON_GetArraySize(at(two, "accepted")), 2);
    near(at(cJSON_GetArrayItem(at(root, "vision"), 0), "patches")->valuedouble, 784);
    const cJSON *profile = at(root, "profile"), *row = cJSON_GetArrayItem(at(at(profile, "decode"), "operators"), 0);
    assert_string_equal(at(row, "name")->valuestring, "qkv");
    assert_string_equal(at(row, "limit")->valuestring, "memory");
    near(at(row, "share")->valuedouble, 0.75);
    near(at(row, "share_of_roofline")->valuedouble, 0.444444); /* to millionths */
    assert_null(cJSON_GetObjectItemCaseSensitive(profile, "draft"));
    assert_null(cJSON_GetObjectItemCaseSensitive(at(root, "load"), "cold_ratio"));
    cJSON_Delete(root);
    free(text);
    free(b);
}

/* Tags that open and close each other, names and attributes as the file has them, no stray < or &. What else XML wants, the
 * end-to-end test asks a parser. */
static int check_xml(const char *p) {
    char open[16][32];
    int depth = 0, elements = 0;
    while (*p) {
        if (*p == '&') assert_true(strncmp(p, "&amp;", 5) == 0 || strncmp(p, "&lt;", 4) == 0 || strncmp(p, "&gt;", 4) == 0);
        assert_true((unsigned char)*p >= 0x20 || *p == '\n');
        if (*p != '<') {
            p++;
            continue;
        }
        const char *end = strchr(p, '>');
        assert_non_null(end);
        for (const char *q = p + 1; q < end; q++) assert_true(*q != '<');
        size_t n = strcspn(p + 1, " />?\n");
        if (p[1] == '/') {
            n = (size_t)(end - p) - 2;
            assert_true(depth > 0 && strlen(open[depth - 1]) == n && memcmp(open[depth - 1], p + 2, n) == 0);
            depth--;
        } else if (p[1] != '?' && end[-1] != '/') {
            assert_true(depth < 16 && n < 32);
            memcpy(open[depth], p + 1, n);
            open[depth++][n] = 0;
            elements++;
        } else if (p[1] != '?') {
            elements++;
        }
        p = end + 1;
    }
    assert_int_equal(depth, 0);
    return elements;
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)) != NULL; p++) n++;
    return n;
}

static void test_plot(void **state) {
    (void)state;
    cli_bench *b = example();
    cli_text svg = {0};
    cli_bench_plot(b, &svg);
    assert_true(check_xml(svg.data) > 20);
    assert_int_equal(count(svg.data, "class=\"bar\""), 3);
    assert_int_equal(count(svg.data, "<circle"), 3);
    assert_int_equal(count(svg.data, "<polyline"), 3); /* measured, expected, at the given acceptance */
    assert_non_null(strstr(svg.data, "models/a&amp;b &lt;\"'&gt;\xef\xbf\xbd"));
    assert_non_null(strstr(svg.data, "a &lt;fast&gt; &amp; \"odd\" machine"));
    assert_null(strstr(svg.data, "nan"));
    cli_text_free(&svg);
    /* Nothing but a model: a picture still. More operators than there is room for: the longest. */
    b->plan.depth_count = 0;
    b->profiles[1].steps = 0;
    b->profiles[0].count = 30;
    for (int i = 0; i < 30; i++) b->profiles[0].rows[i] = (fore_operator){.name = i == 29 ? "longest" : "op", .calls = 1, .seconds = 0.01 * (1 + i)};
    cli_bench_plot(b, &svg);
    check_xml(svg.data);
    int bars = count(svg.data, "class=\"bar\"");
    assert_true(bars > 5 && bars < 30);
    assert_non_null(strstr(svg.data, ">longest<"));
    assert_int_equal(count(svg.data, "<circle"), 0);
    cli_text_free(&svg);
    free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_series), cmocka_unit_test(test_choose), cmocka_unit_test(test_lists), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_conclusions), cmocka_unit_test(test_json), cmocka_unit_test(test_plot),
    };
    return cmocka_run_group_tests_name("unit/bench", tests, NULL, NULL);
}
