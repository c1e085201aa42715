// Stacks of torch.nn.LSTM, GRU and RNN, of which ONNX has a node for each layer, behind those that
// order its weights anew.
#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/patterns/rewrites.h"
#include "estimator/program/modules.h"
#include "estimator/program/recurrent_layers.h"

namespace onnxfit {
namespace {

struct RecurrentRow {
  std::string_view op_type;
  std::string_view aten;
  int64_t gates;
};

constexpr RecurrentRow kRecurrentRows[] = {
    {"LSTM", "lstm", 4}, {"GRU", "gru", 3}, {"RNN", "rnn", 1}};

// Inputs of ONNX's nodes.
constexpr size_t kWeight = 1;
constexpr size_t kRecurrence = 2;
constexpr size_t kBias = 3;
constexpr size_t kFirstState = 5;
constexpr size_t kFirstCell = 6;
// And their results.
constexpr size_t kSequence = 0;
constexpr size_t kLastState = 1;
constexpr size_t kLastCell = 2;

constexpr int kDeepest = 8;        // of the nodes that order a weight anew
constexpr size_t kMostParts = 16;  // of those that a weight is made of

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

const std::vector<int64_t> kStepsFirst = {1, 0, 2};
const std::vector<int64_t> kSamplesBeforeDirections = {0, 2, 1, 3};

// The nodes of one module, and what is found around them.
struct Stack {
  const RecurrentRow* row = nullptr;
  std::vector<NodeId> layers;
  std::vector<NodeId> nodes;  // these and all others that the call stands for
  ValueId x = kNoValue;
  ValueId y = kNoValue;
  bool batch_first = false;
  bool drops_out = false;
};

class RecurrentFinder {
 public:
  explicit RecurrentFinder(const BoundGraph& bound)
      : graph_(bound.graph()), metadata_(bound.metadata()), bound_(bound) {
    for (const Initializer& stored : graph_.initializers) {
      by_name_.emplace(bound.NameOf(stored.value), stored.value);
    }
  }

  // The stack that begins with `id`; nullopt of other nodes, and of those that belong to another.
  std::optional<Rewritten> Find(NodeId id) {
    const Node& node = graph_.nodes[Index(id)];
    const RecurrentRow* row = node.domain.empty() ? FindRow(node.op_type) : nullptr;
    if (row == nullptr || !HasShapes(node) || taken_.contains(id)) return std::nullopt;
    Stack stack = {.row = row, .layers = {id}, .nodes = {id}, .x = node.inputs[0]};
    FollowSequence(stack);
    TurnSteps(stack);
    Rewritten call = {.aten = row->aten, .last = stack.layers.back()};
    call.inputs = {stack.x, FirstStates(stack, kFirstState), kNoValue};
    if (row->gates == 4) call.inputs[2] = FirstStates(stack, kFirstCell);
    bool has_biases = false;
    for (const NodeId layer : stack.layers) {
      if (!AddParameters(graph_.nodes[Index(layer)], call, stack)) return std::nullopt;
      has_biases = At(graph_.nodes[Index(layer)], kBias) != kNoValue;
    }
    call.results = {stack.y, LastStates(stack, kLastState)};
    if (row->gates == 4) call.results.push_back(LastStates(stack, kLastCell));
    call.ints = RecurrentInts(LayersOf(stack, has_biases));
    for (const NodeId layer : stack.layers) taken_.insert(layer);
    call.nodes = std::move(stack.nodes);
    return call;
  }

 private:
  static ValueId At(const Node& node, size_t i) {
    return i < node.inputs.size() ? node.inputs[i] : kNoValue;
  }
  static ValueId ResultAt(const Node& node, size_t i) {
    return i < node.outputs.size() ? node.outputs[i] : kNoValue;
  }

  bool HasShapes(const Node& node) const {
    const auto rank = [&](size_t i) {
      const ValueId value = At(node, i);
      return value == kNoValue ? 0 : bound_.DimsOf(value).size();
    };
    return rank(0) == 3 && rank(kWeight) == 3 && rank(kRecurrence) == 3;
  }

  RecurrentLayers LayersOf(const Stack& stack, bool has_biases) const {
    const Node& first = graph_.nodes[Index(stack.layers[0])];
    const Dims& recurrence = bound_.DimsOf(first.inputs[kRecurrence]);  // [D, gates * H, H]
    return {.gates = stack.row->gates,
            .input = bound_.DimsOf(first.inputs[kWeight])[2],
            .hidden = recurrence[2],
            .layers = static_cast<int64_t>(stack.layers.size()),
            .directions = recurrence[0],
            .has_biases = has_biases,
            .batch_first = stack.batch_first,
            .drops_out = stack.drops_out};
  }

  // The one node that reads elements of `value`; null where there are others, or it is returned.
  const Node* OnlyReader(ValueId value) const {
    if (value == kNoValue || graph_.values[Index(value)].is_output) return nullptr;
    const auto readers = bound_.ReadersOf(value);
    return readers.size() == 1 ? &bound_.At(readers[0]) : nullptr;
  }

