/* A main for fuzz targets without libFuzzer: runs the target on every file of its corpus, tests/fuzz/corpus/NAME for
 * the program fuzz_NAME, and on mutations of them: the same in every run, up to a fixed number or SECONDS. An input that
 * crashes or hangs the target is written next to the program, and named.
 * usage: fuzz_NAME [CORPUS_FOLDER [MUTATIONS]]   or   fuzz_NAME FILE   to run one input again */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MUTATIONS = 3000, SECONDS = 8, HANG = 20, INPUT_LIMIT = 1 << 16 };

typedef struct blob {
    uint8_t *data; /* owned */
    size_t size;
} blob;

static uint64_t rng;
static blob current; /* what the target is looking at, for the signal handler */
static char crash_path[512];

static uint32_t draw(uint32_t below) {
    rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
    return below == 0 ? 0 : (uint32_t)(rng >> 16) % below;
}

static void report(const char *what) {
    int fd = open(crash_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ssize_t n = 0;
    if (fd >= 0) {
        n = write(fd, current.data, current.size);
        close(fd);
    }
    const char *const parts[] = {"\nnot ok - ", what, "; the input is ", crash_path, "\n"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) n = write(STDOUT_FILENO, parts[i], strlen(parts[i]));
    (void)n;
}

static void on_signal(int number) {
    report(number == SIGALRM ? "hangs" : "crashes");
    _exit(1);
}

/* A sanitizer reports a crash better than a signal handler would; it only has to keep the input. */
#ifdef __SANITIZE_ADDRESS__
void __sanitizer_set_death_callback(void (*callback)(void));
static void on_death(void) { report("fails"); }
static void watch(void) {
    __sanitizer_set_death_callback(on_death);
    signal(SIGALRM, on_signal);
}
#else
static void watch(void) {
    static uint8_t stack[1 << 16]; /* a crash may be an overflow of the other one */
    stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternative, NULL);
    const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
        sigaction(signals[i], &action, NULL);
    }
}
#endif

static bool read_file(const char *path, blob *out) {
    FILE *f = fopen(path, "rb");
    if (f == NULL) return false;
    out->data = malloc(INPUT_LIMIT);
    out->size = out->data == NULL ? 0 : fread(out->data, 1, INPUT_LIMIT, f);
    fclose(f);
    return out->data != NULL;
}

/* Exactly as large as the input, so that AddressSanitizer sees a read past its end. */
static void run_target(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size == 0 ? 1 : size);
    if (copy == NULL) exit(1);
    memcpy(copy, data, size);
    current = (blob){copy, size};
    alarm(HANG);
    LLVMFuzzerTestOneInput(copy, size);
    alarm(0);
    free(copy);
}

/* One edit of data[0..size), which has room for INPUT_LIMIT bytes; returns the new size. */
static size_t mutate(uint8_t *data, size_t size, const blob *other) {
    static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff, '"', '\\', '{', '}', '[', ']', '%', ' ', '\n', '-', '9'};
    uint32_t at = draw((uint32_t)size), kind = size == 0 ? 3 : draw(9);
    size_t length = 1 + draw(16);
    switch (kind) {
    case 0: data[at] ^= (uint8_t)(1u << draw(8)); break;
    case 1: data[at] = (uint8_t)draw(256); break;
    case 2: data[at] = edges[draw(sizeof edges)]; break;
    case 3: /* insert */
        if (length > INPUT_LIMIT - size) break;
        memmove(data + at + length, data + at, size - at);
        for (size_t i = 0; i < length; i++) data[at + i] = edges[draw(sizeof edges)];
        return size + length;
    case 4: /* delete */
        if (length > size - at) length = size - at;
        memmove(data + at, data + at + length, size - at - length);
        return size - length;
    case 5: return at; /* truncate */
    case 6:            /* repeat a part of itself */
        length = 1 + draw((uint32_t)(size - at));
        if (length > INPUT_LIMIT - size) break;
        memmove(data + at + length, data + at, size - at);
        return size + length;
    case 7: { /* overwrite with a part of another input */
        if (other->size == 0) break;
        uint32_t from = draw((uint32_t)other->size);
        length = 1 + draw((uint32_t)(other->size - from));
        if (length > INPUT_LIMIT - at) length = INPUT_LIMIT - at;
        memcpy(data + at, other->data + from, length);
        return at + length > size ? at + length : size;
    }
    default: /* a number of 4 bytes, near an edge */
        for (size_t i = at; i < size && i < at + 4u; i++) data[i] = (uint8_t)(draw(2) ? 0xff : 0);
    }
    return size;
}

static int is_file(const struct dirent *entry) { return entry->d_name[0] != '.'; }

int main(int argc, char **argv) {
    const char *base = strrchr(argv[0], '/');
    base = base == NULL ? argv[0] : base + 1;
    const char *name = strncmp(base, "fuzz_", 5) == 0 ? base + 5 : base;
    char corpus[512];
    snprintf(corpus, sizeof corpus, "tests/fuzz/corpus/%s", name);
    if (argc > 1) snprintf(corpus, sizeof corpus, "%s", argv[1]);
    snprintf(crash_path, sizeof crash_path, "%s.crash", argv[0]);
    watch();

    struct stat status;
    if (stat(corpus, &status) == 0 && S_ISREG(status.st_mode)) {
        blob one;
        if (!read_file(corpus, &one)) return 1;
        run_target(one.data, one.size);
        free(one.data);
        printf("ok - fuzz %s: %s\n", name, corpus);
        return 0;
    }
    struct dirent **entries = NULL;
    int count = scandir(corpus, &entries, is_file, alphasort);
    if (count <= 0) {
        printf("not ok - fuzz %s: no corpus in %s\n", name, corpus);
        return 1;
    }
    blob *files = calloc((size_t)count, sizeof *files);
    uint8_t *work = malloc(INPUT_LIMIT);
    if (files == NULL || work == NULL) return 1;
    for (int i = 0; i < count; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", corpus, entries[i]->d_name);
        if (!read_file(path, &files[i])) {
            printf("not ok - fuzz %s: cannot read %s\n", name, path);
            return 1;
        }
        free(entries[i]);
        run_target(files[i].data, files[i].size);
    }
    free(entries);
    long mutations = argc > 2 ? strtol(argv[2], NULL, 10) : MUTATIONS, done = 0;
    time_t end = time(NULL) + SECONDS;
    for (; done < mutations && (argc > 2 || time(NULL) < end); done++) {
        rng = 0x9e3779b97f4a7c15u ^ (uint64_t)(done + 1) * 0xbf58476d1ce4e5b9u;
        const blob *file = &files[draw((uint32_t)count)], *other = &files[draw((uint32_t)count)];
        memcpy(work, file->data, file->size);
        size_t size = file->size;
        for (uint32_t edits = 1 + draw(6); edits > 0; edits--) size = mutate(work, size, other);
        run_target(work, size);
    }
    for (int i = 0; i < count; i++) free(files[i].data);
    free(files);
    free(work);
    printf("ok - fuzz %s: %d files, %ld mutations\n", name, count, done);
    return 0;
}
