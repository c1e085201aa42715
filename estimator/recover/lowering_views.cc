// Operators that make views of a tensor, or pick parts of it.
#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/lost/places.h"
#include "estimator/recover/lowering.h"

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
bool AreReplayed(const BoundGraph& bound, NodeId base, NodeId view) {
  constexpr std::string_view kView = "aten.view.default";
  const ExporterMetadata& metadata = bound.metadata();
  if (metadata.TargetOf(base) != kView || metadata.TargetOf(view) != kView) return false;
  const NodeLines& of_base = metadata.LinesOf(base);
  const NodeLines& of_view = metadata.LinesOf(view);
  const bool is_one_line = !of_base.frames.empty() && !of_view.frames.empty() &&
                           of_base.frames.back() == of_view.frames.back() &&
                           of_base.innermost == of_view.innermost;
  if (!is_one_line || !WritesAlone(of_base.innermost)) return false;
  return bound.DimsOf(bound.At(base).inputs[0]) == bound.DimsOf(bound.At(view).outputs[0]);
}

bool IsReplayed(const BoundGraph& bound, NodeId node) {
  const auto read_alone = [&](ValueId value) {
    return !bound.graph().values[Index(value)].is_output && bound.AllReadersOf(value).size() == 1;
  };
  const ValueId result = bound.At(node).outputs[0];
  if (read_alone(result) && AreReplayed(bound, node, bound.AllReadersOf(result)[0])) return true;
  const ValueId input = bound.At(node).inputs[0];
  const NodeId maker = bound.graph().values[Index(input)].producer;
  return maker != kNoNode && read_alone(input) && AreReplayed(bound, maker, node);
}

}  // namespace

void LowerReshape(UnitWriter& unit, const Node& node, std::string_view aten) {
  if (IsReplayed(unit.bound(), unit.bound().IdOf(node)))
    return unit.Alias(node.outputs[0], node.inputs[0]);
  LowerUnary(unit, node, aten);
}

void LowerSplit(UnitWriter& unit, const Node& node, std::string_view aten) {
  const NameId input = unit.TensorOf(InputOf(node, 0));
  std::vector<NameId> outputs;
  for (const ValueId value : node.outputs) {
    if (value != kNoValue) outputs.push_back(unit.NewResult(value));
  }
  unit.Emit(aten, {input}, std::move(outputs));
}

// The axis and the step go along where the step is not 1; of several such axes the first.
void LowerSlice(UnitWriter& unit, const Node& node, std::string_view aten) {
  const KnownTensor* axes = unit.bound().Known(InputOf(node, 3));
  const KnownTensor* steps = unit.bound().Known(InputOf(node, 4));
  std::vector<int64_t> axis_and_step;
  for (size_t i = 0; steps != nullptr && i < steps->elements().size(); ++i) {
    if (steps->elements()[i] == 1 || !axis_and_step.empty()) continue;
    if (axes != nullptr && i >= axes->elements().size()) break;
    int64_t axis = axes == nullptr ? static_cast<int64_t>(i) : axes->elements()[i];
    if (axis < 0) axis += static_cast<int64_t>(unit.TypeOf(InputOf(node, 0)).dims.size());
    axis_and_step = {axis, steps->elements()[i]};
  }
  const NameId input = unit.TensorOf(InputOf(node, 0));
  unit.Emit(aten, {input}, {unit.NewResult(node.outputs[0])}, std::move(axis_and_step));
}

// A list of parts: its items are what the SequenceAt nodes behind it take out.
void LowerSplitToSequence(UnitWriter& unit, const Node& node, std::string_view aten) {
  const NameId input = unit.TensorOf(InputOf(node, 0));
  std::vector<std::pair<int64_t, ValueId>> items;
  for (const NodeId id : unit.bound().AllReadersOf(node.outputs[0])) {
    const Node& reader = unit.bound().At(id);
    const KnownTensor* at = unit.bound().Known(InputOf(reader, 1));
    if (reader.op_type == "SequenceAt" && at != nullptr && at->elements().size() == 1) {
      items.emplace_back(at->elements()[0], reader.outputs[0]);
    }
  }
  const bool is_first = items.size() == 1 && items[0].first == 0;
  if (is_first && LowerPosterior(unit, node, items[0].second)) return;
  std::stable_sort(items.begin(), items.end());
  std::vector<NameId> outputs;
  for (const auto& [at, value] : items) outputs.push_back(unit.NewResult(value));
  unit.Emit(aten, {input}, std::move(outputs));
}

// Has its name from the list, unless which item it takes is not known.
void LowerSequenceAt(UnitWriter& unit, const Node& node, std::string_view aten) {
  const KnownTensor* at = unit.bound().Known(InputOf(node, 1));
  if (at == nullptr || at->elements().size() != 1) LowerUnary(unit, node, aten);
}

namespace {

// A list becomes a tensor wherever it is read, while the exporter has one constant of equal ones;
// a buffer is there.
void LowerList(UnitWriter& unit, const Node& node) {
  const ValueId indices = node.inputs[1];
  NameId list = unit.values().NameOf(indices);
  if (list == kNoName) {
    std::string name(unit.bound().NameOf(indices));
    list = unit.Make("constant", {}, std::move(name), unit.TypeOf(indices));
  }
  unit.Emit("index", {unit.TensorOf(node.inputs[0]), list}, {unit.NewResult(node.outputs[0])});
}

}  // namespace

