/* The measurements of foresight bench; see bench.h. All of them are requests to sessions, timed passes and profiles of the public
 * header. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench.h"
#include "cli/files.h"
#include "cli/progress.h"
#include "cli/request.h"
#include "cli/signals.h"

enum { RANKED = 32768 }; /* ids that a draft head has by default */
enum { DRAFT_DEPTH = 3, MOST_FILES = 256, SPARE = 64, VISION_TEXT = 16, LARGE_SIDE = 512, LARGE_RUNS = 3 };

typedef struct bench {
    cli_bench *out;
    const cli_options *options;
    fore_model_options how;
    cli_progress progress;
    uint64_t done, total; /* pieces of work */
    fore_model *model;
    fore_session *session;
    int32_t *ids; /* owned: [plan.prompt] */
    float *pixels; /* owned: of the largest picture */
    int32_t serial; /* every request begins otherwise, so that no prefix is found again */
    char *messages; /* owned: the question of the depths; NULL without a template */
    int32_t *answer; /* owned: [plan.decode + FORE_DRAFT_MAX + 1] what it is answered with, of a run without drafts */
    size_t answered;
    bool recording;
} bench;

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static int step(bench *b) {
    b->done++;
    return cli_progress_call(&b->progress, "bench", b->done < b->total ? b->done : b->total, b->total) || cli_interrupted() ? CLI_INTERRUPTED : CLI_OK;
}

static int context_of(const cli_bench_plan *p, const fore_model_info *info) {
    int most = p->prompt;
    for (int i = 0; i < p->side_count && info->has_vision; i++) {
        int across = p->sides[i] / info->patch_size / info->merge_size;
        if (across * across + VISION_TEXT > most) most = across * across + VISION_TEXT;
    }
    return most + p->decode + SPARE < info->context_length ? most + p->decode + SPARE : info->context_length;
}

static int open_all(bench *b) {
    fore_error err = {0};
    fore_status s = fore_model_open(b->out->dir, &b->how, &b->model, &err);
    if (s) return cli_fail_status(s, &err);
    fore_model_get_info(b->model, &b->out->info);
    snprintf(b->out->dtypes, sizeof b->out->dtypes, "%s", b->out->info.dtypes);
    const fore_session_options o = {.threads = b->options->threads > 0 ? b->options->threads : 0, .context = context_of(&b->out->plan, &b->out->info),
                                    .cpus = b->options->cpus};
    fore_model_plan(b->model, o.context, &b->out->memory);
    s = fore_session_new(b->model, &o, &b->session, &err);
    return s ? cli_fail_status(s, &err) : CLI_OK;
}

static void close_all(bench *b) {
    fore_session_free(b->session);
    fore_model_close(b->model);
    b->session = NULL;
    b->model = NULL;
}

static void init_request(const bench *b, fore_request *r) {
    fore_request_init(r, b->model);
    r->sampling = (fore_sampling){.top_p = 1, .repetition_penalty = 1};
    r->ignore_eos = true;
    r->draft.depth = 0;
}

static int begin_ids(bench *b, int count) {
    fore_request r;
    fore_error err = {0};
    init_request(b, &r);
    int half = b->out->info.vocab_size / 2; /* special tokens come last */
    b->ids[0] = b->serial++ % half;
    r.ids = b->ids;
    r.id_count = (size_t)count;
    fore_status s = fore_session_begin(b->session, &r, &err);
    return s ? cli_fail_status(s, &err) : CLI_OK;
}

/* Says at least `tokens` tokens. */
static int say(bench *b, int tokens) {
    fore_error err = {0};
    fore_chunk c = {0};
    for (int n = 0; n < tokens && c.finish == FORE_FINISH_NONE; n += (int)c.id_count) {
        fore_status s = fore_session_next(b->session, &c, &err);
        if (s) return cli_fail_status(s, &err);
        for (size_t i = 0; b->recording && i < c.id_count; i++) b->answer[b->answered++] = c.ids[i];
        if (cli_interrupted()) return CLI_INTERRUPTED;
    }
    return CLI_OK;
}

