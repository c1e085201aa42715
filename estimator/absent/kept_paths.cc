#include "estimator/absent/kept_paths.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "estimator/absent/kept_moves.h"

namespace onnxfit::absent {
namespace {

constexpr int kMostLinks = 40;  // as the kernel's MAXSYMLINKS
constexpr std::string_view kRemovedName = "/.onnxfit-removed";

// The kernel itself, not libc's functions, which are ours here.
int Status(const char* path, struct stat& status) {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW));
}
bool IsThere(const char* path) {
  struct stat status;
  return Status(path, status) == 0;
}
bool IsAllowed(const char* path, int what) {
  return syscall(SYS_faccessat2, AT_FDCWD, path, what, AT_EACCESS) == 0 ||
         (errno == ENOSYS && syscall(SYS_faccessat, AT_FDCWD, path, what) == 0);
}

// --- Links --------------------------------------------------------------------------------------

// Contents of /proc and /dev lead where no path leads.
bool IsMagic(std::string_view path) {
  return path.starts_with("/proc/") || path.starts_with("/dev/") || path.starts_with("/sys/");
}

// 1 and the target where `path` is a link, the run's before the user's; `is_ours` says whose.
bool ReadLink(std::string_view path, Path& target, bool& is_ours) {
  if (IsMagic(path)) return false;
  const size_t room = PATH_MAX - 1;
  ssize_t length = -1;
  is_ours = false;
  if (IsDone(kSaved)) {
    length = syscall(SYS_readlinkat, AT_FDCWD, SavedPath(path).text(), target.bytes(), room);
    is_ours = length >= 0;
    if (!is_ours && errno == EINVAL) return false;
  }
  if (length < 0 && IsRemoved(path)) return false;
  if (length < 0) {
    length = syscall(SYS_readlinkat, AT_FDCWD, Path(path).text(), target.bytes(), room);
  }
  if (length < 0) return false;
  target.Cut(static_cast<size_t>(length));
  return true;
}

// `rest` as it goes on behind a link that was found at `at`.
void FollowInto(const Path& target, Path& at, Path& rest) {
  Path next(target.view(), "/");
  next.Append(rest.view());
  rest = next;
  at.Cut(target.view().starts_with("/") ? 0 : FolderOf(at.view()).size());
}

// The folders of `path` one by one, as the kernel would go if saved/ lay over the user's files.
// The last name is left, link or not.
void Walk(Path& path) {
  Path rest(path.view());
  path.Cut(0);
  for (int links = 0; rest.length() > 0;) {
    const size_t end = std::min(rest.view().find('/'), rest.length());
    const Path name(rest.view().substr(0, end));
    const size_t next = rest.view().find_first_not_of('/', end);
    const bool is_last = next == std::string_view::npos;
    rest = Path(is_last ? "" : rest.view().substr(next));
    if (name.length() == 0 || name.view() == ".") continue;
    if (name.view() == "..") {
      path.Cut(FolderOf(path.view()).size());
      continue;
    }
    path.Append("/").Append(name.view());
    Path target;
    bool is_ours = false;
    if (!is_last && links < kMostLinks && ReadLink(path.view(), target, is_ours)) {
      ++links;
      FollowInto(target, path, rest);
    }
  }
  if (path.length() == 0) path.Append("/");
}

// --- True names ---------------------------------------------------------------------------------

void StripSaved(Path& path) {
  const size_t prefix = SavedPrefix(path.view());
  if (prefix > 0) path = Path(path.view().substr(prefix));
}

// The kernel's own answer, in three calls however deep the folder is.
bool AskKernel(const char* folder, Path& path) {
  const auto file =
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, folder, O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (file < 0) return false;
  const bool is_found = DescriptorPath(file, path);
  syscall(SYS_close, file);
  return is_found;
}

bool MakeAbsolute(int folder, const char* text, Path& path) {
  if (text[0] == '/') {
    path.Append(text);
  } else {
    if (folder == AT_FDCWD) {
      if (syscall(SYS_getcwd, path.bytes(), PATH_MAX) < 0 || path.bytes()[0] != '/') return false;
      path.Cut(std::strlen(path.bytes()));
    } else if (!DescriptorPath(folder, path)) {
      return false;
    }
    path.Append("/").Append(text);
  }
  while (path.length() > 1 && path.view().back() == '/') path.Cut(path.length() - 1);
  return !path.is_cut();
}

// Makes the folders of an absolute path true.  False where the kernel could not have, or is in
// saved/, where the user's files are not.
bool MakeTrue(Path& path) {
  const std::string_view name = NameOf(path.view());
  const bool is_plain = name != "." && name != ".." && !name.empty();
  Path folder;
  const Path above(is_plain ? FolderOf(path.view()) : path.view(), "/");
  if (IsDone(kLinked) || !AskKernel(above.text(), folder)) {
    StripSaved(path);
    Walk(path);
    return false;
  }
  const bool is_in_saved = SavedPrefix(folder.view()) > 0;
  StripSaved(folder);
  if (is_plain) folder = Path(folder.view() == "/" ? "" : folder.view(), "/").Append(name);
  path = folder;
  return !is_in_saved;
}

}  // namespace

