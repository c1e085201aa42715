// Dropouts of transformers that an export for inference has left out without a trace.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/libraries/libraries.h"
#include "estimator/lost/lost_calls.h"
#include "estimator/lost/places.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

bool HasMetadata(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& node) { return !node.metadata.empty(); });
}

// A table of words: floats of the file, looked up by an input of the graph.
bool LooksUpWords(const BoundGraph& bound, const Node& node) {
  if (node.op_type != "Gather" || node.inputs.size() != 2) return false;
  ValueId ids = node.inputs[1];
  for (const char* view : {"Cast", "Unsqueeze", "Reshape"}) {
    const NodeId maker = bound.Maker(ids, view);
    if (maker != kNoNode) ids = bound.At(maker).inputs[0];
  }
  return bound.IsStored(node.inputs[0], 2) && ids != kNoValue &&
         IsFloat(bound.TypeOf(node.inputs[0]).dtype) && bound.graph().values[Index(ids)].is_input;
}

class LostDropoutFinder {
 public:
  LostDropoutFinder(const BoundGraph& bound, const std::vector<Rewritten>& rewrites)
      : graph_(bound.graph()),
        metadata_(bound.metadata()),
        modules_(metadata_.modules),
        bound_(bound),
        calls_(bound_, rewrites),
        attends_(HasAttention(graph_, rewrites)),
        is_words_(graph_.values.size()) {
    for (const Node& node : graph_.nodes) FollowWords(node);
  }

