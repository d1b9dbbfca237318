/* Packs: a second open maps what the first one made, byte by byte the same; whatever is wrong with a file, or with the place
 * for it, costs a note and never the model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <sodium.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/quant.h"
#include "model/pack.h"
#include "model/pack_key.h"
#include "model/weights.h"
#include "support/scratch.h"

enum { HEADER = 2 << 20, FIELDS = 128 };

static scratch dir;
static const fore_kern *kern;
static unsigned char *panels; /* as they are without a pack */
static size_t panels_size;

static const char *model_dir(void) { return scratch_path(&dir, "model"); }
static const char *pack_dir(void) { return scratch_path(&dir, "packs"); }

static fore_network load(fore_load how) {
    fore_network n;
    fore_error err = {0};
    if (how.pack_dir && !how.pack_stem) how.pack_stem = "m";
    if (fore_network_open(model_dir(), kern, &how, &n, &err)) fail_msg("%s", err.text);
    assert_int_equal(n.panels.used, panels_size);
    return n;
}

/* What an open did. The panels are right, whatever it was. */
static fore_packed open_with(fore_load how) {
    fore_network n = load(how);
    fore_packed packed = n.panels.packed;
    if (memcmp(n.panels.memory, panels, panels_size)) fail_msg("other panels; used %d, written %d, note '%s'", packed.used, packed.written, packed.note);
    fore_network_close(&n);
    return packed;
}

static fore_packed open_here(bool read_only) { return open_with((fore_load){.pack_dir = pack_dir(), .pack_read_only = read_only}); }

static int setup(void **state) {
    (void)state;
    fore_error err = {0};
    scratch_make(&dir);
    fore_quantize_options options;
    fore_quantize_options_init(&options, 4);
    options.group = 32;
    if (fore_quantize("models/tiny", model_dir(), &options, NULL, &err)) fail_msg("%s", err.text);
    assert_int_equal(fore_kern_get("ref", &kern, &err), 0);
    fore_network n;
    if (fore_network_open(model_dir(), kern, NULL, &n, &err)) fail_msg("%s", err.text);
    panels_size = n.panels.used;
    assert_true(panels_size > 100000);
    panels = malloc(panels_size);
    assert_non_null(panels);
    memcpy(panels, n.panels.memory, panels_size);
    fore_network_close(&n);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    free(panels);
    scratch_remove(&dir);
    return 0;
}

/* Files of the folder whose name has this in it. */
static int count_files(const char *part) {
    DIR *d = opendir(pack_dir());
    int n = 0;
    for (const struct dirent *e; d && (e = readdir(d));) n += strstr(e->d_name, part) != NULL;
    if (d) closedir(d);
    return n;
}

