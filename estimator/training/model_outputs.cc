#include "estimator/training/model_outputs.h"

#include <algorithm>

namespace onnxfit {

MadeOutputs FindOutputs(const Program& program) {
  MadeOutputs made;
  for (size_t i = 0; i < program.calls.size(); ++i) {
    // What nothing reads may be made behind them.
    if (program.loss == kNoName || program.calls[i].module != kOutside) made.model_end = i + 1;
    for (const NameId name : program.calls[i].outputs) {
      if (std::ranges::find(program.outputs, name) == program.outputs.end()) continue;
      made.names.push_back(name);
      made.model_end = i + 1;
    }
  }
  return made;
}

}  // namespace onnxfit
