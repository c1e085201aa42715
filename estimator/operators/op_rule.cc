#include "estimator/operators/op_rule.h"

#include <unordered_map>
#include <vector>

#include "estimator/program/like.h"

namespace onnxfit {
namespace {

// Until we know better: all that goes in and comes out is kept, every gradient is new.
constexpr OpRule kCautiousRule = {
    .name = "?", .variadic = true, .keeps_everything = true, .gradients = {Reads({})}};

using RulesByName = std::unordered_map<std::string_view, const OpRule*>;

RulesByName MakeIndex() {
  RulesByName index;
  for (const std::span<const OpRule> family : AllOpRules()) {
    for (const OpRule& rule : family) index.emplace(rule.name, &rule);
  }
  return index;
}

const RulesByName& RuleIndex() {
  static const RulesByName index = MakeIndex();
  return index;
}

}  // namespace

std::span<const std::span<const OpRule>> AllOpRules() {
  static const std::vector<std::span<const OpRule>> families = {
      AttentionRules(), ConvolutionRules(), DropoutRules(),  ElementwiseRules(),   EmbeddingRules(),
      LinearRules(),    LossRules(),        ViewRules(),     NormalizationRules(), NormRules(),
      ReductionRules(), RecurrentRules(),   IndexingRules(), MathRules(),          PackedRules(),
      PoolRules(),      RepeatRules(),      SortRules(),     ScanRules(),
  };
  return families;
}

const OpRule& FindOpRule(std::string_view name) {
  const auto found = RuleIndex().find(RuleNameOf(name));
  return found == RuleIndex().end() ? kCautiousRule : *found->second;
}

bool HasOpRule(std::string_view name) { return RuleIndex().contains(RuleNameOf(name)); }

}  // namespace onnxfit
