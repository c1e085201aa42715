// In the place of a Python with the packages that a test has not: a shell's lines.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/temp_folder.h"

namespace onnxfit {

// As long as it lives, ONNXFIT_PYTHON runs `script`, which finds its arguments in $1, $2 …
class FakePython {
 public:
  explicit FakePython(const std::string& script) {
    const std::string program = folder_.Write("python", "#!/bin/sh\n" + script);
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    setenv("ONNXFIT_PYTHON", program.c_str(), /*overwrite=*/1);
  }
  ~FakePython() { unsetenv("ONNXFIT_PYTHON"); }
  FakePython(const FakePython&) = delete;
  FakePython& operator=(const FakePython&) = delete;

 private:
  TempFolder folder_;
};

}  // namespace onnxfit
