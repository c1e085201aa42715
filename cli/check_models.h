// The models of a [[check]].
#pragma once

#include <string>
#include <vector>

#include "cli/toml_file.h"

namespace onnxfit {

struct Models {
  std::vector<std::string> paths;  // as written, or as a glob found them: relative to the folder
  bool is_one = false;             // one path was written, not a glob or a list
};

// What the key `model` names: a path, a glob (ExpandGlob) or a list of them, each file once, in
// the order in which it comes first.  A path need not exist; what does is no glob, whatever its
// letters.  Throws Error for other values and for globs that match nothing.
Models ModelsOf(const TomlNode& node, const std::string& folder);

}  // namespace onnxfit
