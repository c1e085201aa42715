// Where a path of the program leads in a run that keeps the user's files: to the file itself, or to
// what the run has of it in saved/ (kept_rule.h has the rule).
#pragma once

#include <sys/types.h>

#include <string_view>

#include "estimator/absent/kept_rule.h"

namespace onnxfit::absent {

// A path by its true name: absolute, every link of the program's and of the user's followed, but
// for the last one where that was not asked for.
struct Place {
  Path path;
  bool is_held = false;
  bool is_elsewhere = false;  // the kernel would not get there by the program's words
  bool ends_in_slash = false;
};

// `folder` and `text` as openat() takes them.  False for what is no path of files: "" (the folder's
// own descriptor), null, what lies in /proc and /dev.
bool Resolve(int folder, const char* text, bool follows, Place& place);

enum class Stands { kNowhere, kWithUser, kInSaved };

// What a held path is for the program.  A folder of the user's that the run has put something into
// is still the user's.
struct Look {
  Stands where = Stands::kNowhere;
  mode_t mode = 0;

  bool is_there() const { return where != Stands::kNowhere; }
  bool is_folder() const { return (mode & 0170000) == 0040000; }
  bool is_file() const { return (mode & 0170000) == 0100000; }
};
Look LookAt(std::string_view path);
Look LookAbove(std::string_view path);  // at the folder that it is in

// Whether the path is really there, whatever the run did to it; and whether the run removed it.
bool IsReal(std::string_view path);
bool IsRemoved(std::string_view path);
void MarkRemoved(std::string_view path);

// The error of a held path at which nothing is.
int MissingError(std::string_view path);

// Each of these says which path the real function shall have instead of `text`: `text` itself, or
// one that it puts into `room`.  Null where there is none, with errno as the function would set it.
const char* ToRead(int folder, const char* text, bool follows, Path& room);

// By the flags of open().  What is changed in part is copied into saved/ first.
const char* ToOpen(int folder, const char* text, int flags, Path& room);

// For what makes something new: a folder, a link, a pipe.
const char* ToMake(int folder, const char* text, Path& room);

// For what changes a file that is there: its mode, times, length.  Null and errno 0 where nothing
// shall be done: a folder's are the user's.
const char* ToChange(int folder, const char* text, bool follows, Path& room);

// Makes the folders above a held path in saved/, after looking whether the program could have made
// anything there.  False and errno where not.
bool MakeRoom(std::string_view path);

// A copy in saved/ of the user's file, or an empty one of its mode.  A whole one before anything is
// written, since the rest has to be read there, by descriptors and maps, too; the kernel shares
// blocks and leaves holes where it can.  False and errno where it fails.
bool CopyUp(std::string_view path, bool with_contents);

inline Path SavedPath(std::string_view path) { return Path(SavedRoot(), path); }

}  // namespace onnxfit::absent
