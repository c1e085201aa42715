// What operators ask of their inputs' sizes, a row each.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "estimator/base/index.h"
#include "estimator/base/quote.h"
#include "estimator/onnx/constants.h"
#include "estimator/onnx/onnx_model.h"
#include "estimator/onnx/wrong_size.h"

namespace onnxfit {
namespace {

using Conflict = std::optional<SizeConflict>;

// "'conv1.weight' float32[64, 3, 7, 7]".
std::string OperandText(const Operands& operands, size_t input) {
  const std::string name = operands.stored_behind(input, 0);
  const std::string type = ToString(*operands.types[input]);
  return name.empty() ? type : fmt::format("{} {}", Quote(name), type);
}

struct Side {
  size_t input = 0;
  int64_t size = 0;
};

// Data whose `what` are counted otherwise than a weight has them.
Conflict AgainstWeight(const Operands& operands, const Side& data, const Side& weight,
                       std::string_view what) {
  if (data.size == weight.size) return std::nullopt;
  return SizeConflict{.text = fmt::format("it reads {} {} of {}, its weight {} takes {}", data.size,
                                          what, ToString(*operands.types[data.input]),
                                          OperandText(operands, weight.input), weight.size),
                      .found = data.size,
                      .expected = weight.size,
                      .by_weight = !operands.from_inputs[weight.input]};
}

// Both are sizes of tensors that meet.  What stored tensor one of them comes from is told, and
// the other is then the one that is found.
Conflict Mismatch(const Operands& operands, Side a, Side b, std::string_view cannot) {
  const std::string text =
      fmt::format("{} and {} cannot be {}: {} beside {}", ToString(*operands.types[a.input]),
                  ToString(*operands.types[b.input]), cannot, a.size, b.size);
  const bool is_first = !operands.stored_behind(a.input, a.size).empty();
  if (is_first) std::swap(a, b);
  const std::string stored = operands.stored_behind(b.input, b.size);
  return SizeConflict{
      .text = stored.empty() ? text : fmt::format("{}, as {} has", text, Quote(stored)),
      .found = a.size,
      .expected = b.size};
}

// The first dimensions that do not broadcast, right-aligned, but for the last `own` ones.
// O(dimensions of all operands).
Conflict Unbroadcast(const Operands& operands, size_t own) {
  std::vector<Side> joined;  // by dimension, from the last: who has it first
  for (size_t input = 0; input < operands.types.size(); ++input) {
    const Dims none;
    const Dims& dims = operands.has(input) ? operands.dims(input) : none;
    joined.resize(std::max(joined.size(), dims.size()), {0, 1});
    for (size_t i = own; i < dims.size(); ++i) {
      const Side side = {input, dims[dims.size() - 1 - i]};
      if (joined[i].size == 1) joined[i] = side;
      if (side.size == 1 || side.size == joined[i].size) continue;
      return Mismatch(operands, joined[i], side, "broadcast");
    }
  }
  return std::nullopt;
}

Conflict OfBroadcast(const Operands& operands) { return Unbroadcast(operands, 0); }

// A short list of integers that is known, such as a shape; nullopt where it is not.
std::optional<Integers> ListIn(const Operands& operands, size_t input) {
  constexpr int64_t kMostDims = 1024;
  const HostTensor* list = input < operands.known.size() ? operands.known[input] : nullptr;
  if (list == nullptr || list->is_float() || !HasUpTo(*list, kMostDims)) return std::nullopt;
  return InFull(*list).integers();
}

Conflict OfExpand(const Operands& operands) {
  const std::optional<Integers> target = ListIn(operands, 1);
  if (!operands.has(0) || !target.has_value()) return std::nullopt;
  const Dims& in = operands.dims(0);
  for (size_t i = 0; i < std::min(in.size(), target->size()); ++i) {
    const int64_t from = in[in.size() - 1 - i];
    const int64_t to = (*target)[target->size() - 1 - i];
    if (from == to || from == 1 || to == 1) continue;
    const std::string stored = operands.stored_behind(0, from);
    return SizeConflict{
        .text = fmt::format("{} cannot be expanded to {}: {} beside {}{}",
                            ToString(*operands.types[0]), ToString(Dims(*target)), from, to,
                            stored.empty() ? "" : fmt::format(", as {} has", Quote(stored))),
        .found = to,
        .expected = from};
  }
  return std::nullopt;
}

// What ONNX has refused already.
Conflict OfReshape(const Operands& operands) {
  const std::optional<Integers> target = ListIn(operands, 1);
  if (!operands.has(0) || !target.has_value()) return std::nullopt;
  return SizeConflict{.text = fmt::format("{} cannot take the shape {}",
                                          ToString(*operands.types[0]), ToString(Dims(*target)))};
}

Conflict OfConcat(const Operands& operands) {
  const auto axis = [&] {
    return AxisOf(IntAttribute(*operands.node, "axis", 0), operands.dims(0).size());
  };
  for (size_t i = 1; i < operands.types.size(); ++i) {
    if (!operands.has(0) || !operands.has(i)) continue;
    if (operands.dims(0).size() != operands.dims(i).size()) continue;
    for (size_t k = 0; k < operands.dims(0).size(); ++k) {
      const Side a = {0, operands.dims(0)[k]};
      const Side b = {i, operands.dims(i)[k]};
      if (k != axis() && a.size != b.size) return Mismatch(operands, a, b, "joined");
    }
  }
  return std::nullopt;
}

// --- Products -------------------------------------------------------------------

Conflict OfProduct(const Operands& operands, const Side& left, const Side& right) {
  if (left.size == right.size) return std::nullopt;
  if (!operands.from_inputs[right.input]) {
    return AgainstWeight(operands, left, right, "features");
  }
  if (!operands.from_inputs[left.input]) return AgainstWeight(operands, right, left, "features");
  return Mismatch(operands, left, right, "multiplied");
}

Conflict OfMatMul(const Operands& operands) {
  if (!operands.has(0) || !operands.has(1)) return std::nullopt;
  const Dims& left = operands.dims(0);
  const Dims& right = operands.dims(1);
  if (left.empty() || right.empty()) return std::nullopt;
  const int64_t rows = right[right.size() - std::min<size_t>(right.size(), 2)];
  if (Conflict conflict = OfProduct(operands, {0, left.back()}, {1, rows})) return conflict;
  return Unbroadcast(operands, 2);
}

Conflict OfGemm(const Operands& operands) {
  if (!operands.has(0) || !operands.has(1)) return std::nullopt;
  const Dims& left = operands.dims(0);
  const Dims& right = operands.dims(1);
  if (left.size() != 2 || right.size() != 2) return std::nullopt;
  const bool trans_a = IntAttribute(*operands.node, "transA", 0) != 0;
  const bool trans_b = IntAttribute(*operands.node, "transB", 0) != 0;
  return OfProduct(operands, {0, left[trans_a ? 0 : 1]}, {1, right[trans_b ? 1 : 0]});
}

// --- Layers ---------------------------------------------------------------------

// Input `weight` has [out, in / groups, …], or [in, out / groups, …] where it is transposed.
Conflict ChannelsOf(const Operands& operands, size_t weight, bool is_transposed) {
  if (!operands.has(0) || !operands.has(weight)) return std::nullopt;
  const Dims& x = operands.dims(0);
  const Dims& w = operands.dims(weight);
  if (x.size() < 2 || w.size() < 2) return std::nullopt;
  const int64_t groups = IntAttribute(*operands.node, "group", 1);
  int64_t takes = w[0];
  if (!is_transposed && __builtin_mul_overflow(w[1], groups, &takes)) return std::nullopt;
  return AgainstWeight(operands, {0, x[1]}, {weight, takes}, "channels");
}

Conflict OfConv(const Operands& operands) { return ChannelsOf(operands, 1, false); }
Conflict OfQuantizedConv(const Operands& operands) { return ChannelsOf(operands, 3, false); }
Conflict OfConvTranspose(const Operands& operands) { return ChannelsOf(operands, 1, true); }

// A scale for each channel.
Conflict OfChannelNorm(const Operands& operands) {
  if (!operands.has(0) || !operands.has(1)) return std::nullopt;
  const size_t rank = operands.dims(1).size();
  if (rank != 1) {
    return SizeConflict{.text = fmt::format("its weight {} has {} dimensions, 1 was expected",
                                            OperandText(operands, 1), rank)};
  }
  if (operands.dims(0).size() < 2) return std::nullopt;
  return AgainstWeight(operands, {0, operands.dims(0)[1]}, {1, operands.dims(1)[0]}, "channels");
}

// A scale that broadcasts over the last dimensions.
Conflict OfLayerNorm(const Operands& operands) {
  if (!operands.has(0) || !operands.has(1)) return std::nullopt;
  const Dims& x = operands.dims(0);
  const Dims& scale = operands.dims(1);
  for (size_t i = 0; i < std::min(x.size(), scale.size()); ++i) {
    const int64_t takes = scale[scale.size() - 1 - i];
    if (takes == 1) continue;
    const Side data = {0, x[x.size() - 1 - i]};
    if (Conflict conflict = AgainstWeight(operands, data, {1, takes}, "features")) return conflict;
  }
  return std::nullopt;
}

// X [time, batch, features], W [directions, gates, features].
Conflict OfRecurrent(const Operands& operands) {
  if (!operands.has(0) || !operands.has(1)) return std::nullopt;
  if (operands.dims(0).size() != 3 || operands.dims(1).size() != 3) return std::nullopt;
  return AgainstWeight(operands, {0, operands.dims(0)[2]}, {1, operands.dims(1)[2]}, "features");
}

// --- Tables ---------------------------------------------------------------------

// Indices that are known, such as positions, beyond the rows there are.
Conflict OfGather(const Operands& operands) {
  if (!operands.has(0) || operands.known.size() < 2 || operands.known[1] == nullptr) {
    return std::nullopt;
  }
  const HostTensor& indices = *operands.known[1];
  const Dims& table = operands.dims(0);
  const size_t axis = AxisOf(IntAttribute(*operands.node, "axis", 0), table.size());
  if (indices.is_float() || axis >= table.size() || indices.integers().empty()) return std::nullopt;
  const int64_t last = *std::ranges::max_element(indices.integers());
  if (last < table[axis]) return std::nullopt;
  return SizeConflict{.text = fmt::format("it reads index {} of {}, which has {}", last,
                                          OperandText(operands, 0), table[axis]),
                      .found = last + (last < std::numeric_limits<int64_t>::max() ? 1 : 0),
                      .expected = table[axis],
                      .by_weight = true};
}

// --- Equations -------------------------------------------------------------------

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Letters and spaces, and at most one "...".
bool IsTerm(std::string_view term) {
  const size_t dots = term.find("...");
  std::string rest(term);
  if (dots != std::string_view::npos) rest.erase(dots, 3);
  return std::ranges::all_of(rest, [](char c) { return IsLetter(c) || c == ' '; });
}

// "bij,bjk->bik".
bool IsEquation(std::string_view text) {
  const size_t arrow = text.find("->");
  if (arrow != std::string_view::npos && !IsTerm(text.substr(arrow + 2))) return false;
  std::string_view left = text.substr(0, arrow);
  for (size_t comma = left.find(','); comma != left.npos; comma = left.find(',')) {
    if (!IsTerm(left.substr(0, comma))) return false;
    left.remove_prefix(comma + 1);
  }
  return IsTerm(left);
}

// ONNX's inference (1.23.2) takes for granted that it reads an equation.
Conflict OfEinsum(const Operands& operands) {
  const auto& inputs = operands.node->input();
  const auto left_out = std::find(inputs.begin(), inputs.end(), "");
  if (left_out != inputs.end()) {
    return SizeConflict{.text = fmt::format("input {} is left out", left_out - inputs.begin())};
  }
  const onnx::AttributeProto* equation = FindAttribute(*operands.node, "equation");
  if (equation == nullptr || IsEquation(equation->s())) return std::nullopt;
  return SizeConflict{.text = fmt::format("expected an equation as \"bij,bjk->bik\", found {}",
                                          Quote(equation->s()))};
}

constexpr OperandRow kOperandRows[] = {
    // elementwise
    {"Add", OfBroadcast},
    {"And", OfBroadcast},
    {"BitShift", OfBroadcast},
    {"BitwiseAnd", OfBroadcast},
    {"BitwiseOr", OfBroadcast},
    {"BitwiseXor", OfBroadcast},
    {"Div", OfBroadcast},
    {"Equal", OfBroadcast},
    {"Greater", OfBroadcast},
    {"GreaterOrEqual", OfBroadcast},
    {"Less", OfBroadcast},
    {"LessOrEqual", OfBroadcast},
    {"Max", OfBroadcast},
    {"Mean", OfBroadcast},
    {"Min", OfBroadcast},
    {"Mod", OfBroadcast},
    {"Mul", OfBroadcast},
    {"Or", OfBroadcast},
    {"PRelu", OfBroadcast},
    {"Pow", OfBroadcast},
    {"Sub", OfBroadcast},
    {"Sum", OfBroadcast},
    {"Where", OfBroadcast},
    {"Xor", OfBroadcast},
    {"Concat", OfConcat},
    {"Expand", OfExpand},
    {"Reshape", OfReshape},
    // products
    {"Gemm", OfGemm},
    {"MatMul", OfMatMul},
    {"MatMulInteger", OfMatMul},
    // layers
    {"BatchNormalization", OfChannelNorm, true},
    {"Conv", OfConv, true},
    {"ConvInteger", OfConv, true},
    {"ConvTranspose", OfConvTranspose, true},
    {"Einsum", OfEinsum, true},
    {"GRU", OfRecurrent, true},
    {"InstanceNormalization", OfChannelNorm, true},
    {"LSTM", OfRecurrent, true},
    {"LayerNormalization", OfLayerNorm, true},
    {"QLinearConv", OfQuantizedConv, true},
    {"RMSNormalization", OfLayerNorm, true},
    {"RNN", OfRecurrent, true},
    // tables
    {.op_type = "Gather", .find = OfGather, .is_silent = true, .reads_elements = true},
};

// --- Where a tensor comes from --------------------------------------------------

constexpr int kMostSteps = 32;  // from a tensor to what is stored

// Elements of the first input in other places, or in another type; rows of a table.
constexpr std::string_view kMoves[] = {"Cast",   "DequantizeLinear", "Expand",         "Flatten",
                                       "Gather", "Identity",         "QuantizeLinear", "Reshape",
                                       "Slice",  "Squeeze",          "Transpose",      "Unsqueeze"};

// What to look behind next.
ValueId BehindNode(const Node& node) {
  return std::ranges::find(kMoves, node.op_type) == std::end(kMoves) ? kNoValue : node.inputs[0];
}

}  // namespace

const OperandRow* FindOperandRow(std::string_view op_type) {
  const auto* const row = std::ranges::find(kOperandRows, op_type, &OperandRow::op_type);
  return row == std::end(kOperandRows) ? nullptr : row;
}

std::string StoredBehind(const Graph& graph, ValueId value, int64_t size) {
  for (int steps = 0; steps < kMostSteps && value != kNoValue; ++steps) {
    const Value& at = graph.values[Index(value)];
    if (at.initializer >= 0) {
      const Dims& dims = graph.initializers[Index(at.initializer)].type.dims;
      const bool fits = size == 0 || std::ranges::find(dims, size) != dims.end();
      return fits ? std::string(at.name) : "";
    }
    if (at.producer == kNoNode) return "";
    value = BehindNode(graph.nodes[Index(at.producer)]);
  }
  return "";
}

std::string TypesText(const Operands& operands) {
  std::vector<std::string> types;
  for (const auto& type : operands.types) {
    if (type.has_value()) types.push_back(ToString(*type));
  }
  return fmt::format("{}", fmt::join(types, ", "));
}

}  // namespace onnxfit
