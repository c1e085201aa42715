#include "cli/model_globs.h"

#include <fnmatch.h>

#include <filesystem>
#include <set>

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

using Paths = std::set<std::string>;  // relative to the folder; "" is that itself

std::string Joined(const std::string& path, const std::string& name) {
  return (fs::path(path) / name).string();
}

// What is in the folder `path`.
std::vector<fs::directory_entry> EntriesOf(const fs::path& path) {
  std::error_code ignored;
  const fs::path opened = path.empty() ? fs::path(".") : path;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator it(opened, ignored); !ignored && it != fs::directory_iterator();
       it.increment(ignored)) {
    entries.push_back(*it);
  }
  return entries;
}

void AddFoldersBelow(const fs::path& folder, const std::string& path, Paths& found) {
  found.insert(path);
  for (const fs::directory_entry& entry : EntriesOf(folder / path)) {
    std::error_code ignored;
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') || entry.is_symlink(ignored) || !entry.is_directory(ignored)) {
      continue;
    }
    AddFoldersBelow(folder, Joined(path, name), found);
  }
}

void AddMatches(const fs::path& folder, const std::string& path, const std::string& part,
                Paths& found) {
  if (!IsGlob(part)) {
    found.insert(Joined(path, part));
    return;
  }
  for (const fs::directory_entry& entry : EntriesOf(folder / path)) {
    const std::string name = entry.path().filename().string();
    if (fnmatch(part.c_str(), name.c_str(), FNM_PERIOD | FNM_NOESCAPE) == 0) {
      found.insert(Joined(path, name));
    }
  }
}

}  // namespace

bool IsGlob(std::string_view text) { return text.find_first_of("*?[") != std::string_view::npos; }

std::vector<std::string> ExpandGlob(const std::string& folder, const std::string& pattern) {
  const fs::path parts(pattern);
  Paths paths = {parts.root_path().string()};
  for (const fs::path& part : parts.relative_path()) {
    Paths next;
    for (const std::string& path : paths) {
      if (part == "**") {
        AddFoldersBelow(folder, path, next);
      } else {
        AddMatches(folder, path, part.string(), next);
      }
    }
    paths = std::move(next);
  }
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (fs::is_regular_file(fs::path(folder) / path, ignored)) files.push_back(path);
  }
  return files;
}

}  // namespace onnxfit
