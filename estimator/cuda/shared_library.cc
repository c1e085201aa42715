#include "estimator/cuda/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>

#include "estimator/base/error.h"

namespace onnxfit {
namespace {

std::string PathOf(void* handle) {
  link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
}

bool MayBeThere(const std::string& folder, const std::string& file) {
  std::error_code ignored;
  return folder.empty() || std::filesystem::exists(file, ignored);
}

// What was looked for and where.  `refused` is the loader's sentence on the last file that was
// there and could not be opened.
std::string WhyMissing(const std::vector<std::string>& folders,
                       const std::vector<std::string>& names, const std::string& refused) {
  std::vector<std::string> places;
  for (const std::string& folder : folders) {
    places.push_back(folder.empty() ? "the loader's path" : folder);
  }
  const std::string text =
      fmt::format("no {} in {}", fmt::join(names, " or "), fmt::join(places, ", "));
  return refused.empty() ? text : fmt::format("{}; {}", text, refused);
}

}  // namespace

SharedLibrary::SharedLibrary(const std::vector<std::string>& folders,
                             const std::vector<std::string>& names) {
  std::string refused;
  for (const std::string& folder : folders) {
    for (const std::string& name : names) {
      const std::string file = folder.empty() ? name : fmt::format("{}/{}", folder, name);
      if (!MayBeThere(folder, file)) continue;
      Open(file);
      if (is_open()) return;
      const char* text = dlerror();
      if (text != nullptr && !folder.empty()) refused = text;
    }
  }
  why_missing_ = WhyMissing(folders, names, refused);
}

void SharedLibrary::Open(const std::string& file) {
  handle_ = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (is_open()) path_ = PathOf(handle_);
}

void* SharedLibrary::Find(const char* name) const {
  if (void* found = is_open() ? dlsym(handle_, name) : nullptr) return found;
  throw Error({.where = path_, .text = fmt::format("has no function {}", name)});
}

// What follows says where NVIDIA's libraries are looked for.
namespace {

namespace fs = std::filesystem;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Folders in `folder` whose names begin so, sorted; none where there is no such folder.
std::vector<fs::path> FoldersIn(const fs::path& folder, const std::string& beginning) {
  std::vector<fs::path> found;
  std::error_code ignored;
  auto entry = fs::directory_iterator(folder, ignored);
  for (; entry != fs::directory_iterator(); entry.increment(ignored)) {
    const bool fits = entry->path().filename().string().starts_with(beginning);
    if (fits && entry->is_directory(ignored)) found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void AddWheels(const std::string& environment, std::vector<std::string>& folders) {
  if (environment.empty()) return;
  for (const fs::path& python : FoldersIn(fs::path(environment) / "lib", "python3.")) {
    for (const char* packages : {"site-packages", "dist-packages"}) {
      for (const fs::path& wheel : FoldersIn(python / packages / "nvidia", "")) {
        std::error_code ignored;
        if (fs::is_directory(wheel / "lib", ignored)) folders.push_back((wheel / "lib").string());
      }
    }
  }
}

// Of an environment that is called by its path, and not activated.
std::string PrefixOfPython() {
  std::stringstream path(Variable("PATH"));
  for (std::string folder; std::getline(path, folder, ':');) {
    std::error_code ignored;
    const bool is_there = !folder.empty() && fs::exists(fs::path(folder) / "python3", ignored);
    if (is_there) return fs::path(folder).parent_path().string();
  }
  return "";
}

}  // namespace

LibraryPlaces PlacesOfEnvironment(std::string given) {
  return {.given = std::move(given),
          .virtual_env = Variable("VIRTUAL_ENV"),
          .conda_prefix = Variable("CONDA_PREFIX"),
          .python = PrefixOfPython(),
          .prefixes = {Variable("HOME") + "/.local", "/usr/local", "/usr", "/opt/conda"}};
}

std::vector<std::string> LibraryFolders(const LibraryPlaces& places) {
  std::vector<std::string> folders;
  if (!places.given.empty()) folders.push_back(places.given);
  AddWheels(places.virtual_env, folders);
  AddWheels(places.conda_prefix, folders);
  AddWheels(places.python, folders);
  for (const std::string& prefix : places.prefixes) AddWheels(prefix, folders);
  folders.emplace_back();
  if (!places.toolkit.empty()) folders.push_back(places.toolkit);
  return folders;
}

}  // namespace onnxfit
