// What the Inferrer holds a node to, and what it says where the node does not hold to it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "estimator/base/quote.h"
#include "estimator/base/warnings.h"
#include "estimator/onnx/inferrer.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

bool HasNegative(const onnx::TypeProto& type) {
  const auto& dims = type.tensor_type().shape().dim();
  return std::any_of(dims.begin(), dims.end(), [](const auto& dim) { return dim.dim_value() < 0; });
}

// ONNX's reason without the context below it.
std::string OneLine(std::string_view reason) {
  return std::string(reason.substr(0, reason.find('\n')));
}

// Product, or nothing where 64 bits do not hold it.
std::optional<int64_t> Product(const onnx::TypeProto& type) {
  int64_t product = 1;
  for (const auto& dim : type.tensor_type().shape().dim()) {
    if (__builtin_mul_overflow(product, dim.dim_value(), &product)) return std::nullopt;
  }
  return product;
}

bool IsTooLarge(const Operands& operands) {
  return std::ranges::any_of(operands.types, [](const std::optional<TensorType>& type) {
    int64_t product = 1;
    return type.has_value() && std::ranges::any_of(type->dims, [&](int64_t dim) {
             return __builtin_mul_overflow(product, dim, &product);
           });
  });
}

// "data decide 2 sizes, which are taken as the most that they can be: 'p' 12, 'q' 4 (--dim p=N …)".
std::string TextOfTaken(const std::map<std::string, int64_t>& taken) {
  constexpr size_t kMostShown = 8;
  std::vector<std::string> shown;
  for (const auto& [name, size] : taken) {
    if (shown.size() < kMostShown) shown.push_back(fmt::format("'{}' {}", name, size));
  }
  if (taken.size() > kMostShown) shown.push_back(fmt::format("{} more", taken.size() - kMostShown));
  const bool is_one = taken.size() == 1;
  return fmt::format("data decide {}, taken as the most that {} can be: {} (--dim {}=N says less)",
                     is_one ? "a size" : fmt::format("{} sizes", taken.size()),
                     is_one ? "it" : "they", fmt::join(shown, ", "),
                     ShellWord(taken.begin()->first));
}

}  // namespace

void Inferrer::CheckOutputs(NodeId id, const Operator& op) const {
  const Node& node = NodeAt(id);
  // ONNX's inference makes a list this long.
  const auto outputs = static_cast<int64_t>(node.outputs.size());
  const int64_t parts = IntAttribute(node, "num_outputs", outputs);
  if (op.schema != nullptr && parts != outputs) {
    Refuse(id, fmt::format("num_outputs is {}, the node has {}", parts, outputs), "");
  }
}

// Not behind a guess, which may be of another kind than what the file says.
void Inferrer::CheckKinds(NodeId id, const Operator& op) const {
  if (GuessBehind(id) != kNoNode) return;
  for (size_t i = 0; i < NodeAt(id).inputs.size(); ++i) {
    if (NodeAt(id).inputs[i] == kNoValue) continue;
    std::string wrong = op.kinds.Wrong(i, TypeRead(id, i));
    if (!wrong.empty()) Refuse(id, std::move(wrong), "");
  }
}

// --- Operands -------------------------------------------------------------------

Operands Inferrer::OperandsOf(NodeId id) const {
  const Node& node = NodeAt(id);
  Operands operands;
  operands.node = &graph_.model->NodeOf(id);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool has = node.inputs[i] != kNoValue && AllDimsKnown(TypeRead(id, i));
    operands.types.push_back(has ? std::optional(TensorTypeFrom(TypeRead(id, i))) : std::nullopt);
    const bool is_known = node.inputs[i] != kNoValue && KnownRead(id, i).has_value();
    operands.known.push_back(is_known ? &*KnownRead(id, i) : nullptr);
    operands.from_inputs.push_back(node.inputs[i] != kNoValue && DependsOnInputs(node.inputs[i]));
  }
  operands.stored_behind = [this, &node](size_t input, int64_t size) {
    return StoredBehind(graph_, node.inputs[input], size);
  };
  return operands;
}

// Before ONNX, which lets some of it pass.
void Inferrer::CheckOperands(NodeId id, const Operator& op) {
  const Operands operands = OperandsOf(id);
  if (op.operands->reads_elements && operands.known.size() > 1 && operands.known[1] != nullptr) {
    looked_at_ += Numel(operands.known[1]->stored);
    if (looked_at_ > kMaxEvaluated) return;
  }
  const auto conflict = op.operands->find(operands);
  if (conflict.has_value()) Refuse(id, *conflict, HintOnSizes(id));
}

// `reason` is ONNX's, whose words are for those who ask for details.
void Inferrer::RefuseInputs(NodeId id, const Operator& op, const char* reason) const {
  const Operands operands = OperandsOf(id);
  std::optional<SizeConflict> conflict;
  if (op.operands != nullptr) conflict = op.operands->find(operands);
  if (IsTooLarge(operands)) {
    conflict = {
        .text = fmt::format("it reads more elements than 64 bits count, {}", TypesText(operands))};
  } else if (!conflict.has_value()) {
    conflict = {.text = fmt::format("its inputs and attributes do not go together: it reads {}",
                                    TypesText(operands))};
  }
  Refuse(id, *std::move(conflict), HintOnSizes(id), fmt::format("ONNX says: {}", OneLine(reason)));
}

