// What a program finds in a folder: its own files, and the user's that it has not removed.  A
// stream of names stays the real one of the user's folder; beside it, where the run has put
// something into that folder or taken something out, there is one of saved/.
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "estimator/absent/kept_libc.h"
#include "estimator/absent/kept_paths.h"

namespace onnxfit::absent {
namespace {

struct Merged {
  std::atomic<DIR*> users;  // null: free
  DIR* own;                 // in saved/, null where there is none
  bool is_own_read;
  Path path;
};

constexpr size_t kMostMerged = 256;  // open at a time
std::atomic<Merged*> all_merged[kMostMerged];
std::atomic<size_t> merged_count{0};  // of the places above that were ever taken

DIR* RealOpendir(const char* path) {
  static auto* const real = RealOf<DIR*(const char*)>("opendir");
  return real(path);
}
dirent* RealReaddir(DIR* folder) {
  static auto* const real = RealOf<dirent*(DIR*)>("readdir");
  return real(folder);
}
int RealClosedir(DIR* folder) {
  static auto* const real = RealOf<int(DIR*)>("closedir");
  return real(folder);
}
void RealRewinddir(DIR* folder) {
  static auto* const real = RealOf<void(DIR*)>("rewinddir");
  real(folder);
}

Merged* FindMerged(DIR* folder) {
  for (size_t i = 0; i < merged_count.load(std::memory_order_acquire); ++i) {
    Merged* const merged = all_merged[i].load(std::memory_order_acquire);
    if (merged != nullptr && merged->users == folder) return merged;
  }
  return nullptr;
}

void AddMerged(Merged* merged) {
  for (size_t i = 0; i < kMostMerged; ++i) {
    Merged* none = nullptr;
    if (!all_merged[i].compare_exchange_strong(none, merged)) continue;
    size_t count = merged_count;
    while (count < i + 1 && !merged_count.compare_exchange_weak(count, i + 1)) {
    }
    return;
  }
}

void ForgetMerged(DIR* folder) {
  for (size_t i = 0; i < merged_count; ++i) {
    Merged* merged = all_merged[i].load();
    if (merged == nullptr || merged->users != folder) continue;
    all_merged[i] = nullptr;
    if (merged->own != nullptr) RealClosedir(merged->own);
    delete merged;
    return;
  }
}

bool IsFolder(const Path& path) {
  struct stat status;
  return fstatat(AT_FDCWD, path.text(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISDIR(status.st_mode);
}

// `folder` is open on `path`, a true name.
void MergeIfNeeded(DIR* folder, const Path& path) {
  const ErrnoKept kept;
  if (!IsHeld(path.view())) return;
  DIR* const own = RealOpendir(SavedPath(path.view()).text());
  if (own == nullptr && !IsFolder(Path(RemovedRoot(), path.view()))) return;
  auto* const merged = new (std::nothrow) Merged;
  if (merged == nullptr) return;
  merged->users = folder;
  merged->own = own;
  merged->is_own_read = false;
  merged->path = path;
  AddMerged(merged);
}

bool IsAnythingDone() { return IsKeeping() && (IsDone(kSaved) || IsDone(kRemoved)); }

DIR* WithMerged(DIR* folder) {
  Path path;
  if (folder == nullptr || !IsAnythingDone()) return folder;
  const ErrnoKept kept;
  if (DescriptorPath(dirfd(folder), path) && SavedPrefix(path.view()) == 0) {
    MergeIfNeeded(folder, path);
  }
  return folder;
}

bool IsDots(std::string_view name) { return name == "." || name == ".."; }

// The run's own first; of the user's, those that it has neither replaced nor removed.
dirent* ReadMerged(Merged& merged, DIR* folder) {
  while (merged.own != nullptr && !merged.is_own_read) {
    dirent* const entry = RealReaddir(merged.own);
    if (entry == nullptr) merged.is_own_read = true;
    if (entry != nullptr && !IsDots(entry->d_name)) return entry;
  }
  while (dirent* const entry = RealReaddir(folder)) {
    const ErrnoKept kept;
    if (IsDots(entry->d_name)) return entry;
    const Path path = Path(merged.path.view(), "/").Append(entry->d_name);
    if (merged.own != nullptr && IsReal(SavedPath(path.view()).view())) continue;
    if (!IsRemoved(path.view())) return entry;
  }
  return nullptr;
}

dirent* Read(DIR* folder) {
  Merged* const merged = merged_count == 0 ? nullptr : FindMerged(folder);
  return merged == nullptr ? RealReaddir(folder) : ReadMerged(*merged, folder);
}

DIR* Open(const char* path) {
  Path room;
  const char* const found = ToRead(AT_FDCWD, path, /*follows=*/true, room);
  return found == nullptr ? nullptr : WithMerged(RealOpendir(found));
}

DIR* OpenAt(int folder, const char* path) {
  const int file = openat(folder, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return file < 0 ? nullptr : fdopendir(file);
}

// --- Whole lists --------------------------------------------------------------------------------

constexpr size_t kEntryBytes = sizeof(void*);

using Chosen = int(const dirent*);
using Order = int(const dirent**, const dirent**);

bool AddCopy(const dirent* entry, dirent**& names, size_t& count) {
  auto** const more = static_cast<dirent**>(std::realloc(names, (count + 1) * kEntryBytes));
  if (more == nullptr) return false;
  names = more;
  auto* const copy = static_cast<dirent*>(std::malloc(entry->d_reclen));
  if (copy == nullptr) return false;
  std::memcpy(copy, entry, entry->d_reclen);
  names[count++] = copy;
  return true;
}

int Scan(DIR* folder, dirent*** found, Chosen* chosen, Order* order) {
  if (folder == nullptr) return -1;
  dirent** names = nullptr;
  size_t count = 0;
  while (const dirent* const entry = Read(folder)) {
    if (chosen != nullptr && chosen(entry) == 0) continue;
    if (!AddCopy(entry, names, count)) break;
  }
  if (order != nullptr && count > 0) {
    std::qsort(names, count, kEntryBytes,
               reinterpret_cast<int (*)(const void*, const void*)>(order));
  }
  closedir(folder);
  *found = names;
  return static_cast<int>(count);
}

// libc's own glob() asks the kernel, unless it is told whom to ask.
int Glob(const char* pattern, int flags, int (*on_error)(const char*, int), glob_t* found) {
  static auto* const real =
      RealOf<int(const char*, int, int (*)(const char*, int), glob_t*)>("glob");
  if ((flags & GLOB_ALTDIRFUNC) != 0 || !IsAnythingDone()) {
    return real(pattern, flags, on_error, found);
  }
  found->gl_opendir = [](const char* path) -> void* { return Open(path); };
  found->gl_readdir = [](void* folder) { return Read(static_cast<DIR*>(folder)); };
  found->gl_closedir = [](void* folder) { closedir(static_cast<DIR*>(folder)); };
  found->gl_stat = [](const char* path, struct stat* to) { return stat(path, to); };
  found->gl_lstat = [](const char* path, struct stat* to) { return lstat(path, to); };
  return real(pattern, flags | GLOB_ALTDIRFUNC, on_error, found);
}

}  // namespace

KEPT_LIBC(DIR*, opendir, (const char* path)) { return Open(path); }
KEPT_LIBC(DIR*, fdopendir, (int file)) {
  static auto* const real = RealOf<DIR*(int)>("fdopendir");
  return WithMerged(real(file));
}
KEPT_LIBC(dirent*, readdir, (DIR * folder)) { return Read(folder); }
KEPT_LIBC(dirent*, readdir64, (DIR * folder)) { return Read(folder); }
KEPT_LIBC(int, closedir, (DIR * folder)) {
  if (merged_count != 0) ForgetMerged(folder);
  return RealClosedir(folder);
}
KEPT_LIBC(void, rewinddir, (DIR * folder)) {
  RealRewinddir(folder);
  Merged* const merged = FindMerged(folder);
  if (merged == nullptr) return;
  merged->is_own_read = false;
  if (merged->own != nullptr) RealRewinddir(merged->own);
}

#define KEPT_SCAN(name)                                                                     \
  KEPT_LIBC(int, name, (const char* path, dirent*** found, Chosen* chosen, Order* order)) { \
    return Scan(Open(path), found, chosen, order);                                          \
  }
#define KEPT_SCAN_AT(name)                                                                   \
  KEPT_LIBC(int, name,                                                                       \
            (int folder, const char* path, dirent*** found, Chosen* chosen, Order* order)) { \
    return Scan(OpenAt(folder, path), found, chosen, order);                                 \
  }
KEPT_SCAN(scandir)
KEPT_SCAN(scandir64)
KEPT_SCAN_AT(scandirat)
KEPT_SCAN_AT(scandirat64)

KEPT_LIBC(int, glob,
          (const char* pattern, int flags, int (*on_error)(const char*, int), glob_t* found)) {
  return Glob(pattern, flags, on_error, found);
}
KEPT_LIBC(int, glob64,
          (const char* pattern, int flags, int (*on_error)(const char*, int), glob_t* found)) {
  return Glob(pattern, flags, on_error, found);
}

}  // namespace onnxfit::absent