  bool IsInside(const Stack& stack, const Node& node) const {
    return bound_.ModuleAround(bound_.IdOf(node)) == bound_.ModuleAround(stack.layers[0]);
  }

  static bool Turns(const Node& node, const std::vector<int64_t>& order) {
    return node.op_type == "Transpose" && IntsAttribute(node, "perm") == order;
  }

  // What makes [steps, samples, numbers] of a layer's [steps, directions, samples, numbers].
  bool Joins(const Node& node) const {
    return node.op_type == "Squeeze" || node.op_type == "Reshape" ||
           Turns(node, kSamplesBeforeDirections);
  }

  // Whether `next` is the layer behind those of `stack`, which reads `value`.
  bool IsNextLayer(const Stack& stack, const Node& next, ValueId value) const {
    const Node& last = graph_.nodes[Index(stack.layers.back())];
    return next.op_type == last.op_type && next.inputs[0] == value && HasShapes(next) &&
           IsInside(stack, next) &&
           bound_.DimsOf(next.inputs[kRecurrence]) == bound_.DimsOf(last.inputs[kRecurrence]);
  }

  // Further layers of the module, as far as their results are for the next one alone.
  void FollowSequence(Stack& stack) {
    for (;;) {
      stack.y = ResultAt(graph_.nodes[Index(stack.layers.back())], kSequence);
      std::vector<NodeId> between;
      const Node* reader = OnlyReader(stack.y);
      while (reader != nullptr && Joins(*reader) && bound_.DimsOf(stack.y).size() == 4) {
        between.push_back(bound_.IdOf(*reader));
        stack.y = reader->outputs[0];
        reader = OnlyReader(stack.y);
      }
      stack.nodes.insert(stack.nodes.end(), between.begin(), between.end());
      const bool drops_out = reader != nullptr && reader->op_type == "Dropout";
      const ValueId dropped = drops_out ? reader->outputs[0] : stack.y;
      const Node* next = drops_out ? OnlyReader(dropped) : reader;
      if (next == nullptr || !IsNextLayer(stack, *next, dropped)) break;
      if (drops_out) stack.nodes.push_back(bound_.IdOf(*reader));
      stack.drops_out = stack.drops_out || drops_out;
      stack.layers.push_back(bound_.IdOf(*next));
      stack.nodes.push_back(bound_.IdOf(*next));
    }
    stack.drops_out =
        stack.drops_out || DropsOutBetweenLayers(metadata_.CallOf(stack.layers.back()));
  }

  // batch_first=True: the module turns x, and y back.
  void TurnSteps(Stack& stack) const {
    const NodeId maker = bound_.Maker(stack.x, "Transpose");
    if (maker == kNoNode || !Turns(bound_.At(maker), kStepsFirst)) return;
    if (!IsInside(stack, bound_.At(maker))) return;
    const Node* reader = OnlyReader(stack.y);
    const bool is_turned_back =
        reader != nullptr && Turns(*reader, kStepsFirst) && IsInside(stack, *reader);
    const bool is_unread = stack.y == kNoValue || bound_.ReadersOf(stack.y).empty();
    if (!is_turned_back && !is_unread) return;
    stack.batch_first = true;
    stack.x = bound_.At(maker).inputs[0];
    if (OnlyReader(bound_.At(maker).outputs[0]) != nullptr) stack.nodes.push_back(maker);
    if (!is_turned_back) return;
    stack.nodes.push_back(bound_.IdOf(*reader));
    stack.y = reader->outputs[0];
  }

  // Of all layers, which are slices of one tensor; kNoValue where the module makes zeros.
  ValueId FirstStates(Stack& stack, size_t input) const {
    ValueId all = kNoValue;
    for (const NodeId layer : stack.layers) {
      ValueId state = At(bound_.At(layer), input);
      if (state == kNoValue) return kNoValue;
      const NodeId slice = bound_.Maker(state, "Slice");
      if (slice != kNoNode) {
        state = bound_.At(slice).inputs[0];
        if (IsReadBy(bound_.At(slice).outputs[0], stack)) Add(slice, stack);
      }
      if (all != kNoValue && all != state) return kNoValue;
      all = state;
    }
    const NodeId maker = graph_.values[Index(all)].producer;
    const bool is_own =
        maker != kNoNode && IsInside(stack, bound_.At(maker)) &&
        (bound_.At(maker).op_type == "ConstantOfShape" || bound_.At(maker).op_type == "Expand");
    if (!is_own) return all;
    if (IsReadBy(all, stack)) Add(maker, stack);
    return kNoValue;
  }

  static void Add(NodeId node, Stack& stack) {
    if (std::ranges::find(stack.nodes, node) == stack.nodes.end()) stack.nodes.push_back(node);
  }

