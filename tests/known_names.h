// Names that FindKnownNames knows in a small network, as text.
#pragma once

#include <string>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/locals/forward_locals.h"
#include "tests/trace_helpers.h"

namespace onnxfit {

struct HeldName {
  std::string value;
  std::string until;  // the call until whose return it is held
  bool until_last = false;
  std::string name;
};

// Of `net`, ONNX text, in inference.
inline std::vector<HeldName> HeldNames(const std::string& net) {
  const Program program = Build(net, {.mode = Mode::kEval}).program;
  const auto last = static_cast<int64_t>(program.calls.size()) - 1;
  std::vector<HeldName> held;
  for (const KnownName& known : FindKnownNames(program, ModuleRuns(program), last)) {
    held.push_back({program.values[Index(known.value)].name,
                    program.calls[Index(known.until)].where, known.until == last, known.name});
  }
  return held;
}

}  // namespace onnxfit
