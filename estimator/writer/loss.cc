#include "estimator/writer/loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/base/text.h"

namespace onnxfit {
namespace {

const TensorType& TypeOf(ProgramWriter& writer, NameId name) {
  return writer.program().values[Index(name)].type;
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
NameId FlattenTokens(ProgramWriter& writer, const CallPlace& place, NameId logits) {
  const TensorType type = TypeOf(writer, logits);
  if (type.dims.size() != 3) return logits;
  const TensorType flat = {type.dtype, {CheckedMul(type.dims[0], type.dims[1]), type.dims[2]}};
  const NameId view = writer.NewName("logits", flat);
  writer.Emit(place, "view", {logits}, {view});
  return view;
}

void AppendSmoothed(ProgramWriter& writer, const CallPlace& place, NameId logits, NameId labels) {
  const NameId loss = writer.NewName("loss", {TypeOf(writer, logits).dtype, {}});
  writer.Emit(place, "cross_entropy_loss", {logits, labels}, {loss}, {1});
  writer.program().loss = loss;
}

void AppendCrossEntropy(ProgramWriter& writer, const CallPlace& place, NameId output,
                        NameId labels) {
  const NameId logits = FlattenTokens(writer, place, output);
  const TensorType type = TypeOf(writer, logits);
  if (writer.settings().label_smoothing) return AppendSmoothed(writer, place, logits, labels);
  const NameId log_probabilities = writer.NewName("log_probabilities", type);
  writer.Emit(place, "_log_softmax", {logits}, {log_probabilities});
  const NameId loss = writer.NewName("loss", {type.dtype, {}});
  writer.Emit(place, type.dims.size() > 2 ? "nll_loss2d" : "nll_loss", {log_probabilities, labels},
              {loss});
  writer.program().loss = loss;
}

// Logits of 16 bits are taken in fp32 (transformers, loss/loss_utils.py: ForCausalLMLoss).
void AppendCausalLm(ProgramWriter& writer, const CallPlace& place, NameId output, NameId labels) {
  TensorType type = TypeOf(writer, output);
  NameId logits = output;
  if (BitsOf(type.dtype) == 16) {
    type.dtype = DType::kFloat32;
    logits = writer.NewName("logits.float", type);
    writer.Emit(place, "to", {output}, {logits});
  }
  AppendCrossEntropy(writer, place, logits, labels);
}

void AppendMse(ProgramWriter& writer, const CallPlace& place, NameId output, NameId target) {
  const TensorType type = TypeOf(writer, output);
  const NameId loss = writer.NewName("loss", {type.dtype, {}});
  writer.Emit(place, "mse_loss", {output, target}, {loss});
  writer.program().loss = loss;
}

// The input called `name`.
NameId FindInput(ProgramWriter& writer, std::string_view name) {
  std::vector<std::string_view> names;
  for (const NameId input : writer.program().inputs) {
    names.push_back(writer.program().values[Index(input)].name);
    if (names.back() == name) return input;
  }
  throw Error({.file = writer.path(),
               .where = "--labels",
               .text = fmt::format("expected one of the model's inputs ({}), found '{}'",
                                   fmt::join(names, ", "), name),
               .hint = std::string(Nearest(name, names))});
}

// --- Gradients ------------------------------------------------------------------------------

bool HoldsFloats(const Program& program, NameId name) {
  return name != kNoName && HasGradients(program.values[Index(name)].type.dtype);
}

// Under torch.no_grad() no gradient passes, but what returns its operand: a cast to the type that
// it has.
bool StopsGradients(const Program& program, const AtenCall& call) {
  if (!call.leaves_autograd) return false;
  const bool is_same = call.op == "to" && program.values[Index(call.inputs[0])].type ==
                                              program.values[Index(call.outputs[0])].type;
  return !is_same;
}

bool GoesBackward(const Program& program, const AtenCall& call) {
  if (call.function == FunctionPart::kNested) return true;
  return call.action >= 0 &&
         program.actions[Index(call.action)].kind == StepAction::Kind::kBackward;
}

// Which names a gradient reaches: those of floats, or of complex numbers, that lead through such to
// the loss, or to what a stage of a pipeline sends on.
std::vector<bool> ReachedByGradients(const Program& program) {
  std::vector<bool> reached(program.values.size());
  if (program.loss != kNoName) reached[Index(program.loss)] = true;
  for (const NameId name : program.sent) reached[Index(name)] = true;
  for (const AtenCall& call : program.calls) {
    if (!GoesBackward(program, call)) continue;
    for (const NameId root : call.inputs) {
      if (root != kNoName) reached[Index(root)] = true;
    }
  }
  const auto is_reached = [&](NameId name) {
    return HoldsFloats(program, name) && reached[Index(name)];
  };
  for (size_t i = program.calls.size(); i-- > 0;) {
    const AtenCall& call = program.calls[i];
    if (StopsGradients(program, call)) continue;
    const bool is_function = call.function == FunctionPart::kNode;
    const std::span<const NameId> results = is_function ? ResultsOfFunction(call) : call.outputs;
    const std::span<const NameId> operands = is_function ? ArgumentsOfFunction(call) : call.inputs;
    const bool leads = std::ranges::any_of(results, is_reached);
    for (const NameId input : operands) {
      if (leads && HoldsFloats(program, input)) reached[Index(input)] = true;
    }
  }
  return reached;
}

}  // namespace

std::optional<size_t> FindLossOutput(const std::string& path,
                                     const std::vector<NamedOutput>& outputs,
                                     std::string_view asked) {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!IsFloat(outputs[i].dtype)) continue;
    if (asked.empty() || outputs[i].name == asked) return i;
    names.push_back(outputs[i].name);
  }
  if (asked.empty()) return std::nullopt;
  throw Error({.file = path,
               .where = "--loss-output",
               .text = fmt::format("expected one of the model's outputs of floats ({}), found '{}'",
                                   fmt::join(names, ", "), asked),
               .hint = std::string(Nearest(asked, names))});
}

