// Layers of torch.nn.LSTM, GRU and RNN, each of them one node of ONNX behind those that order its
// weights anew.
#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/program/modules.h"
#include "estimator/program/recurrent_layers.h"
#include "estimator/recover/exporter_metadata.h"
#include "estimator/recover/rewrites.h"

namespace onnxfit {
namespace {

struct RecurrentRow {
  std::string_view op_type;
  std::string_view aten;
  size_t states;  // inputs of first states
};

constexpr RecurrentRow kRecurrentRows[] = {
    {"LSTM", "lstm", 2}, {"GRU", "gru", 1}, {"RNN", "rnn", 1}};

constexpr size_t kWeight = 1;
constexpr size_t kRecurrence = 2;
constexpr size_t kBias = 3;
constexpr size_t kFirstState = 5;
constexpr int kDeepest = 8;         // of the nodes that order a weight anew
constexpr size_t kMostInputs = 12;  // of a call (eager/op_rule.h)

const RecurrentRow* FindRow(std::string_view op_type) {
  const auto* row = std::ranges::find(kRecurrentRows, op_type, &RecurrentRow::op_type);
  return row == std::end(kRecurrentRows) ? nullptr : row;
}

// Operators that a weight goes through on its way from the module's order of gates to ONNX's.
bool OrdersAnew(std::string_view op_type) {
  return op_type == "Slice" || op_type == "Concat" || op_type == "Unsqueeze";
}

// The p between the layers, of a call of torch.export's: lstm.input and gru.input have it behind
// has_biases and the number of layers.
bool DropsOutBetweenLayers(const FxNode* call) {
  constexpr size_t kLayers = 4;
  constexpr size_t kP = 5;
  if (call == nullptr || call->arguments.size() <= kP) return false;
  double p = 0;
  const std::string_view text = call->arguments[kP].text;
  std::from_chars(text.data(), text.data() + text.size(), p);
  return p > 0 && call->arguments[kLayers].number > 1;
}

class RecurrentFinder {
 public:
  explicit RecurrentFinder(const BoundGraph& bound)
      : graph_(bound.graph()), metadata_(bound.metadata()), bound_(bound) {
    for (const Initializer& stored : graph_.initializers) {
      by_name_.emplace(bound.NameOf(stored.value), stored.value);
    }
  }

  std::optional<Rewritten> Find(NodeId id) const {
    const Node& node = graph_.nodes[Index(id)];
    const RecurrentRow* row = node.domain.empty() ? FindRow(node.op_type) : nullptr;
    if (row == nullptr || node.inputs.size() <= kRecurrence || !HasShapes(node)) {
      return std::nullopt;
    }
    Rewritten call;
    call.aten = row->aten;
    call.aten_in_eval = RecurrentInference(row->aten);
    call.last = id;
    call.inputs = {node.inputs[0]};
    for (size_t i = 0; i < row->states; ++i) call.inputs.push_back(At(node, kFirstState + i));
    AddParameters(node, call);
    if (call.inputs.size() > kMostInputs) return std::nullopt;
    call.nodes.push_back(id);
    for (const ValueId result : node.outputs) {
      if (result != kNoValue) call.results.push_back(result);
    }
    call.ints =
        RecurrentInts(row->aten, HiddenNumel(node), DropsOutBetweenLayers(metadata_.CallOf(id)));
    return call.results.empty() ? std::nullopt : std::optional(std::move(call));
  }

 private:
  static ValueId At(const Node& node, size_t i) {
    return i < node.inputs.size() ? node.inputs[i] : kNoValue;
  }

  bool HasShapes(const Node& node) const {
    const auto rank = [&](size_t i) {
      const ValueId value = At(node, i);
      return value == kNoValue ? 0 : bound_.DimsOf(value).size();
    };
    return rank(0) == 3 && rank(kWeight) == 3 && rank(kRecurrence) == 3;
  }

  // Of all steps, samples and directions: x [T, N, I], R [D, gates * H, H].
  int64_t HiddenNumel(const Node& node) const {
    const Dims& x = bound_.DimsOf(node.inputs[0]);
    const Dims& recurrence = bound_.DimsOf(node.inputs[kRecurrence]);
    return CheckedMul(CheckedMul(x[0], x[1]), CheckedMul(recurrence[0], recurrence[2]));
  }

  void AddParameters(const Node& node, Rewritten& call) const {
    Collect(node.inputs[kWeight], call);
    Collect(node.inputs[kRecurrence], call);
    const ValueId bias = At(node, kBias);
    if (bias == kNoValue) return;
    const std::vector<ValueId> lost = BiasesBeside(call.inputs);
    const bool is_stored = graph_.values[Index(bias)].initializer >= 0;
    if (!is_stored || lost.empty()) return Collect(bias, call);
    call.inputs.insert(call.inputs.end(), lost.begin(), lost.end());
  }

  // The tensors of the file that `value` is made of; it itself where it is computed otherwise.
  void Collect(ValueId value, Rewritten& call, int depth = 0) const {
    if (value == kNoValue) return;
    const NodeId maker = graph_.values[Index(value)].producer;
    const bool is_inner =
        depth < kDeepest && maker != kNoNode && OrdersAnew(graph_.nodes[Index(maker)].op_type) &&
        bound_.ReadersOf(value).size() == 1 && !graph_.values[Index(value)].is_output;
    if (!is_inner) {
      const bool is_new = std::ranges::find(call.inputs, value) == call.inputs.end();
      if (is_new) call.inputs.push_back(value);
      return;
    }
    const Node& node = graph_.nodes[Index(maker)];
    const size_t count = node.op_type == "Concat" ? node.inputs.size() : 1;
    for (size_t i = 0; i < count; ++i) Collect(node.inputs[i], call, depth + 1);
    call.nodes.push_back(maker);
  }

  // "rnn.bias_ih_l0" for "rnn.weight_ih_l0", as far as the graph has them.
  std::vector<ValueId> BiasesBeside(const std::vector<ValueId>& inputs) const {
    std::vector<ValueId> biases;
    for (const ValueId value : inputs) {
      if (value == kNoValue) continue;
      const std::string bias = BiasOfRecurrentWeight(bound_.NameOf(value));
      const auto found = by_name_.find(bias);
      if (found != by_name_.end()) biases.push_back(found->second);
    }
    return biases;
  }

  const Graph& graph_;
  const ExporterMetadata& metadata_;
  const BoundGraph& bound_;
  std::unordered_map<std::string_view, ValueId> by_name_;
};

}  // namespace

bool IsRecurrent(std::string_view op_type) { return FindRow(op_type) != nullptr; }

std::string BiasOfRecurrentWeight(std::string_view weight) {
  constexpr std::string_view kChild = "weight_";
  const std::string_view child = ChildOf(weight);
  if (!child.starts_with("weight_ih_l") && !child.starts_with("weight_hh_l")) return "";
  return std::string(weight.substr(0, weight.size() - child.size())) + "bias_" +
         std::string(child.substr(kChild.size()));
}

std::vector<Rewritten> FindRecurrentCalls(const BoundGraph& bound) {
  const RecurrentFinder finder(bound);
  const Graph& graph = bound.graph();
  std::vector<Rewritten> calls;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (auto call = finder.Find(static_cast<NodeId>(i))) calls.push_back(std::move(*call));
  }
  return calls;
}

}  // namespace onnxfit
