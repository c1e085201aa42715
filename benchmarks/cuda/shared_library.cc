#include "benchmarks/cuda/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

#include <filesystem>

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

}  // namespace onnxfit
