// Masks that libraries make in an export alone.
#include "estimator/recover/masks.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/program/libraries.h"
#include "estimator/recover/rewrites.h"

namespace onnxfit {
namespace {

bool IsOfMask(const NodeLines& lines) {
  return std::ranges::any_of(lines.lines,
                             [](const FileLine& line) { return BuildsMask(line.file, line.text); });
}

// Whether a library made `value` by torch.where (mask, 0, -3e38), of a mask that hides nothing.
bool IsNoMask(const BoundGraph& bound, ValueId value) {
  const NodeId where = value == kNoValue ? kNoNode : bound.Maker(value, "Where");
  if (where == kNoNode) return false;
  const KnownTensor* shown = bound.Known(bound.At(where).inputs[0]);
  const bool hides_nothing = shown != nullptr && shown->nonzeros() == Nonzeros::kAll;
  return hides_nothing && IsOfMask(bound.metadata().LinesOf(where));
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

std::optional<Rewritten> FindUnmasked(const BoundGraph& bound, NodeId last) {
  const std::vector<ValueId>& terms = bound.At(last).inputs;
  if (terms.size() != 2 || !IsNoMask(bound, terms[1])) return std::nullopt;
  return Rewritten{.aten = kNoCall, .inputs = {terms[0]}, .last = last, .nodes = {last}};
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
