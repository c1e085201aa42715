#include "estimator/recover/lowering_indexing.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace onnxfit {

void LowerSplit(Lowering& lowering, const Node& node, std::string_view aten) {
  const NameId input = lowering.TensorOf(InputOf(node, 0));
  std::vector<NameId> outputs;
  for (const ValueId value : node.outputs) {
    if (value != kNoValue) outputs.push_back(lowering.NewResult(value));
  }
  lowering.Emit(aten, {input}, std::move(outputs));
}

// The axis and the step go along where the step is not 1; of several such axes the first.
void LowerSlice(Lowering& lowering, const Node& node, std::string_view aten) {
  const KnownTensor* axes = lowering.Known(InputOf(node, 3));
  const KnownTensor* steps = lowering.Known(InputOf(node, 4));
  std::vector<int64_t> axis_and_step;
  for (size_t i = 0; steps != nullptr && i < steps->elements().size(); ++i) {
    if (steps->elements()[i] == 1 || !axis_and_step.empty()) continue;
    if (axes != nullptr && i >= axes->elements().size()) break;
    int64_t axis = axes == nullptr ? static_cast<int64_t>(i) : axes->elements()[i];
    if (axis < 0) axis += static_cast<int64_t>(lowering.TypeOf(InputOf(node, 0)).dims.size());
    axis_and_step = {axis, steps->elements()[i]};
  }
  const NameId input = lowering.TensorOf(InputOf(node, 0));
  lowering.Emit(aten, {input}, {lowering.NewResult(node.outputs[0])}, std::move(axis_and_step));
}

// A list of parts: its items are what the SequenceAt nodes behind it take out.
void LowerSplitToSequence(Lowering& lowering, const Node& node, std::string_view aten) {
  const NameId input = lowering.TensorOf(InputOf(node, 0));
  std::vector<std::pair<int64_t, ValueId>> items;
  for (const Node* reader : lowering.ReadersOf(node.outputs[0])) {
    const KnownTensor* at = lowering.Known(InputOf(*reader, 1));
    if (reader->op_type == "SequenceAt" && at != nullptr && at->elements().size() == 1) {
      items.emplace_back(at->elements()[0], reader->outputs[0]);
    }
  }
  std::stable_sort(items.begin(), items.end());
  std::vector<NameId> outputs;
  for (const auto& [at, value] : items) outputs.push_back(lowering.NewResult(value));
  lowering.Emit(aten, {input}, std::move(outputs));
}

// Has its name from the list, unless which item it takes is not known.
void LowerSequenceAt(Lowering& lowering, const Node& node, std::string_view aten) {
  const KnownTensor* at = lowering.Known(InputOf(node, 1));
  if (at == nullptr || at->elements().size() != 1) LowerUnary(lowering, node, aten);
}

// A table of parameters is an embedding; one known index is a selection, a view.
void LowerGather(Lowering& lowering, const Node& node, std::string_view) {
  const ValueId data = InputOf(node, 0);
  const ValueId indices = InputOf(node, 1);
  if (!lowering.IsParameter(data)) {
    const KnownTensor* known = lowering.Known(indices);
    if (known != nullptr && known->dims.empty()) {
      const NameId input = lowering.TensorOf(data);
      const auto rank = static_cast<int64_t>(lowering.TypeOf(data).dims.size());
      const int64_t axis = IntAttribute(node, "axis", 0);
      return lowering.Emit("select", {input}, {lowering.NewResult(node.outputs[0])},
                           {axis < 0 ? axis + rank : axis});
    }
  }
  const bool is_table = lowering.IsParameter(data) && lowering.TypeOf(data).dims.size() == 2;
  LowerAll(lowering, node, is_table ? "embedding" : "index_select");
}

// Values and the places where they were found.
void LowerTopK(Lowering& lowering, const Node& node, std::string_view aten) {
  const NameId input = lowering.TensorOf(node.inputs[0]);
  std::vector<NameId> outputs;
  for (const ValueId value : node.outputs) {
    outputs.push_back(value == kNoValue ? kNoName : lowering.NewResult(value));
  }
  lowering.Emit(aten, {input}, std::move(outputs));
}

// A number that is scattered is an argument of the call.
void LowerScatter(Lowering& lowering, const Node& node, std::string_view aten) {
  const Attribute* reduction = FindAttribute(node, "reduction");
  const auto* how =
      reduction == nullptr ? nullptr : std::get_if<std::string_view>(&reduction->value);
  const std::string_view target = lowering.TargetOf(node);
  const bool adds = (how != nullptr && *how == "add") || target.starts_with("aten.scatter_add");
  std::vector<NameId> inputs = {lowering.TensorOf(node.inputs[0]),
                                lowering.TensorOf(node.inputs[1])};
  if (!lowering.IsHost(node.inputs[2])) inputs.push_back(lowering.TensorOf(node.inputs[2]));
  lowering.Emit(adds ? "scatter_add" : aten, std::move(inputs),
                {lowering.NewResult(node.outputs[0])});
}

}  // namespace onnxfit
