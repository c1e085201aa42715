// A folder of a test's own that is the current one for as long as it lives.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>

#include "cli/process.h"
#include "tests/temp_folder.h"

namespace onnxfit {

class WorkingFolder {
 public:
  WorkingFolder() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder_.Path(""));
  }
  ~WorkingFolder() { std::filesystem::current_path(before_); }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;

  // Makes the folders that `name` is in, too.
  std::string Write(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path path = folder_.Path(name);
    std::filesystem::create_directories(path.parent_path());
    return folder_.Write(name, bytes);
  }

  // A repository whose user and default branch are known.
  void MakeRepository() const {
    Git({"init", "--quiet", "--initial-branch=main"});
    Git({"config", "user.email", "test@example.com"});
    Git({"config", "user.name", "Test"});
  }

  void Commit(const std::string& message) const {
    Git({"add", "--all"});
    Git({"commit", "--quiet", "--message", message});
  }

  void Git(const std::vector<std::string>& words) const {
    std::vector<std::string> all = {"git", "-C", folder_.Path("")};
    all.insert(all.end(), words.begin(), words.end());
    if (RunProcess(all).exit_code != 0) std::abort();
  }

 private:
  TempFolder folder_;
  std::filesystem::path before_;
};

// A network of one layer of `width` units, at 512 bytes a row.
inline std::string OneLayer(int width) {
  const std::string n = std::to_string(width);
  return R"(<ir_version: 8, opset_import: ["" : 17]> net (float[N, 128] x) => (float[N, )" + n +
         R"(] y) <float[)" + n + R"(, 128] fc_weight = ["location": "none"]> {
  y = Gemm <transB = 1> (x, fc_weight)
}
)";
}

// A layer over tokens; how many there are the file calls `length`, or that is a number.
inline std::string TokenLayer(const std::string& length) {
  return R"(<ir_version: 8, opset_import: ["" : 17]> net (float[N, )" + length +
         R"(, 128] x) => (float[N, )" + length + R"(, 64] y)
  <float[128, 64] fc_weight = ["location": "none"]> { y = MatMul(x, fc_weight) }
)";
}

}  // namespace onnxfit
