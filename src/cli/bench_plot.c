/* The picture of foresight bench --plot: for each kind of work a bar per operator, with the part that the roofline cannot do without,
 * and the speed by draft depth. Plain SVG 1.1 of rectangles, lines and text. */
#include <string.h>

#include "cli/bench.h"

enum { WIDTH = 900, LEFT = 120, RIGHT = 250, BAR = 14, GAP = 6, MOST_BARS = 14, CHART = 220, TOP = 64 };

/* Text as XML has it. */
static void add_escaped(cli_text *out, const char *text) {
    cli_text clean = {0};
    cli_text_add_printable(&clean, text, strlen(text));
    for (const char *p = cli_text_string(&clean); *p; p++) {
        if (*p == '&') cli_text_puts(out, "&amp;");
        else if (*p == '<') cli_text_puts(out, "&lt;");
        else if (*p == '>') cli_text_puts(out, "&gt;");
        else cli_text_add(out, p, 1);
    }
    cli_text_free(&clean);
}

static void add_label(cli_text *out, double x, double y, const char *anchor, const char *kind, const char *text) {
    cli_text_print(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor, kind);
    add_escaped(out, text);
    cli_text_puts(out, "</text>\n");
}

/* The rows of a profile, the longest first; gives how many, at most MOST_BARS. */
static int sort_rows(const cli_bench_profile *p, const fore_operator **rows) {
    int count = 0;
    for (int i = 0; i < p->count; i++) {
        int at = count < MOST_BARS ? count++ : MOST_BARS;
        while (at > 0 && rows[at - 1]->seconds < p->rows[i].seconds) {
            if (at < MOST_BARS) rows[at] = rows[at - 1];
            at--;
        }
        if (at < MOST_BARS) rows[at] = &p->rows[i];
    }
    return count;
}

/* Draws at y and gives the y after it. */
static double add_profile(cli_text *out, const cli_bench_profile *p, const fore_machine *m, double y) {
    const fore_operator *rows[MOST_BARS];
    int count = sort_rows(p, rows);
    char text[160];
    if (!p->steps || !count || !(rows[0]->seconds > 0)) return y;
    snprintf(text, sizeof text, "%s: %.3g ms a %s", p->name, 1e3 * p->seconds / p->steps, p->step);
    add_label(out, 20, y, "start", "head", text);
    y += 12;
    double scale = (WIDTH - LEFT - RIGHT) / rows[0]->seconds;
    for (int i = 0; i < count; i++, y += BAR + GAP) {
        const char *limit;
        double least = cli_bench_least(rows[i], m, &limit), length = scale * rows[i]->seconds, part = scale * least;
        cli_text_print(out, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" class=\"bar\"/>\n", LEFT, y, length, BAR);
        cli_text_print(out, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" class=\"%s\"/>\n", LEFT, y, part < length ? part : length, BAR,
                       *limit ? limit : "none");
        add_label(out, LEFT - 6, y + BAR - 3, "end", "name", rows[i]->name);
        snprintf(text, sizeof text, "%.3g ms, %.0f %%", 1e3 * rows[i]->seconds / p->steps, 100 * rows[i]->seconds / p->seconds);
        size_t n = strlen(text);
        if (*limit) snprintf(text + n, sizeof text - n, "; %.0f %% of the roofline", 100 * least / rows[i]->seconds);
        add_label(out, LEFT + length + 6, y + BAR - 3, "start", "name", text);
    }
    return y + 24;
}

static int deepest(const cli_bench *b) {
    int most = 0;
    for (int i = 0; i < b->plan.depth_count; i++) most = b->plan.depths[i] > most ? b->plan.depths[i] : most;
    return most;
}

