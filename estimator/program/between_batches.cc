#include "estimator/program/between_batches.h"

#include <algorithm>
#include <vector>

namespace onnxfit {
namespace {

bool SameHeld(const HeldValue& a, const HeldValue& b) {
  return a.value == b.value && a.level == b.level;
}

// But for integer arguments.
bool SameCall(const AtenCall& a, const AtenCall& b) {
  return a.op == b.op && a.inputs == b.inputs && a.outputs == b.outputs &&
         a.ints.size() == b.ints.size() && a.written_in_place == b.written_in_place &&
         a.leaves_autocast == b.leaves_autocast && a.enters_autocast == b.enters_autocast &&
         a.behind_autocast == b.behind_autocast && a.leaves_autograd == b.leaves_autograd &&
         a.made_once == b.made_once && a.asks_for_gradients == b.asks_for_gradients &&
         a.last_reads == b.last_reads && a.dies == b.dies && a.module == b.module &&
         a.checkpoint == b.checkpoint &&
         std::equal(a.held.begin(), a.held.end(), b.held.begin(), b.held.end(), SameHeld);
}

// But for sizes.
bool SameValue(const ProgramValue& a, const ProgramValue& b) {
  return a.name == b.name && a.type.dtype == b.type.dtype &&
         a.type.dims.size() == b.type.dims.size();
}

bool SameEvaluation(const Program& a, const Program& b) {
  if (a.evaluation == b.evaluation) return true;
  return a.evaluation != nullptr && b.evaluation != nullptr &&
         SameProgram(*a.evaluation, *b.evaluation);
}

bool SameRecovery(const Program& a, const Program& b) {
  return a.modules == b.modules && a.parameters == b.parameters && a.frozen == b.frozen &&
         a.buffers == b.buffers && a.placement == b.placement && a.inputs == b.inputs &&
         a.outputs == b.outputs && a.loss == b.loss && a.label_count == b.label_count &&
         a.copy_order == b.copy_order && SameEvaluation(a, b) &&
         std::equal(a.calls.begin(), a.calls.end(), b.calls.begin(), b.calls.end(), SameCall) &&
         std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(), SameValue);
}

// Moves numbers from where they are at one batch to another.
struct Line {
  int64_t width = 1;    // between the two programs
  int64_t samples = 0;  // above the first

  // Returns false where a number does not grow evenly.
  bool Move(std::vector<int64_t>& numbers, const std::vector<int64_t>& last) const {
    for (size_t i = 0; i < numbers.size(); ++i) {
      const int64_t growth = last[i] - numbers[i];
      if (growth % width != 0) return false;
      numbers[i] += growth / width * samples;
    }
    return true;
  }
};

}  // namespace

std::optional<Program> BetweenBatches(const ProgramAt& first, const ProgramAt& last,
                                      int64_t batch) {
  if (!SameRecovery(*first.program, *last.program)) return std::nullopt;
  const Line line = {last.batch - first.batch, batch - first.batch};
  Program program = *first.program;
  for (size_t i = 0; i < program.values.size(); ++i) {
    if (!line.Move(program.values[i].type.dims, last.program->values[i].type.dims)) {
      return std::nullopt;
    }
  }
  for (size_t i = 0; i < program.calls.size(); ++i) {
    if (!line.Move(program.calls[i].ints, last.program->calls[i].ints)) return std::nullopt;
  }
  return program;
}

bool SameProgram(const Program& a, const Program& b) {
  const auto same_ints = [](const AtenCall& x, const AtenCall& y) { return x.ints == y.ints; };
  const auto same_dims = [](const ProgramValue& x, const ProgramValue& y) {
    return x.type.dims == y.type.dims;
  };
  return SameRecovery(a, b) &&
         std::equal(a.calls.begin(), a.calls.end(), b.calls.begin(), same_ints) &&
         std::equal(a.values.begin(), a.values.end(), b.values.begin(), same_dims);
}

}  // namespace onnxfit