  LostDropouts Find(bool attention_alone) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto node = static_cast<NodeId>(i);
      if (calls_.IsInner(node)) continue;
      AddPositions(node);
      if (attention_alone) {
        AddAttention(node);
        continue;
      }
      AddBranch(node);
      AddWords(node);
      AddWeights(node);
      AddNamed(node);
      AddAttention(node);
    }
    std::ranges::stable_sort(found_.calls, {}, &LostCall::before);
    return std::move(found_);
  }

 private:
  const Node& At(NodeId node) const { return graph_.nodes[Index(node)]; }

  // x + dropout (linear (…)).  The module that sums has it, but in GPT-2's blocks the one that
  // has c_proj (also nanoGPT's).  What libraries' transformers do not have is rare.
  void AddBranch(NodeId node) {
    const std::optional<BranchEnd> end = FindBranchEnd(bound_, calls_, node, attends_);
    if (!end.has_value()) return;
    AddHidden(end->layer);
    const bool is_inside = !end->is_plain || HasDropout(DropoutBeside::Where::kInsideBranch,
                                                        metadata_.PathOf(end->layer));
    AddBefore(end->reader, end->value, is_inside ? CallerOf(end->layer) : metadata_.ModuleOf(node));
    found_.calls.back().is_rare = !end->is_plain;
  }

  // fc2 (dropout (act (fc1 (x)))).
  void AddHidden(NodeId layer) {
    const std::optional<Hidden> hidden = FindHidden(bound_, calls_, layer);
    const bool is_there = std::ranges::any_of(found_.calls, [&](const LostCall& call) {
      return hidden && call.before == hidden->reader && call.input == hidden->value;
    });
    if (!hidden || is_there) return;
    AddBefore(hidden->reader, hidden->value, CallerOf(layer));
    found_.calls.back().is_rare = true;
  }

  // What is made of words alone: their table's rows, scaled, positions added.
  void FollowWords(const Node& node) {
    if (node.outputs.empty() || node.outputs[0] == kNoValue) return;
    const bool is_sum = node.op_type == "Add" || node.op_type == "Mul" || node.op_type == "Div";
    const bool is_made = is_sum && std::ranges::any_of(node.inputs, [&](ValueId value) {
                           return value != kNoValue && is_words_[Index(value)];
                         });
    const bool is_pure = is_sum && std::ranges::all_of(node.inputs, [&](ValueId value) {
                           return IsMadeOfTables(value);
                         });
    is_words_[Index(node.outputs[0])] = LooksUpWords(bound_, node) || (is_made && is_pure);
  }

  bool IsMadeOfTables(ValueId value) const {
    if (value == kNoValue || is_words_[Index(value)]) return true;
    const Value& made = graph_.values[Index(value)];
    if (made.initializer >= 0 || bound_.IsNumber(value)) return true;
    if (made.producer == kNoNode) return false;
    const Node& node = At(made.producer);
    const bool is_table = node.op_type == "Gather" && bound_.IsStored(node.inputs[0], 2);
    const bool is_part =
        node.op_type == "Slice" || node.op_type == "Unsqueeze" || node.op_type == "Cast";
    return is_table || (is_part && IsMadeOfTables(node.inputs[0]));
  }

  // The last of what is made of words, or the layer norm that alone reads it.
  void AddWords(NodeId node) {
    const Node& made = At(node);
    if (made.outputs.empty() || made.outputs[0] == kNoValue || !is_words_[Index(made.outputs[0])]) {
      return;
    }
    ValueId value = made.outputs[0];
    const std::vector<NodeId> readers = ReadersOf(value);
    const bool goes_on = std::ranges::any_of(
        readers, [&](NodeId reader) { return is_words_[Index(At(reader).outputs[0])]; });
    if (goes_on || readers.empty() || IsLoneDecoder(metadata_.ModuleOf(node))) return;
    const bool is_normed = readers.size() == 1 && calls_.IsLayerNorm(readers[0]);
    if (is_normed) value = At(readers[0]).outputs[0];
    const NodeId mask = is_normed ? MaskOf(value) : kNoNode;
    if (mask != kNoNode) return AddBehind(At(mask).outputs[0], metadata_.ModuleOf(mask));
    const bool is_table = made.op_type == "Gather";
    const NodeId maker = is_normed ? readers[0] : node;
    AddBehind(value, is_normed || is_table ? CallerOf(maker) : metadata_.ModuleOf(node));
  }

  // The product of `value` with a mask that the model makes, [N, S, 1], if that alone reads it:
  // DeBERTa's embeddings.
  NodeId MaskOf(ValueId value) const {
    const std::vector<NodeId> readers = ReadersOf(value);
    if (readers.size() != 1 || At(readers[0]).op_type != "Mul") return kNoNode;
    const Node& product = At(readers[0]);
    const ValueId mask = product.inputs[product.inputs[0] == value ? 1 : 0];
    const Dims& dims = bound_.DimsOf(mask);
    return dims.size() > 1 && dims.back() == 1 && !bound_.IsStored(mask, dims.size()) ? readers[0]
                                                                                      : kNoNode;
  }

  // softmax (…) @ v, written by hand, or softmax (…).view (…) @ v.
  void AddWeights(NodeId node) {
    const Node& product = At(node);
    if (product.op_type != "MatMul") return;
    const NodeId view = bound_.Inner(product.inputs[0], "Reshape");
    const ValueId weights = view == kNoNode ? product.inputs[0] : At(view).inputs[0];
    const NodeId softmax = bound_.Inner(weights, "Softmax");
    if (softmax == kNoNode || calls_.IsInner(softmax)) return;
    AddBefore(view == kNoNode ? node : view, weights, metadata_.ModuleOf(node));
  }

  // Beside layers and norms that libraries name so; before the last layer of a classifier.
  void AddNamed(NodeId node) {
    const std::string& path = metadata_.PathOf(node);
    if (calls_.IsLinear(node) && !path.empty()) {
      const bool ends_block = HasDropout(DropoutBeside::Where::kBeforeLayer, path);
      if (ends_block || ClosesClassifier(node)) {
        AddBefore(node, calls_.InputOf(node), CallerOf(node));
      }
    }
    const bool is_norm = calls_.CallOf(node) == "mul";  // an RMS norm's last call
    if (is_norm && HasDropout(DropoutBeside::Where::kBehindNorm, path)) {
      AddBehind(At(node).outputs[0], CallerOf(node));
    }
  }

  // Attention that scores words against positions, and gathers from the scores those of relative
  // distances (DeBERTa's), drops out the table of positions before each projection of it: views
  // of a table leave no trace.
  void AddPositions(NodeId node) {
    if (!calls_.IsLinear(node) || !IsOfTable(calls_.InputOf(node), kMostSteps)) return;
    if (!IsGathered(At(node).outputs[0], kMostSteps)) return;
    const ModuleId module = CallerOf(node);
    Add(node, calls_.InputOf(node), modules_.PathOf(module) + ".pos_dropout", module);
  }

  static constexpr int kMostSteps = 8;  // views, scales and a norm on the way

  // A tensor of the file, but for views and a norm of it.
  bool IsOfTable(ValueId value, int steps) const {
    constexpr std::string_view kPassing[] = {"Slice", "Unsqueeze", "Reshape", "Cast", "Identity"};
    const Value& made = graph_.values[Index(value)];
    if (made.initializer >= 0) return bound_.DimsOf(value).size() > 1;
    if (made.producer == kNoNode || steps == 0) return false;
    const bool is_view =
        std::ranges::find(kPassing, At(made.producer).op_type) != std::end(kPassing);
    if (!is_view && !calls_.IsLayerNorm(made.producer)) return false;
    return IsOfTable(calls_.InputOf(made.producer), steps - 1);
  }

  // By a GatherElements, from its product with something, but for views and scales.
  bool IsGathered(ValueId value, int steps) const {
    constexpr std::string_view kPassing[] = {"Transpose", "Reshape", "Unsqueeze", "Expand", "Tile",
                                             "MatMul",    "Div",     "Mul",       "Cast"};
    return steps > 0 && std::ranges::any_of(bound_.ReadersOf(value), [&](NodeId reader) {
             const Node& node = At(reader);
             if (node.op_type == "GatherElements") return node.inputs[0] == value;
             const bool passes = std::ranges::find(kPassing, node.op_type) != std::end(kPassing);
             return passes && IsGathered(node.outputs[0], steps - 1);
           });
  }

  // A linear layer of a matrix that makes an output, of what an activation made.
  bool ClosesClassifier(NodeId node) const {
    const ValueId x = calls_.InputOf(node);
    const NodeId producer = graph_.values[Index(x)].producer;
    const bool is_end = graph_.values[Index(At(node).outputs[0])].is_output;
    if (!is_end || producer == kNoNode || bound_.DimsOf(x).size() != 2) return false;
    return At(producer).op_type == "Tanh" || calls_.CallOf(producer) == "gelu";
  }

  // OPTDecoder, "decoder" without an "encoder": it drops no words out.
  bool IsLoneDecoder(ModuleId module) const {
    const std::string_view other = MissesWordDropoutWithout(modules_.NameOf(module));
    if (other.empty()) return false;
    std::vector<std::string> beside = modules_.NamesOf(module);
    beside.back() = other;
    const std::string path = ModulePath(beside) + ".";
    return std::ranges::none_of(graph_.initializers, [&](const Initializer& stored) {
      return graph_.values[Index(stored.value)].name.starts_with(path);
    });
  }

  // Not those that take a part for its shape alone.
  std::vector<NodeId> ReadersOf(ValueId value) const {
    const std::span<const NodeId> all = bound_.ReadersOf(value);
    std::vector<NodeId> readers(all.begin(), all.end());
    std::erase_if(readers, [&](NodeId reader) {
      const ValueId made = At(reader).outputs[0];
      return bound_.ReadersOf(made).empty() && !graph_.values[Index(made)].is_output;
    });
    return readers;
  }

  // Fairseq's layers drop nothing inside of attention.
  void AddAttention(NodeId node) {
    if (calls_.CallOf(node) != "scaled_dot_product_attention") return;
    const std::string bias = FairseqsFirstBias(ParentOf(metadata_.PathOf(node)));
    const bool is_fairseq = std::ranges::any_of(
        graph_.initializers,
        [&](const Initializer& stored) { return graph_.values[Index(stored.value)].name == bias; });
    if (!is_fairseq) found_.attention.push_back(Index(calls_.RewriteAt(node)));
  }

  // The module call around the one that `node` is in.
  ModuleId CallerOf(NodeId node) const { return modules_.CallerOf(metadata_.ModuleOf(node)); }

  void AddBehind(ValueId value, ModuleId module) {
    const std::string name = NextName(module);
    const NodeId maker = graph_.values[Index(value)].producer;
    for (const NodeId reader : bound_.ReadersOf(value)) Add(reader, value, name, module, maker);
  }

  void AddBefore(NodeId node, ValueId value, ModuleId module) {
    Add(node, value, NextName(module), module);
  }

  std::string NextName(ModuleId module) {
    const std::string path = modules_.PathOf(module) + ".dropout";
    const int before = calls_of_[path]++;
    return before == 0 ? path : fmt::format("{}_{}", path, before);
  }

  void Add(NodeId before, ValueId input, const std::string& name, ModuleId caller,
           NodeId behind = kNoNode) {
    found_.calls.push_back({.before = before,
                            .input = input,
                            .name = name,
                            .op = "dropout",
                            .behind = behind,
                            .caller = caller,
                            .module = std::string(ChildOf(name))});
  }

  const Graph& graph_;
  const ExporterMetadata& metadata_;
  const ModuleTree& modules_;
  const BoundGraph& bound_;
  NodeCalls calls_;
  bool attends_;
  std::vector<bool> is_words_;  // by value
  std::unordered_map<std::string, int> calls_of_;
  LostDropouts found_;
};

}  // namespace

