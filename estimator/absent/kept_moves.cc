#include "estimator/absent/kept_moves.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "estimator/absent/kept_paths.h"

namespace onnxfit::absent {
namespace {

// The kernel itself, not libc's functions, which are ours here.
template <class... Arguments>
int Call(long number, Arguments... arguments) {
  return static_cast<int>(syscall(number, arguments...));
}
int Failure(int error) {
  errno = error;
  return -1;
}
int CallRename(const char* from, const char* to, unsigned flags = 0) {
  return Call(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags);
}

// --- Copies -------------------------------------------------------------------------------------

// The bytes from `at` to `end`, by the kernel where it can, which shares them where the file system
// can.
bool CopyBytes(int from, int to, off_t at, off_t end) {
  while (at < end) {
    loff_t source = at;
    loff_t target = at;
    ssize_t copied =
        syscall(SYS_copy_file_range, from, &source, to, &target, static_cast<size_t>(end - at), 0U);
    if (copied < 0 &&
        (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
      char bytes[size_t{16} << 10];
      copied = pread(from, bytes, std::min(sizeof bytes, static_cast<size_t>(end - at)), at);
      if (copied > 0) copied = pwrite(to, bytes, static_cast<size_t>(copied), at);
    }
    if (copied < 0) return false;
    if (copied == 0) return true;  // it has become shorter
    at += copied;
  }
  return true;
}

// Of a file with holes what is between them.
bool CopyContents(int from, int to, off_t size) {
  if (ioctl(to, FICLONE, from) == 0) return true;
  if (ftruncate(to, size) != 0) return false;
  off_t at = lseek(from, 0, SEEK_DATA);
  if (at < 0 && errno == EINVAL) return CopyBytes(from, to, 0, size);
  while (at >= 0 && at < size) {
    const off_t hole = lseek(from, at, SEEK_HOLE);
    if (!CopyBytes(from, to, at, hole < 0 ? size : hole)) return false;
    at = hole < 0 ? size : lseek(from, hole, SEEK_DATA);
  }
  return true;
}

// Under a name that nobody looks for until it is whole.
Path PartPath(const char* to) {
  static std::atomic<unsigned> count{0};
  char name[48];
  std::snprintf(name, sizeof name, "part-%d-%u", Call(SYS_getpid), count++);
  const bool is_saved = SavedPrefix(to) > 0;
  return Path(is_saved ? RunFolder() : FolderOf(to), "/").Append(name);
}

bool CopyInto(const char* from, int to, bool with_contents) {
  const int source = Call(SYS_openat, AT_FDCWD, from, O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (source < 0) return false;
  bool is_good = fstat(source, &status) == 0;
  if (is_good && with_contents) is_good = CopyContents(source, to, status.st_size);
  const ErrnoKept kept;
  const timespec times[2] = {status.st_atim, status.st_mtim};
  if (is_good) fchmod(to, status.st_mode & 07777);
  if (is_good && with_contents) futimens(to, times);
  Call(SYS_close, source);
  return is_good;
}

// A new file with the mode of `from`; without its contents, an empty one.
bool CopyFile(const char* from, const char* to, unsigned flags, bool with_contents = true) {
  const Path part = PartPath(to);
  const int file =
      Call(SYS_openat, AT_FDCWD, part.text(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return false;
  const bool is_good =
      CopyInto(from, file, with_contents) && CallRename(part.text(), to, flags) == 0;
  const ErrnoKept kept;
  Call(SYS_close, file);
  if (!is_good) Call(SYS_unlinkat, AT_FDCWD, part.text(), 0);
  return is_good;
}

// Of a link the link.
bool CopyEntry(const char* from, const char* to, mode_t mode, unsigned flags) {
  if (S_ISREG(mode)) return CopyFile(from, to, flags);
  errno = EPERM;
  if (!S_ISLNK(mode)) return false;
  Path target;
  const auto length = syscall(SYS_readlinkat, AT_FDCWD, from, target.bytes(), PATH_MAX - 1);
  if (length < 0) return false;
  target.Cut(static_cast<size_t>(length));
  if (flags == 0) Call(SYS_unlinkat, AT_FDCWD, to, 0);
  SetDone(kLinked);
  return Call(SYS_symlinkat, target.text(), AT_FDCWD, to) == 0;
}

// --- Moves --------------------------------------------------------------------------------------

// Where something is moved from or to, by its true name.
struct End {
  std::string path;
  bool is_held = false;

  Look look() const {
    if (is_held) return LookAt(path);
    struct stat status;
    const int answer = Call(SYS_newfstatat, AT_FDCWD, path.c_str(), &status, AT_SYMLINK_NOFOLLOW);
    return answer == 0 ? Look{Stands::kWithUser, status.st_mode} : Look{};
  }
  std::string in_saved() const { return std::string(SavedRoot()) + path; }
  std::string below(const std::string& name) const { return path + "/" + name; }
};

std::string ContentsOf(const End& end, const Look& look) {
  return end.is_held && look.where == Stands::kInSaved ? end.in_saved() : end.path;
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  DIR* const entries = opendir(folder.c_str());
  if (entries == nullptr) return names;
  while (const dirent* const entry = readdir(entries)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  closedir(entries);
  return names;
}

// What is left of the user's own where the run took something away.
void HideReal(const std::string& path) {
  if (IsReal(path) && !IsRemoved(path)) MarkRemoved(path);
}

int MoveFile(const End& from, const Look& look, const End& to) {
  const std::string source = ContentsOf(from, look);
  const std::string target = to.is_held ? to.in_saved() : to.path;
  if (to.is_held && !MakeRoom(to.path)) return -1;
  if (to.is_held) SetDone(kSaved);
  const bool is_users = from.is_held && look.where == Stands::kWithUser;
  if (is_users || CallRename(source.c_str(), target.c_str()) != 0) {
    if (!is_users && errno != EXDEV) return -1;
    if (!CopyEntry(source.c_str(), target.c_str(), look.mode, 0)) return -1;
    if (!is_users) Call(SYS_unlinkat, AT_FDCWD, source.c_str(), 0);
  }
  if (S_ISLNK(look.mode)) SetDone(kLinked);
  if (from.is_held) HideReal(from.path);
  return 0;
}

int MakeFolderAt(const End& to, mode_t mode) {
  if (to.look().is_there()) return 0;
  if (!to.is_held) return Call(SYS_mkdirat, AT_FDCWD, to.path.c_str(), mode & 07777);
  if (!MakeRoom(to.path)) return -1;
  SetDone(kSaved);
  return Call(SYS_mkdirat, AT_FDCWD, to.in_saved().c_str(), mode & 07777);
}

int RemoveFolderAt(const End& at) {
  if (!at.is_held) return Call(SYS_unlinkat, AT_FDCWD, at.path.c_str(), AT_REMOVEDIR);
  if (!NamesIn(at.path).empty()) return Failure(ENOTEMPTY);
  if (!MakeRoom(at.path)) return -1;
  const bool is_made = at.look().where == Stands::kInSaved;
  const int answer = Call(SYS_unlinkat, AT_FDCWD, at.in_saved().c_str(), AT_REMOVEDIR);
  if (is_made && answer != 0) return -1;
  HideReal(at.path);
  return 0;
}

// By its files, since parts of it may be the user's; as one where all of it is the run's.
int Move(const End& from, const End& to) {
  const Look look = from.look();
  if (!look.is_folder()) return MoveFile(from, look, to);
  const bool is_whole = from.is_held && look.where == Stands::kInSaved && to.is_held;
  if (is_whole && !to.look().is_there()) {
    if (!MakeRoom(to.path)) return -1;
    return CallRename(from.in_saved().c_str(), to.in_saved().c_str());
  }
  if (MakeFolderAt(to, look.mode) != 0) return -1;
  for (const std::string& name : NamesIn(from.path)) {
    if (Move({from.below(name), from.is_held}, {to.below(name), to.is_held}) != 0) return -1;
  }
  return RemoveFolderAt(from);
}

bool IsBelow(const End& end, const End& above) { return end.path.starts_with(above.path + "/"); }

// What rename(2) refuses, in the kernel's order; 0 where it does not.
int RenameError(const End& from, const End& to, unsigned flags) {
  const Look source = from.look();
  const Look target = to.look();
  if ((flags & ~static_cast<unsigned>(RENAME_NOREPLACE)) != 0) return EINVAL;
  if (!LookAbove(from.path).is_folder()) return MissingError(from.path);
  if (!LookAbove(to.path).is_folder()) return MissingError(to.path);
  if (!source.is_there()) return ENOENT;
  if (target.is_there() && flags != 0) return EEXIST;
  if (IsBelow(to, from)) return EINVAL;
  if (IsBelow(from, to)) return ENOTEMPTY;
  if (from.path == to.path || !target.is_there()) return 0;
  if (!source.is_folder()) return target.is_folder() ? EISDIR : 0;
  if (!target.is_folder()) return ENOTDIR;
  return NamesIn(to.path).empty() ? 0 : ENOTEMPTY;
}

// A path that the rule does not know is taken as it is.
End EndOf(int folder, const char* text, bool follows, Place& place) {
  if (!Resolve(folder, text, follows, place)) return {};
  return {std::string(place.path.view()), place.is_held};
}

}  // namespace

bool MakeFolders(const char* path) {
  if (Call(SYS_mkdirat, AT_FDCWD, path, 0777) == 0 || errno == EEXIST) return true;
  if (errno != ENOENT) return false;
  return MakeFolders(Path(FolderOf(path)).text()) &&
         (Call(SYS_mkdirat, AT_FDCWD, path, 0777) == 0 || errno == EEXIST);
}

bool CopyUp(std::string_view path, bool with_contents) {
  if (!MakeFolders(SavedPath(FolderOf(path)).text())) return false;
  SetDone(kSaved);
  return CopyFile(Path(path).text(), SavedPath(path).text(), RENAME_NOREPLACE, with_contents) ||
         errno == EEXIST;  // another process was quicker, and has what it has
}

int RemoveFile(const Place& place) {
  const std::string_view path = place.path.view();
  const Look look = LookAt(path);
  if (!look.is_there()) return Failure(MissingError(path));
  if (look.is_folder()) return Failure(EISDIR);
  if (!MakeRoom(path)) return -1;
  if (look.where == Stands::kInSaved &&
      Call(SYS_unlinkat, AT_FDCWD, SavedPath(path).text(), 0) != 0) {
    return -1;
  }
  HideReal(std::string(path));
  return 0;
}

int RemoveFolder(const Place& place) {
  const End at = {std::string(place.path.view()), true};
  const Look look = at.look();
  if (!look.is_there()) return Failure(MissingError(at.path));
  return look.is_folder() ? RemoveFolderAt(at) : Failure(ENOTDIR);
}

int Rename(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  const int before = errno;
  Place places[2];
  const End source = EndOf(from_folder, from, /*follows=*/false, places[0]);
  const End target = EndOf(to_folder, to, /*follows=*/false, places[1]);
  if (source.path.empty() || target.path.empty() || !(source.is_held || target.is_held)) {
    errno = before;
    return Call(SYS_renameat2, from_folder, places[0].is_elsewhere ? source.path.c_str() : from,
                to_folder, places[1].is_elsewhere ? target.path.c_str() : to, flags);
  }
  if (const int error = RenameError(source, target, flags)) return Failure(error);
  if (source.path == target.path) return 0;
  if (source.is_held && !MakeRoom(source.path)) return -1;
  if (source.look().is_folder() && target.look().is_there() && RemoveFolderAt(target) != 0) {
    return -1;
  }
  if (Move(source, target) != 0) return -1;
  errno = before;
  return 0;
}

// A second name of the user's own file would be a way to write into it.
int Link(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  const int before = errno;
  Place places[2];
  const End source = EndOf(from_folder, from, (flags & AT_SYMLINK_FOLLOW) != 0, places[0]);
  const Look look = source.path.empty() ? Look{} : source.look();
  const bool is_users = source.is_held && look.where == Stands::kWithUser;
  if (source.is_held && !look.is_there()) return Failure(MissingError(source.path));
  Path room;
  const char* const target = ToMake(to_folder, to, room);
  if (target == nullptr) return -1;
  const std::string contents = ContentsOf(source, look);
  const char* const words = source.is_held || places[0].is_elsewhere ? contents.c_str() : from;
  if (!is_users && Call(SYS_linkat, from_folder, words, to_folder, target, flags) == 0) return 0;
  if (!is_users && errno != EXDEV) return -1;
  if (!CopyEntry(words, target, look.mode, RENAME_NOREPLACE)) return -1;
  errno = before;
  return 0;
}

}  // namespace onnxfit::absent