/* An empty folder. */
static int clean(void **state) {
    (void)state;
    mkdir(pack_dir(), 0755);
    DIR *d = opendir(pack_dir());
    for (const struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.') unlinkat(dirfd(d), e->d_name, 0);
    if (d) closedir(d);
    return 0;
}

static char *current_path(void) {
    fore_packed packed = open_with((fore_load){0});
    assert_true(packed.keyed && !packed.used && !packed.note[0]);
    return fore_pack_path(pack_dir(), "m", packed.key);
}

static void change_byte(const char *path, off_t at, unsigned char flip) {
    int fd = open(path, O_RDWR);
    unsigned char c = 0;
    assert_true(fd >= 0 && pread(fd, &c, 1, at) == 1);
    c ^= flip;
    assert_int_equal(pwrite(fd, &c, 1, at), 1);
    close(fd);
}

static void test_made_once(void **state) {
    (void)state;
    rmdir(pack_dir()); /* the folder is made too */
    fore_packed p = open_here(true);
    assert_true(!p.used && !p.written && !p.note[0]);
    assert_int_equal(count_files("m-"), 0);
    p = open_here(false);
    assert_true(p.used && p.written && !p.note[0]);
    assert_int_equal(count_files("m-"), 1);
    assert_int_equal(count_files(".partial"), 0);
    for (int i = 0; i < 2; i++) {
        p = open_here(i == 0);
        assert_true(p.used && !p.written && !p.note[0]);
    }
    p = open_with((fore_load){.pack_dir = pack_dir(), .pack_verify = true});
    assert_true(p.used && !p.written && !p.note[0]);
    fore_pool *pool; /* by several threads it is the same file */
    assert_int_equal(fore_pool_new(3, &pool, NULL), 0);
    p = open_with((fore_load){.pool = pool, .pack_dir = pack_dir(), .pack_verify = true});
    assert_true(p.used && !p.written && !p.note[0]);
    clean(state);
    p = open_with((fore_load){.pool = pool, .pack_dir = pack_dir()});
    assert_true(p.written);
    fore_pool_free(pool);
    p = open_with((fore_load){.pack_dir = pack_dir(), .pack_verify = true});
    assert_true(p.used && !p.written);
}

/* Each single change of the header, also of the unused part before the region: refused with a note, or right. */
static void test_mutated_header(void **state) {
    (void)state;
    assert_true(open_here(false).written);
    char *path = current_path();
    uint32_t seed = 12345;
    int refused = 0;
    for (int i = 0; i < 200; i++) {
        seed = seed * 1664525 + 1013904223;
        off_t at = i < FIELDS ? i : (off_t)(seed >> 8) % HEADER;
        unsigned char flip = (unsigned char)(1 + (seed >> 24) % 255);
        change_byte(path, at, flip);
        fore_packed p = open_here(true);
        assert_true(p.used == !p.note[0]);
        if (at < FIELDS && p.used) fail_msg("byte %d of the header changed and nobody saw it", (int)at);
        refused += !p.used;
        change_byte(path, at, flip);
    }
    assert_true(refused >= FIELDS);
    assert_true(open_here(true).used);
    change_byte(path, 40, 1); /* made again where that is allowed */
    fore_packed p = open_here(false);
    assert_true(p.used && p.written && !p.note[0]);
    assert_true(open_here(true).used);
    free(path);
}

static void test_truncated(void **state) {
    (void)state;
    assert_true(open_here(false).written);
    char *path = current_path();
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, HEADER + (off_t)panels_size);
    const off_t sizes[] = {st.st_size + 1, st.st_size - 1, HEADER + 4096, HEADER, HEADER - 1, FIELDS, FIELDS - 1, 7, 0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(truncate(path, sizes[i]), 0);
        fore_packed p = open_here(true);
        assert_true(!p.used && strstr(p.note, path) && strstr(p.note, "not used"));
    }
    assert_true(open_here(false).written);
    assert_true(open_here(true).used);
    free(path);
}

/* A damaged region is what --verify is for. */
static void test_damaged_content(void **state) {
    (void)state;
    assert_true(open_here(false).written);
    char *path = current_path();
    change_byte(path, HEADER + (off_t)panels_size - 1, 4);
    fore_network n = load((fore_load){.pack_dir = pack_dir(), .pack_read_only = true});
    assert_true(n.panels.packed.used); /* its header is right, and only that is read */
    fore_network_close(&n);
    fore_packed p = open_with((fore_load){.pack_dir = pack_dir(), .pack_read_only = true, .pack_verify = true});
    assert_true(!p.used && strstr(p.note, "content"));
    p = open_with((fore_load){.pack_dir = pack_dir(), .pack_verify = true});
    assert_true(p.used && p.written && !p.note[0]);
    assert_true(open_here(true).used);
    free(path);
}

