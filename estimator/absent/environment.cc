// A program may set PYTHONPATH by itself (PYTHONPATH=src python train.py), and its Python would
// then start without what the run puts into it: no values, and trackers that are not off.  This
// runs in every process before its main(), and so before Python reads the variable.
#include <cstdlib>
#include <string>

#include "estimator/absent/run_folder.h"

namespace onnxfit::absent {
namespace {

[[gnu::constructor]] void PutHooksFirst() {
  const char* const folder = std::getenv(kFolderVariable);
  if (folder == nullptr) return;
  const std::string hooks = std::string(folder) + "/" + kHooksFolder;
  const char* const value = std::getenv(kPythonVariable);
  const std::string path = value == nullptr ? "" : value;
  if ((path + ":").find(hooks + ":") != std::string::npos) return;
  setenv(kPythonVariable, (path.empty() ? hooks : hooks + ":" + path).c_str(), /*overwrite=*/1);
}

}  // namespace
}  // namespace onnxfit::absent
