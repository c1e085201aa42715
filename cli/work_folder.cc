#include "cli/work_folder.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

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

}  // namespace onnxfit
