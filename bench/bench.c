/* Prints what a checkpoint costs on this machine: loading, prefill, decoding, vision, memory, and how near decoding comes
 * to the speed at which the same threads can read memory. Every figure is the median of RUNS, and the runs of the things
 * that are compared take turns, so that a change of the machine's mood hits both.
 * usage: bench [--threads N] [--isa NAME] [--runs N] FOLDER     (bench --stream THREADS measures the reading alone) */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "measure.h"

enum { MAX_RUNS = 99, PREFILL = 512, DECODE = 32, SIDE = 448, STREAM_MB = 1024, MAX_THREADS = 256, CONTEXT = 4096 };
enum { VISION_START = 248053, VISION_END = 248054, IMAGE_PAD = 248056 };

/* ---- a plain streaming read of memory ---------------------------------------------------------------------------- */

typedef uint64_t lane __attribute__((vector_size(64), aligned(64)));
typedef struct slice {
    const lane *data;
    size_t count;
    pthread_barrier_t *start, *end;
    uint64_t sum;
} slice;

enum { STREAM_PASSES = 3 };

static void *read_slice(void *argument) {
    slice *s = argument;
    lane sum[4] = {{0}, {0}, {0}, {0}};
    for (int pass = 0; pass < STREAM_PASSES; pass++) {
        pthread_barrier_wait(s->start);
        for (size_t i = 0; i + 4 <= s->count; i += 4)
            for (int j = 0; j < 4; j++) sum[j] += s->data[i + (size_t)j];
        pthread_barrier_wait(s->end);
    }
    for (int j = 0; j < 4; j++)
        for (int k = 0; k < 8; k++) s->sum += sum[j][k];
    return NULL;
}

/* Bytes a second, best of the passes; memory much larger than the caches, touched first. */
static double stream(int threads) {
    size_t bytes = (size_t)STREAM_MB << 20, lanes = bytes / sizeof(lane);
    lane *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return 0;
    memset(data, 1, bytes);
    pthread_barrier_t start, end;
    pthread_barrier_init(&start, NULL, (unsigned)threads + 1);
    pthread_barrier_init(&end, NULL, (unsigned)threads + 1);
    pthread_t ids[MAX_THREADS];
    slice slices[MAX_THREADS];
    for (int i = 0; i < threads; i++) {
        size_t from = lanes * (size_t)i / (size_t)threads, to = lanes * (size_t)(i + 1) / (size_t)threads;
        slices[i] = (slice){data + from, to - from, &start, &end, 0};
        if (pthread_create(&ids[i], NULL, read_slice, &slices[i]) != 0) return 0;
    }
    double best = 0;
    for (int pass = 0; pass < STREAM_PASSES; pass++) {
        pthread_barrier_wait(&start);
        double began = now();
        pthread_barrier_wait(&end);
        double speed = (double)bytes / (now() - began);
        if (speed > best) best = speed;
    }
    uint64_t sum = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        sum += slices[i].sum;
    }
    return sum == 0 ? 0 : best;
}

/* The same in a process of its own, so that its memory is not counted as ours. */
static double stream_apart(int threads) {
    char command[64], text[64] = "";
    snprintf(command, sizeof command, "/proc/%d/exe --stream %d", (int)getpid(), threads);
    FILE *child = popen(command, "r");
    if (child == NULL || fgets(text, sizeof text, child) == NULL || pclose(child) != 0) {
        fprintf(stderr, "bench: the streaming read failed\n");
        exit(1);
    }
    return strtod(text, NULL);
}

/* ---- reading the file -------------------------------------------------------------------------------------------- */

/* Seconds that read() takes for the whole file, in pieces of 8 MB. cold: the file is first dropped from the cache. */
static double read_file(const char *path, bool cold) {
    enum { PIECE = 8 << 20 };
    int fd = open(path, O_RDONLY);
    char *piece = malloc(PIECE);
    if (fd < 0 || piece == NULL) {
        fprintf(stderr, "bench: %s: %s\n", path, strerror(errno));
        exit(1);
    }
    if (cold) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    double began = now();
    while (read(fd, piece, PIECE) > 0) {}
    double seconds = now() - began;
    free(piece);
    close(fd);
    return seconds;
}

