#include "estimator/absent/kept_rule.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "estimator/absent/run_folder.h"

namespace onnxfit::absent {
namespace {

// --- Which folders are the user's in name only --------------------------------------------------

constexpr const char* kScratch[] = {"/tmp", "/var/tmp", "/dev", "/proc", "/sys", "/run"};
constexpr const char* kScratchOfHome[] = {"/.cache", "/.triton", "/.config", "/.nv", "/.cupy"};
constexpr const char* kScratchVariables[] = {
    "XDG_CACHE_HOME",          "HF_HOME",         "HF_HUB_CACHE",
    "HF_DATASETS_CACHE",       "TORCH_HOME",      "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH", "MPLCONFIGDIR",
    "NUMBA_CACHE_DIR",         "CUPY_CACHE_DIR",  "JAX_COMPILATION_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",    "TMPDIR"};
constexpr std::string_view kScratchName = "/__pycache__";

constexpr size_t kMostFolders = 32;
constexpr size_t kPoolBytes = size_t{16} << 10;  // for their names

// --- What the processes of a run share ----------------------------------------------------------

struct KeptState {
  std::atomic<uint32_t> done;
  std::atomic<uint32_t> home_is;  // 0 unknown, 1 being written, 2 there
  char home[PATH_MAX];            // where the run was started
};

// Of a run whose folder is gone: everything is looked for, and nothing can be written.
KeptState lost_state;

KeptState* MapState(const char* file) {
  const auto at =
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  void* state = MAP_FAILED;
  if (at >= 0 && ftruncate(at, sizeof(KeptState)) == 0) {
    state = mmap(nullptr, sizeof(KeptState), PROT_READ | PROT_WRITE, MAP_SHARED, at, 0);
  }
  if (at >= 0) syscall(SYS_close, at);
  if (state != MAP_FAILED) return static_cast<KeptState*>(state);
  lost_state.done = kSaved | kRemoved | kLinked;
  return &lost_state;
}

// The first process of a run is alone, and its folder is what the user calls here.
void ShareHome(KeptState& state) {
  uint32_t none = 0;
  if (state.home_is.compare_exchange_strong(none, 1)) {
    if (syscall(SYS_getcwd, state.home, sizeof state.home) < 0) state.home[0] = '\0';
    state.home_is = 2;
  }
  for (int i = 0; i < 1000 && state.home_is != 2; ++i) sched_yield();
}

// --- The rule -----------------------------------------------------------------------------------

bool IsWithin(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

// By the name that the kernel has for it; false where it is not there.
bool TrueFolder(const char* name, Path& path) {
  const auto file =
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, name, O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (file < 0) return false;
  const bool is_found = DescriptorPath(file, path);
  syscall(SYS_close, file);
  return is_found;
}

struct Rule {
  Path run;
  Path saved;
  Path removed;
  KeptState* state = &lost_state;
  std::string_view home;  // "" where it is no folder of its own
  std::string_view folders[kMostFolders];
  size_t count = 0;
  char pool[kPoolBytes];
  size_t used = 0;

  Rule() {
    const ErrnoKept kept;
    const char* const folder = std::getenv(kFolderVariable);
    if (folder == nullptr || folder[0] != '/') return;
    run.Append(folder);
    while (run.length() > 1 && run.view().back() == '/') run.Cut(run.length() - 1);
    Path found;
    if (TrueFolder(run.text(), found)) run = found;
    AddScratch(run.text());
    saved.Append(run.view()).Append("/").Append(kSavedFolder);
    removed.Append(run.view()).Append("/removed");
    state = MapState(Path(run.view(), "/kept").text());
    ShareHome(*state);
    AddAll();
    SetHome();
  }

  void AddAll() {
    for (const char* const name : kScratch) AddScratch(name);
    for (const char* const name : kScratchVariables) {
      const char* const value = std::getenv(name);
      if (value != nullptr) AddScratch(value);
    }
    const char* const user = std::getenv("HOME");
    if (user == nullptr) return;
    for (const char* const name : kScratchOfHome) AddScratch(Path(user, name).text());
  }

  // One that is not there yet may be made later.
  void AddScratch(const char* name) {
    Path path;
    if (!TrueFolder(name, path)) {
      const bool is_here = std::strchr(name, '/') == nullptr;
      if (!TrueFolder(is_here ? "." : Path(FolderOf(name), "/").text(), path)) return;
      path.Append(path.view() == "/" ? "" : "/").Append(NameOf(name));
    }
    const bool fits = used + path.length() <= kPoolBytes && count < kMostFolders;
    if (!fits || path.length() < 2) return;
    std::memcpy(pool + used, path.text(), path.length());
    folders[count++] = {pool + used, path.length()};
    used += path.length();
  }

  void SetHome() {
    home = state->home;
    const char* const user = std::getenv("HOME");
    const bool is_scratch = std::find(folders, folders + count, home) != folders + count;
    if (is_scratch || home == "/" || (user != nullptr && home == user)) home = "";
  }
};

const Rule& TheRule() {
  static const Rule rule;
  return rule;
}

}  // namespace

Path& Path::Append(std::string_view more) {
  const size_t room = sizeof text_ - 1 - length_;
  is_cut_ |= more.size() > room;
  const size_t taken = std::min(room, more.size());
  std::memcpy(text_ + length_, more.data(), taken);
  Cut(length_ + taken);
  return *this;
}

// As many bytes as there are, not the whole room.
Path& Path::operator=(const Path& other) {
  if (this == &other) return *this;
  std::memcpy(text_, other.text_, other.length_ + 1);
  length_ = other.length_;
  is_cut_ = other.is_cut_;
  return *this;
}

void Path::Cut(size_t length) {
  length_ = length;
  text_[length] = '\0';
}

std::string_view FolderOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view NameOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

ErrnoKept::ErrnoKept() : was_(errno) {}
ErrnoKept::~ErrnoKept() { errno = was_; }

bool IsKeeping() { return TheRule().saved.length() > 0; }

bool IsDone(Done what) {
  return (TheRule().state->done.load(std::memory_order_acquire) & what) != 0;
}

void SetDone(Done what) {
  if (!IsDone(what)) TheRule().state->done |= what;
}

bool IsHeld(std::string_view path) {
  const size_t name = path.find(kScratchName);
  if (name != std::string_view::npos && IsWithin(path.substr(name), kScratchName)) return false;
  const Rule& rule = TheRule();
  size_t nearest = 0;
  for (size_t i = 0; i < rule.count; ++i) {
    if (IsWithin(path, rule.folders[i])) nearest = std::max(nearest, rule.folders[i].size());
  }
  return nearest <= (IsWithin(path, rule.home) ? rule.home.size() : 0);
}

std::string_view SavedRoot() { return TheRule().saved.view(); }
std::string_view RemovedRoot() { return TheRule().removed.view(); }
std::string_view RunFolder() { return TheRule().run.view(); }

size_t SavedPrefix(std::string_view path) {
  const std::string_view root = SavedRoot();
  return !root.empty() && path.size() > root.size() && IsWithin(path, root) ? root.size() : 0;
}

bool DescriptorPath(int file, Path& path) {
  char name[32];
  std::snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  const ssize_t length =
      syscall(SYS_readlinkat, AT_FDCWD, name, path.bytes(), static_cast<size_t>(PATH_MAX - 1));
  if (length <= 0 || path.bytes()[0] != '/') return false;
  path.Cut(static_cast<size_t>(length));
  return true;
}

}  // namespace onnxfit::absent
