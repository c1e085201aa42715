// The checks of a config file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/compare/check.h"

namespace onnxfit {

struct CheckConfig {
  std::string path;
  std::vector<Check> checks;  // in the order of the file, at least one
  std::optional<Level> gone =
      {};  // at which a check of the lock fails that is not here: [defaults]
};

// Every [[check]], over each other the keys of [defaults], once for each of its models (globs,
// sorted) and combinations.  Names are unique: NAME where nothing can vary, else
// "NAME[models/lenet.onnx, batch 8, bf16]".  Models are relative to the file's folder, and in
// Check.model to the current one.  The environment has no say.
// What is wrong in one [[check]] makes one Check with `error`, at its `line`.  Throws Error for
// what is wrong with the file (ReadConfigFile), or where it has no check.
CheckConfig ReadCheckConfig(const std::string& path);

}  // namespace onnxfit