bool Resolve(int folder, const char* text, bool follows, Place& place) {
  if (text == nullptr || text[0] == '\0' || IsMagic(text)) return false;
  if (!MakeAbsolute(folder, text, place.path)) return false;
  place.ends_in_slash = text[std::strlen(text) - 1] == '/';
  follows |= place.ends_in_slash;
  for (int links = 0; links < kMostLinks; ++links) {
    place.is_elsewhere |= !MakeTrue(place.path);
    Path target;
    bool is_ours = false;
    if (!follows || !ReadLink(place.path.view(), target, is_ours)) break;
    place.is_elsewhere |= is_ours;
    Path rest;
    FollowInto(target, place.path, rest);
    place.path.Append("/").Append(rest.view());
    while (place.path.length() > 1 && place.path.view().back() == '/') {
      place.path.Cut(place.path.length() - 1);
    }
  }
  if (IsMagic(place.path.view())) return false;
  place.is_held = IsHeld(place.path.view());
  return !place.path.is_cut();
}

// --- What is there ------------------------------------------------------------------------------

bool IsReal(std::string_view path) { return IsThere(Path(path).text()); }

bool IsRemoved(std::string_view path) {
  return IsDone(kRemoved) && IsThere(Path(RemovedRoot(), path).Append(kRemovedName).text());
}

Look LookAt(std::string_view path) {
  struct stat own;
  struct stat real;
  const bool is_own = IsDone(kSaved) && Status(SavedPath(path).text(), own) == 0;
  if (is_own && !S_ISDIR(own.st_mode)) return {Stands::kInSaved, own.st_mode};
  if (!IsRemoved(path) && Status(Path(path).text(), real) == 0) {
    return {Stands::kWithUser, real.st_mode};
  }
  if (is_own) return {Stands::kInSaved, own.st_mode};
  return {};
}

// That of the first folder on the way which is none.
int MissingError(std::string_view path) {
  for (std::string_view above = FolderOf(path); !above.empty(); above = FolderOf(above)) {
    const Look look = LookAt(above);
    if (look.is_there()) return look.is_folder() ? ENOENT : S_ISLNK(look.mode) ? ELOOP : ENOTDIR;
  }
  return ENOENT;
}

Look LookAbove(std::string_view path) {
  const std::string_view above = FolderOf(path);
  return above.empty() ? Look{Stands::kWithUser, S_IFDIR} : LookAt(above);
}

