// What a program does to files that are there, done in saved/ instead: copies, moves, removals.
#pragma once

#include <string_view>

namespace onnxfit::absent {

struct Place;

// As `mkdir -p` does.  False and errno where it cannot.
bool MakeFolders(const char* path);

// These return what libc's functions of their names do.
int RemoveFile(const Place& place);
int RemoveFolder(const Place& place);

// From and to folders and names as renameat2() takes them; `real` is called where the rule is about
// neither.
int Rename(int from_folder, const char* from, int to_folder, const char* to, unsigned flags);
int Link(int from_folder, const char* from, int to_folder, const char* to, int flags);

}  // namespace onnxfit::absent
