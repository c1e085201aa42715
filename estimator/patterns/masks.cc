// What masks are to PyTorch, and those that libraries make in an export alone.
#include "estimator/patterns/masks.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/exporters/node_patterns.h"
#include "estimator/libraries/libraries.h"
#include "estimator/patterns/rewrites.h"

namespace onnxfit {
namespace {

// --- What a mask is -------------------------------------------------------------------------

// Masks hide with -inf, with the least number of a type, or with -10000, as BERT once did.
constexpr double kHides = -9999;

enum class Kept : uint8_t { kAll, kTriangle, kOther };

// torch.ones(…).tril() == 0, of which the numbers are not computed.
bool IsBehindTriangle(const BoundGraph& bound, ValueId condition) {
  const NodeId equal = bound.Maker(condition, "Equal");
  if (equal == kNoNode || bound.NumberOf(bound.At(equal).inputs[1]) != 0) return false;
  const NodeId trilu = bound.Maker(bound.At(equal).inputs[0], "Trilu");
  if (trilu == kNoNode || IntAttribute(bound.At(trilu), "upper", 1) != 0) return false;
  const std::vector<ValueId>& inputs = bound.At(trilu).inputs;
  if (inputs.size() > 1 && inputs[1] != kNoValue) return false;  // another diagonal
  const NodeId expand = bound.Maker(inputs[0], "Expand");
  return expand != kNoNode && bound.NumberOf(bound.At(expand).inputs[0]) == 1;
}

// What a condition keeps, being `shown` there.
Kept WhatIsKept(const BoundGraph& bound, ValueId condition, bool shown) {
  if (!shown && IsBehindTriangle(bound, condition)) return Kept::kTriangle;
  const KnownTensor* known = bound.Known(condition);
  if (known == nullptr) return Kept::kOther;
  const Nonzeros nonzeros = known->nonzeros();
  if (nonzeros == (shown ? Nonzeros::kAll : Nonzeros::kNone)) return Kept::kAll;
  const bool is_triangle = nonzeros == (shown ? Nonzeros::kLower : Nonzeros::kUpper);
  return is_triangle ? Kept::kTriangle : Kept::kOther;
}

bool Hides(const BoundGraph& bound, ValueId value) { return bound.NumberOf(value) < kHides; }

bool IsZero(const BoundGraph& bound, ValueId value) {
  return bound.IsNumber(value) && bound.NumberOf(value) == 0;
}

// --- Masks of libraries ---------------------------------------------------------------------

bool IsOfMask(const NodeLines& lines) {
  return std::ranges::any_of(lines.lines,
                             [](const FileLine& line) { return BuildsMask(line.file, line.text); });
}

// Whether `condition` is, in a file without lines, of transformers' mask for all positions, "q_idx
// >= 0", as nobody else writes it (bidirectional_mask_function of masking_utils.py, 5.17), or made
// of that alone: "torch.all(~attention_mask, dim=2)".
bool IsOfAllPositions(const BoundGraph& bound, ValueId condition, int depth = 0) {
  constexpr std::string_view kPassed[] = {"Expand", "And",       "Cast",   "Unsqueeze",
                                          "Not",    "ReduceSum", "Greater"};
  constexpr int kMost = 12;  // nodes in front of one another
  const NodeId maker =
      condition == kNoValue ? kNoNode : bound.graph().values[Index(condition)].producer;
  if (maker == kNoNode || depth > kMost || !IsNamedByTorchScript(bound.At(maker))) return false;
  const Node& node = bound.At(maker);
  if (node.op_type == "GreaterOrEqual") {
    const KnownTensor* least = bound.Known(node.inputs[1]);
    return least != nullptr && least->elements() == std::vector<int64_t>{0};
  }
  if (std::ranges::find(kPassed, node.op_type) == std::end(kPassed)) return false;
  if (IsOfAllPositions(bound, node.inputs[0], depth + 1)) return true;
  return node.op_type == "And" && IsOfAllPositions(bound, node.inputs[1], depth + 1);
}

// Whether a library made `value` by torch.where (mask, 0, -3e38), of a mask that hides nothing.
bool IsNoMask(const BoundGraph& bound, ValueId value) {
  const NodeId where = value == kNoValue ? kNoNode : bound.Maker(value, "Where");
  if (where == kNoNode) return false;
  const KnownTensor* shown = bound.Known(bound.At(where).inputs[0]);
  const bool hides_nothing = shown != nullptr && shown->nonzeros() == Nonzeros::kAll;
  return hides_nothing && (IsOfMask(bound.metadata().LinesOf(where)) ||
                           IsOfAllPositions(bound, bound.At(where).inputs[0]));
}

// Whether `condition` is torch.all(~mask, dim) of such a mask, as TorchScript's exporter writes it.
bool IsMadeOfNoMask(const BoundGraph& bound, ValueId condition) {
  constexpr NodePattern kAll = "Not(Greater(ReduceSum(Cast(Not(Not(m)))), 0))";
  NodeId maker = bound.graph().values[Index(condition)].producer;
  while (maker != kNoNode && bound.At(maker).op_type == "Cast") {
    maker = bound.graph().values[Index(bound.At(maker).inputs[0])].producer;
  }
  if (maker == kNoNode || bound.At(maker).op_type != "Not") return false;
  const auto match = kAll.Find(bound, maker);
  if (!match.has_value()) return false;
  const KnownTensor* shown = bound.Known(match->At('m'));
  return shown != nullptr && shown->nonzeros() == Nonzeros::kAll &&
         IsOfAllPositions(bound, match->At('m'));
}

// Whether the line that `reader` is in binds the name anew that the maker's has given its result:
// "mask = create_causal_mask(" behind "mask = torch.ones(".
bool IsRebound(const ExporterMetadata& metadata, NodeId maker, NodeId reader) {
  const auto targets_of = [&](NodeId node) {
    const std::vector<StatementId>& frames = metadata.LinesOf(node).frames;
    const bool is_known = !frames.empty() && frames.back() != kNoStatement;
    return is_known ? metadata.source.At(frames.back()).targets : std::vector<std::string>();
  };
  const std::vector<std::string> bound = targets_of(maker);
  return !bound.empty() && bound == targets_of(reader);
}

}  // namespace

AttentionMask ReadMask(const BoundGraph& bound, ValueId value) {
  const NodeId where = bound.Maker(value, "Where");
  if (where == kNoNode) return {.tensor = value};
  const std::vector<ValueId>& inputs = bound.At(where).inputs;
  const bool shown = !Hides(bound, inputs[1]);  // what the condition is where nothing is hidden
  if (shown && !Hides(bound, inputs[2])) return {.tensor = value};
  const ValueId bias = IsZero(bound, inputs[shown ? 1 : 2]) ? kNoValue : inputs[shown ? 1 : 2];
  switch (WhatIsKept(bound, inputs[0], shown)) {
    case Kept::kAll:
      return bias == kNoValue ? AttentionMask() : ReadMask(bound, bias);
    case Kept::kTriangle:
      return {.tensor = bias, .causal = true};
    case Kept::kOther:
      break;
  }
  return {.tensor = bias == kNoValue && shown ? inputs[0] : value};
}

bool IsMaskOfModel(const ExporterMetadata& metadata, NodeId node) {
  const NodeLines& lines = metadata.LinesOf(node);
  return !lines.lines.empty() && !IsOfMask(lines);
}

std::optional<Rewritten> FindUnmasked(const BoundGraph& bound, NodeId last) {
  const std::vector<ValueId>& terms = bound.At(last).inputs;
  if (terms.size() != 2 || !IsNoMask(bound, terms[1])) return std::nullopt;
  return Rewritten{.aten = kNoCall, .inputs = {terms[0]}, .last = last, .nodes = {last}};
}

std::optional<Rewritten> FindUnfilled(const BoundGraph& bound, NodeId last) {
  const std::vector<ValueId>& inputs = bound.At(last).inputs;
  if (!bound.IsNumber(inputs[1]) || !IsMadeOfNoMask(bound, inputs[0])) return std::nullopt;
  if (bound.DimsOf(inputs[2]) != bound.DimsOf(bound.At(last).outputs[0])) return std::nullopt;
  return Rewritten{.aten = kNoCall, .inputs = {inputs[2]}, .last = last, .nodes = {last}};
}

std::vector<ValueId> FindArgumentsOfMasks(const BoundGraph& bound) {
  const Graph& graph = bound.graph();
  const ExporterMetadata& metadata = bound.metadata();
  std::vector<bool> is_of_mask;  // by index of lines, which nodes share
  for (const NodeLines& lines : metadata.lines) is_of_mask.push_back(IsOfMask(lines));
  const auto builds = [&](NodeId node) { return is_of_mask[Index(metadata.At(node).lines)]; };
  std::vector<ValueId> found;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!builds(static_cast<NodeId>(i))) continue;
    for (const ValueId value : graph.nodes[i].inputs) {
      const NodeId maker = value == kNoValue ? kNoNode : graph.values[Index(value)].producer;
      const bool is_made =
          maker != kNoNode && !builds(maker) && bound.At(maker).op_type != "Constant";
      if (is_made && !IsRebound(metadata, maker, static_cast<NodeId>(i))) found.push_back(value);
    }
  }
  return found;
}

}  // namespace onnxfit
