/* See trial.h. Resident memory is counted as the system does, pages of mapped files too: they are within the files' size, once. What
 * is asked for and not touched counts as well: the process may not have more writable memory than the limit and its threads' stacks,
 * so a request for more fails, with an error that says so. */
#include "support/trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/gguf.h"
#include "decode/model.h"
#include "support/hosts.h"
#include "support/tensors.h"

#ifdef __SANITIZE_ADDRESS__
void __lsan_do_leak_check(void);
#endif

enum { COMPUTING = 20, WAITING = 200 };

/* Beside the test data's checkpoints lie goldens, and what GGUF files were made of. */
static bool is_part(const char *name, bool gguf) {
    if (gguf) return fore_gguf_is_name(name);
    return name[0] != '.' && strncmp(name, "golden", 6) != 0 && strcmp(name, "sidecar_absolute") != 0;
}

size_t trial_folder(scratch *s, const char *dir, const char *file, const void *data, size_t size) {
    host_folder(s);
    DIR *d = opendir(dir);
    assert_non_null(d);
    size_t bytes = data ? size : 0;
    char here[512];
    assert_non_null(getcwd(here, sizeof here));
    for (const struct dirent *e; (e = readdir(d));) {
        char path[1024];
        struct stat st;
        if (!is_part(e->d_name, file && fore_gguf_is_name(file)) || (data && !strcmp(e->d_name, file))) continue;
        snprintf(path, sizeof path, "%s/%s/%s", here, dir, e->d_name);
        assert_int_equal(stat(path, &st), 0);
        bytes += (size_t)st.st_size;
        assert_int_equal(symlink(path, scratch_path(s, e->d_name)), 0);
    }
    closedir(d);
    if (data) scratch_write(s, file, data, size);
    return bytes;
}

void trial_new(trial *t) {
    *t = (trial){.report = mmap(NULL, sizeof *t->report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    assert_true(t->report != MAP_FAILED);
}

void trial_free(trial *t) { munmap(t->report, sizeof *t->report); }

static long status_of(const char *name) { /* of /proc/self/status, in KiB */
    static char text[8192];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *at = strstr(text, name);
    return at ? strtol(at + strlen(name) + 1, NULL, 10) : 0;
}

static void forget_peak(void) { /* the most so far is what it has */
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (write(fd, "5", 1) < 0) { /* the peak is then that of the parent: too strict, not too mild */
    }
    close(fd);
}

#define LIMIT(what, n) setrlimit(what, &(const struct rlimit){n, n})

static void bound(const trial *t) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}; /* the test program's own handlers are not for this process */
    for (size_t i = 0; i < sizeof signals / sizeof *signals && !TRIAL_SANITIZED; i++) signal(signals[i], SIG_DFL);
    LIMIT(RLIMIT_CORE, 0);
    LIMIT(RLIMIT_CPU, COMPUTING);
    alarm(WAITING);
    if (TRIAL_SANITIZED) return;
    struct rlimit stack;
    rlim_t threads = 2 * (rlim_t)sysconf(_SC_NPROCESSORS_ONLN) + 2;
    if (getrlimit(RLIMIT_STACK, &stack) || stack.rlim_cur > (rlim_t)8 << 20) stack.rlim_cur = (rlim_t)8 << 20;
    LIMIT(RLIMIT_DATA, (rlim_t)status_of("VmData:") * 1024 + trial_limit(t->bytes) + threads * stack.rlim_cur);
}

/* The whole answer to one question; the first failure is kept. */
static void ask(fore_model *m, fore_session *s, const fore_image *image, trial_report *out) {
    static const int32_t plain[] = {1, 5, 2, 7, 3};
    const fore_config *c = &m->network.config;
    const int32_t ids[] = {1, c->vision_start_token_id, c->image_token_id, c->vision_end_token_id, 2, 3};
    fore_request r;
    fore_request_init(&r, m);
    bool words = fore_model_tokenizer(m) && fore_model_template(m) && !(image && m->gguf); /* their template knows no pictures */
    if (words && image)
        r.messages = "[{\"role\":\"user\",\"content\":[{\"type\":\"image\"},{\"type\":\"text\",\"text\":\"What's on it?\"}]}]";
    else if (words) r.messages = "[{\"role\":\"user\",\"content\":\"What's there, 12 caf\xc3\xa9s?\"}]";
    else r.ids = image ? ids : plain;
    r.id_count = words ? 0 : image ? 6 : 5;
    r.images = image;
    r.image_count = image != NULL;
    r.max_tokens = TRIAL_IDS;
    r.ignore_eos = true;
    r.sampling.seed = 7;
    out->count = 0;
    fore_status st = fore_session_begin(s, &r, &out->question);
    fore_finish finish = FORE_FINISH_NONE;
    while (!st && finish == FORE_FINISH_NONE) {
        fore_chunk chunk;
        st = fore_session_next(s, &chunk, &out->question);
        for (size_t i = 0; !st && i < chunk.id_count && out->count < TRIAL_IDS; i++) out->ids[out->count++] = chunk.ids[i];
        if (!st) finish = chunk.finish;
    }
    if (st && out->question.code != st) out->silent = true;
}

static void open_and_ask(const trial *t, trial_report *out) {
    fore_model *m;
    fore_session *s = NULL;
    if (fore_model_open(t->dir, NULL, &m, &out->error)) return;
    out->opened = true;
    fore_model_info info;
    fore_model_get_info(m, &info);
    int context = info.context_length < 512 ? info.context_length : 512;
    const fore_session_options o = {.threads = 2, .context = context};
    if (!fore_session_new(m, &o, &s, &out->question)) {
        size_t size;
        char *data = read_file("tests/samples/s00.png", &size);
        const fore_image image = {.data = (unsigned char *)data, .size = size};
        if (info.has_vision) {
            out->pictures = true;
            ask(m, s, &image, out);
        }
        if (!out->question.code) ask(m, s, NULL, out);
        free(data);
    }
    fore_session_free(s);
    fore_model_close(m);
}

static void check(const trial *t, trial_report *out) {
    const fore_check_options o = {.threads = 2, .no_answer = true};
    fore_check_report *r = NULL;
    fore_status s = fore_check(t->dir, &o, &r, &out->check);
    if (s != out->check.code || !s != (r != NULL)) out->silent = true;
    for (size_t i = 0; r && i < r->finding_count; i++) out->silent = out->silent || !r->findings[i].text[0] || !r->findings[i].topic[0];
    if (r && !out->opened && r->sound) out->silent = true; /* it does not open, and nothing would be wrong with it */
    fore_check_report_free(r);
}

void trial_start(trial *t) {
    *t->report = (trial_report){0};
    fflush(NULL);
    t->process = fork();
    assert_true(t->process >= 0);
    if (t->process) return;
    forget_peak();
    t->report->base_kib = status_of("VmRSS:");
    bound(t);
    open_and_ask(t, t->report);
    if (t->checks) check(t, t->report);
    t->report->peak_kib = status_of("VmHWM:");
    t->report->finished = true;
#ifdef __SANITIZE_ADDRESS__
    __lsan_do_leak_check();
#endif
    _exit(0);
}

size_t trial_wait(trial *const *list, size_t count, int *status) {
    for (;;) {
        pid_t p = waitpid(-1, status, 0);
        if (p < 0) assert_int_equal(errno, EINTR);
        for (size_t i = 0; i < count && p > 0; i++) {
            if (list[i]->process != p) continue;
            list[i]->process = 0;
            return i;
        }
    }
}
