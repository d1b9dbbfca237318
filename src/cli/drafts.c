/* What is said about drafting; see drafts.h. */
#include "cli/drafts.h"

void cli_drafts_add(fore_draft_stats sum[2], const fore_draft_stats more[2]) {
    for (int i = 0; i < 2; i++) {
        sum[i].rounds += more[i].rounds;
        sum[i].tokens += more[i].tokens;
        for (int d = 0; d < FORE_DRAFT_MAX; d++) {
            sum[i].drafted[d] += more[i].drafted[d];
            sum[i].accepted[d] += more[i].accepted[d];
        }
    }
}

static double share(uint64_t part, uint64_t whole) {
    return whole ? (double)part / (double)whole : 0;
}

/* Depths at which drafts were made. */
static int depths(const fore_draft_stats *d) {
    int n = FORE_DRAFT_MAX;
    while (n > 0 && !d->drafted[n - 1]) n--;
    return n;
}

void cli_drafts_print(const char *of, const fore_draft_stats drafts[2]) {
    for (int i = 0; i < 2; i++) {
        const fore_draft_stats *d = &drafts[i];
        if (!d->rounds) continue;
        fprintf(stderr, "%-9s %8llu round%s %.2f tokens a round, %s\n", of, (unsigned long long)d->rounds,
                d->rounds == 1 ? ", " : "s,", share(d->tokens, d->rounds), i ? "after a picture" : "no picture before");
        int n = depths(d);
        fputs("  depth   ", stderr);
        for (int k = 0; k < n; k++) fprintf(stderr, " %7d", k + 1);
        fputs("\n  drafted ", stderr);
        for (int k = 0; k < n; k++) fprintf(stderr, " %7llu", (unsigned long long)d->drafted[k]);
        fputs("\n  accepted", stderr);
        for (int k = 0; k < n; k++) fprintf(stderr, " %5.1f %%", 100 * share(d->accepted[k], d->drafted[k]));
        fputc('\n', stderr);
    }
}

static void print_source(const char *name, const fore_source_stats *s) {
    if (!s->drafted && !s->dropped) return;
    fprintf(stderr, "  %-8s %7llu drafted in %llu round%s, %5.1f %% accepted", name, (unsigned long long)s->drafted, (unsigned long long)s->rounds,
            s->rounds == 1 ? "" : "s", 100 * share(s->accepted, s->drafted));
    if (s->dropped) fprintf(stderr, "; %llu more made and not checked", (unsigned long long)s->dropped);
    fputc('\n', stderr);
}

void cli_sources_print(const fore_stats *stats) {
    print_source("head", &stats->head);
    print_source("look-up", &stats->lookups);
    if (stats->outside) fprintf(stderr, "  %-8s %7llu tokens that the draft vocabulary lacked\n", "outside", (unsigned long long)stats->outside);
}

cJSON *cli_source_json(const fore_source_stats *s) {
    cJSON *object = cli_need(cJSON_CreateObject());
    cli_json_whole(object, "rounds", s->rounds);
    cli_json_whole(object, "drafted", s->drafted);
    cli_json_whole(object, "accepted", s->accepted);
    cli_json_whole(object, "dropped", s->dropped);
    return object;
}

cJSON *cli_drafts_json(const fore_draft_stats *d) {
    cJSON *object = cli_need(cJSON_CreateObject());
    cli_json_whole(object, "rounds", d->rounds);
    cli_json_whole(object, "tokens", d->tokens);
    cli_json_number(object, "tokens_per_round", share(d->tokens, d->rounds));
    cJSON *drafted = cli_need(cJSON_AddArrayToObject(object, "drafted"));
    cJSON *accepted = cli_need(cJSON_AddArrayToObject(object, "accepted"));
    cJSON *acceptance = cli_need(cJSON_AddArrayToObject(object, "acceptance"));
    for (int k = 0; k < depths(d); k++) {
        cJSON_AddItemToArray(drafted, cli_need(cJSON_CreateNumber((double)d->drafted[k])));
        cJSON_AddItemToArray(accepted, cli_need(cJSON_CreateNumber((double)d->accepted[k])));
        cJSON_AddItemToArray(acceptance, cli_need(cJSON_CreateNumber(share(d->accepted[k], d->drafted[k]))));
    }
    return object;
}

const char *cli_mark_name(fore_mark mark) {
    static const char *const names[] = {"plain", "accepted", "correction", "bonus"};
    return names[mark];
}