// --- Outputs -------------------------------------------------------------------

void Inferrer::CheckDims(NodeId id) const {
  for (const ValueId value : NodeAt(id).outputs) {
    const int rank =
        value == kNoValue ? 0 : Innermost(TypeAt(value)).tensor_type().shape().dim_size();
    if (rank > kMaxRank) {
      Refuse(id, fmt::format("at most {} dimensions were expected, found {}", kMaxRank, rank), "");
    }
    if (value == kNoValue || !HasNegative(Innermost(TypeAt(value)))) continue;
    Refuse(id,
           fmt::format("its output {} would have a negative dimension, {}",
                       Quote(graph_.values[Place(value)].name), ToString(TensorTypeOf(value))),
           HintOnSizes(id));
  }
}

void Inferrer::CheckReshape(NodeId id) const {
  const Node& node = NodeAt(id);
  if (!Resolved(node.inputs[0]) || !Resolved(node.outputs[0])) return;
  if (Product(TypeAt(node.inputs[0])) == Product(TypeAt(node.outputs[0]))) return;
  Refuse(id,
         fmt::format("{} cannot take the shape {}", ToString(TensorTypeOf(node.inputs[0])),
                     ToString(TensorTypeOf(node.outputs[0]).dims)),
         HintOnSizes(id));
}

// --- What is said ---------------------------------------------------------------

std::string Inferrer::DoubtText(std::string_view kind, const std::vector<NodeId>& nodes) const {
  const Node& first = NodeAt(nodes.front());
  const std::string others =
      nodes.size() == 1 ? "" : fmt::format(" and {} other nodes", nodes.size() - 1);
  return fmt::format("ONNX has no schema for {} of node {}{}: {}", Quote(first.op_type),
                     Quote(DisplayName(graph_, nodes.front())), others, kind);
}

Warnings Inferrer::CollectWarnings() const {
  Warnings warnings = inputs_.warnings;
  for (const auto& [kind, nodes] : doubts_) {
    warnings.push_back({warning::kStoredShape, DoubtText(kind, nodes)});
  }
  if (!taken_.empty()) warnings.push_back({warning::kMostOfData, TextOfTaken(taken_)});
  return warnings;
}

// What sizes that data decide are said or taken to be, of the values that `id` is computed from,
// the nearest first.
std::vector<std::string> Inferrer::GivenInFrontOf(NodeId id) const {
  constexpr size_t kMostValues = 256;
  constexpr size_t kMostSizes = 8;
  std::map<std::string, int64_t> sizes = inputs_.inner_dims;
  sizes.insert(taken_.begin(), taken_.end());
  std::vector<std::string> given;
  std::vector<ValueId> values;
  const auto add = [&](ValueId value) {
    if (value == kNoValue || std::ranges::find(values, value) != values.end()) return;
    if (values.size() < kMostValues) values.push_back(value);
  };
  for (const ValueId value : NodeAt(id).inputs) add(value);
  for (size_t i = 0; i < values.size() && given.size() < kMostSizes; ++i) {
    const Value& value = graph_.values[Place(values[i])];
    for (const auto& [name, size] : sizes) {
      const bool is_it =
          name == value.name ||
          (name.starts_with(value.name) && name.find('.', value.name.size()) == value.name.size());
      if (is_it) given.push_back(fmt::format("{} = {}", Quote(name), size));
    }
    if (value.producer == kNoNode) continue;
    for (const ValueId input : NodeAt(value.producer).inputs) add(input);
  }
  return given;
}

std::string Inferrer::HintOnSizes(NodeId id) const {
  if (inputs_.rebound.has_value()) return "an export whose batch is a free dimension";
  std::vector<std::string> sizes = GivenInFrontOf(id);
  for (const auto& [name, size] : inputs_.symbols) {
    sizes.push_back(fmt::format("{} = {}", Quote(name), size));
  }
  if (sizes.empty()) return "";
  return fmt::format("other sizes than {}", fmt::join(sizes, ", "));
}

// What contradicts a guess is the guess's fault.
void Inferrer::RefuseGuess(NodeId guess, NodeId id, const std::string& reason) const {
  const Node& node = NodeAt(guess);
  throw Error(
      {graph_.path, NodeText(graph_, guess),
       fmt::format("ONNX has no schema for {}, so its output was taken to be like its first "
                   "input; node {} that reads it says: {}",
                   node.op_type, Quote(DisplayName(graph_, id)), reason),
       "the export from before an optimizer fused operators"});
}

void Inferrer::Refuse(NodeId id, std::string text, std::string hint) const {
  Refuse(id, SizeConflict{.text = std::move(text)}, std::move(hint));
}

void Inferrer::Refuse(NodeId id, SizeConflict conflict, std::string hint,
                      std::string detail) const {
  if (GuessBehind(id) != kNoNode) RefuseGuess(GuessBehind(id), id, conflict.text);
  Error::Parts parts = {graph_.path, NodeText(graph_, id), conflict.text, std::move(hint),
                        std::move(detail)};
  throw SizeError(std::move(parts), std::move(conflict));
}

}  // namespace onnxfit
