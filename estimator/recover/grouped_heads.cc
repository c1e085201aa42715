#include "estimator/recover/grouped_heads.h"

#include <string_view>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

constexpr size_t kMaskArgument = 3;

// Whether the call that `rewritten` was got a tensor as mask, and none is left.
bool HasLostMask(const ExporterMetadata& metadata, const Rewritten& rewritten) {
  if (rewritten.aten != "scaled_dot_product_attention") return false;
  if (rewritten.inputs[kMaskArgument] != kNoValue) return false;
  const FxNode* call = metadata.CallOf(rewritten.last);
  return call != nullptr && call->arguments.size() > kMaskArgument &&
         call->arguments[kMaskArgument].kind == FxArgument::Kind::kReference;
}

// The first value behind Reshape, [Identity], Expand, Unsqueeze, each with no other reader;
// their nodes go into `nodes`.  kNoValue where that is not what made `value`.
ValueId Unrepeated(const BoundGraph& bound, ValueId value, std::vector<NodeId>& nodes) {
  constexpr std::string_view kSteps[] = {"Reshape", "Identity", "Expand", "Unsqueeze"};
  for (const std::string_view step : kSteps) {
    const NodeId node = bound.Inner(value, step);
    if (node == kNoNode && step == "Identity") continue;
    if (node == kNoNode) return kNoValue;
    nodes.push_back(node);
    value = bound.At(node).inputs[0];
  }
  return value;
}

}  // namespace

void TakeBackRepeatedHeads(const BoundGraph& bound, std::vector<Rewritten>& rewrites) {
  for (Rewritten& rewritten : rewrites) {
    if (!HasLostMask(bound.metadata(), rewritten)) continue;
    std::vector<NodeId> nodes;
    const ValueId k = Unrepeated(bound, rewritten.inputs[1], nodes);
    const ValueId v = Unrepeated(bound, rewritten.inputs[2], nodes);
    if (k == kNoValue || v == kNoValue) continue;
    rewritten.inputs[1] = k;
    rewritten.inputs[2] = v;
    rewritten.nodes.insert(rewritten.nodes.begin(), nodes.begin(), nodes.end());
  }
}

}  // namespace onnxfit
