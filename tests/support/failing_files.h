/* The file operations that a folder in the making goes through (create, write, sync, rename, remove), for a test program that
 * includes this once: counted, and at the n-th the process dies right behind it, or the operation fails. */
#ifndef FORE_TESTS_FAILING_FILES_H
#define FORE_TESTS_FAILING_FILES_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

static enum { FILES_COUNT, FILES_KILL, FILES_FAIL, FILES_FAIL_ON } files_mode; /* the last: all that follow fail as well */
static long files_seen;  /* operations since it was set to 0 */
static long files_at;    /* the operation that it is about, from 1 */
static int files_errno;  /* of one that fails */

static bool files_refuse(void) {
    files_seen++;
    if ((files_mode != FILES_FAIL || files_seen != files_at) && (files_mode != FILES_FAIL_ON || files_seen < files_at)) return false;
    errno = files_errno;
    return true;
}

static long files_done(long result) {
    if (files_mode == FILES_KILL && files_seen == files_at) raise(SIGKILL);
    return result;
}

#define FILES_SEEN __attribute__((visibility("default")))
FILES_SEEN int openat(int dir, const char *path, int flags, ...) {
    mode_t mode = 0;
    if (!(flags & O_CREAT)) return (int)syscall(SYS_openat, dir, path, flags, mode);
    va_list args;
    va_start(args, flags);
    mode = va_arg(args, mode_t);
    va_end(args);
    return files_refuse() ? -1 : (int)files_done(syscall(SYS_openat, dir, path, flags, mode));
}
FILES_SEEN ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    return files_refuse() ? -1 : (ssize_t)files_done(syscall(SYS_pwrite64, fd, data, size, at));
}
FILES_SEEN int fsync(int fd) { return files_refuse() ? -1 : (int)files_done(syscall(SYS_fsync, fd)); }
FILES_SEEN int renameat(int a, const char *from, int b, const char *to) {
    return files_refuse() ? -1 : (int)files_done(syscall(SYS_renameat2, a, from, b, to, 0));
}
FILES_SEEN int unlinkat(int dir, const char *path, int flags) {
    return files_refuse() ? -1 : (int)files_done(syscall(SYS_unlinkat, dir, path, flags));
}

#endif