static void test_foreign(void **state) {
    (void)state;
    char *path = current_path();
    uint8_t key[32] = {1, 2, 3};
    char *other = fore_pack_path(pack_dir(), "m", key);
    assert_true(open_here(false).written);
    assert_int_equal(rename(path, other), 0);
    uint64_t bytes;
    assert_false(fore_pack_is_good(other, key, &bytes)); /* the name says one thing, the header another */
    assert_true(open_here(false).written);
    assert_int_equal(rename(path, other), 0);
    fore_packed own = open_with((fore_load){0});
    assert_true(fore_pack_is_good(other, own.key, &bytes));
    assert_int_equal(bytes, HEADER + panels_size);
    change_byte(other, 32, 9); /* a key of something else, under this name */
    assert_int_equal(rename(other, path), 0);
    fore_packed p = open_here(true);
    assert_true(!p.used && strstr(p.note, "not used"));
    scratch_write(&dir, "packs/text", "no pack at all, and longer than the fields are: ......................................................................"
                  "......................................", 140);
    assert_int_equal(rename(scratch_path(&dir, "packs/text"), path), 0);
    p = open_here(true);
    assert_true(!p.used && strstr(p.note, "no pack"));
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); /* nothing waits for a writer */
    p = open_here(true);
    assert_true(!p.used && strstr(p.note, "regular file"));
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    p = open_here(false); /* nor can it be replaced */
    assert_true(!p.used && !p.written && p.note[0]);
    assert_int_equal(count_files(".partial"), 0);
    rmdir(path);
    free(other);
    free(path);
}

static void test_no_place(void **state) {
    (void)state;
    static const char *const places[] = {"/nonexistent/folder", "/proc/self/packs", "/dev/null"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        fore_packed p = open_with((fore_load){.pack_dir = places[i]});
        assert_true(!p.used && !p.written && strstr(p.note, "cannot"));
    }
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = HEADER + panels_size / 2; /* a full disk, as far as the file can tell */
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    fore_packed p = open_here(false);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_true(!p.used && !p.written && strstr(p.note, "no room"));
    assert_int_equal(count_files("m-"), 0);
}

