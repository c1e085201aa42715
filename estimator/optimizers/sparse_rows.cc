#include "estimator/optimizers/sparse_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/operators/kernel_scratch.h"
#include "estimator/optimizers/optimizer_rule.h"

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

bool JoinsRows(const Program& program, const TrainingSettings& settings) {
  if (settings.mode != Mode::kTrain || settings.optimizer == Optimizer::kNone) return false;
  const OptimizerRule& rule = FindOptimizerRule(settings.optimizer, settings.optimizer_impl,
                                                settings.framework, settings.optimizer_args);
  if (rule.joined_blocks == 0) return false;
  const std::vector<bool> sparse = HaveSparseGradients(program);
  return std::ranges::find(sparse, true) != sparse.end();
}

void JoinedRows::Step(const TensorType& rows, int64_t table_rows, int blocks) {
  Machine& machine = calls_.machine();
  const int64_t count = rows.dims[0];
  const auto pass = [&](int64_t bytes) {
    machine.Release(machine.New({DType::kUint8, {bytes}}, label_));
  };
  std::vector<TensorId> numbers;
  for (int i = 0; i < 3; ++i) numbers.push_back(machine.New({DType::kInt64, {count}}, label_));
  pass(MergeSortBytes(count));
  pass(UniqueBytes(count, settings_.framework.cub, settings_.device));
  TensorType joined = rows;
  joined.dims[0] = std::min(count, table_rows);
  const TensorId sums = machine.New(joined, label_);
  for (size_t i = 1; i < numbers.size(); ++i) machine.Release(numbers[i]);
  Forget();
  held_ = {numbers[0], sums};
  for (int i = 1; i < blocks; ++i) held_.push_back(machine.New(joined, label_));
}

void JoinedRows::Forget() {
  for (const TensorId each : held_) calls_.machine().Release(each);
  held_.clear();
}

}  // namespace onnxfit