/* One line through points of the chart; values that are not known are left out. */
static void add_curve(cli_text *out, const cli_bench *b, double y, double high, int which, const char *kind) {
    cli_text points = {0};
    double step = (double)(WIDTH - LEFT - RIGHT) / (deepest(b) > 0 ? deepest(b) + 1 : 1); /* auto stands one further */
    for (int i = 0; i < b->plan.depth_count; i++) {
        const cli_bench_depth *d = &b->depths[i];
        double value = which == 0 ? cli_series_median(&d->ratio) : which == 1 ? d->expected : !d->depth ? 1 : d->at.count ? cli_series_median(&d->at) : d->expected_at;
        if (!(value > 0)) continue;
        double px = LEFT + step * (d->depth == FORE_DRAFT_AUTO ? deepest(b) + 1 : d->depth), py = y + CHART - CHART * value / high;
        if (d->depth != FORE_DRAFT_AUTO) cli_text_print(&points, "%s%.1f,%.1f", points.size ? " " : "", px, py);
        if (which == 0) {
            char text[12];
            cli_text_print(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" class=\"dot\"/>\n", px, py);
            snprintf(text, sizeof text, "%.2f", value);
            add_label(out, px, py - 8, "middle", "name", text);
            add_label(out, px, y + CHART + 16, "middle", "name", cli_bench_depth_name(d->depth, text));
        }
    }
    if (points.size) cli_text_print(out, "<polyline points=\"%s\" class=\"%s\"/>\n", points.data, kind);
    cli_text_free(&points);
}

static double add_depths(cli_text *out, const cli_bench *b, double y) {
    double high = 1;
    if (b->plan.depth_count < 2) return y;
    for (int i = 0; i < b->plan.depth_count; i++) {
        const cli_bench_depth *d = &b->depths[i];
        double most = cli_series_median(&d->ratio);
        if (d->expected > most) most = d->expected;
        if (d->expected_at > most) most = d->expected_at;
        if (cli_series_median(&d->at) > most) most = cli_series_median(&d->at);
        if (most > high) high = most;
    }
    high *= 1.15;
    add_label(out, 20, y, "start", "head", "speed by drafts a round, against none: measured (line), expected by the costs (dashes)");
    y += 16;
    double one = y + CHART - CHART / high;
    cli_text_print(out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" class=\"axis\"/>\n", LEFT, y + CHART, WIDTH - RIGHT, y + CHART);
    cli_text_print(out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" class=\"axis\"/>\n", LEFT, one, WIDTH - RIGHT, one);
    add_label(out, LEFT - 6, one + 4, "end", "name", "1.00");
    add_curve(out, b, y, high, 1, "expected");
    if (b->plan.accepts) {
        add_curve(out, b, y, high, 2, "given");
        add_label(out, WIDTH - RIGHT + 12, y + 12, "start", "name", "grey: at the given acceptance");
    }
    add_curve(out, b, y, high, 0, "measured");
    return y + CHART + 40;
}

void cli_bench_plot(const cli_bench *b, cli_text *out) {
    cli_text body = {0};
    char text[256];
    double y = TOP + 30;
    for (int i = 0; i < 4; i++) y = add_profile(&body, &b->profiles[i], &b->machine, y);
    y = add_depths(&body, b, y);
    cli_text_puts(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    cli_text_print(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\">\n", WIDTH, y, WIDTH, y);
    cli_text_puts(out, "<style>text{font-family:sans-serif;font-size:11px;fill:#222}.head{font-size:13px;font-weight:bold}"
                       ".bar{fill:#ccd5dd}.memory{fill:#3b6ea5}.compute{fill:#c06b2c}.none{fill:none}.axis{stroke:#999;stroke-width:1}"
                       "polyline{fill:none;stroke-width:2}.measured{stroke:#3b6ea5}.expected{stroke:#3b6ea5;stroke-dasharray:6 4}"
                       ".given{stroke:#999;stroke-dasharray:2 3}.dot{fill:#3b6ea5}</style>\n");
    cli_text_print(out, "<rect width=\"%d\" height=\"%.0f\" fill=\"#fff\"/>\n", WIDTH, y);
    add_label(out, 20, 24, "start", "head", b->dir);
    snprintf(text, sizeof text, "%s, %d threads, %s: reads %.1f GB/s, computes %.0f GFLOPS in f32 and %.0f GOPS in int8", b->machine.cpu,
             b->machine.threads, b->info.isa, b->machine.read_speed / 1e9, b->machine.float_speed / 1e9, b->machine.integer_speed / 1e9);
    add_label(out, 20, 42, "start", "name", text);
    add_label(out, 20, 60, "start", "name", "bars: time by operator; dark: the least that reading (blue) or computing (brown) takes at these speeds");
    cli_text_add(out, cli_text_string(&body), body.size);
    cli_text_puts(out, "</svg>\n");
    cli_text_free(&body);
}