static void test_several_writers(void **state) {
    (void)state;
    char *path = current_path(), partial[600];
    snprintf(partial, sizeof partial, "%s.partial", path);
    int fd = open(partial, O_RDWR | O_CREAT, 0600);
    assert_int_equal(write(fd, "rubbish", 7), 7);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    fore_packed p = open_here(false);
    assert_true(!p.used && !p.written && strstr(p.note, "another process"));
    close(fd); /* that one has died */
    p = open_here(false);
    assert_true(p.used && p.written && !p.note[0]);
    assert_int_equal(count_files(".partial"), 0);

    clean(state);
    enum { CHILDREN = 5 };
    pid_t children[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        if (children[i]) continue;
        fore_network n;
        fore_load how = {.pack_dir = pack_dir(), .pack_stem = "m"};
        bool good = !fore_network_open(model_dir(), kern, &how, &n, NULL) && !memcmp(n.panels.memory, panels, panels_size);
        _exit(good ? 0 : 1);
    }
    for (int i = 0; i < CHILDREN; i++) {
        int status = -1;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(count_files(".partial"), 0);
    assert_int_equal(count_files("m-"), 1);
    assert_true(open_with((fore_load){.pack_dir = pack_dir(), .pack_read_only = true, .pack_verify = true}).used);
    free(path);
}

/* Every way to another content, and to other files, is another key. */
static void test_keys(void **state) {
    (void)state;
    fore_packed first = open_with((fore_load){0}), again = open_with((fore_load){0});
    assert_memory_equal(first.key, again.key, 32);

    struct stat st;
    char file[256];
    snprintf(file, sizeof file, "%s/model.safetensors", model_dir());
    assert_int_equal(stat(file, &st), 0);
    const struct timespec times[2] = {st.st_atim, st.st_mtim};
    change_byte(file, st.st_size - 1, 1); /* somebody who puts size and time back as they were */
    change_byte(file, st.st_size - 1, 1);
    assert_int_equal(utimensat(AT_FDCWD, file, times, 0), 0);
    fore_packed touched = open_with((fore_load){0});
    assert_memory_not_equal(first.key, touched.key, 32);
    scratch_copy(&dir, file, "model/copy");
    assert_int_equal(rename(scratch_path(&dir, "model/copy"), file), 0);
    assert_int_equal(utimensat(AT_FDCWD, file, times, 0), 0);
    fore_packed copied = open_with((fore_load){0});
    assert_memory_not_equal(touched.key, copied.key, 32);

    fore_store *store;
    fore_error err = {0};
    if (fore_store_open(model_dir(), &store, &err)) fail_msg("%s", err.text);
    assert_true(fore_pack_sources_same(store));
    const fore_entry *q = NULL;
    for (size_t i = 0; !q; i++)
        if (fore_store_at(store, i)->dtype == FORE_DTYPE_U32) q = fore_store_at(store, i);
    static unsigned char region[4096];
    fore_panel_job jobs[2] = {{.w = {.bits = 4, .group = 32, .N = 16, .K = 64, .dtype = FORE_DTYPE_BF16, .panels = region},
                               .stored_bits = 4, .q = q->data, .scales = q->data + 512, .biases = q->data + 576}};
    jobs[1] = jobs[0];
    jobs[1].w.panels = region + 1024;
    fore_panels p = {.memory = region, .used = 2048, .jobs = jobs, .count = 2};
    uint8_t base[32], key[32];
    fore_pack_key(&p, store, base);
    fore_pack_key(&p, store, key);
    assert_memory_equal(base, key, 32);
#define CHANGES(statement)               \
    do {                                 \
        fore_panel_job kept = jobs[1];   \
        fore_panels whole = p;           \
        statement;                       \
        fore_pack_key(&p, store, key);   \
        assert_memory_not_equal(base, key, 32); \
        jobs[1] = kept;                  \
        p = whole;                       \
    } while (0)
    CHANGES(jobs[1].w.bits = 8);
    CHANGES(jobs[1].w.group = 64);
    CHANGES(jobs[1].w.N = 32);
    CHANGES(jobs[1].w.K = 128);
    CHANGES(jobs[1].w.dtype = FORE_DTYPE_F16);
    CHANGES(jobs[1].w.panels = region + 1088);
    CHANGES(jobs[1].stored_bits = 3);
    CHANGES(jobs[1].q++);
    CHANGES(jobs[1].scales++);
    CHANGES(jobs[1].biases++);
    CHANGES(p.used++);
    CHANGES(p.count--);
    fore_pack_key(&p, store, key);
    assert_memory_equal(base, key, 32);
    change_byte(file, st.st_size - 1, 1);
    assert_false(fore_pack_sources_same(store));
    change_byte(file, st.st_size - 1, 1);
    fore_store_close(store);
}

/* Packs of another form must not be taken for this one's: whoever changes the panels counts FORE_PANEL_FORM up, then
 * writes down the new digests here. */
static void test_form(void **state) {
    (void)state;
    assert_int_equal(FORE_PANEL_FORM, 2);
    static const char *const want[5] = {"76ad0699c85e3fbbcb7cd565ea142ff1", "16b8352c183af5bcf1e1de3a165d759c", "daf699ce80d714f7fb1553e967dbe2e7", "bb5b34cb77222821c7515ae180bdfba8", "a8d5aea405b8abbd16837474f5ce9d8b"};
    static const fore_qweight forms[5] = {{4, 32, 21, 96, FORE_DTYPE_BF16, NULL}, {8, 32, 21, 96, FORE_DTYPE_BF16, NULL}, {8, 16, 21, 96, FORE_DTYPE_F32, NULL},
                                          {4, 32, 7, 256, FORE_DTYPE_U8, NULL},   {8, 16, 7, 256, FORE_DTYPE_I8, NULL}};
    for (int i = 0; i < 5; i++) {
        const fore_qweight w = forms[i];
        unsigned char stored[21 * 96], *to;
        for (size_t k = 0; k < sizeof stored; k++) stored[k] = (unsigned char)(k * k * 31 + k * 7 + (k >> 8));
        size_t size;
        assert_int_equal(fore_qweight_check(w.bits, w.group, w.N, w.K, w.dtype, &size, NULL), 0);
        to = malloc(size);
        fore_qweight_pack(&w, to, stored, stored + 100, stored + 500);
        uint8_t digest[16];
        char text[2 * sizeof digest + 1];
        crypto_generichash(digest, sizeof digest, to, size, NULL, 0);
        sodium_bin2hex(text, sizeof text, digest, sizeof digest);
        free(to);
        assert_string_equal(text, want[i]);
    }
}

static void test_names(void **state) {
    (void)state;
    char stem[96], text[16], inside[512];
    fore_pack_stem(model_dir(), model_dir(), stem);
    assert_string_equal(stem, "foresight");
    snprintf(inside, sizeof inside, "%s/../model/", pack_dir());
    fore_pack_stem(inside, model_dir(), stem);
    assert_string_equal(stem, "foresight");
    fore_pack_stem(inside, pack_dir(), stem);
    snprintf(text, sizeof text, "%.6s", stem);
    assert_string_equal(text, "model-");
    assert_int_equal(strlen(stem), 14);
    fore_pack_stem("/a/..%/.bad name\n/with a \xC3\xA4 and much more than forty-eight characters in it, so that it is cut", pack_dir(), stem);
    assert_true(strlen(stem) < 64);
    for (const char *c = stem; *c; c++) assert_true(strchr("/ %\n", *c) == NULL && *c > 0);
    fore_pack_stem("/x/.hidden", pack_dir(), stem);
    assert_true(stem[0] == '_');
}

static void test_prune(void **state) {
    (void)state;
    fore_packed now = open_here(false);
    assert_true(now.written);
    const char *const others[] = {"m-0123456789abcdef.pack", "m-00000000000000ff.pack.partial", "m-1111111111111111.pack.partial",
                                  "m-0123456789abcdef.packs", "m-0123.pack", "mm-0123456789abcdef.pack", "m-0123456789ABCDEF.pack", "notes"};
    char name[64];
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(name, sizeof name, "packs/%s", others[i]);
        scratch_write(&dir, name, "12345", 5);
    }
    int busy = open(scratch_path(&dir, "packs/m-1111111111111111.pack.partial"), O_RDWR);
    assert_int_equal(flock(busy, LOCK_EX), 0);
    int files;
    uint64_t bytes;
    fore_error err = {0};
    uint8_t keys[1][32];
    memcpy(keys[0], now.key, 32);
    if (fore_pack_prune(pack_dir(), "m", (const uint8_t(*)[32])keys, 1, &files, &bytes, &err)) fail_msg("%s", err.text);
    assert_int_equal(files, 2);
    assert_int_equal(bytes, 10);
    assert_int_equal(count_files("m-00000"), 0);
    assert_int_equal(count_files("m-11111"), 1);
    assert_int_equal(count_files("0123456789abcdef.pack"), 2); /* another model's, and what only looks like one */
    assert_int_equal(count_files("notes"), 1);
    assert_true(open_here(true).used);
    close(busy);
    assert_int_equal(fore_pack_prune("/nonexistent", "m", NULL, 0, &files, &bytes, &err), 0);
    assert_int_equal(files, 0);
    assert_int_equal(fore_pack_prune("/dev/null", "m", NULL, 0, &files, &bytes, &err), FORE_ERR_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_made_once, clean),       cmocka_unit_test_setup(test_mutated_header, clean),
        cmocka_unit_test_setup(test_truncated, clean),       cmocka_unit_test_setup(test_damaged_content, clean),
        cmocka_unit_test_setup(test_foreign, clean),         cmocka_unit_test_setup(test_no_place, clean),
        cmocka_unit_test_setup(test_several_writers, clean), cmocka_unit_test_setup(test_keys, clean),
        cmocka_unit_test(test_form),
        cmocka_unit_test_setup(test_names, clean),           cmocka_unit_test_setup(test_prune, clean),
    };
    return cmocka_run_group_tests_name("pack", tests, setup, teardown);
}