static int look_at_noise(bench *b, int side) {
    int patches = side / b->out->info.patch_size;
    char text[96];
    snprintf(text, sizeof text, "%d<|vision_start|><|image_pad|><|vision_end|>", b->serial++);
    const fore_image image = {.patches = b->pixels, .grid = {1, patches, patches}, .name = "noise"};
    fore_request r;
    fore_error err = {0};
    init_request(b, &r);
    r.prompt = text;
    r.images = &image;
    r.image_count = 1;
    fore_status s = fore_session_begin(b->session, &r, &err);
    return s ? cli_fail_status(s, &err) : CLI_OK;
}

static bool sees(const bench *b) {
    return b->out->info.has_vision && b->out->info.has_tokenizer && b->out->plan.side_count;
}

static void prepare_inputs(bench *b) {
    const cli_bench_plan *p = &b->out->plan;
    const fore_model_info *info = &b->out->info;
    uint32_t state = 1;
    b->ids = cli_need(calloc((size_t)p->prompt, sizeof *b->ids));
    for (int i = 0; i < p->prompt; i++) b->ids[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)(info->vocab_size / 2));
    b->answer = cli_need(calloc((size_t)p->decode + 2 * FORE_DRAFT_MAX + 2, sizeof *b->answer));
    if (info->has_template && info->has_tokenizer) b->messages = cli_conversation(NULL, "Tell a story about a fox.", 0);
    if (!sees(b)) return;
    int side = 0;
    for (int i = 0; i < p->side_count; i++) side = p->sides[i] > side ? p->sides[i] : side;
    size_t count = 3 * 2 * (size_t)side * (size_t)side;
    b->pixels = cli_need(malloc(count * sizeof *b->pixels));
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        b->pixels[i] = (float)(state >> 8) * 0x1p-23f - 1;
    }
}

/* ---- memory and loading ------------------------------------------------------------------------------------------ */

/* A line of /proc/self/status in bytes; 0 when it is not there. */
static uint64_t status_bytes(const char *key) {
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    uint64_t bytes = 0;
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0) bytes = strtoull(line + strlen(key), NULL, 10) * 1024;
    if (f) fclose(f);
    return bytes;
}

/* Open, a prompt, an answer, a picture: what all of it took at most. */
static int measure_memory(bench *b) {
    FILE *f = fopen("/proc/self/clear_refs", "we"); /* the peak counts from here on */
    if (f) {
        fputs("5", f);
        fclose(f);
    }
    int code = open_all(b);
    if (code) return code;
    prepare_inputs(b);
    code = begin_ids(b, b->out->plan.prompt);
    if (code == CLI_OK) code = say(b, 4);
    if (code == CLI_OK && sees(b)) code = look_at_noise(b, b->out->plan.sides[0]);
    b->out->peak_bytes = status_bytes("VmHWM:");
    b->out->own_bytes = status_bytes("RssAnon:");
    close_all(b);
    return code == CLI_OK ? step(b) : code;
}

static int find_files(const char *dir, cli_text *files) {
    DIR *d = opendir(dir);
    int count = 0;
    for (const struct dirent *e; d && (e = readdir(d)) != NULL && count < MOST_FILES;) {
        size_t n = strlen(e->d_name);
        if (n < 12 || strcmp(e->d_name + n - 12, ".safetensors") != 0) continue;
        cli_text_puts(&files[count], dir);
        cli_text_puts(&files[count], "/");
        cli_text_puts(&files[count++], e->d_name);
    }
    if (d) closedir(d);
    return count;
}

