// Nothing real is written over.
//
// Nothing is computed in a run, so a checkpoint of it is zeros: over the user's own it would be a
// loss, and beside it a trap for the next --resume.  A log or a table of results is no better.  So
// there is one rule, for files of every kind:
//
//     What a process of the run writes, makes, renames or removes, outside of temporary folders and
//     caches, happens in `<run's folder>/saved/<path>` alone.  Every process of the run that reads
//     that path finds it there, and does not find what one of them has removed.
//
// A rule by kinds (checkpoints yes, logs no) would need to know each library's names, and would be
// wrong once.  Temporary folders and caches are as they are: what is there nobody misses.
//
// It is held where all languages meet: libc's functions that take a path (kept_functions.cc) ask
// kept_paths.h where to go, before the real ones are called.  A system call that a program makes by
// itself is not seen.  Any of this may be asked before constructors have run, in a signal handler
// or between vfork() and exec(), so it allocates nothing and takes no lock.
#pragma once

#include <climits>
#include <cstdint>
#include <string_view>

namespace onnxfit::absent {

// A path in a place of its own.  One that is too long is cut and says so.
class Path {
 public:
  Path() { text_[0] = '\0'; }
  explicit Path(std::string_view first, std::string_view second = {}) : Path() {
    Append(first).Append(second);
  }
  Path(const Path& other) : Path() { *this = other; }
  Path& operator=(const Path& other);

  Path& Append(std::string_view more);
  void Cut(size_t length);

  const char* text() const { return text_; }
  char* bytes() { return text_; }
  std::string_view view() const { return {text_, length_}; }
  size_t length() const { return length_; }
  bool is_cut() const { return is_cut_; }

 private:
  char text_[PATH_MAX];  // with its zero
  size_t length_ = 0;
  bool is_cut_ = false;
};

// "/a/b" of "/a/b/c", "" of "/a"; and "c".
std::string_view FolderOf(std::string_view path);
std::string_view NameOf(std::string_view path);

// Sets errno back to what it was.
class ErrnoKept {
 public:
  ErrnoKept();
  ~ErrnoKept();
  ErrnoKept(const ErrnoKept&) = delete;
  ErrnoKept& operator=(const ErrnoKept&) = delete;

 private:
  int was_;
};

// What any process of the run has done so far.  Before the first of it, which is all of the
// imports, paths are what they are and nothing else is asked.
enum Done : uint32_t {
  kSaved = 1,
  kRemoved = 2,
  kLinked = 4,  // made or removed a symbolic link: the kernel may no longer say where a path leads
};
bool IsDone(Done what);
void SetDone(Done what);

// False without a run.
bool IsKeeping();

// Whether the rule is about this path, which is absolute and without links.  The folder that the
// run was started in is the user's even below a temporary one.
bool IsHeld(std::string_view path);

// "<run's folder>/saved", "<run's folder>/removed" and the run's folder itself.
std::string_view SavedRoot();
std::string_view RemovedRoot();
std::string_view RunFolder();

// The absolute path that a descriptor stands for, as the kernel says; what is in saved/ by the path
// that the program knows.  False where it is none of the file system.
bool DescriptorPath(int file, Path& path);

// The length of saved/ in front of such a path, else 0.
size_t SavedPrefix(std::string_view path);

}  // namespace onnxfit::absent
