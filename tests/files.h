// Files that tests read: a file's bytes, and the models of the folder models/.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/paths.h"

namespace onnxfit {

inline std::string ContentsOf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The models that are ONNX text, by name.
inline std::vector<std::filesystem::path> TextModels() {
  std::vector<std::filesystem::path> paths;
  const std::filesystem::path models = std::filesystem::path(kSourceDir) / "models";
  for (const auto& entry : std::filesystem::directory_iterator(models)) {
    if (entry.path().extension() == ".onnxtxt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace onnxfit
