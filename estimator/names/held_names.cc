#include "estimator/names/held_names.h"

#include <algorithm>
#include <iterator>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

// What is made in the first step alone and read by what every step makes.
std::vector<NameId> NamesOfResultsMadeOnce(const Program& program) {
  std::vector<bool> made_once(program.values.size());
  std::vector<NameId> read;
  for (const AtenCall& call : program.calls) {
    if (!call.made_once) {
      std::ranges::copy_if(call.inputs, std::back_inserter(read),
                           [&](NameId name) { return name != kNoName && made_once[Index(name)]; });
      continue;
    }
    for (const NameId name : call.outputs) made_once[Index(name)] = true;
  }
  return read;
}

}  // namespace

std::vector<bool> HeldNames(const Program& program, const TrainingSettings& settings) {
  const bool hold_outputs =
      settings.mode == Mode::kEval || settings.loop.hold_outputs || IsWholeStep(program);
  std::vector<bool> held(program.values.size());
  const auto hold = [&](const std::vector<NameId>& names) {
    for (const NameId name : names) held[Index(name)] = true;
  };
  hold(program.parameters);
  hold(program.frozen);
  hold(program.buffers);
  if (hold_outputs) hold(program.outputs);
  hold(NamesOfResultsMadeOnce(program));
  if (program.loss != kNoName) held[Index(program.loss)] = true;
  return held;
}

}  // namespace onnxfit
