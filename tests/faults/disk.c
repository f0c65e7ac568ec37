/* A disk that fails: loaded before libc, it counts what is done to files below a folder, and fails the n-th.
 *
 * `disk_arm` begins to count; `what` is an errno, or DIE (the process is killed before), or TORN (half of what is
 * written is, then the process is killed). With `lasting`, every later one fails as well. SQLite's writes pass here too.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { DIE = -1, TORN = -2 };

static char below[PATH_MAX], only[256];
static int wanted, what, lasting, counted, failed, log_to = -1, armed;
static char first_failed[PATH_MAX];

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void disk_arm(const char *folder, const char *part, int number, int kind, int for_good, int log) {
  snprintf(below, sizeof below, "%s", folder);
  snprintf(only, sizeof only, "%s", part);
  wanted = number, what = kind, lasting = for_good, log_to = log, counted = failed = 0;
  first_failed[0] = 0;
  armed = 1;
}

void disk_disarm(void) { armed = 0; }

int disk_failed(void) { return failed; }

const char *disk_failed_at(void) { return first_failed; }

static const char *path_of(int fd, char *to) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, to, PATH_MAX - 1);
  to[size < 0 ? 0 : size] = 0;
  return to;
}

static const char *path_at(int folder, const char *name, char *to) {
  if (name[0] == '/') {
    snprintf(to, PATH_MAX, "%s", name);
    return to;
  }
  if (folder == AT_FDCWD) {
    if (!getcwd(to, PATH_MAX)) to[0] = 0;
  } else {
    path_of(folder, to);
  }
  size_t size = strlen(to);
  snprintf(to + size, PATH_MAX - size, "/%s", name);
  return to;
}

/* Whether this one fails; dies here where it should. */
static int fails(const char *operation, const char *path) {
  if (!armed || strncmp(path, below, strlen(below)) || !strstr(path, only)) return 0;
  int number = ++counted;
  if (log_to >= 0) {
    char line[PATH_MAX + 64];
    int size = snprintf(line, sizeof line, "%s %s\n", operation, path + strlen(below));
    if (REAL(write)(log_to, line, size) < 0) abort();
  }
  if (number != wanted && !(lasting && wanted && number > wanted)) return 0;
  if (!failed++) snprintf(first_failed, sizeof first_failed, "%s", path);
  if (what == DIE) kill(getpid(), SIGKILL);
  return 1;
}

static int refused(void) {
  if (what == TORN) kill(getpid(), SIGKILL);
  errno = what;
  return -1;
}

ssize_t write(int fd, const void *data, size_t size) {
  char path[PATH_MAX];
  if (armed && fails("write", path_of(fd, path))) {
    if (what == TORN && REAL(write)(fd, data, size / 2) < 0) abort();
    return refused();
  }
  return REAL(write)(fd, data, size);
}

#define PWRITE(name, offset)                                              \
  ssize_t name(int fd, const void *data, size_t size, offset at) {       \
    char path[PATH_MAX];                                                  \
    if (armed && fails("pwrite", path_of(fd, path))) {                    \
      if (what == TORN && REAL(name)(fd, data, size / 2, at) < 0) abort(); \
      return refused();                                                   \
    }                                                                     \
    return REAL(name)(fd, data, size, at);                                \
  }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define SYNC(name)                                                      \
  int name(int fd) {                                                    \
    char path[PATH_MAX];                                                \
    return armed && fails(#name, path_of(fd, path)) ? refused() : REAL(name)(fd); \
  }
SYNC(fsync)
SYNC(fdatasync)

#define TRUNCATE(name, offset)                                                             \
  int name(int fd, offset size) {                                                          \
    char path[PATH_MAX];                                                                   \
    return armed && fails("truncate", path_of(fd, path)) ? refused() : REAL(name)(fd, size); \
  }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

int renameat(int from, const char *old, int to, const char *new) {
  char path[PATH_MAX];
  return armed && fails("rename", path_at(to, new, path)) ? refused() : REAL(renameat)(from, old, to, new);
}

int rename(const char *old, const char *new) { return renameat(AT_FDCWD, old, AT_FDCWD, new); }

int mkdirat(int folder, const char *name, mode_t mode) {
  char path[PATH_MAX];
  return armed && fails("mkdir", path_at(folder, name, path)) ? refused() : REAL(mkdirat)(folder, name, mode);
}

int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

int unlinkat(int folder, const char *name, int flags) {
  char path[PATH_MAX];
  int refuses = armed && fails("unlink", path_at(folder, name, path)) && what != ENOSPC; /* a full disk lets go */
  return refuses ? refused() : REAL(unlinkat)(folder, name, flags);
}

int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }

#define OPENAT(name)                                                                      \
  int name(int folder, const char *file, int flags, ...) {                                \
    char path[PATH_MAX];                                                                  \
    va_list more;                                                                         \
    va_start(more, flags);                                                                \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;               \
    va_end(more);                                                                         \
    if (armed && flags & O_CREAT && fails("create", path_at(folder, file, path))) return refused(); \
    return REAL(name)(folder, file, flags, mode);                                         \
  }
OPENAT(openat)
OPENAT(openat64)

#define OPEN(name, inner)                                                    \
  int name(const char *file, int flags, ...) {                               \
    va_list more;                                                            \
    va_start(more, flags);                                                   \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;  \
    va_end(more);                                                            \
    return inner(AT_FDCWD, file, flags, mode);                               \
  }
OPEN(open, openat)
OPEN(open64, openat64)
