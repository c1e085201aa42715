// Convolutions, and the batch norms that were folded into them.
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/base/tensor_type.h"
#include "estimator/onnx/graph.h"
#include "estimator/program/call_operands.h"
#include "estimator/recover/lowering.h"

namespace onnxfit {
namespace {

// --- What the attributes of a Conv or ConvTranspose say -------------------------------------

struct ConvolutionDims {
  const Dims& input;
  const Dims& weight;
  const Dims& output;
};

// The attribute called `name`, or `count` times `absent`.
std::vector<int64_t> IntsAttribute(const Node& node, std::string_view name, size_t count,
                                   int64_t absent) {
  const Attribute* attribute = FindAttribute(node, name);
  const auto* ints =
      attribute == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(&attribute->value);
  return ints == nullptr ? std::vector<int64_t>(count, absent) : *ints;
}

std::string_view AutoPadOf(const Node& node) {
  const Attribute* attribute = FindAttribute(node, "auto_pad");
  const auto* text =
      attribute == nullptr ? nullptr : std::get_if<std::string_view>(&attribute->value);
  return text == nullptr ? "NOTSET" : *text;
}

// What both sides of a dimension are padded with together, so that the output has its size.
int64_t PaddedTogether(const ConvolutionArguments& arguments, const ConvolutionDims& dims,
                       size_t spatial) {
  const int64_t input = dims.input[spatial + 2];
  const int64_t output = dims.output[spatial + 2];
  const int64_t kernel = arguments.dilation[spatial] * (dims.weight[spatial + 2] - 1) + 1;
  const int64_t stride = arguments.stride[spatial];
  return arguments.is_transposed ? (input - 1) * stride + kernel - output
                                 : (output - 1) * stride + kernel - input;
}

// Of a dimension, where both sides have the same.
std::optional<int64_t> PaddingOf(const Node& node, const ConvolutionArguments& arguments,
                                 const ConvolutionDims& dims, size_t spatial) {
  const std::string_view automatic = AutoPadOf(node);
  if (automatic == "VALID") return 0;
  if (automatic.starts_with("SAME")) {
    const int64_t together = PaddedTogether(arguments, dims, spatial);
    return together >= 0 && together % 2 == 0 ? std::optional(together / 2) : std::nullopt;
  }
  const size_t count = arguments.stride.size();
  const std::vector<int64_t> pads = IntsAttribute(node, "pads", 2 * count, 0);
  const bool is_even = pads.size() == 2 * count && pads[spatial] == pads[spatial + count];
  return is_even ? std::optional(pads[spatial]) : std::nullopt;
}

// Those of a Conv or ConvTranspose.  nullopt where it pads one side more than the other: PyTorch
// pads in a call of its own then, which no file shows.
std::optional<ConvolutionArguments> ReadArguments(const Node& node, const ConvolutionDims& dims) {
  const size_t rank = dims.weight.size();
  if (rank < 3 || dims.input.size() != rank || dims.output.size() != rank) return std::nullopt;
  const size_t count = rank - 2;
  ConvolutionArguments arguments = {.stride = IntsAttribute(node, "strides", count, 1),
                                    .padding = {},
                                    .dilation = IntsAttribute(node, "dilations", count, 1),
                                    .groups = IntAttribute(node, "group", 1),
                                    .is_transposed = node.op_type == "ConvTranspose"};
  if (arguments.stride.size() != count || arguments.dilation.size() != count) return std::nullopt;
  for (size_t i = 0; i < count; ++i) {
    const std::optional<int64_t> padding = PaddingOf(node, arguments, dims, i);
    if (!padding) return std::nullopt;
    arguments.padding.push_back(*padding);
  }
  return arguments;
}

// --- Its calls ------------------------------------------------------------------------------

// Of a convolution into which a batch norm was folded, where torch.export says of its node that it
// is the batch norm.  Its statement is lost: it bound the name that the batch norm's passes on.
CallPlace PlaceOfConvolution(const UnitWriter& unit, const FoldedBatchNorm& folded) {
  const ModuleTree& modules = unit.program().modules;
  if (modules.NameOf(unit.place().module) != folded.module) return unit.place();
  CallPlace place = unit.Beside(folded.convolution_module);
  if (place.frames.size() < 2) return place;
  StatementId& statement = place.frames[place.frames.size() - 2];
  if (statement == kNoStatement) return place;
  SourceLines& source = unit.program().source;
  const std::string argument = source.At(statement).ArgumentTo(folded.module);
  if (!argument.empty()) statement = source.PutBeside(statement, {argument});  // else it is in one
  return place;
}

// A number that is cast and expanded.
bool IsFilled(const UnitWriter& unit, ValueId value) {
  while (!unit.values().IsHost(value)) {
    const NodeId producer = unit.graph().values[Index(value)].producer;
    if (producer == kNoNode) return false;
    const Node& node = unit.bound().At(producer);
    const bool keeps_number =
        node.op_type == "Expand" || node.op_type == "CastLike" || node.op_type == "Cast";
    if (!keeps_number) return false;
    value = node.inputs[0];
  }
  return true;
}

// A bias that is no parameter, nor made of one, is one that the exporter computed: a tensor of
// zeros, or what it folded a batch norm into.
std::vector<NameId> ConvolutionInputs(UnitWriter& unit, const Node& node) {
  std::vector<NameId> inputs = {unit.TensorOf(InputOf(node, 0)), unit.TensorOf(InputOf(node, 1))};
  const ValueId bias = InputOf(node, 2);
  const bool is_made = bias != kNoValue && unit.graph().values[Index(bias)].producer != kNoNode &&
                       unit.values().FollowsParameter(bias) && !IsFilled(unit, bias);
  if (is_made || unit.values().IsParameter(bias)) inputs.push_back(unit.TensorOf(bias));
  return inputs;
}

// Where padding "same" is an odd number, the input is padded by one more behind it before.
// Source: _convolution_same of aten/src/ATen/native/Convolution.cpp, pytorch v2.11.0.
Dims PaddedBefore(const UnitWriter& unit, const Node& node) {
  Dims dims = unit.TypeOf(node.inputs[0]).dims;
  const Dims& weight = unit.TypeOf(node.inputs[1]).dims;
  const Dims& output = unit.TypeOf(node.outputs[0]).dims;
  const bool is_same = AutoPadOf(node) == "SAME_UPPER" && node.op_type == "Conv";
  if (!is_same || dims.size() != weight.size() || dims.size() != output.size()) return dims;
  const size_t count = dims.size() < 2 ? 0 : dims.size() - 2;
  const std::vector<int64_t> strides = IntsAttribute(node, "strides", count, 1);
  const std::vector<int64_t> dilations = IntsAttribute(node, "dilations", count, 1);
  if (strides.size() != count || dilations.size() != count) return dims;
  const ConvolutionDims given = {dims, weight, output};
  const ConvolutionArguments arguments = {.stride = strides, .padding = {}, .dilation = dilations};
  Dims padded = dims;
  for (size_t i = 0; i < count; ++i) {
    const int64_t together = PaddedTogether(arguments, given, i);
    if (together > 0 && together % 2 == 1) ++padded[i + 2];
  }
  return padded;
}

std::vector<int64_t> ConvolutionInts(const UnitWriter& unit, const Node& node, const Dims& input) {
  return ToInts(ReadArguments(
      node, {input, unit.TypeOf(node.inputs[1]).dims, unit.TypeOf(node.outputs[0]).dims}));
}

}  // namespace

void LowerConvolution(UnitWriter& unit, const Node& node, std::string_view aten) {
  std::vector<NameId> inputs = ConvolutionInputs(unit, node);
  const TensorType given = unit.TypeOf(node.inputs[0]);
  const Dims padded = PaddedBefore(unit, node);
  if (padded != given.dims) {
    inputs[0] =
        unit.Make("pad", {inputs[0]}, std::string(unit.bound().NameOf(node.inputs[0])) + ".pad",
                  unit.WithPrecision({given.dtype, padded}));
  }
  std::vector<int64_t> ints = ConvolutionInts(unit, node, padded);
  const FoldedBatchNorm* folded = unit.FoldedInto(node);
  if (folded == nullptr) {
    unit.Emit(aten, std::move(inputs), {unit.NewResult(node.outputs[0])}, std::move(ints));
    return;
  }
  if (folded->convolution_has_bias && inputs.size() < 3) {
    const auto bias = unit.values().FindLostTensor(folded->convolution_module + ".bias");
    if (bias.has_value()) inputs.push_back(*bias);
  }
  const TensorType type = unit.WithPrecision(unit.TypeOf(node.outputs[0]));
  UnitWriter at_convolution = unit.At(PlaceOfConvolution(unit, *folded));
  const NameId convolved = at_convolution.Make(aten, std::move(inputs), folded->module + ".input",
                                               type, std::move(ints));
  UnitWriter at_norm = unit.At(unit.Beside(folded->module));
  EmitBatchNorm(at_norm, convolved, folded->module, node.outputs[0]);
}

}  // namespace onnxfit
