#include "cli/lock_file.h"

#include <filesystem>

#include "cli/replace_file.h"
#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kToml = ".toml";

}  // namespace

std::string LockPathOf(const std::string& config) {
  const bool is_toml = config.ends_with(kToml);
  return config.substr(0, config.size() - (is_toml ? kToml.size() : 0)) + ".lock.json";
}

std::optional<Lock> ReadLockFile(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  if (!fs::is_regular_file(path, ignored)) {
    throw Error({.file = path, .text = "expected a lock, found no file"});
  }
  try {
    return ReadLock(FileBytes(path, [](std::string_view) {}, {.what = "a lock"}).bytes());
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    parts.file = path;
    if (parts.hint.empty()) parts.hint = "onnxfit check --update writes it anew";
    throw Error(parts);
  }
}

void WriteLockFile(const std::string& path, const Lock& lock) {
  ReplaceFile(path, ToJson(lock), "lock");
}

}  // namespace onnxfit
