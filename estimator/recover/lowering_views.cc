#include "estimator/recover/lowering_views.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/recover/source_text.h"

namespace onnxfit {
namespace {

// Whether the line writes over an operand and makes no view, as far as it shows.
bool WritesAlone(std::string_view line) {
  constexpr std::string_view kViews[] = {"view", "shape(", "flatten(", "squeeze("};
  const bool shows_view = std::any_of(std::begin(kViews), std::end(kViews), [&](auto view) {
    return line.find(view) != std::string_view::npos;
  });
  const bool writes =
      line.find("inplace") != std::string_view::npos || WrittenInPlace(line).value_or(false);
  return writes && !shows_view;
}

// Whether `base` and `view`, which reads it alone, lead to the sizes that `base` reads again.
bool AreReplayed(const Lowering& lowering, const Node& base, const Node& view) {
  constexpr std::string_view kView = "aten.view.default";
  if (lowering.TargetOf(base) != kView || lowering.TargetOf(view) != kView) return false;
  const auto frames = SourceFrames(base);
  const auto others = SourceFrames(view);
  if (frames.empty() || others.empty() || frames.back().line != others.back().line ||
      frames.back().text != others.back().text || !WritesAlone(frames.back().text)) {
    return false;
  }
  return lowering.TypeOf(base.inputs[0]).dims == lowering.TypeOf(view.outputs[0]).dims;
}

bool IsReplayed(const Lowering& lowering, const Node& node) {
  const auto read_alone = [&](ValueId value) {
    return !lowering.graph().values[Index(value)].is_output &&
           lowering.ReadersOf(value).size() == 1;
  };
  if (read_alone(node.outputs[0]) &&
      AreReplayed(lowering, node, *lowering.ReadersOf(node.outputs[0])[0])) {
    return true;
  }
  const NodeId maker = lowering.graph().values[Index(node.inputs[0])].producer;
  return maker != kNoNode && read_alone(node.inputs[0]) &&
         AreReplayed(lowering, lowering.graph().nodes[Index(maker)], node);
}

}  // namespace

void LowerReshape(Lowering& lowering, const Node& node, std::string_view aten) {
  if (IsReplayed(lowering, node)) return lowering.Alias(node.outputs[0], node.inputs[0]);
  LowerUnary(lowering, node, aten);
}

}  // namespace onnxfit
