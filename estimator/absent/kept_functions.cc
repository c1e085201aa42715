// libc's functions that take a path, a row each: who they ask where to go (kept_paths.h).  What has
// no row takes no path, changes nothing, or is made of those that have one.  Kernel and libc agree
// on struct stat here (x86-64), so that its functions ask the kernel: libc has them under other
// names before 2.33.
#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#include <utime.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "estimator/absent/kept_libc.h"
#include "estimator/absent/kept_moves.h"
#include "estimator/absent/kept_paths.h"

namespace onnxfit::absent {
namespace {

bool FollowsAt(int flags) { return (flags & AT_SYMLINK_NOFOLLOW) == 0; }

// --- Looking ------------------------------------------------------------------------------------

int StatAt(int folder, const char* path, struct stat* to, int flags) {
  Path room;
  path = ToRead(folder, path, FollowsAt(flags), room);
  return path == nullptr ? -1 : static_cast<int>(syscall(SYS_newfstatat, folder, path, to, flags));
}

// What the program reads as a path is one that it knows.
size_t StripSavedRoot(char* text, size_t length) {
  const size_t prefix = SavedPrefix({text, length});
  if (prefix > 0) std::memmove(text, text + prefix, length - prefix);
  return length - prefix;
}

ssize_t ReadLinkAt(int folder, const char* path, char* to, size_t size) {
  static auto* const real = RealOf<ssize_t(int, const char*, char*, size_t)>("readlinkat");
  Path room;
  path = ToRead(folder, path, /*follows=*/false, room);
  const ssize_t length = path == nullptr ? -1 : real(folder, path, to, size);
  return length <= 0 ? length
                     : static_cast<ssize_t>(StripSavedRoot(to, static_cast<size_t>(length)));
}

char* PresentFolder(char* to, size_t size) {
  static auto* const real = RealOf<char*(char*, size_t)>("getcwd");
  char* const path = real(to, size);
  if (path != nullptr) path[StripSavedRoot(path, std::strlen(path))] = '\0';
  return path;
}

char* TruePath(const char* path, char* to) {
  static auto* const real = RealOf<char*(const char*, char*)>("realpath");
  Path room;
  const char* const found = ToRead(AT_FDCWD, path, /*follows=*/true, room);
  if (found == nullptr) return nullptr;
  if (found == path) return real(path, to);
  if (SavedPrefix(room.view()) == 0) return real(found, to);
  const std::string_view known = room.view().substr(SavedPrefix(room.view()));
  if (to == nullptr) return strdup(Path(known).text());
  return std::strcpy(to, Path(known).text());
}

// Between fork() and exec() nothing may be looked up, so that these are the kernel's, too.
int Execute(const char* path, char* const* words, char* const* variables) {
  Path room;
  path = ToRead(AT_FDCWD, path, /*follows=*/true, room);
  return path == nullptr ? -1 : static_cast<int>(syscall(SYS_execve, path, words, variables));
}

// --- Making and removing ------------------------------------------------------------------------

int MakeFolder(int folder, const char* path, mode_t mode) {
  static auto* const real = RealOf<int(int, const char*, mode_t)>("mkdirat");
  Path room;
  path = ToMake(folder, path, room);
  return path == nullptr ? -1 : real(folder, path, mode);
}

int MakeLink(const char* target, int folder, const char* path) {
  static auto* const real = RealOf<int(const char*, int, const char*)>("symlinkat");
  Path room;
  path = ToMake(folder, path, room);
  if (path == room.text()) SetDone(kLinked);
  return path == nullptr ? -1 : real(target, folder, path);
}

int MakeNode(int folder, const char* path, mode_t mode, dev_t device) {
  Path room;
  path = ToMake(folder, path, room);
  return path == nullptr ? -1 : static_cast<int>(syscall(SYS_mknodat, folder, path, mode, device));
}

int Remove(int folder, const char* path, int flags) {
  static auto* const real = RealOf<int(int, const char*, int)>("unlinkat");
  const int before = errno;
  Place place;
  const bool is_known = IsKeeping() && Resolve(folder, path, /*follows=*/false, place);
  if (!is_known || !place.is_held) {
    errno = before;
    return real(folder, is_known && place.is_elsewhere ? place.path.text() : path, flags);
  }
  const int answer = (flags & AT_REMOVEDIR) != 0 ? RemoveFolder(place) : RemoveFile(place);
  if (answer == 0) errno = before;
  return answer;
}

}  // namespace

// --- The rows -----------------------------------------------------------------------------------

#define KEPT_STAT(name, parameters, folder, flags) \
  KEPT_LIBC(int, name, parameters) { return StatAt(folder, path, to, flags); }
KEPT_STAT(stat, (const char* path, struct stat* to), AT_FDCWD, 0)
KEPT_STAT(stat64, (const char* path, struct stat* to), AT_FDCWD, 0)
KEPT_STAT(lstat, (const char* path, struct stat* to), AT_FDCWD, AT_SYMLINK_NOFOLLOW)
KEPT_STAT(lstat64, (const char* path, struct stat* to), AT_FDCWD, AT_SYMLINK_NOFOLLOW)
KEPT_STAT(fstatat, (int folder, const char* path, struct stat* to, int flags), folder, flags)
KEPT_STAT(fstatat64, (int folder, const char* path, struct stat* to, int flags), folder, flags)
KEPT_STAT(__xstat, (int, const char* path, struct stat* to), AT_FDCWD, 0)
KEPT_STAT(__xstat64, (int, const char* path, struct stat* to), AT_FDCWD, 0)
KEPT_STAT(__lxstat, (int, const char* path, struct stat* to), AT_FDCWD, AT_SYMLINK_NOFOLLOW)
KEPT_STAT(__lxstat64, (int, const char* path, struct stat* to), AT_FDCWD, AT_SYMLINK_NOFOLLOW)
KEPT_STAT(__fxstatat, (int, int folder, const char* path, struct stat* to, int flags), folder,
          flags)
KEPT_STAT(__fxstatat64, (int, int folder, const char* path, struct stat* to, int flags), folder,
          flags)
KEPT_LIBC(int, statx, (int folder, const char* path, int flags, unsigned mask, void* to)) {
  Path room;
  if (path != nullptr && (path = ToRead(folder, path, FollowsAt(flags), room)) == nullptr)
    return -1;
  return static_cast<int>(syscall(SYS_statx, folder, path, flags, mask, to));
}

KEPT_LIBC(ssize_t, readlink, (const char* path, char* to, size_t size)) {
  return ReadLinkAt(AT_FDCWD, path, to, size);
}
KEPT_LIBC(ssize_t, readlinkat, (int folder, const char* path, char* to, size_t size)) {
  return ReadLinkAt(folder, path, to, size);
}
KEPT_LIBC(ssize_t, __readlink_chk, (const char* path, char* to, size_t size, size_t)) {
  return ReadLinkAt(AT_FDCWD, path, to, size);
}
KEPT_LIBC(ssize_t, __readlinkat_chk,
          (int folder, const char* path, char* to, size_t size, size_t)) {
  return ReadLinkAt(folder, path, to, size);
}
KEPT_LIBC(char*, getcwd, (char* to, size_t size)) { return PresentFolder(to, size); }
KEPT_LIBC(char*, __getcwd_chk, (char* to, size_t size, size_t)) { return PresentFolder(to, size); }
KEPT_LIBC(char*, get_current_dir_name, ()) { return PresentFolder(nullptr, 0); }
KEPT_LIBC(char*, realpath, (const char* path, char* to)) { return TruePath(path, to); }
KEPT_LIBC(char*, __realpath_chk, (const char* path, char* to, size_t)) {
  return TruePath(path, to);
}
KEPT_LIBC(char*, canonicalize_file_name, (const char* path)) { return TruePath(path, nullptr); }

KEPT_LIBC(int, mkdir, (const char* path, mode_t mode)) { return MakeFolder(AT_FDCWD, path, mode); }
KEPT_LIBC(int, mkdirat, (int folder, const char* path, mode_t mode)) {
  return MakeFolder(folder, path, mode);
}
KEPT_LIBC(int, mkfifo, (const char* path, mode_t mode)) {
  return MakeNode(AT_FDCWD, path, (mode & 07777) | S_IFIFO, 0);
}
KEPT_LIBC(int, mkfifoat, (int folder, const char* path, mode_t mode)) {
  return MakeNode(folder, path, (mode & 07777) | S_IFIFO, 0);
}
KEPT_LIBC(int, mknod, (const char* path, mode_t mode, dev_t device)) {
  return MakeNode(AT_FDCWD, path, mode, device);
}
KEPT_LIBC(int, mknodat, (int folder, const char* path, mode_t mode, dev_t device)) {
  return MakeNode(folder, path, mode, device);
}
KEPT_LIBC(int, symlink, (const char* target, const char* path)) {
  return MakeLink(target, AT_FDCWD, path);
}
KEPT_LIBC(int, symlinkat, (const char* target, int folder, const char* path)) {
  return MakeLink(target, folder, path);
}
KEPT_LIBC(int, link, (const char* from, const char* to)) {
  return Link(AT_FDCWD, from, AT_FDCWD, to, 0);
}
KEPT_LIBC(int, linkat,
          (int from_folder, const char* from, int to_folder, const char* to, int flags)) {
  return Link(from_folder, from, to_folder, to, flags);
}

KEPT_LIBC(int, unlink, (const char* path)) { return Remove(AT_FDCWD, path, 0); }
KEPT_LIBC(int, unlinkat, (int folder, const char* path, int flags)) {
  return Remove(folder, path, flags);
}
KEPT_LIBC(int, rmdir, (const char* path)) { return Remove(AT_FDCWD, path, AT_REMOVEDIR); }
KEPT_LIBC(int, remove, (const char* path)) {
  if (Remove(AT_FDCWD, path, 0) == 0) return 0;
  return errno == EISDIR ? Remove(AT_FDCWD, path, AT_REMOVEDIR) : -1;
}
KEPT_LIBC(int, rename, (const char* from, const char* to)) {
  return Rename(AT_FDCWD, from, AT_FDCWD, to, 0);
}
KEPT_LIBC(int, renameat, (int from_folder, const char* from, int to_folder, const char* to)) {
  return Rename(from_folder, from, to_folder, to, 0);
}
KEPT_LIBC(int, renameat2,
          (int from_folder, const char* from, int to_folder, const char* to, unsigned flags)) {
  return Rename(from_folder, from, to_folder, to, flags);
}

KEPT_LIBC(int, execve, (const char* path, char* const* words, char* const* variables)) {
  return Execute(path, words, variables);
}
KEPT_LIBC(int, execv, (const char* path, char* const* words)) {
  return Execute(path, words, environ);
}

// What is as libc has it but for the path.  utimensat() and others may have none, but a descriptor.
#define KEPT_PATH(type, name, parameters, arguments, where, failed)  \
  KEPT_LIBC(type, name, parameters) {                                \
    static auto* const real = RealOf<type parameters>(#name);        \
    Path room;                                                       \
    if (path != nullptr && (path = where) == nullptr) return failed; \
    return real arguments;                                           \
  }

#define KEPT_READS(type, name, parameters, arguments, follows) \
  KEPT_PATH(type, name, parameters, arguments, ToRead(AT_FDCWD, path, follows, room), -1)
KEPT_READS(int, access, (const char* path, int what), (path, what), true)
KEPT_READS(int, eaccess, (const char* path, int what), (path, what), true)
KEPT_READS(int, euidaccess, (const char* path, int what), (path, what), true)
KEPT_READS(int, chdir, (const char* path), (path), true)
KEPT_READS(long, pathconf, (const char* path, int what), (path, what), true)
KEPT_READS(int, statfs, (const char* path, struct statfs* to), (path, to), true)
KEPT_READS(int, statfs64, (const char* path, struct statfs* to), (path, to), true)
KEPT_READS(int, statvfs, (const char* path, struct statvfs* to), (path, to), true)
KEPT_READS(int, statvfs64, (const char* path, struct statvfs* to), (path, to), true)
KEPT_READS(ssize_t, getxattr, (const char* path, const char* name, void* to, size_t size),
           (path, name, to, size), true)
KEPT_READS(ssize_t, lgetxattr, (const char* path, const char* name, void* to, size_t size),
           (path, name, to, size), false)
KEPT_READS(ssize_t, listxattr, (const char* path, char* to, size_t size), (path, to, size), true)
KEPT_READS(ssize_t, llistxattr, (const char* path, char* to, size_t size), (path, to, size), false)
KEPT_READS(int, inotify_add_watch, (int file, const char* path, uint32_t mask), (file, path, mask),
           true)
KEPT_PATH(int, faccessat, (int folder, const char* path, int what, int flags),
          (folder, path, what, flags), ToRead(folder, path, FollowsAt(flags), room), -1)
KEPT_PATH(int, posix_spawn,
          (pid_t * child, const char* path, const posix_spawn_file_actions_t* actions,
           const posix_spawnattr_t* how, char* const* words, char* const* variables),
          (child, path, actions, how, words, variables), ToRead(AT_FDCWD, path, true, room), errno)
KEPT_PATH(int, posix_spawn_file_actions_addopen,
          (posix_spawn_file_actions_t * actions, int file, const char* path, int flags,
           mode_t mode),
          (actions, file, path, flags, mode), ToOpen(AT_FDCWD, path, flags, room), errno)

// A name without a folder is looked for in PATH, where nothing of the run is.
#define KEPT_SEARCHES(type, name, parameters, arguments, failed) \
  KEPT_PATH(type, name, parameters, arguments,                   \
            std::strchr(path, '/') == nullptr ? path : ToRead(AT_FDCWD, path, true, room), failed)
KEPT_SEARCHES(int, execvp, (const char* path, char* const* words), (path, words), -1)
KEPT_SEARCHES(int, execvpe, (const char* path, char* const* words, char* const* variables),
              (path, words, variables), -1)
KEPT_SEARCHES(int, posix_spawnp,
              (pid_t * child, const char* path, const posix_spawn_file_actions_t* actions,
               const posix_spawnattr_t* how, char* const* words, char* const* variables),
              (child, path, actions, how, words, variables), errno)

// A folder's modes and times stay the user's: nothing is done, and that worked.
#define KEPT_CHANGES(name, parameters, arguments, folder, follows)                   \
  KEPT_PATH(int, name, parameters, arguments, ToChange(folder, path, follows, room), \
            errno == 0 ? 0 : -1)
KEPT_PATH(int, truncate, (const char* path, off_t length), (path, length),
          ToOpen(AT_FDCWD, path, O_WRONLY, room), -1)
KEPT_PATH(int, truncate64, (const char* path, off_t length), (path, length),
          ToOpen(AT_FDCWD, path, O_WRONLY, room), -1)
KEPT_CHANGES(chmod, (const char* path, mode_t mode), (path, mode), AT_FDCWD, true)
KEPT_CHANGES(lchmod, (const char* path, mode_t mode), (path, mode), AT_FDCWD, false)
KEPT_CHANGES(fchmodat, (int folder, const char* path, mode_t mode, int flags),
             (folder, path, mode, flags), folder, FollowsAt(flags))
KEPT_CHANGES(chown, (const char* path, uid_t user, gid_t group), (path, user, group), AT_FDCWD,
             true)
KEPT_CHANGES(lchown, (const char* path, uid_t user, gid_t group), (path, user, group), AT_FDCWD,
             false)
KEPT_CHANGES(fchownat, (int folder, const char* path, uid_t user, gid_t group, int flags),
             (folder, path, user, group, flags), folder, FollowsAt(flags))
KEPT_CHANGES(utime, (const char* path, const utimbuf* times), (path, times), AT_FDCWD, true)
KEPT_CHANGES(utimes, (const char* path, const timeval* times), (path, times), AT_FDCWD, true)
KEPT_CHANGES(lutimes, (const char* path, const timeval* times), (path, times), AT_FDCWD, false)
KEPT_CHANGES(futimesat, (int folder, const char* path, const timeval* times), (folder, path, times),
             folder, true)
KEPT_CHANGES(utimensat, (int folder, const char* path, const timespec* times, int flags),
             (folder, path, times, flags), folder, FollowsAt(flags))
KEPT_CHANGES(setxattr,
             (const char* path, const char* name, const void* value, size_t size, int flags),
             (path, name, value, size, flags), AT_FDCWD, true)
KEPT_CHANGES(lsetxattr,
             (const char* path, const char* name, const void* value, size_t size, int flags),
             (path, name, value, size, flags), AT_FDCWD, false)
KEPT_CHANGES(removexattr, (const char* path, const char* name), (path, name), AT_FDCWD, true)
KEPT_CHANGES(lremovexattr, (const char* path, const char* name), (path, name), AT_FDCWD, false)

}  // namespace onnxfit::absent