/* Seconds that reading the files takes; drop: out of the page cache first, and again afterwards. */
static double read_files(const cli_text *files, int count, bool drop) {
    enum { PIECE = 8 << 20 };
    char *piece = cli_need(malloc(PIECE));
    double seconds = 0;
    for (int i = 0; i < count; i++) {
        int fd = open(files[i].data, O_RDONLY | O_CLOEXEC);
        if (fd < 0) continue;
        if (drop) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        double began = cli_seconds();
        while (read(fd, piece, PIECE) > 0) {}
        seconds += cli_seconds() - began;
        if (drop) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
    free(piece);
    return seconds;
}

static int load(bench *b, cli_series *open, cli_series *ready) {
    double began = cli_seconds();
    int code = open_all(b);
    if (open) cli_series_add(open, cli_seconds() - began);
    if (code == CLI_OK) code = begin_ids(b, 1);
    if (code == CLI_OK) code = say(b, 1);
    cli_series_add(ready, cli_seconds() - began);
    close_all(b);
    return code;
}

static int measure_loading(bench *b) {
    cli_bench *o = b->out;
    cli_text files[MOST_FILES] = {0};
    int count = find_files(o->dir, files), code = CLI_OK;
    for (int r = 0; r < o->plan.runs && code == CLI_OK; r++) {
        if (o->plan.cold && r < LARGE_RUNS) {
            cli_series_add(&o->read_cold, read_files(files, count, true));
            code = load(b, NULL, &o->ready_cold);
        }
        if (!r) read_files(files, count, false); /* into the cache */
        cli_series_add(&o->read_warm, read_files(files, count, false));
        if (code == CLI_OK) code = load(b, &o->open_warm, &o->ready_warm);
        if (code == CLI_OK) code = step(b);
    }
    for (int i = 0; i < count; i++) cli_text_free(&files[i]);
    return code;
}

/* ---- speed ------------------------------------------------------------------------------------------------------- */

static int measure_machine(bench *b, unsigned what, fore_machine *out) {
    fore_error err = {0};
    fore_status s = fore_machine_measure(b->out->info.isa, b->options->threads > 0 ? b->options->threads : 0, what, out, &err);
    return s ? cli_fail_status(s, &err) : CLI_OK;
}

/* Prompt and answer between two looks at the machine. */
static int measure_text(bench *b) {
    cli_bench *o = b->out;
    fore_machine before, after;
    int code = measure_machine(b, FORE_MACHINE_READ | FORE_MACHINE_FLOAT | FORE_MACHINE_INTEGER, &before);
    double t0 = cli_seconds();
    if (code == CLI_OK) code = begin_ids(b, o->plan.prompt);
    double t1 = cli_seconds();
    if (code == CLI_OK) code = say(b, 1); /* it comes from the prompt's last row */
    double t2 = cli_seconds();
    if (code == CLI_OK) code = say(b, o->plan.decode);
    double t3 = cli_seconds();
    if (code == CLI_OK) code = measure_machine(b, FORE_MACHINE_READ, &after);
    if (code) return code;
    cli_series_add(&o->prefill, t1 - t0);
    cli_series_add(&o->token, (t3 - t2) / o->plan.decode);
    cli_series_add(&o->read_speed, 0.5 * (before.read_speed + after.read_speed));
    cli_series_add(&o->float_speed, before.float_speed);
    cli_series_add(&o->integer_speed, before.integer_speed);
    cli_series_add(&o->vector_speed, before.vector_speed);
    o->machine = before;
    return step(b);
}

/* After the answer: passes of every width, each beside one of one row. */
static int measure_passes(bench *b) {
    cli_bench *o = b->out;
    for (int i = 0; i < o->plan.width_count; i++) {
        int rows = o->plan.widths[i];
        fore_pass_time one, wide = {0}, again;
        fore_error err = {0};
        fore_status s = fore_session_time_pass(b->session, 1, &one, &err);
        if (!s) s = fore_session_time_pass(b->session, rows, &wide, &err);
        if (!s) s = fore_session_time_pass(b->session, 1, &again, &err);
        if (s) return cli_fail_status(s, &err);
        cli_series_add(&o->pass[rows], wide.pass);
        cli_series_add(&o->commit[rows], wide.commit);
        cli_series_add(&o->one[rows], 0.5 * (one.pass + again.pass));
    }
    return step(b);
}

/* Begins the question of the depths. */
static int ask(bench *b, fore_draft draft) {
    fore_request r;
    fore_error err = {0};
    init_request(b, &r);
    r.max_tokens = b->out->plan.decode + 1;
    r.draft = draft;
    r.messages = b->messages;
    if (!r.messages) {
        r.ids = b->ids;
        r.id_count = b->out->plan.prompt < 24 ? (size_t)b->out->plan.prompt : 24;
    }
    fore_status s = fore_session_begin(b->session, &r, &err);
    return s ? cli_fail_status(s, &err) : say(b, 1);
}

static int measure_depth(bench *b, cli_bench_depth *d, double *plain, double *pass) {
    fore_stats s;
    b->recording = d->depth == 0;
    b->answered = b->recording ? 0 : b->answered;
    int code = ask(b, (fore_draft){.depth = d->depth});
    double began = cli_seconds();
    if (code == CLI_OK) code = say(b, b->out->plan.decode);
    b->recording = false;
    if (code) return code;
    double seconds = (cli_seconds() - began) / b->out->plan.decode;
    fore_session_get_stats(b->session, &s);
    if (d->depth == 0) {
        *plain = seconds;
        *pass = s.rounds ? s.verify_seconds / (double)s.rounds : 0;
    }
    cli_series_add(&d->seconds, seconds);
    cli_series_add(&d->ratio, *plain / seconds);
    const fore_draft_stats *drafts = &s.draft[0];
    uint64_t made = 0;
    for (int i = 0; i < FORE_DRAFT_MAX; i++) {
        made += drafts->drafted[i];
        d->accepted[i] = drafts->drafted[i] ? (double)drafts->accepted[i] / (double)drafts->drafted[i] : 0;
        if (drafts->drafted[i]) d->accepted_count = i + 1;
    }
    if (made && d->depth > 0) { /* auto may make drafts that it does not check */
        cli_series_add(&b->out->draft, s.draft_seconds / (double)made);
        cli_series_add(&b->out->draft_one, *pass);
    }
    return step(b);
}

/* The same answer with drafts taken from it, of which as many are right as the plan says; the head works all the same. */
static int measure_at(bench *b, cli_bench_depth *d, double plain) {
    const cli_bench_plan *p = &b->out->plan;
    double right[FORE_DRAFT_MAX] = {0}; /* each given that those before it are */
    for (int i = 0; i < FORE_DRAFT_MAX; i++) {
        double before = i ? p->acceptance[i - 1] : 1;
        right[i] = before > 0 ? p->acceptance[i] / before : 0;
    }
    int code = ask(b, (fore_draft){.depth = d->depth, .lookup = FORE_LOOKUP_OFF, .replay = b->answer, .replay_count = b->answered,
                                   .replay_right = right, .replay_seed = 1});
    double began = cli_seconds();
    if (code == CLI_OK) code = say(b, p->decode);
    if (code == CLI_OK) cli_series_add(&d->at, plain / ((cli_seconds() - began) / p->decode));
    return code;
}

static int measure_depths(bench *b) {
    double plain = 0, pass = 0;
    int code = CLI_OK;
    for (int i = 0; i < b->out->plan.depth_count && code == CLI_OK; i++) {
        cli_bench_depth *d = &b->out->depths[i];
        code = measure_depth(b, d, &plain, &pass);
        if (code == CLI_OK && d->depth && b->out->plan.accepts) code = measure_at(b, d, plain);
    }
    return code;
}

static int measure_vision(bench *b, int run) {
    cli_bench *o = b->out;
    int code = CLI_OK;
    for (int i = 0; sees(b) && i < o->plan.side_count && code == CLI_OK; i++) {
        if (o->plan.sides[i] > LARGE_SIDE && run >= LARGE_RUNS) continue;
        double began = cli_seconds();
        code = look_at_noise(b, o->plan.sides[i]);
        if (code == CLI_OK) code = say(b, 1);
        if (code) return code;
        fore_stats s;
        fore_session_get_stats(b->session, &s);
        cli_series_add(&o->vision[i], s.vision_seconds);
        cli_series_add(&o->whole[i], cli_seconds() - began);
        code = step(b);
    }
    return code;
}

/* ---- where the time goes ----------------------------------------------------------------------------------------- */

static int profile(bench *b, bool on) {
    fore_error err = {0};
    fore_status s = fore_session_profile(b->session, on, &err);
    return s ? cli_fail_status(s, &err) : CLI_OK;
}

/* Takes the operators whose names begin with `prefix`, "" for the trunk's, and ends the profile. */
static int take_profile(bench *b, cli_bench_profile *p, const char *prefix, int steps) {
    fore_operator o;
    for (int i = 0; fore_session_get_operator(b->session, i, &o) && p->count < CLI_BENCH_OPERATORS; i++) {
        bool other = strchr(o.name, '.') != NULL;
        if (*prefix ? strncmp(o.name, prefix, strlen(prefix)) != 0 : other) continue;
        p->rows[p->count++] = o;
        p->seconds += o.seconds;
    }
    p->steps = steps;
    return profile(b, false);
}

static int measure_profiles(bench *b) {
    cli_bench *o = b->out;
    cli_bench_profile *p = o->profiles;
    p[0].name = "decode", p[0].step = "token";
    p[1].name = "prefill", p[1].step = "prompt";
    p[2].name = "draft", p[2].step = "draft";
    p[3].name = "vision", p[3].step = "picture";
    int code = profile(b, true);
    if (code == CLI_OK) code = begin_ids(b, o->plan.prompt);
    if (code == CLI_OK) code = take_profile(b, &p[1], "", 1);
    if (code == CLI_OK) code = say(b, 1);
    if (code == CLI_OK) code = profile(b, true);
    if (code == CLI_OK) code = say(b, o->plan.decode);
    if (code == CLI_OK) code = take_profile(b, &p[0], "", o->plan.decode);
    if (code == CLI_OK && o->info.mtp_attached) {
        code = ask(b, (fore_draft){.depth = DRAFT_DEPTH});
        if (code == CLI_OK) code = profile(b, true);
        if (code == CLI_OK) code = say(b, o->plan.decode);
        fore_operator head = {0};
        for (int i = 0; code == CLI_OK && fore_session_get_operator(b->session, i, &head) && strcmp(head.name, "mtp.head") != 0; i++) {}
        if (code == CLI_OK) code = take_profile(b, &p[2], "mtp.", (int)head.calls);
    }
    if (code == CLI_OK && sees(b)) {
        code = profile(b, true);
        if (code == CLI_OK) code = look_at_noise(b, o->plan.sides[0]);
        if (code == CLI_OK) code = take_profile(b, &p[3], "vision.", 1);
    }
    return code == CLI_OK ? step(b) : code;
}

int cli_bench_measure(cli_bench *o, const cli_options *options) {
    const cli_bench_plan *p = &o->plan;
    bench b = {.out = o, .options = options, .how = {.isa = cli_isa(options), .no_mtp = options->no_mtp, .mmproj = options->mmproj, .pack_dir = o->pack_dir}, .serial = 1};
    b.total = 2 + (uint64_t)p->runs * (3 + (uint64_t)p->depth_count + (uint64_t)p->side_count);
    cli_progress_start(&b.progress, "bench");
    int code = measure_memory(&b);
    if (!o->info.mtp_attached) o->plan.depth_count = 0;
    /* Answers of random weights are of all ids alike, and the head would not stay the small one that texts are drafted with. */
    if (o->info.vocab_size > RANKED) b.how.draft_vocabulary = RANKED;
    for (int i = 0; i < p->depth_count; i++) o->depths[i].depth = p->depths[i];
    if (code == CLI_OK) code = measure_loading(&b);
    if (code == CLI_OK) code = open_all(&b);
    for (int r = 0; r < p->runs && code == CLI_OK; r++) {
        code = measure_text(&b);
        if (code == CLI_OK) code = measure_passes(&b);
        if (code == CLI_OK) code = measure_depths(&b);
        if (code == CLI_OK) code = measure_vision(&b, r);
    }
    if (code == CLI_OK) code = measure_profiles(&b);
    cli_progress_end(&b.progress);
    if (code == CLI_OK) cli_bench_conclude(o);
    close_all(&b);
    free(b.ids);
    free(b.pixels);
    free(b.messages);
    free(b.answer);
    return code;
}
