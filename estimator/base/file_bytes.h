// The bytes of a file, without reading them where it is large.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "estimator/base/error.h"

namespace onnxfit {

// How one gets a model that is not there, for hints.
inline constexpr std::string_view kModelMaker =
    "python -m onnxfit export MODULE:FUNCTION, which writes one from Python: docs/python.md";

// Maps a regular file of a MiB or more; what is smaller, and pipes, are read into memory.
class FileBytes {
 public:
  struct Expected {
    std::string_view what = "an ONNX file";  // in errors
    bool terminal = false;                   // people may paste it
    std::string_view maker = {};             // how one gets a file that is not there
  };

  // `path` "-" is standard input; without `expected` a model is.  `check` sees the first bytes (up
  // to 4 KiB) before anything else is read, and may throw.  Throws Error, without a file, for what
  // cannot be read.
  FileBytes(const std::string& path, void (*check)(std::string_view first));
  FileBytes(const std::string& path, void (*check)(std::string_view first),
            const Expected& expected);
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  std::string_view bytes() const { return bytes_; }

  // What `read` makes of bytes().  A file that becomes shorter while it is mapped reads as zeros
  // behind its end: then an Error says so, whatever `read` makes of them.
  template <typename Read>
  auto ReadBy(Read read) const {
    try {
      auto made = read(bytes_);
      CheckWhole();
      return made;
    } catch (const Error&) {
      CheckWhole();
      throw;
    }
  }

  // `part` of bytes() is not needed for now: its pages leave memory.  They come back
  // when touched.  Without effect on what was read from a pipe.
  void Release(std::string_view part) const;

 private:
  struct Unmap {
    size_t size;
    void operator()(void* map) const;
  };

  bool Map(int file, size_t size);
  void CheckWhole() const;
  void ReadAll(int file, size_t expected, void (*check)(std::string_view first));

  std::string path_;
  std::unique_ptr<void, Unmap> map_;
  std::string read_;
  std::string_view bytes_;  // of map_ or read_
};

}  // namespace onnxfit