namespace {

// Of mse, floats like the output's; no autocast is around what makes them.
TensorType LabelsLike(const ProgramWriter& writer, TensorType type) {
  const Precision precision = writer.settings().precision;
  const bool is_cast = writer.has_types_of_autocast() && type.dtype == AutocastType(precision);
  if (is_cast) type.dtype = ParameterType(precision);
  return type;
}

}  // namespace

Loss LossOf(Loss asked, const TensorType& output) {
  return IsOfClasses(asked) && output.dims.empty() ? Loss::kNone : asked;
}

NameId AddLabels(ProgramWriter& writer, NameId output, Loss loss, std::string_view given) {
  if (loss == Loss::kNone) return kNoName;
  const TensorType type = TypeOf(writer, output);
  if (!given.empty()) return FindInput(writer, given);
  const NameId labels =
      writer.NewName("labels", loss == Loss::kMse ? LabelsLike(writer, type) : LabelType(type));
  writer.program().inputs.push_back(labels);
  return labels;
}

void AppendLoss(ProgramWriter& writer, const CallPlace& place, NameId output, NameId labels,
                Loss loss) {
  switch (loss) {
    case Loss::kCrossEntropy:
      return AppendCrossEntropy(writer, place, output, labels);
    case Loss::kCausalLm:
      return AppendCausalLm(writer, place, output, labels);
    case Loss::kMse:
      return AppendMse(writer, place, output, labels);
    case Loss::kNone:
      writer.program().loss = output;
      writer.program().loss_is_output = true;
  }
}

std::vector<NameId> UnreachedParameters(const Program& program) {
  const std::vector<bool> reached = ReachedByGradients(program);
  std::vector<NameId> unreached;
  for (const NameId name : program.parameters) {
    if (!reached[Index(name)]) unreached.push_back(name);
  }
  return unreached;
}

}  // namespace onnxfit