// A table of parameters is an embedding; one known index is a selection, a view.
void LowerGather(UnitWriter& unit, const Node& node, std::string_view) {
  const ValueId data = InputOf(node, 0);
  const ValueId indices = InputOf(node, 1);
  const int64_t rank = data == kNoValue ? 0 : std::ssize(unit.TypeOf(data).dims);
  const bool could_embed = unit.values().IsParameter(data) && rank == 2;
  if (!could_embed || unit.TargetOf(node) == "aten.select.int") {
    const KnownTensor* known = unit.bound().Known(indices);
    if (known != nullptr && known->dims.empty()) {
      const NameId input = unit.TensorOf(data);
      const int64_t axis = IntAttribute(node, "axis", 0);
      return unit.Emit("select", {input}, {unit.NewResult(node.outputs[0])},
                       {axis < 0 ? axis + rank : axis});
    }
  }
  // x[[1, 2]] and x[:, [1]]: to TorchScript's exporter a list is a constant, but so is the tensor
  // of x.index_select(1, tensor).
  const Dims& places = unit.TypeOf(indices).dims;
  const bool is_list = IsNamedByTorchScript(node) &&
                       unit.bound().Maker(indices, "Constant") != kNoNode && places.size() == 1 &&
                       (IntAttribute(node, "axis", 0) == 0 || places[0] == 1);
  if (is_list && !unit.values().IsParameter(data)) return LowerList(unit, node);
  LowerAll(unit, node, could_embed ? "embedding" : "index_select");
}

// Values and the places where they were found.
void LowerTopK(UnitWriter& unit, const Node& node, std::string_view aten) {
  const NameId input = unit.TensorOf(node.inputs[0]);
  std::vector<NameId> outputs;
  for (const ValueId value : node.outputs) {
    outputs.push_back(value == kNoValue ? kNoName : unit.NewResult(value));
  }
  const int64_t rank = std::ssize(unit.TypeOf(node.inputs[0]).dims);
  int64_t axis = IntAttribute(node, "axis", -1);
  if (axis < 0) axis += rank;
  const bool is_whole = unit.TypeOf(node.inputs[0]).dims == unit.TypeOf(node.outputs[0]).dims;
  const bool sorts = is_whole && axis >= 0 && unit.TargetOf(node) != "aten.topk.default";
  unit.Emit(sorts ? "sort" : aten, {input}, std::move(outputs),
            sorts ? std::vector{axis} : std::vector<int64_t>());
}

// A number that is scattered is an argument of the call.
void LowerScatter(UnitWriter& unit, const Node& node, std::string_view aten) {
  const Attribute* reduction = FindAttribute(node, "reduction");
  const auto* how =
      reduction == nullptr ? nullptr : std::get_if<std::string_view>(&reduction->value);
  const std::string_view target = unit.TargetOf(node);
  const bool adds = (how != nullptr && *how == "add") || target.starts_with("aten.scatter_add");
  std::vector<NameId> inputs = {unit.TensorOf(node.inputs[0]), unit.TensorOf(node.inputs[1])};
  if (!unit.values().IsHost(node.inputs[2])) inputs.push_back(unit.TensorOf(node.inputs[2]));
  unit.Emit(adds ? "scatter_add" : aten, std::move(inputs), {unit.NewResult(node.outputs[0])});
}

// x, places and, where they are written, values.  Which call of PyTorch's it was decides what is
// kept for a gradient, and nobody says that.
void LowerPlaces(UnitWriter& unit, const Node& node, std::string_view aten) {
  const bool is_tracked = unit.trains() && IsFloat(unit.TypeOf(node.outputs[0]).dtype);
  if (is_tracked) return unit.LowerUnknown(node);
  std::vector<NameId> inputs = {unit.TensorOf(node.inputs[0])};
  if (node.inputs.size() > 2) inputs.push_back(unit.TensorOf(node.inputs[2]));
  inputs.push_back(unit.TensorOf(node.inputs[1]));
  unit.Emit(aten, std::move(inputs), {unit.NewResult(node.outputs[0])});
}

// All that is no number; a gradient goes through what it is in training, which nobody knows.
void LowerQuantized(UnitWriter& unit, const Node& node, std::string_view aten) {
  if (unit.trains()) return unit.LowerUnknown(node);
  std::vector<NameId> inputs;
  for (const ValueId value : node.inputs) {
    if (value != kNoValue && !unit.values().IsHost(value)) inputs.push_back(unit.TensorOf(value));
  }
  std::vector<NameId> outputs;
  for (const ValueId value : node.outputs) {
    outputs.push_back(value == kNoValue ? kNoName : unit.NewResult(value));
  }
  // Asked before the call below: a compiler may move the inputs before it evaluates the first
  // argument, as g++ does.
  const std::string_view op = inputs.empty() ? "constant" : aten;
  unit.Emit(op, std::move(inputs), std::move(outputs));
}

}  // namespace onnxfit
