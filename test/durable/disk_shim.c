/* Records what a process does to the files below one directory, and makes such calls fail on demand.
 *
 * Loaded with LD_PRELOAD. It interposes the functions of the C library that change files, which both the Erlang VM and
 * Rust's standard library call. Two uses, each chosen by the environment:
 *
 *   DISK_ROOT=DIR            the directory
 *   DISK_TRACE=FILE          append a record for each call that changes a file below DIR (see trace.py)
 *   DISK_SYNC_DELAY_US=N     wait before each fsync and fdatasync, so that an acknowledgement that does not wait for the
 *                            sync is recorded before the sync ends
 *   DISK_FAULT=FILE          a file of `struct fault`, which the test may change at any time (see disk_faults.py)
 *
 * A call that changes something is recorded after it has succeeded and before it returns. A sync is recorded twice:
 * before it begins and after it has ended. So data that was recorded before the beginning is on the disk once the end is
 * recorded. Each record is one append to the trace, which orders the records of all threads and processes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES_MAX 65536
#define TRACE_DESCRIPTOR_MIN 700
#define PARTS_MAX 1000

enum kind { OPENED = 1, WRITTEN, SYNC_BEGINS, SYNC_ENDS, RENAMED, UNLINKED, MADE, REMOVED, TRUNCATED, ALLOCATED, MAPPED, LINKED, SYNC_FAILED };
enum operation { WRITE = 1, SYNC = 2, READ = 4, OPEN = 8, CREATE = 16, RENAME = 32, UNLINK = 64 };

struct record {
    uint32_t magic;
    uint32_t kind;
    uint64_t inode;
    uint64_t offset;
    uint64_t length;
    uint32_t flags;
    uint16_t path_bytes, other_bytes;
};

struct fault {
    volatile uint32_t operations; /* which calls fail */
    volatile int32_t error;       /* with which errno */
    volatile int64_t skip;        /* after how many matching calls */
    volatile int64_t times;       /* how many calls fail; negative: all */
    volatile int64_t bytes_left;  /* writes succeed for this many bytes; negative: the field is not used */
    volatile uint64_t hits;       /* how many calls have failed */
    volatile int64_t delay_us;    /* matching calls wait for this time first; with no error, they do nothing else */
    char pattern[208];            /* a part of the path; empty: every path */
};

static char root[PATH_MAX];
static size_t root_bytes;
static int trace = -1;
static unsigned delay_us;
static struct fault *fault;
static char *volatile paths[FILES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(type, name, ...)                                   \
    static type (*real)(__VA_ARGS__);                           \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name)

static ssize_t real_writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, writev, int, const struct iovec *, int);
    return real(fd, parts, count);
}

__attribute__((constructor)) static void begin(void) {
    const char *directory = getenv("DISK_ROOT"), *file = getenv("DISK_TRACE"), *control = getenv("DISK_FAULT");
    const char *delay = getenv("DISK_SYNC_DELAY_US");
    if (!directory) return;
    if (!realpath(directory, root)) snprintf(root, sizeof root, "%s", directory);
    root_bytes = strlen(root);
    if (delay) delay_us = (unsigned)atoi(delay);
    REAL(int, open, const char *, int, ...);
    if (file) {
        int fd = real(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (fd < 0) abort();
        trace = fcntl(fd, F_DUPFD_CLOEXEC, TRACE_DESCRIPTOR_MIN);
        close(fd);
        if (trace < 0) abort();
    }
    if (control) {
        int fd = real(control, O_RDWR | O_CLOEXEC);
        if (fd < 0) abort();
        fault = mmap(NULL, sizeof *fault, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fault == MAP_FAILED) abort();
        close(fd);
    }
}

/* The absolute path of a name; false if it is not below the root. */
static int below_root(int at, const char *name, char *path) {
    char base[PATH_MAX], link[64];
    if (!root_bytes || !name) return 0;
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
    } else {
        if (at == AT_FDCWD) {
            if (!getcwd(base, sizeof base)) return 0;
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", at);
            ssize_t length = readlink(link, base, sizeof base - 1);
            if (length < 0) return 0;
            base[length] = 0;
        }
        if (snprintf(path, PATH_MAX, "%s/%s", base, name) >= PATH_MAX) return 0;
    }
    return !strncmp(path, root, root_bytes) && (path[root_bytes] == '/' || !path[root_bytes]);
}

