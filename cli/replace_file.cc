#include "cli/replace_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "estimator/base/error.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void FailToWrite(const std::string& path, std::string_view what, int error) {
  throw Error({.file = path,
               .text = fmt::format("the {} could not be written: {}", what, std::strerror(error)),
               .hint = fmt::format("a folder that can be written; the old {} is as it was", what)});
}

// A file that is gone unless it was kept.
class NewFile {
 public:
  explicit NewFile(const std::string& path)
      : path_(path), fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {}
  ~NewFile() {
    if (fd_ >= 0) close(fd_);
    if (!path_.empty()) unlink(path_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // On the disk when it returns.
  bool Write(std::string_view text) {
    while (fd_ >= 0 && !text.empty()) {
      const ssize_t count = write(fd_, text.data(), text.size());
      if (count < 0 && errno != EINTR) return false;
      if (count > 0) text.remove_prefix(static_cast<size_t>(count));
    }
    return fd_ >= 0 && fsync(fd_) == 0;
  }

  void SetMode(fs::perms mode) { fchmod(fd_, static_cast<mode_t>(mode) & 0777); }

  bool RenameTo(const std::string& path) {
    if (std::rename(path_.c_str(), path.c_str()) != 0) return false;
    path_.clear();
    return true;
  }

 private:
  std::string path_;
  int fd_;
};

}  // namespace

void ReplaceFile(const std::string& path, std::string_view text, std::string_view what) {
  std::error_code ignored;
  const bool is_link = fs::is_symlink(path, ignored);
  const std::string target = is_link ? fs::weakly_canonical(path, ignored).string() : path;
  const fs::file_status old = fs::status(target, ignored);
  NewFile file(fmt::format("{}.{}.new", target, getpid()));
  if (!file.Write(text)) FailToWrite(path, what, errno);
  if (fs::is_regular_file(old)) file.SetMode(old.permissions());
  if (!file.RenameTo(target)) FailToWrite(path, what, errno);
}

}  // namespace onnxfit