static void drop_file(const char *path) {
    int fd = open(path, O_RDONLY);
    if (fd < 0) return;
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

/* ---- the model ---------------------------------------------------------------------------------------------------- */

typedef struct place {
    const char *dir;
    const char *weights; /* the file */
    fore_model_options options;
    int threads, runs;
} place;

typedef struct machine {
    fore_model *model;
    fore_session *session;
} machine;

static void open_all(const place *p, machine *m) {
    fore_error err;
    fore_session_options session = {.threads = p->threads, .context = CONTEXT};
    must(fore_model_open(p->dir, &p->options, &m->model, &err), &err);
    must(fore_session_new(m->model, &session, &m->session, &err), &err);
}

static void close_all(machine *m) {
    fore_session_free(m->session);
    fore_model_close(m->model);
}

/* Begins a request with these ids; every run starts with another id, so that no prefix is found again. */
static void begin(machine *m, int32_t *ids, size_t count, const fore_image *image) {
    static int32_t first;
    fore_error err;
    fore_request request;
    fore_request_init(&request, m->model);
    request.sampling.temperature = 0;
    ids[0] = 1000 + first++;
    request.ids = ids;
    request.id_count = count;
    request.images = image;
    request.image_count = image != NULL;
    request.ignore_eos = true;
    must(fore_session_begin(m->session, &request, &err), &err);
}

static void next(machine *m, int tokens) {
    fore_error err;
    fore_chunk chunk;
    for (int done = 0; done < tokens; done += (int)chunk.id_count) must(fore_session_next(m->session, &chunk, &err), &err);
}

static double first_token(machine *m) {
    int32_t id;
    double began = now();
    begin(m, &id, 1, NULL);
    next(m, 1);
    return now() - began;
}

/* Seconds a token; the first token is not counted, since it may be left over from the prefill. */
static double decode(machine *m) {
    int32_t ids[16];
    for (int i = 0; i < 16; i++) ids[i] = 300 + 17 * i;
    begin(m, ids, 16, NULL);
    next(m, 1);
    double began = now();
    next(m, DECODE);
    return (now() - began) / DECODE;
}

static double prefill(machine *m) {
    int32_t ids[PREFILL];
    for (int i = 0; i < PREFILL; i++) ids[i] = 5000 + 131 * i;
    double began = now();
    begin(m, ids, PREFILL, NULL);
    next(m, 1);
    return now() - began;
}

/* Seconds of the vision tower alone; *whole is the time until the first token of a prompt with the picture. */
static double vision(machine *m, double *whole) {
    static float patches[(SIDE / 16) * (SIDE / 16) * 3 * 2 * 16 * 16];
    static uint32_t state = 1;
    for (size_t i = 0; i < sizeof patches / sizeof *patches; i++) {
        state = state * 1664525u + 1013904223u;
        patches[i] = (float)(state >> 8) * 0x1p-23f - 1;
    }
    fore_image image = {.name = "noise", .patches = patches, .grid = {1, SIDE / 16, SIDE / 16}};
    int32_t ids[] = {0, VISION_START, IMAGE_PAD, VISION_END, 400};
    double began = now();
    begin(m, ids, sizeof ids / sizeof *ids, &image);
    next(m, 1);
    *whole = now() - began;
    fore_stats stats;
    fore_session_get_stats(m->session, &stats);
    return stats.vision_seconds;
}

/* Peak resident bytes of this process, the mapped file included. */
static double peak_memory(void) {
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    double peak = 0;
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "VmHWM:", 6) == 0) peak = strtod(line + 6, NULL) * 1024;
    if (f != NULL) fclose(f);
    return peak;
}

static const char *verdict(bool good) { return good ? "reached" : "MISSED"; }

static void loading(const place *p) {
    double read_warm[MAX_RUNS] = {0}, open_warm[MAX_RUNS] = {0}, ready_warm[MAX_RUNS] = {0};
    double read_cold[MAX_RUNS] = {0}, ready_cold[MAX_RUNS] = {0};
    machine m;
    for (int r = 0; r < p->runs; r++) {
        read_file(p->weights, false); /* into the cache */
        read_warm[r] = read_file(p->weights, false);
        double began = now();
        open_all(p, &m);
        open_warm[r] = now() - began;
        first_token(&m);
        ready_warm[r] = now() - began;
        close_all(&m);
        read_cold[r] = read_file(p->weights, true);
        drop_file(p->weights);
        began = now();
        open_all(p, &m);
        first_token(&m);
        ready_cold[r] = now() - began;
        close_all(&m);
    }
    double rw = median(read_warm, p->runs), ow = median(open_warm, p->runs), tw = median(ready_warm, p->runs);
    double rc = median(read_cold, p->runs), tc = median(ready_cold, p->runs);
    printf("load, file in the page cache     %8.2f s     open and session; %.2f x a read of the file (%.2f s)\n", ow, ow / rw, rw);
    printf("  and the first token            %8.2f s     %.2f x; goal: at most 3 x, %s\n", tw, tw / rw, verdict(tw <= 3 * rw));
    printf("  the same, file dropped before  %8.2f s     %.2f x a read of the dropped file (%.2f s)\n", tc, tc / rc, rc);
    fflush(stdout);
}

