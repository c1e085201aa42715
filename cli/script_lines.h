// Lines of source files, by their numbers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace onnxfit {

// Each file is read once.
class ScriptLines {
 public:
  // Without the blanks around it; "" where nobody can read it.
  std::string LineOf(const std::string& file, int64_t line);

 private:
  std::map<std::string, std::vector<std::string>> files_;
};

}  // namespace onnxfit
