#include "benchmarks/cuda/library_folders.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace onnxfit {
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

}  // namespace

LibraryPlaces PlacesOfEnvironment(std::string given) {
  return {.given = std::move(given),
          .virtual_env = Variable("VIRTUAL_ENV"),
          .conda_prefix = Variable("CONDA_PREFIX"),
          .prefixes = {Variable("HOME") + "/.local", "/usr/local", "/usr", "/opt/conda"}};
}

std::vector<std::string> LibraryFolders(const LibraryPlaces& places) {
  std::vector<std::string> folders;
  if (!places.given.empty()) folders.push_back(places.given);
  AddWheels(places.virtual_env, folders);
  AddWheels(places.conda_prefix, folders);
  for (const std::string& prefix : places.prefixes) AddWheels(prefix, folders);
  folders.emplace_back();
  if (!places.toolkit.empty()) folders.push_back(places.toolkit);
  return folders;
}

}  // namespace onnxfit
