#include "estimator/graph/file_bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/suggest.h"

namespace onnxfit {
namespace {

constexpr size_t kFirstBytes = 4096;
constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr int64_t kMaxPipeBytes = 8 * kGiB;  // a pipe may be endless

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

[[noreturn]] void FailToOpen(const std::string& path, std::string_view what, int error) {
  if (error == ENOENT) {
    throw Error({.text = fmt::format("{} was expected, there is no such file", what),
                 .hint = NearFile(path)});
  }
  throw Error({.text = fmt::format("cannot be opened: {}", std::strerror(error))});
}

// Closes a file that was opened here; standard input stays open.
class OpenFile {
 public:
  OpenFile(const std::string& path, std::string_view what)
      : fd_(path == "-" ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) FailToOpen(path, what, errno);
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

}  // namespace

FileBytes::FileBytes(const std::string& path, void (*check)(std::string_view first))
    : FileBytes(path, check, Expected()) {}

FileBytes::FileBytes(const std::string& path, void (*check)(std::string_view first),
                     const Expected& expected) {
  const OpenFile file(path, expected.what);
  struct stat status;
  if (fstat(file.fd(), &status) != 0) FailToOpen(path, expected.what, errno);
  if (S_ISDIR(status.st_mode)) {
    throw Error({.text = fmt::format("{} was expected, found a directory", expected.what)});
  }
  const bool is_terminal = expected.terminal && isatty(file.fd()) == 1;
  if (S_ISCHR(status.st_mode) && !is_terminal) {  // it may be endless, like /dev/zero
    throw Error({.text = fmt::format("{} was expected, found a device", expected.what)});
  }
  if (S_ISREG(status.st_mode) && status.st_size > 0) {
    Map(file.fd(), static_cast<size_t>(status.st_size));
    check(bytes_.substr(0, kFirstBytes));
  } else {
    ReadAll(file.fd(), check);
  }
  if (bytes_.empty()) {
    throw Error({.text = fmt::format("{} was expected, the file is empty", expected.what)});
  }
}

void FileBytes::Unmap::operator()(void* map) const { munmap(map, size); }

void FileBytes::Release(std::string_view part) const {
  if (map_ == nullptr || part.empty()) return;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<size_t>(part.data() - bytes_.data());
  const size_t begin = offset / page * page;
  madvise(static_cast<char*>(map_.get()) + begin, offset + part.size() - begin, MADV_DONTNEED);
}

void FileBytes::Map(int file, size_t size) {
  void* map = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (map == MAP_FAILED) {
    throw Error({.text = fmt::format("cannot be mapped: {}", std::strerror(errno))});
  }
  map_ = {map, Unmap{size}};
  bytes_ = {static_cast<const char*>(map), size};
}

void FileBytes::ReadAll(int file, void (*check)(std::string_view first)) {
  size_t size = 0;
  bool checked = false;
  while (true) {
    if (read_.size() - size < kChunkBytes) read_.resize(size * 2 + kChunkBytes);
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
