#include "estimator/optimizers/sparse_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/operators/kernel_scratch.h"

namespace onnxfit {
namespace {

bool LooksRowsUp(std::string_view op) {
  return op == "embedding.sparse" || op == "embedding_bag.sparse";
}

// Of an optimizer that raises an error, or whose states grow: what it is told by.
std::string_view WhyNot(Optimizer optimizer) {
  if (optimizer == Optimizer::kSgdMomentum) {
    return "its momentum keeps a row for each index of every step, and grows without end";
  }
  return "it raises an error";
}

constexpr Optimizer kTakeSparse[] = {Optimizer::kNone, Optimizer::kSgd, Optimizer::kAdagrad,
                                     Optimizer::kSparseAdam};

[[noreturn]] void Refuse(std::string_view parameter, std::string_view found,
                         std::string_view hint) {
  throw Error({.where = fmt::format("parameter '{}'", parameter),
               .text = std::string(found),
               .hint = std::string(hint)});
}

}  // namespace

std::vector<bool> HaveSparseGradients(const Program& program) {
  std::vector<bool> is_looked_up(program.values.size());
  std::vector<bool> is_read(program.values.size());
  for (const AtenCall& call : program.calls) {
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      if (call.inputs[i] == kNoName) continue;
      (i == 0 && LooksRowsUp(call.op) ? is_looked_up : is_read)[Index(call.inputs[i])] = true;
    }
  }
  std::vector<bool> sparse;
  for (const NameId name : program.parameters) {
    sparse.push_back(is_looked_up[Index(name)] && !is_read[Index(name)]);
  }
  return sparse;
}

void CheckSparseGradients(const Program& program, const TrainingSettings& settings) {
  const std::vector<bool> sparse = HaveSparseGradients(program);
  const bool is_known = std::ranges::find(kTakeSparse, settings.optimizer) != std::end(kTakeSparse);
  const bool all_sparse = std::ranges::find(sparse, false) == sparse.end();
  const bool decays = (settings.optimizer_args & kWeightDecay) != 0;
  for (size_t i = 0; i < sparse.size(); ++i) {
    const std::string& name = program.values[Index(program.parameters[i])].name;
    if (sparse[i] && (!is_known || decays)) {
      Refuse(name,
             fmt::format("an optimizer of sparse gradients was expected (embedding(sparse=True)), "
                         "found {}{}: {}",
                         ToString(settings.optimizer), decays ? " with weight decay" : "",
                         decays ? "it raises an error" : WhyNot(settings.optimizer)),
             all_sparse ? "--optimizer sparse-adam" : "--optimizer sgd");
    }
    if (!sparse[i] && settings.optimizer == Optimizer::kSparseAdam) {
      Refuse(name,
             "a sparse gradient was expected, of embedding(sparse=True) alone, as sparse-adam "
             "takes, found a dense one: it raises an error",
             "--optimizer adam");
    }
  }
}

void JoinRows(CallTable& calls, const TrainingSettings& settings, int64_t rows, LabelId label) {
  Machine& machine = calls.machine();
  const TensorType numbers = {DType::kInt64, {rows}};
  const auto pass = [&](int64_t bytes) {
    machine.Release(machine.New({DType::kUint8, {bytes}}, label));
  };
  std::vector<TensorId> held;
  for (int i = 0; i < 3; ++i) held.push_back(machine.New(numbers, label));
  pass(MergeSortBytes(rows));
  pass(UniqueBytes(rows, settings.framework.cub, settings.device));
  for (const TensorId each : held) machine.Release(each);
}

}  // namespace onnxfit
