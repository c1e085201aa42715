#include "estimator/optimizers/optimizer_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/optimizers/optimizer_rows.h"

namespace onnxfit {
namespace {

// get_state_buffer of bitsandbytes 0.50.2: elements from which a state of a paged optimizer is
// F.get_paged(…).
constexpr int64_t kPagedElements = 100000;

// Of all implementations.
std::vector<const OptimizerRule*> RowsOf(Optimizer optimizer) {
  std::vector<const OptimizerRule*> rows;
  for (const auto rules : {OptimizersOfTorch(), OptimizersOfBitsandbytes(), OptimizersOfTorchao(),
                           OtherOptimizers()}) {
    for (const OptimizerRule& rule : rules) {
      if (rule.optimizer == optimizer) rows.push_back(&rule);
    }
  }
  return rows;
}

bool IsIn(const FrameworkProfile& framework, const OptimizerRule& rule) {
  return rule.only_where == nullptr || framework.*rule.only_where;
}

// "foreach or for-loop".
std::string ImplsOf(Optimizer optimizer, const FrameworkProfile& framework) {
  std::string text;
  for (const OptimizerRule* rule : RowsOf(optimizer)) {
    if (rule->args != 0 || !IsIn(framework, *rule)) continue;
    if (text.ends_with(ToString(rule->impl))) continue;  // a version's own row beside another's
    text += fmt::format("{}{}", text.empty() ? "" : " or ", ToString(rule->impl));
  }
  return text;
}

// The row beside `plain` that has those of `args` that rows of its implementation tell.
const OptimizerRule& WithArgs(const OptimizerRule& plain, uint8_t args,
                              const FrameworkProfile& framework) {
  std::vector<const OptimizerRule*> rows = RowsOf(plain.optimizer);
  std::erase_if(rows, [&](const OptimizerRule* rule) {
    return rule->impl != plain.impl || !IsIn(framework, *rule);
  });
  unsigned told = 0;
  for (const OptimizerRule* rule : rows) told |= rule->args;
  return **std::ranges::find_if(
      rows, [&](const OptimizerRule* rule) { return rule->args == (args & told); });
}

}  // namespace

bool HasImpl(Optimizer optimizer, OptimizerImpl impl, const FrameworkProfile& framework) {
  return std::ranges::any_of(RowsOf(optimizer), [&](const OptimizerRule* rule) {
    return rule->impl == impl && IsIn(framework, *rule);
  });
}

bool CopiesGradientsToDecay(Optimizer optimizer, std::optional<OptimizerImpl> impl,
                            const FrameworkProfile& framework) {
  const OptimizerRule& rule = FindOptimizerRule(optimizer, impl, framework, kWeightDecay);
  const auto is_gradient = [](const UpdateStep& step, UpdateStep::Type type) {
    return step.type == type && step.local == Local::kGradient;
  };
  return rule.impl == OptimizerImpl::kForeach && (rule.args & kWeightDecay) != 0 &&
         is_gradient(rule.steps[0], UpdateStep::Type::kBind) &&
         !is_gradient(rule.steps[1], UpdateStep::Type::kDelete);
}

uint8_t ArgsTaken(Optimizer optimizer, uint8_t args) {
  unsigned taken = kWeightDecay;
  for (const OptimizerRule* rule : RowsOf(optimizer)) taken |= rule->args;
  return static_cast<uint8_t>(args & taken);
}

const OptimizerStates& StatesOf(const OptimizerRule& rule, bool in_32_bits) {
  const bool has_others = rule.states_in_32_bits[0].type != nullptr;
  return in_32_bits && has_others ? rule.states_in_32_bits : rule.states;
}

TensorType StateType(const StateTensor& state, const TensorType& parameter) {
  const bool is_paged = state.paged && Numel(parameter.dims) >= kPagedElements;
  return state.type == nullptr || is_paged ? TensorType() : state.type(parameter);
}

const OptimizerRule& FindOptimizerRule(Optimizer optimizer, std::optional<OptimizerImpl> impl,
                                       const FrameworkProfile& framework, uint8_t args) {
  if (optimizer == Optimizer::kNone && impl) {
    throw Error({.where = "--optimizer-impl",
                 .text = fmt::format("expected an optimizer, found none that could be '{}'",
                                     ToString(*impl)),
                 .hint = "--optimizer adamw"});
  }
  for (const OptimizerRule* rule : RowsOf(optimizer)) {
    const bool fits = rule->impl == impl.value_or(rule->impl);
    if (fits && IsIn(framework, *rule)) return WithArgs(*rule, args, framework);
  }
  const std::string impls = ImplsOf(optimizer, framework);
  if (impls.empty()) {
    throw Error({.where = "--optimizer",
                 .text = fmt::format("expected one of {}'s, found '{}'", framework.name,
                                     ToString(optimizer)),
                 .hint = "a later version by --framework"});
  }
  throw Error({.where = "--optimizer-impl",
               .text = fmt::format("expected {} for {} of {}, found '{}'", impls,
                                   ToString(optimizer), framework.name, ToString(*impl)),
               .hint = "leave it out for PyTorch's own choice"});
}

}  // namespace onnxfit