void MarkRemoved(std::string_view path) {
  Path mark(RemovedRoot(), path);
  if (!MakeFolders(mark.text())) return;
  struct stat real;
  const bool is_link = Status(Path(path).text(), real) == 0 && S_ISLNK(real.st_mode);
  mark.Append(kRemovedName);
  const auto file = static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, mark.text(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (file >= 0) syscall(SYS_close, file);
  SetDone(kRemoved);
  if (is_link) SetDone(kLinked);
}

bool MakeRoom(std::string_view path) {
  const std::string_view above = FolderOf(path);
  const Look look = LookAbove(path);
  if (!look.is_there() || !look.is_folder()) {
    errno = MissingError(path);
    return false;
  }
  const Path real(above.empty() ? "/" : above);
  if (look.where == Stands::kWithUser && !IsAllowed(real.text(), W_OK | X_OK)) return false;
  return MakeFolders(SavedPath(above).text());
}

// --- Where to go --------------------------------------------------------------------------------

namespace {

// With its slash, of which the kernel makes an error where it is no folder.
const char* InSaved(const Place& place, Path& room) {
  room = SavedPath(place.path.view());
  if (place.ends_in_slash) room.Append("/");
  return room.text();
}

const char* Failed(int error) {
  errno = error;
  return nullptr;
}

const char* AsItIs(const Place& place, const char* text, Path& room) {
  if (!place.is_elsewhere) return text;
  room = place.path;
  if (place.ends_in_slash) room.Append("/");
  return room.text();
}

// The driver's files (/dev/nvidia0, /dev/nvidiactl), by which programs look whether there is a card
// before they ask CUDA (jax 0.10.2): those of the run's cards, whatever this machine has.
const char* ToCardFile(const char* text, Path& room) {
  constexpr std::string_view kDevices = "/dev/nvidia";
  if (std::strncmp(text, kDevices.data(), kDevices.size()) != 0 || !IsKeeping()) return nullptr;
  room = Path(RunFolder(), text);
  return room.text();
}

// Once something is saved or removed.  What may not even be looked at the kernel says itself.
const char* FindToRead(int folder, const char* text, bool follows, Path& room, int& error) {
  const ErrnoKept kept;
  Place place;
  if (!Resolve(folder, text, follows, place)) return text;
  if (!place.is_held) return AsItIs(place, text, room);
  const Look look = LookAt(place.path.view());
  if (look.where == Stands::kInSaved) return InSaved(place, room);
  if (look.is_there()) return AsItIs(place, text, room);
  error = MissingError(place.path.view());
  const bool is_unseen = !IsReal(place.path.view()) && errno != ENOENT && errno != ENOTDIR;
  return is_unseen ? AsItIs(place, text, room) : nullptr;
}

bool Writes(int flags) {
  if ((flags & O_PATH) != 0) return false;
  return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
}

// Of a file of the user's.
const char* OpenUsers(const Place& place, const char* text, int flags, mode_t mode, Path& room) {
  const int access = flags & O_ACCMODE;
  const bool is_changed = access != O_RDONLY || (flags & O_TRUNC) != 0;
  if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) return Failed(EEXIST);
  if (!S_ISREG(mode) || !is_changed) return AsItIs(place, text, room);
  const int wanted = access == O_WRONLY ? W_OK : W_OK | R_OK;
  if (!IsAllowed(place.path.text(), wanted)) return nullptr;
  if (!CopyUp(place.path.view(), (flags & O_TRUNC) == 0)) return nullptr;
  return InSaved(place, room);
}

const char* OpenToWrite(const Place& place, const char* text, int flags, Path& room) {
  const std::string_view path = place.path.view();
  if ((flags & O_TMPFILE) == O_TMPFILE) {
    return MakeRoom(Path(path, "/.").view()) ? InSaved(place, room) : nullptr;
  }
  const Look look = LookAt(path);
  switch (look.where) {
    case Stands::kInSaved:
      return InSaved(place, room);
    case Stands::kWithUser:
      return OpenUsers(place, text, flags, look.mode, room);
    default:
      break;
  }
  if ((flags & O_CREAT) == 0) return Failed(MissingError(path));
  if (!MakeRoom(path)) return nullptr;
  SetDone(kSaved);
  return InSaved(place, room);
}

}  // namespace

const char* ToRead(int folder, const char* text, bool follows, Path& room) {
  if (text == nullptr) return Failed(EFAULT);
  if (const char* const device = ToCardFile(text, room)) return device;
  if (!IsKeeping() || !(IsDone(kSaved) || IsDone(kRemoved))) return text;
  int error = 0;
  const char* const found = FindToRead(folder, text, follows, room, error);
  return found == nullptr ? Failed(error) : found;
}

const char* ToOpen(int folder, const char* text, int flags, Path& room) {
  if (text == nullptr) return Failed(EFAULT);
  const bool is_new = (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0;
  const bool follows = (flags & O_NOFOLLOW) == 0 && !is_new;
  if (!Writes(flags)) return ToRead(folder, text, follows, room);
  if (const char* const device = ToCardFile(text, room)) return device;
  const int before = errno;
  Place place;
  const char* found = text;
  if (IsKeeping() && Resolve(folder, text, follows, place)) {
    found = place.is_held ? OpenToWrite(place, text, flags, room) : AsItIs(place, text, room);
  }
  if (found != nullptr) errno = before;
  return found;
}

const char* ToMake(int folder, const char* text, Path& room) {
  if (text == nullptr) return Failed(EFAULT);
  const int before = errno;
  Place place;
  const bool is_known = IsKeeping() && Resolve(folder, text, /*follows=*/false, place);
  errno = before;
  if (!is_known) return text;
  if (!place.is_held) return AsItIs(place, text, room);
  if (LookAt(place.path.view()).is_there()) return Failed(EEXIST);
  if (!MakeRoom(place.path.view())) return nullptr;
  SetDone(kSaved);
  errno = before;
  return InSaved(place, room);
}

const char* ToChange(int folder, const char* text, bool follows, Path& room) {
  if (text == nullptr) return Failed(EFAULT);
  const int before = errno;
  Place place;
  const bool is_known = IsKeeping() && Resolve(folder, text, follows, place);
  errno = before;
  if (!is_known) return text;
  if (!place.is_held) return AsItIs(place, text, room);
  const Look look = LookAt(place.path.view());
  if (look.where == Stands::kInSaved) return InSaved(place, room);
  if (look.where == Stands::kNowhere) return Failed(MissingError(place.path.view()));
  if (!look.is_file()) return Failed(0);
  if (!CopyUp(place.path.view(), /*with_contents=*/true)) return nullptr;
  errno = before;
  return InSaved(place, room);
}

}  // namespace onnxfit::absent