static void running(const place *p) {
    double speed[MAX_RUNS] = {0}, token[MAX_RUNS] = {0}, share[MAX_RUNS] = {0};
    double prompt[MAX_RUNS] = {0}, tower[MAX_RUNS] = {0}, whole[MAX_RUNS] = {0};
    machine m;
    open_all(p, &m);
    fore_model_info info;
    fore_plan plan;
    fore_model_get_info(m.model, &info);
    fore_model_plan(m.model, CONTEXT, &plan);
    /* A token reads every text weight once: the embedding, when it is tied, as the head; else only one row of it. */
    double weights = 2.0 * (double)info.text_parameters;
    if (!info.tied_embeddings) weights -= 2.0 * info.vocab_size * info.hidden_size;
    for (int r = 0; r < p->runs; r++) {
        double before = stream_apart(p->threads);
        token[r] = decode(&m);
        double after = stream_apart(p->threads);
        speed[r] = 0.5 * (before + after);
        share[r] = weights / token[r] / speed[r];
        prompt[r] = prefill(&m);
        if (info.has_vision) tower[r] = vision(&m, &whole[r]);
    }
    double t = median(token, p->runs), ratio = median(share, p->runs), seconds = median(prompt, p->runs);
    printf("prefill of %d tokens            %8.1f tok/s %.2f s\n", PREFILL, PREFILL / seconds, seconds);
    printf("decode, %d tokens                %8.2f tok/s %.1f ms a token\n", DECODE, 1 / t, 1e3 * t);
    printf("  reads                          %8.2f GB/s  %.2f GB of weights a token\n", weights / t / 1e9, weights / 1e9);
    printf("  streaming read, same threads   %8.2f GB/s\n", median(speed, p->runs) / 1e9);
    printf("  share of the streaming read    %8.2f       goal: at least 0.70, %s\n", ratio, verdict(ratio >= 0.7));
    if (info.has_vision)
        printf("vision, %dx%d                  %8.2f s     %.2f s until the first token\n", SIDE, SIDE, median(tower, p->runs),
               median(whole, p->runs));
    double peak = peak_memory(), limit = 1.15 * (double)info.weight_bytes + 300e6;
    printf("peak memory                      %8.2f GB    goal: at most 1.15 x weights (%.2f GB) + 300 MB = %.2f GB, %s\n", peak / 1e9,
           (double)info.weight_bytes / 1e9, limit / 1e9, verdict(peak <= limit));
    printf("  of it planned for a session    %8.3f GB    context %d\n", (double)plan.total / 1e9, CONTEXT);
    close_all(&m);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--stream") == 0) {
        int threads = atoi(argv[2]);
        printf("%.0f\n", threads < 1 || threads > MAX_THREADS ? 0 : stream(threads));
        return 0;
    }
    place p = {.runs = 5};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            p.threads = atoi(argv[++i]);
        else if (strcmp(argv[i], "--isa") == 0 && i + 1 < argc)
            p.options.isa = argv[++i];
        else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc)
            p.runs = atoi(argv[++i]);
        else
            p.dir = argv[i];
    }
    if (p.threads == 0) {
        cpu_set_t set;
        p.threads = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    }
    if (p.dir == NULL || p.threads < 1 || p.threads > MAX_THREADS || p.runs < 1 || p.runs > MAX_RUNS) {
        fputs("usage: bench [--threads N] [--isa NAME] [--runs N] FOLDER\n", stderr);
        return 2;
    }
    char path[4096];
    snprintf(path, sizeof path, "%s/model.safetensors", p.dir);
    p.weights = path;
    machine m;
    open_all(&p, &m);
    fore_model_info info;
    fore_model_get_info(m.model, &info);
    printf("%s: %.2f G parameters, %s; %s kernels, %d threads, median of %d\n", p.dir,
           (double)(info.text_parameters + info.vision_parameters + info.mtp_parameters) / 1e9, info.dtypes, info.isa, p.threads, p.runs);
    close_all(&m);
    loading(&p);
    running(&p);
    return 0;
}