  // Whether nodes of the stack are all that read `value`.
  bool IsReadBy(ValueId value, const Stack& stack) const {
    return std::ranges::all_of(bound_.ReadersOf(value), [&](NodeId reader) {
      const bool slices =
          bound_.At(reader).op_type == "Slice" && IsInside(stack, bound_.At(reader));
      return slices || std::ranges::find(stack.nodes, reader) != stack.nodes.end();
    });
  }

  // Of all layers, as the module joins them; of one layer its own.
  ValueId LastStates(Stack& stack, size_t result) const {
    const ValueId last = ResultAt(bound_.At(stack.layers.back()), result);
    if (last == kNoValue || stack.layers.size() == 1) return last;
    const Node* reader = OnlyReader(last);
    if (reader == nullptr || reader->op_type != "Concat" ||
        reader->inputs.size() != stack.layers.size()) {
      return last;
    }
    Add(bound_.IdOf(*reader), stack);
    return reader->outputs[0];
  }

  // False where there are too many.
  bool AddParameters(const Node& node, Rewritten& call, Stack& stack) const {
    std::vector<ValueId> weights;
    std::vector<ValueId> recurrences;
    std::vector<ValueId> biases;
    Collect(node.inputs[kWeight], weights, stack);
    Collect(node.inputs[kRecurrence], recurrences, stack);
    if (const ValueId bias = At(node, kBias); bias != kNoValue) {
      std::vector<ValueId> named = weights;
      named.insert(named.end(), recurrences.begin(), recurrences.end());
      biases = BiasesBeside(named);
      const bool is_stored = graph_.values[Index(bias)].initializer >= 0;
      if (!is_stored || biases.empty()) {
        biases.clear();
        Collect(bias, biases, stack);
      }
    }
    Interleave(weights, recurrences, biases, call.inputs);
    return std::max({weights.size(), recurrences.size(), biases.size()}) <= kMostParts;
  }

  // In the order of the module's, which has all of a direction together.
  static void Interleave(const std::vector<ValueId>& weights,
                         const std::vector<ValueId>& recurrences,
                         const std::vector<ValueId>& biases, std::vector<ValueId>& inputs) {
    const size_t directions = weights.size();
    const size_t width = directions == 0 ? 0 : biases.size() / directions;
    const bool is_apart = recurrences.size() == directions && width * directions == biases.size();
    for (size_t i = 0; i < directions && is_apart; ++i) {
      inputs.push_back(weights[i]);
      inputs.push_back(recurrences[i]);
      const auto first = biases.begin() + static_cast<std::ptrdiff_t>(i * width);
      inputs.insert(inputs.end(), first, first + static_cast<std::ptrdiff_t>(width));
    }
    for (const auto* values : {&weights, &recurrences, &biases}) {
      if (!is_apart) inputs.insert(inputs.end(), values->begin(), values->end());
    }
  }

  // The tensors of the file that `value` is made of; it itself where it is computed otherwise.
  void Collect(ValueId value, std::vector<ValueId>& found, Stack& stack, int depth = 0) const {
    if (value == kNoValue) return;
    const NodeId maker = graph_.values[Index(value)].producer;
    const bool is_inner =
        depth < kDeepest && maker != kNoNode && OrdersAnew(graph_.nodes[Index(maker)].op_type) &&
        bound_.ReadersOf(value).size() == 1 && !graph_.values[Index(value)].is_output;
    if (!is_inner) {
      if (std::ranges::find(found, value) == found.end()) found.push_back(value);
      return;
    }
    const Node& node = graph_.nodes[Index(maker)];
    const size_t count = node.op_type == "Concat" ? node.inputs.size() : 1;
    for (size_t i = 0; i < count; ++i) Collect(node.inputs[i], found, stack, depth + 1);
    stack.nodes.push_back(maker);
  }

  // "rnn.bias_ih_l0" for "rnn.weight_ih_l0", as far as the graph has them; those of a direction
  // together.
  std::vector<ValueId> BiasesBeside(const std::vector<ValueId>& weights) const {
    std::vector<ValueId> biases;
    const size_t directions = weights.size() / 2;
    for (size_t i = 0; i < directions; ++i) {
      for (const ValueId value : {weights[i], weights[i + directions]}) {
        const std::string name = BiasOfRecurrentWeight(bound_.NameOf(value));
        const auto bias = by_name_.find(name);
        if (bias != by_name_.end()) biases.push_back(bias->second);
      }
    }
    return biases;
  }

  const Graph& graph_;
  const ExporterMetadata& metadata_;
  const BoundGraph& bound_;
  std::unordered_map<std::string_view, ValueId> by_name_;
  std::set<NodeId> taken_;
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
  RecurrentFinder finder(bound);
  const Graph& graph = bound.graph();
  std::vector<Rewritten> calls;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (auto call = finder.Find(static_cast<NodeId>(i))) calls.push_back(std::move(*call));
  }
  return calls;
}

}  // namespace onnxfit
