// What a call's metadata says of where it came from: texts of PyTorch's own making.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/pt2/exported_program.h"

namespace onnxfit::pt2 {

// Texts that no file has, put together while reading.  Views of them stay valid.
class TextPool {
 public:
  std::string_view Keep(std::string text) { return texts_.emplace_back(std::move(text)); }

 private:
  std::deque<std::string> texts_;
};

// "nn_module_stack": frames "KEY,PATH,TYPE" with ';' between them, outermost first, such as
//   L__self__,,__main__.Net;L__self__model.act@1,model.act,torch.nn.modules.activation.ReLU
// A key that ends in "@1" is a second call's.  What is no frame is left out.
std::vector<ModuleFrame> ParseModuleStack(std::string_view text, TextPool& pool);

// "stack_trace", as Python's traceback writes it, outermost first:
//   File "net.py", line 11, in forward
//     return self.act(x)
// What is no frame is left out.
std::vector<SourceLine> ParseStackTrace(std::string_view text);

}  // namespace onnxfit::pt2
