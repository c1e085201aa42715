#include "estimator/base/file_bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/text.h"

namespace onnxfit {
namespace {

constexpr size_t kFirstBytes = 4096;
constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr int64_t kMaxPipeBytes = 8 * kGiB;  // a pipe may be endless
constexpr off_t kMappedFrom = 1 << 20;

// A file next to `path` whose name is near it, or "".
std::string NearFile(const std::string& path) {
  namespace fs = std::filesystem;
  fs::path wanted(path);
  const fs::path folder = wanted.has_parent_path() ? wanted.parent_path() : fs::path(".");
  std::error_code ignored;
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.is_regular_file(ignored)) names.push_back(entry.path().filename().string());
  }
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const std::string typed = wanted.filename().string();
  const std::string_view near = Nearest(typed, candidates);
  return near.empty() ? "" : wanted.replace_filename(near).string();
}

[[noreturn]] void FailToOpen(const std::string& path, const FileBytes::Expected& expected,
                             int error) {
  if (error == ENOENT) {
    const std::string near = NearFile(path);
    throw Error({.text = fmt::format("{} was expected, there is no such file", expected.what),
                 .hint = near.empty() ? std::string(expected.maker) : near});
  }
  throw Error({.text = fmt::format("cannot be opened: {}", std::strerror(error))});
}

// Closes a file that was opened here; standard input stays open.
class OpenFile {
 public:
  OpenFile(const std::string& path, const FileBytes::Expected& expected)
      : fd_(path == "-" ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) FailToOpen(path, expected, errno);
  }
  ~OpenFile() {
    if (fd_ != STDIN_FILENO) close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int fd() const { return fd_; }

 private:
  int fd_;
};

// --- Pages that a mapped file has lost
// ------------------------------------------------------------

// Where it is mapped; null where nothing is.
struct Mapping {
  std::atomic<char*> begin = nullptr;
  std::atomic<size_t> size = 0;
};

std::array<Mapping, 16> mappings;
struct sigaction before_ours;

size_t PageSize() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

bool IsMapped(const char* at) {
  return std::any_of(mappings.begin(), mappings.end(), [&](const Mapping& mapping) {
    const char* const begin = mapping.begin;
    return begin != nullptr && at >= begin && at < begin + mapping.size;
  });
}

// Touching a page behind the end of a file that became shorter is a SIGBUS.  A page of zeros takes
// its place, and what was reading goes on.  What is not ours ends as it would have.
void ReplacePage(int, siginfo_t* info, void*) {
  const int error = errno;
  auto* const at = static_cast<char*>(info->si_addr);
  char* const page = at - reinterpret_cast<uintptr_t>(at) % PageSize();
  const bool is_replaced =
      IsMapped(at) && mmap(page, PageSize(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                           0) != MAP_FAILED;
  if (!is_replaced) sigaction(SIGBUS, &before_ours, nullptr);
  errno = error;
}

void InstallOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction ours = {};
    ours.sa_sigaction = ReplacePage;
    ours.sa_flags = SA_SIGINFO;
    sigemptyset(&ours.sa_mask);
    sigaction(SIGBUS, &ours, &before_ours);
  });
}

// False where too many files are mapped.
bool Register(void* map, size_t size) {
  InstallOnce();
  for (Mapping& mapping : mappings) {
    char* none = nullptr;
    if (!mapping.begin.compare_exchange_strong(none, static_cast<char*>(map))) continue;
    mapping.size = size;
    return true;
  }
  return false;
}

void Unregister(void* map) {
  for (Mapping& mapping : mappings) {
    if (mapping.begin != map) continue;
    mapping.size = 0;
    mapping.begin = nullptr;
  }
}

}  // namespace

FileBytes::FileBytes(const std::string& path, void (*check)(std::string_view first))
    : FileBytes(path, check, {.maker = kModelMaker}) {}

FileBytes::FileBytes(const std::string& path, void (*check)(std::string_view first),
                     const Expected& expected)
    : path_(path) {
  const OpenFile file(path, expected);
  struct stat status;
  if (fstat(file.fd(), &status) != 0) FailToOpen(path, expected, errno);
  if (S_ISDIR(status.st_mode)) {
    throw Error({.text = fmt::format("{} was expected, found a directory", expected.what)});
  }
  const bool is_terminal = expected.terminal && isatty(file.fd()) == 1;
  if (S_ISCHR(status.st_mode) && !is_terminal) {  // it may be endless, like /dev/zero
    throw Error({.text = fmt::format("{} was expected, found a device", expected.what)});
  }
  const bool is_large = S_ISREG(status.st_mode) && status.st_size >= kMappedFrom;
  if (is_large && Map(file.fd(), static_cast<size_t>(status.st_size))) {
    check(bytes_.substr(0, kFirstBytes));
  } else {
    const bool is_small = S_ISREG(status.st_mode) && !is_large;
    ReadAll(file.fd(), is_small ? static_cast<size_t>(status.st_size) : 0, check);
  }
  if (bytes_.empty()) {
    throw Error({.text = fmt::format("{} was expected, the file is empty", expected.what)});
  }
}

void FileBytes::Unmap::operator()(void* map) const {
  Unregister(map);
  munmap(map, size);
}

void FileBytes::Release(std::string_view part) const {
  if (map_ == nullptr || part.empty()) return;
  const size_t page = PageSize();
  const auto offset = static_cast<size_t>(part.data() - bytes_.data());
  const size_t begin = offset / page * page;
  madvise(static_cast<char*>(map_.get()) + begin, offset + part.size() - begin, MADV_DONTNEED);
}

// False where the file has to be read.
bool FileBytes::Map(int file, size_t size) {
  void* map = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (map == MAP_FAILED) return false;
  map_ = {map, Unmap{size}};
  if (!Register(map, size)) {
    map_.reset();
    return false;
  }
  bytes_ = {static_cast<const char*>(map), size};
  return true;
}

void FileBytes::CheckWhole() const {
  if (map_ == nullptr) return;
  struct stat status;
  const bool is_there = stat(path_ == "-" ? "/dev/stdin" : path_.c_str(), &status) == 0;
  if (!is_there || static_cast<size_t>(status.st_size) >= bytes_.size()) return;
  throw Error({.text = fmt::format("{} bytes were expected, as when the file was opened, found {}: "
                                   "it became shorter while it was read",
                                   bytes_.size(), status.st_size),
               .hint = "again, once it is written"});
}

void FileBytes::ReadAll(int file, size_t expected, void (*check)(std::string_view first)) {
  size_t size = 0;
  read_.resize(expected + 1);  // its end is seen without more memory
  bool checked = false;
  while (true) {
    if (read_.size() == size) read_.resize(size * 2 + kChunkBytes);
    const ssize_t got = read(file, read_.data() + size, read_.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error({.text = fmt::format("cannot be read: {}", std::strerror(errno))});
    size += static_cast<size_t>(got);
    if (!checked && (size >= kFirstBytes || got == 0)) {
      check(std::string_view(read_).substr(0, std::min(size, kFirstBytes)));
      checked = true;
    }
    if (got == 0) break;
    if (static_cast<int64_t>(size) > kMaxPipeBytes) {
      throw Error({.text = fmt::format("at most {} were expected from a pipe, found more",
                                       FormatBytes(kMaxPipeBytes)),
                   .hint = "a file"});
    }
  }
  bytes_ = std::string_view(read_).substr(0, size);
}

}  // namespace onnxfit
