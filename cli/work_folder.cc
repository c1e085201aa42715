#include "cli/work_folder.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "estimator/base/error.h"

namespace onnxfit {

WorkFolder::WorkFolder(std::string_view what) {
  const std::filesystem::path all = std::filesystem::temp_directory_path();
  std::string name = (all / "onnxfit-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw Error({.text = fmt::format("no folder for {} in {}: {}", what, all.string(),
                                     std::strerror(errno))});
  }
  path_ = name;
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void WriteBytes(const std::filesystem::path& path, std::span<const unsigned char> bytes) {
  WriteBytes(path, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void WriteBytes(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.good()) throw Error({.text = fmt::format("{} could not be written", path.string())});
}

}  // namespace onnxfit
