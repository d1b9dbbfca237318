/* Whole files, standard input and output, the clock; see files.h. */
#include "cli/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int cli_read(const char *path, size_t limit, cli_text *out) {
    bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return cli_fail("%s: cannot open: %s", name, strerror(errno));
    int code = CLI_OK;
    size_t taken = 0;
    for (;;) {
        char block[65536];
        ssize_t n = read(fd, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) code = cli_fail("%s: cannot read: %s", name, strerror(errno));
        if (n <= 0) break;
        taken += (size_t)n;
        if (taken > limit) {
            code = cli_fail("%s: larger than the limit of %zu bytes", name, limit);
            break;
        }
        cli_text_add(out, block, (size_t)n);
    }
    if (!standard) close(fd);
    return code;
}

int cli_print(const char *data, size_t size) {
    if (fwrite(data, 1, size, stdout) == size && fflush(stdout) == 0) return CLI_OK;
    return cli_fail("standard output: cannot write: %s", strerror(errno));
}

void cli_make_parents(char *path) {
    for (char *p = path + 1; *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        mkdir(path, 0700);
        *p = '/';
    }
}

double cli_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