LostDropouts FindLostDropouts(const BoundGraph& bound, const std::vector<Rewritten>& rewrites) {
  if (IsTrainingExport(bound.graph()) || NamesDropouts(bound.graph())) return {};
  const bool is_shown = HasMetadata(bound.graph()) &&
                        (bound.metadata().groups.empty() ||
                         ShowsDropouts(bound.graph(), bound.metadata()));
  return LostDropoutFinder(bound, rewrites).Find(is_shown);
}

std::optional<bool> LikelyDropsOut(const BoundGraph& bound,
                                   const std::vector<Rewritten>& rewrites) {
  const Graph& graph = bound.graph();
  const bool reads_words =
      std::ranges::any_of(graph.nodes, [&](const Node& node) { return LooksUpWords(bound, node); });
  const bool has_softmax =
      std::ranges::any_of(graph.nodes, [](const Node& node) { return node.op_type == "Softmax"; });
  const bool attends = (reads_words && has_softmax) || HasAttention(graph, rewrites);
  if (!attends) return std::nullopt;
  const bool has_rotary =
      std::ranges::any_of(
          bound.metadata().signature,
          [](const SignatureEntry& entry) { return entry.target.ends_with("inv_freq"); }) ||
      std::ranges::any_of(graph.nodes, [](const Node& node) { return node.op_type == "Cos"; });
  return reads_words && !has_rotary;
}

}  // namespace onnxfit
