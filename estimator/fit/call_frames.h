// Where in a model's source an operator of a run was called.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace onnxfit {

struct Prediction;

struct CallFrame {
  std::string name;   // the statement, "x = self.conv(x)", or ATen's operator
  std::string where;  // the module whose forward it is in: "layer1.0"
  int64_t line = 0;   // in its file; 0 where that is not known
};

// By label of the run's trace: the frames around the call that has it, innermost first.  One at
// least of each operator of the model's; none of what the loop does itself.  O(calls × depth).
std::vector<std::vector<CallFrame>> FramesByLabel(const Prediction& prediction);

}  // namespace onnxfit