static int tracked(int fd) { return fd >= 0 && fd < FILES_MAX && paths[fd]; }

static void remember(int fd, const char *path) {
    if (fd < 0 || fd >= FILES_MAX) return;
    char *before = paths[fd];
    paths[fd] = path ? strdup(path) : NULL;
    free(before);
}

/* Whether a call must fail. Sets errno. `bytes` is what a write may still write. */
static int fails(enum operation operation, const char *path, size_t *bytes) {
    struct fault *f = fault;
    if (!f || !(f->operations & operation) || !strstr(path, f->pattern)) return 0;
    if (f->delay_us > 0) usleep((useconds_t)f->delay_us);
    if (!f->error) return 0;
    if (__atomic_fetch_sub(&f->skip, 1, __ATOMIC_SEQ_CST) > 0) return 0;
    if (operation == WRITE && bytes && f->bytes_left >= 0) {
        int64_t left = __atomic_fetch_sub(&f->bytes_left, (int64_t)*bytes, __ATOMIC_SEQ_CST);
        if (left >= (int64_t)*bytes) return 0;
        if (left > 0) {
            *bytes = (size_t)left;
            __atomic_store_n(&f->bytes_left, 0, __ATOMIC_SEQ_CST);
            return 0;
        }
        __atomic_store_n(&f->bytes_left, 0, __ATOMIC_SEQ_CST);
    }
    if (f->times >= 0 && __atomic_fetch_sub(&f->times, 1, __ATOMIC_SEQ_CST) <= 0) {
        __atomic_store_n(&f->times, 0, __ATOMIC_SEQ_CST);
        return 0;
    }
    __atomic_fetch_add(&f->hits, 1, __ATOMIC_SEQ_CST);
    errno = f->error;
    return 1;
}

static void append(enum kind kind, uint64_t inode, uint64_t offset, uint32_t flags, const char *path, const char *other,
                   const struct iovec *data, int count, size_t length) {
    if (trace < 0) return;
    int before = errno;
    struct iovec parts[PARTS_MAX + 3];
    struct record record = {0x44534b31, kind, inode, offset, length, flags, 0, 0};
    record.path_bytes = path ? (uint16_t)strlen(path) : 0;
    record.other_bytes = other ? (uint16_t)strlen(other) : 0;
    int n = 0;
    size_t total = sizeof record + record.path_bytes + record.other_bytes, left = data ? length : 0;
    parts[n++] = (struct iovec){&record, sizeof record};
    if (record.path_bytes) parts[n++] = (struct iovec){(void *)path, record.path_bytes};
    if (record.other_bytes) parts[n++] = (struct iovec){(void *)other, record.other_bytes};
    total += left;
    char *joined = NULL;
    struct iovec whole;
    if (count > PARTS_MAX) {
        /* One call takes a limited number of parts, and the record must be one call. */
        if (!(joined = malloc(left ? left : 1))) abort();
        size_t at = 0;
        for (int i = 0; i < count && at < left; i++) {
            size_t part = data[i].iov_len < left - at ? data[i].iov_len : left - at;
            memcpy(joined + at, data[i].iov_base, part);
            at += part;
        }
        whole = (struct iovec){joined, left};
        data = &whole;
        count = 1;
    }
    for (int i = 0; i < count && left; i++) {
        size_t part = data[i].iov_len < left ? data[i].iov_len : left;
        parts[n++] = (struct iovec){data[i].iov_base, part};
        left -= part;
    }
    if (real_writev(trace, parts, n) != (ssize_t)total) abort();
    free(joined);
    errno = before;
}

static uint64_t inode_of(int fd) {
    struct stat found;
    return fstat(fd, &found) ? 0 : found.st_ino;
}

static uint64_t inode_at(const char *path) {
    struct stat found;
    return lstat(path, &found) ? 0 : found.st_ino;
}

/* Opening. */

