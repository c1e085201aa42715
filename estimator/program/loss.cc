#include "estimator/program/loss.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/base/suggest.h"

namespace onnxfit {
namespace {

const TensorType& TypeOf(Lowering& lowering, NameId name) {
  return lowering.program().values[Index(name)].type;
}

// One class index for each row, or for each pixel.
TensorType LabelType(const TensorType& logits) {
  TensorType labels = {DType::kInt64, logits.dims};
  if (labels.dims.size() > 3) {
    labels.dims.erase(labels.dims.begin() + 1);
  } else if (!labels.dims.empty()) {
    labels.dims.pop_back();
  }
  return labels;
}

// [N, S, V] -> [N·S, V], a view; anything else as it is.
NameId FlattenTokens(Lowering& lowering, NameId logits) {
  const TensorType type = TypeOf(lowering, logits);
  if (type.dims.size() != 3) return logits;
  const TensorType flat = {type.dtype, {CheckedMul(type.dims[0], type.dims[1]), type.dims[2]}};
  const NameId view = lowering.NewName("logits", flat);
  lowering.Emit("view", {logits}, {view});
  return view;
}

void AppendCrossEntropy(Lowering& lowering, NameId output, NameId labels) {
  const NameId logits = FlattenTokens(lowering, output);
  const TensorType type = TypeOf(lowering, logits);
  const NameId log_probabilities = lowering.NewName("log_probabilities", type);
  lowering.Emit("_log_softmax", {logits}, {log_probabilities});
  const NameId loss = lowering.NewName("loss", {type.dtype, {}});
  lowering.Emit(type.dims.size() > 2 ? "nll_loss2d" : "nll_loss", {log_probabilities, labels},
                {loss});
  lowering.program().loss = loss;
}

// Logits of 16 bits are taken in fp32 (transformers, loss/loss_utils.py: ForCausalLMLoss).
void AppendCausalLm(Lowering& lowering, NameId output, NameId labels) {
  TensorType type = TypeOf(lowering, output);
  NameId logits = output;
  if (BitsOf(type.dtype) == 16) {
    type.dtype = DType::kFloat32;
    logits = lowering.NewName("logits.float", type);
    lowering.Emit("to", {output}, {logits});
  }
  AppendCrossEntropy(lowering, logits, labels);
}

void AppendMse(Lowering& lowering, NameId output, NameId target) {
  const TensorType type = TypeOf(lowering, output);
  const NameId loss = lowering.NewName("loss", {type.dtype, {}});
  lowering.Emit("mse_loss", {output, target}, {loss});
  lowering.program().loss = loss;
}

// The input called `name`.
NameId FindInput(Lowering& lowering, std::string_view name) {
  std::vector<std::string_view> names;
  for (const NameId input : lowering.program().inputs) {
    names.push_back(lowering.program().values[Index(input)].name);
    if (names.back() == name) return input;
  }
  throw Error({.file = lowering.graph().path,
               .where = "--labels",
               .text = fmt::format("expected one of the model's inputs ({}), found '{}'",
                                   fmt::join(names, ", "), name),
               .hint = std::string(Nearest(name, names))});
}

}  // namespace

ValueId FindLossOutput(const Graph& graph, const Shapes& shapes, const TrainingSettings& settings) {
  std::vector<std::string_view> names;
  for (const ValueId output : graph.outputs) {
    const std::string_view name = graph.values[Index(output)].name;
    const DType dtype = shapes.types[Index(output)].tensor.dtype;
    if (IsFloat(dtype) && (settings.loss_output.empty() || name == settings.loss_output)) {
      return output;
    }
    if (!IsFloat(dtype)) continue;
    names.push_back(name);
  }
  if (settings.loss_output.empty()) return kNoValue;
  const std::string_view near = Nearest(settings.loss_output, names);
  throw Error({.file = graph.path,
               .where = "--loss-output",
               .text = fmt::format("expected one of the model's outputs of floats ({}), found '{}'",
                                   fmt::join(names, ", "), settings.loss_output),
               .hint = std::string(near)});
}

NameId AddLabels(Lowering& lowering, NameId output, Loss loss, std::string_view given) {
  if (loss == Loss::kNone) return kNoName;
  const TensorType type = TypeOf(lowering, output);
  if (!given.empty()) return FindInput(lowering, given);
  const NameId labels = lowering.NewName("labels", loss == Loss::kMse ? type : LabelType(type));
  lowering.program().inputs.push_back(labels);
  return labels;
}

void AppendLoss(Lowering& lowering, NameId output, NameId labels, Loss loss) {
  lowering.SetPlace("loss");
  switch (loss) {
    case Loss::kCrossEntropy:
      return AppendCrossEntropy(lowering, output, labels);
    case Loss::kCausalLm:
      return AppendCausalLm(lowering, output, labels);
    case Loss::kMse:
      return AppendMse(lowering, output, labels);
    case Loss::kNone:  // the output is the loss itself
      lowering.program().loss = output;
  }
}

}  // namespace onnxfit