static int opened(int at, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    REAL(int, openat64, int, const char *, int, ...);
    if (!below_root(at, name, path)) {
        int fd = real(at, name, flags, mode);
        remember(fd, NULL);
        return fd;
    }
    if (fails(OPEN, path, NULL)) return -1;
    struct stat found;
    if (((flags & O_CREAT) || (flags & O_ACCMODE) != O_RDONLY) && fails(CREATE, path, NULL)) return -1;
    pthread_mutex_lock(&lock);
    int existed = !lstat(path, &found);
    int fd = real(at, name, flags, mode);
    if (fd >= 0) {
        remember(fd, path);
        /* The lowest bit of `offset` means created. */
        append(OPENED, inode_of(fd), !existed, (uint32_t)flags, path, NULL, NULL, 0, 0);
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

#define MODE                              \
    mode_t mode = 0;                      \
    if (flags & (O_CREAT | O_TMPFILE)) {  \
        va_list list;                     \
        va_start(list, flags);            \
        mode = va_arg(list, mode_t);      \
        va_end(list);                     \
    }

int open(const char *name, int flags, ...) { MODE return opened(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE return opened(AT_FDCWD, name, flags, mode); }
int openat(int at, const char *name, int flags, ...) { MODE return opened(at, name, flags, mode); }
int openat64(int at, const char *name, int flags, ...) { MODE return opened(at, name, flags, mode); }
int __open_2(const char *name, int flags) { return opened(AT_FDCWD, name, flags, 0); }
int __open64_2(const char *name, int flags) { return opened(AT_FDCWD, name, flags, 0); }
int creat(const char *name, mode_t mode) { return opened(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *name, mode_t mode) { return opened(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int fd) {
    REAL(int, close, int);
    if (fd == trace && fd >= 0) return 0;
    if (tracked(fd)) remember(fd, NULL);
    return real(fd);
}

int dup(int fd) {
    REAL(int, dup, int);
    int copy = real(fd);
    remember(copy, tracked(fd) ? paths[fd] : NULL);
    return copy;
}

int dup2(int fd, int copy) {
    REAL(int, dup2, int, int);
    int result = real(fd, copy);
    if (result >= 0 && fd != copy) remember(copy, tracked(fd) ? paths[fd] : NULL);
    return result;
}

int dup3(int fd, int copy, int flags) {
    REAL(int, dup3, int, int, int);
    int result = real(fd, copy, flags);
    if (result >= 0) remember(copy, tracked(fd) ? paths[fd] : NULL);
    return result;
}

/* Writing. The first function that takes the bytes has an offset below zero for "where the descriptor is". */

static ssize_t written(int fd, const struct iovec *parts, int count, off64_t offset) {
    REAL(ssize_t, pwritev64, int, const struct iovec *, int, off64_t);
    size_t total = 0, allowed;
    struct iovec cut;
    for (int i = 0; i < count; i++) total += parts[i].iov_len;
    allowed = total;
    if (fails(WRITE, paths[fd], &allowed)) return -1;
    if (allowed < total) {
        /* A disk that fills up: a short write of the first part. */
        cut = parts[0];
        if (cut.iov_len > allowed) cut.iov_len = allowed;
        parts = &cut;
        count = 1;
    }
    pthread_mutex_lock(&lock);
    ssize_t done = offset < 0 ? real_writev(fd, parts, count) : real(fd, parts, count, offset);
    if (done > 0 && trace >= 0) {
        off64_t at = offset;
        struct stat found;
        if (fcntl(fd, F_GETFL) & O_APPEND) at = fstat(fd, &found) ? 0 : found.st_size - done;
        else if (offset < 0) at = lseek64(fd, 0, SEEK_CUR) - done;
        append(WRITTEN, inode_of(fd), (uint64_t)at, (uint32_t)fcntl(fd, F_GETFL), NULL, NULL, parts, count, (size_t)done);
    }
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t write(int fd, const void *data, size_t length) {
    REAL(ssize_t, write, int, const void *, size_t);
    if (!tracked(fd)) return real(fd, data, length);
    struct iovec part = {(void *)data, length};
    return written(fd, &part, 1, -1);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    return tracked(fd) ? written(fd, parts, count, -1) : real_writev(fd, parts, count);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
    if (!tracked(fd)) return real(fd, data, length, offset);
    struct iovec part = {(void *)data, length};
    return written(fd, &part, 1, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) { return pwrite(fd, data, length, offset); }

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    REAL(ssize_t, pwritev, int, const struct iovec *, int, off_t);
    return tracked(fd) ? written(fd, parts, count, offset) : real(fd, parts, count, offset);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) {
    REAL(ssize_t, pwritev64, int, const struct iovec *, int, off64_t);
    return tracked(fd) ? written(fd, parts, count, offset) : real(fd, parts, count, offset);
}

/* Callers fall back to reading and writing. */
ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t length, unsigned flags) {
    REAL(ssize_t, copy_file_range, int, off64_t *, int, off64_t *, size_t, unsigned);
    if (tracked(to)) return errno = ENOSYS, -1;
    return real(from, from_at, to, to_at, length, flags);
}

ssize_t sendfile64(int to, int from, off64_t *offset, size_t length) {
    REAL(ssize_t, sendfile64, int, int, off64_t *, size_t);
    if (tracked(to)) return errno = ENOSYS, -1;
    return real(to, from, offset, length);
}

ssize_t sendfile(int to, int from, off_t *offset, size_t length) { return sendfile64(to, from, offset, length); }

static int resized(int fd, off64_t length) {
    REAL(int, ftruncate64, int, off64_t);
    if (!tracked(fd)) return real(fd, length);
    if (fails(WRITE, paths[fd], NULL)) return -1;
    pthread_mutex_lock(&lock);
    int result = real(fd, length);
    if (!result) append(TRUNCATED, inode_of(fd), (uint64_t)length, 0, NULL, NULL, NULL, 0, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int ftruncate(int fd, off_t length) { return resized(fd, length); }
int ftruncate64(int fd, off64_t length) { return resized(fd, length); }

static int resized_at(const char *name, off64_t length) {
    REAL(int, truncate64, const char *, off64_t);
    char path[PATH_MAX];
    if (!below_root(AT_FDCWD, name, path)) return real(name, length);
    if (fails(WRITE, path, NULL)) return -1;
    pthread_mutex_lock(&lock);
    int result = real(name, length);
    if (!result) append(TRUNCATED, inode_at(path), (uint64_t)length, 0, NULL, NULL, NULL, 0, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int truncate(const char *name, off_t length) { return resized_at(name, length); }
int truncate64(const char *name, off64_t length) { return resized_at(name, length); }

static int allocated(int fd, int mode, off64_t offset, off64_t length) {
    REAL(int, fallocate64, int, int, off64_t, off64_t);
    if (!tracked(fd)) return real(fd, mode, offset, length);
    if (fails(WRITE, paths[fd], NULL)) return -1;
    pthread_mutex_lock(&lock);
    int result = real(fd, mode, offset, length);
    if (!result) append(ALLOCATED, inode_of(fd), (uint64_t)offset, (uint32_t)mode, NULL, NULL, NULL, 0, (size_t)length);
    pthread_mutex_unlock(&lock);
    return result;
}

int fallocate(int fd, int mode, off_t offset, off_t length) { return allocated(fd, mode, offset, length); }
int fallocate64(int fd, int mode, off64_t offset, off64_t length) { return allocated(fd, mode, offset, length); }
int posix_fallocate(int fd, off_t offset, off_t length) { return allocated(fd, 0, offset, length) ? errno : 0; }
int posix_fallocate64(int fd, off64_t offset, off64_t length) { return allocated(fd, 0, offset, length) ? errno : 0; }

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    REAL(void *, mmap, void *, size_t, int, int, int, off_t);
    if (tracked(fd) && (flags & MAP_SHARED) && (protection & PROT_WRITE))
        append(MAPPED, inode_of(fd), 0, 0, paths[fd], NULL, NULL, 0, 0);
    return real(address, length, protection, flags, fd, offset);
}

/* Syncing. sync_file_range promises nothing for a power cut, so it is not recorded. */

static int synced(int fd, int (*real)(int)) {
    if (!tracked(fd)) return real(fd);
    uint64_t inode = inode_of(fd);
    if (fails(SYNC, paths[fd], NULL)) {
        append(SYNC_FAILED, inode, 0, 0, NULL, NULL, NULL, 0, 0);
        return -1;
    }
    append(SYNC_BEGINS, inode, (uint64_t)(uintptr_t)pthread_self(), 0, NULL, NULL, NULL, 0, 0);
    if (delay_us) usleep(delay_us);
    int result = real(fd);
    if (!result) append(SYNC_ENDS, inode, (uint64_t)(uintptr_t)pthread_self(), 0, NULL, NULL, NULL, 0, 0);
    return result;
}

int fsync(int fd) {
    REAL(int, fsync, int);
    return synced(fd, real);
}

int fdatasync(int fd) {
    REAL(int, fdatasync, int);
    return synced(fd, real);
}

/* Names. */

static int renamed(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
    REAL(int, renameat2, int, const char *, int, const char *, unsigned);
    char source[PATH_MAX], target[PATH_MAX];
    int inside = below_root(from_at, from, source);
    if (!below_root(to_at, to, target) && !inside) return real(from_at, from, to_at, to, flags);
    if (fails(RENAME, target, NULL)) return -1;
    pthread_mutex_lock(&lock);
    uint64_t inode = inode_at(source);
    int result = real(from_at, from, to_at, to, flags);
    if (!result) append(RENAMED, inode, 0, flags, source, target, NULL, 0, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int rename(const char *from, const char *to) { return renamed(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int from_at, const char *from, int to_at, const char *to) { return renamed(from_at, from, to_at, to, 0); }
int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
    return renamed(from_at, from, to_at, to, flags);
}

static int linked(int from_at, const char *from, int to_at, const char *to, int flags) {
    REAL(int, linkat, int, const char *, int, const char *, int);
    char path[PATH_MAX];
    int inside = below_root(to_at, to, path);
    if (inside && fails(CREATE, path, NULL)) return -1;
    pthread_mutex_lock(&lock);
    int result = real(from_at, from, to_at, to, flags);
    if (!result && inside) append(LINKED, inode_at(path), 0, 0, path, NULL, NULL, 0, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int link(const char *from, const char *to) { return linked(AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int from_at, const char *from, int to_at, const char *to, int flags) { return linked(from_at, from, to_at, to, flags); }

static int removed(int at, const char *name, int flags) {
    REAL(int, unlinkat, int, const char *, int);
    char path[PATH_MAX];
    if (!below_root(at, name, path)) return real(at, name, flags);
    if (fails(UNLINK, path, NULL)) return -1;
    pthread_mutex_lock(&lock);
    uint64_t inode = inode_at(path);
    int result = real(at, name, flags);
    if (!result) append(flags & AT_REMOVEDIR ? REMOVED : UNLINKED, inode, 0, 0, path, NULL, NULL, 0, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int unlink(const char *name) { return removed(AT_FDCWD, name, 0); }
int unlinkat(int at, const char *name, int flags) { return removed(at, name, flags); }
int rmdir(const char *name) { return removed(AT_FDCWD, name, AT_REMOVEDIR); }

int remove(const char *name) {
    struct stat found;
    return removed(AT_FDCWD, name, !lstat(name, &found) && S_ISDIR(found.st_mode) ? AT_REMOVEDIR : 0);
}

static int made(int at, const char *name, mode_t mode) {
    REAL(int, mkdirat, int, const char *, mode_t);
    char path[PATH_MAX];
    if (!below_root(at, name, path)) return real(at, name, mode);
    if (fails(CREATE, path, NULL)) return -1;
    pthread_mutex_lock(&lock);
    int result = real(at, name, mode);
    if (!result) append(MADE, inode_at(path), 0, 0, path, NULL, NULL, 0, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int mkdir(const char *name, mode_t mode) { return made(AT_FDCWD, name, mode); }
int mkdirat(int at, const char *name, mode_t mode) { return made(at, name, mode); }

/* Reading, which can only fail. */

#define READS(name, parameters, types, ...)                            \
    ssize_t name parameters {                                          \
        REAL(ssize_t, name, types);                                    \
        if (tracked(fd) && fails(READ, paths[fd], NULL)) return -1;    \
        return real(__VA_ARGS__);                                      \
    }
#define TYPES(...) __VA_ARGS__

READS(read, (int fd, void *data, size_t length), TYPES(int, void *, size_t), fd, data, length)
READS(pread, (int fd, void *data, size_t length, off_t offset), TYPES(int, void *, size_t, off_t), fd, data, length, offset)
READS(pread64, (int fd, void *data, size_t length, off64_t offset), TYPES(int, void *, size_t, off64_t), fd, data, length, offset)
READS(readv, (int fd, const struct iovec *parts, int count), TYPES(int, const struct iovec *, int), fd, parts, count)
READS(preadv, (int fd, const struct iovec *parts, int count, off_t offset), TYPES(int, const struct iovec *, int, off_t), fd, parts, count, offset)
READS(preadv64, (int fd, const struct iovec *parts, int count, off64_t offset), TYPES(int, const struct iovec *, int, off64_t), fd, parts, count, offset)
