#include "estimator/onnx/rebind.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/base/quote.h"
#include "estimator/base/warnings.h"
#include "estimator/onnx/constants.h"
#include "estimator/onnx/dim_binding.h"
#include "estimator/onnx/inferrer.h"
#include "estimator/onnx/onnx_model.h"
#include "estimator/onnx/wrong_size.h"

namespace onnxfit {
namespace {

constexpr int kMaxProducers = 8;  // in front of one another, of a tensor that has to grow

onnx::TensorShapeProto* ShapeIn(onnx::TypeProto& type) {
  return type.has_tensor_type() && type.tensor_type().has_shape()
             ? type.mutable_tensor_type()->mutable_shape()
             : nullptr;
}

// Gives `bound` the sizes that the file has written; what they were.
std::vector<ChangedDim> WriteBack(const Graph& graph, BoundInputs& bound) {
  std::vector<ChangedDim> changed;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const onnx::ValueInfoProto& info = *graph.model->inputs[i];
    onnx::TensorShapeProto* shape = ShapeIn(bound.types[i]);
    if (shape == nullptr) continue;
    const auto& file = info.type().tensor_type().shape();
    for (int axis = 0; axis < std::min(file.dim_size(), shape->dim_size()); ++axis) {
      const int64_t to = shape->dim(axis).dim_value();
      const int64_t from = file.dim(axis).has_dim_value() ? file.dim(axis).dim_value() : to;
      if (from == to) continue;
      changed.push_back({info.name(), axis, from, to});
      shape->mutable_dim(axis)->set_dim_value(from);
    }
  }
  return changed;
}

BoundInputs AsWritten(const Graph& graph, BoundInputs bound, std::vector<ChangedDim>& changed) {
  changed = WriteBack(graph, bound);
  bound.rebound.reset();
  return bound;
}

class Rebinder {
 public:
  Rebinder(const Graph& graph, const BoundInputs& asked, std::vector<ChangedDim> changed,
           BoundInputs written)
      : graph_(graph),
        changed_(std::move(changed)),
        written_(graph, std::move(written)),
        asked_(graph, asked),
        in_front_(graph.values.size()),
        readers_(graph.values.size()) {
    for (const Node& node : graph.nodes) {
      for (const ValueId value : node.inputs) {
        if (value != kNoValue) ++readers_[Index(value)];
      }
    }
    const ChangedDim& first = changed_.front();
    is_batch_ = std::ranges::all_of(changed_, [&](const ChangedDim& dim) {
      return dim.axis == 0 && dim.from == first.from && dim.to == first.to;
    });
  }

  // False where the graph does not hold with the sizes of the file.
  bool HoldsAsWritten() {
    try {
      for (NodeId id = 0; id < NodeCount(); ++id) {
        written_.Infer(id);
        if (!written_.OutputsResolved(id)) return false;
      }
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  // REQUIRES: HoldsAsWritten().
  Followings Follow() {
    for (NodeId id = 0; id < NodeCount(); ++id) FollowAt(id);
    CheckOutputs();
    CheckBatchIsKept();
    return std::move(followings_);
  }

  std::optional<Warning> Summary() const {
    if (rebound_.empty()) return std::nullopt;
    const ChangedDim& dim = changed_.front();
    const std::string others =
        rebound_.size() == 1 ? "" : fmt::format(" and {} other nodes", rebound_.size() - 1);
    return Warning{warning::kReboundBatch,
                   fmt::format("what node {}{} read was changed from {} {} to {}",
                               Quote(DisplayName(graph_, rebound_.front())), others,
                               is_batch_ ? "the batch of" : "a size of", dim.from, dim.to)};
  }

 private:
  NodeId NodeCount() const { return static_cast<NodeId>(graph_.nodes.size()); }
  const Node& NodeAt(NodeId id) const { return graph_.nodes[Index(id)]; }

  void FollowAt(NodeId id) {
    if (!asked_.InputsResolved(id)) return InferOrRefuse(id);
    const std::optional<RebindView> view = ViewOf(id);
    if (!view.has_value() && TryTarget(id)) return;
    if (!view.has_value()) return InferOrRefuse(id);
    const ValueId output = NodeAt(id).outputs[0];
    if (output != kNoValue) in_front_[Index(output)] = InFrontAfter(*view);
    Following following = NodeAt(id).domain.empty() ? FollowByRow(*view) : Following();
    if (TryWith(id, following)) return Note(id, std::move(following));
    if (is_batch_ && TryNeighbours(id, *view)) return;
    asked_.Put(id, {});
    InferOrRefuse(id);
  }

  void Note(NodeId id, Following following) {
    if (following.empty()) return;
    rebound_.push_back(id);
    followings_[id] = std::move(following);
  }

  // Expand of what was made for the file's batch, to a shape that follows: a mask of numpy's.
  bool TryTarget(NodeId id) {
    const Node& node = NodeAt(id);
    if (!is_batch_ || node.op_type != "Expand" || node.inputs.size() < 2) return false;
    const std::optional<Dims> written = TargetOf(written_, node.inputs[1]);
    const std::optional<Dims> asked = TargetOf(asked_, node.inputs[1]);
    const std::optional<Dims> from = DimsOf(written_, node.inputs[0]);
    if (!written || !asked || !from || written->size() != asked->size()) return false;
    Dims to = *from;
    for (size_t i = 1; i <= std::min(to.size(), written->size()); ++i) {  // from the last one on
      int64_t& dim = to[to.size() - i];
      const size_t other = written->size() - i;
      if (dim == (*written)[other] && dim != 1) dim = (*asked)[other];
    }
    if (to == *from) return false;
    Following following;
    following.expanded[0] = {*from, std::move(to)};
    GrowProducers(id, following);
    if (!TryWith(id, following)) return false;
    Note(id, std::move(following));
    return true;
  }

  static std::optional<Dims> TargetOf(const Inferrer& inferrer, ValueId value) {
    if (value == kNoValue) return std::nullopt;
    const std::optional<HostTensor>& known = inferrer.KnownOf(value);
    if (!known.has_value() || known->is_float() || known->dims.size() != 1) return std::nullopt;
    return InFull(*known).integers();
  }

  bool TryNeighbours(NodeId id, const RebindView& view) {
    for (const Alike alike : {Alike::kFromLast, Alike::kFromFirst}) {
      Following following = FollowByNeighbours(view, alike);
      if (following.empty()) continue;
      GrowProducers(id, following);
      if (TryWith(id, following)) {
        Note(id, std::move(following));
        return true;
      }
    }
    return false;
  }

  // nullopt where no input follows, or one has another rank than it had.
  std::optional<RebindView> ViewOf(NodeId id) const {
    RebindView view;
    view.node = &NodeAt(id);
    view.unit = is_batch_ ? changed_.front().from : 0;
    bool follows = false;
    for (const ValueId value : view.node->inputs) {
      view.written.push_back(DimsOf(written_, value));
      view.asked.push_back(DimsOf(asked_, value));
      view.constants.push_back(ConstantOf(value));
      view.in_front.push_back(value == kNoValue ? Dims() : in_front_[Index(value)]);
      if (view.written.back().has_value() != view.asked.back().has_value()) return std::nullopt;
      if (!view.written.back().has_value()) continue;
      if (view.written.back()->size() != view.asked.back()->size()) return std::nullopt;
      follows |= view.written.back() != view.asked.back();
    }
    if (!follows || view.node->outputs.empty()) return std::nullopt;
    view.written_output = DimsOf(written_, view.node->outputs[0]).value_or(Dims());
    return view;
  }

  static std::optional<Dims> DimsOf(const Inferrer& inferrer, ValueId value) {
    if (value == kNoValue || !inferrer.Resolved(value)) return std::nullopt;
    ValueType type = inferrer.TypeOf(value);
    return type.is_sequence ? std::nullopt : std::optional(std::move(type.tensor.dims));
  }

  // Integers in one row, such as shapes, that are the same with both sizes.
  std::optional<std::vector<int64_t>> ConstantOf(ValueId value) const {
    constexpr int64_t kMaxRank = 1024;  // as ONNX's own (shape_inference.h 1.23.2)
    if (value == kNoValue) return std::nullopt;
    const std::optional<HostTensor>& written = written_.KnownOf(value);
    const std::optional<HostTensor>& asked = asked_.KnownOf(value);
    if (!written.has_value() || !asked.has_value() || written->dims != asked->dims ||
        written->is_float() || written->dims.size() > 1 || !HasUpTo(*written, kMaxRank)) {
      return std::nullopt;
    }
    Integers elements = InFull(*written).integers();
    return elements == InFull(*asked).integers() ? std::optional(std::move(elements))
                                                 : std::nullopt;
  }

  Inferrer::Substitutes SubstitutesOf(NodeId id, const Following& following) const {
    Inferrer::Substitutes substitutes;
    for (const auto& [input, elements] : following.constants) {
      const DType dtype = written_.TypeOf(NodeAt(id).inputs[input]).tensor.dtype;
      const Dims dims = {static_cast<int64_t>(elements.size())};
      substitutes[input] = {{dtype, dims}, MakeIntegers(dtype, dims, elements)};
    }
    for (const auto& [input, expansion] : following.expanded) {
      const DType dtype = written_.TypeOf(NodeAt(id).inputs[input]).tensor.dtype;
      substitutes[input] = {{dtype, expansion.to}};
    }
    return substitutes;
  }

  bool TryWith(NodeId id, const Following& following) {
    asked_.Put(id, SubstitutesOf(id, following));
    try {
      asked_.Infer(id);
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  void InferOrRefuse(NodeId id) {
    try {
      asked_.Infer(id);
    } catch (const SizeError& error) {
      Refuse(id, error.conflict(), error.parts().detail);
    } catch (const Error& error) {
      Refuse(id, {.text = error.parts().text});
    }
  }

  // --- Tensors that were computed in the file's batch ------------------------------

  // Where an input is not the file's but made of what is, what it is made of grows: the indices
  // of an embedding, the shape of zeros.  What has grown leaves `following`.
  void GrowProducers(NodeId id, Following& following) {
    std::erase_if(following.expanded, [&](const auto& expanded) {
      const ValueId value = NodeAt(id).inputs[expanded.first];
      return Grow(value, expanded.second.to, 0);
    });
  }

  bool Grow(ValueId value, const Dims& dims, int depth) {
    const NodeId maker = graph_.values[Index(value)].producer;
    if (maker == kNoNode || readers_[Index(value)] != 1 || depth > kMaxProducers) return false;
    const Node& node = NodeAt(maker);
    if (node.outputs.size() != 1 || followings_.contains(maker)) return false;
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      if (node.inputs[input] != kNoValue && GrowInput(maker, input, dims, depth)) return true;
    }
    asked_.Put(maker, {});
    asked_.Infer(maker);
    return false;
  }

  bool GrowInput(NodeId maker, size_t input, const Dims& dims, int depth) {
    for (const Following& following : WaysToGrow(NodeAt(maker).inputs[input], input)) {
      if (!TryWith(maker, following)) continue;
      if (DimsOf(asked_, NodeAt(maker).outputs[0]) != dims) continue;
      Settle(maker, following, depth);
      return true;
    }
    return false;
  }

  // An input that has grown is read as it is, one that cannot is expanded.
  void Settle(NodeId maker, Following following, int depth) {
    std::erase_if(following.expanded, [&](const auto& expanded) {
      return Grow(NodeAt(maker).inputs[expanded.first], expanded.second.to, depth + 1);
    });
    TryWith(maker, following);
    Note(maker, std::move(following));
  }

  // The file's batch in one entry of a shape, or in one dimension.
  std::vector<Following> WaysToGrow(ValueId value, size_t input) const {
    std::vector<Following> ways;
    const int64_t from = changed_.front().from;
    const int64_t to = changed_.front().to;
    const auto add = [&](const std::vector<int64_t>& all, bool is_constant) {
      for (size_t i = 0; i < all.size(); ++i) {
        if (all[i] != from) continue;
        std::vector<int64_t> grown = all;
        grown[i] = to;
        Following& way = ways.emplace_back();
        if (is_constant) {
          way.constants[input] = std::move(grown);
        } else {
          way.expanded[input] = {all, std::move(grown)};
        }
      }
    };
    if (const auto constant = ConstantOf(value)) add(*constant, true);
    if (const auto dims = DimsOf(asked_, value)) add(*dims, false);
    return ways;
  }

  // --- What is said ----------------------------------------------------------------

  // A result whose first dimension was the batch is expected to follow, one at least.
  void CheckOutputs() const {
    const int64_t from = changed_.front().from;
    bool expected = false;
    for (const ValueId output : graph_.outputs) {
      const std::optional<Dims> written = DimsOf(written_, output);
      if (!written.has_value() || !asked_.DependsOnInputs(output)) continue;
      if (written != DimsOf(asked_, output)) return;
      const bool has_batch = !written->empty() && written->front() == from;
      expected |= has_batch && std::ranges::any_of(*written, [](int64_t dim) { return dim > 1; });
    }
    if (!is_batch_ || !expected) return;
    const NodeId last = LastToFollow();
    Refuse(last,
           {.text = fmt::format("it reads {}, what it makes does not follow", InputsText(last))});
  }

  // Sizes that become samples, as by a Reshape to [-1, 1, 28, 28], are more than there are labels.
  void CheckBatchIsKept() const {
    const int64_t batch = asked_.batch();
    const bool is_kept =
        std::ranges::all_of(changed_, [](const auto& dim) { return dim.axis > 0; });
    for (const ValueId output : graph_.outputs) {
      if (!is_kept || !asked_.DependsOnInputs(output) || !BeginsWith(written_, output, batch))
        continue;
      if (!DimsOf(asked_, output).has_value() || BeginsWith(asked_, output, batch)) continue;
      const NodeId id = MakerOfSamples(output, batch);
      if (id == kNoNode) continue;
      Refuse(id, {.text = fmt::format("it makes {} of {}, where a batch of {} is expected",
                                      ToString(asked_.TypeOf(NodeAt(id).outputs[0]).tensor),
                                      InputsText(id), batch)});
    }
  }

  static bool BeginsWith(const Inferrer& inferrer, ValueId value, int64_t size) {
    const std::optional<Dims> dims = DimsOf(inferrer, value);
    return dims.has_value() && !dims->empty() && dims->front() == size;
  }

  // The node in front of `value` that reads so many samples and makes another number of them.
  NodeId MakerOfSamples(ValueId value, int64_t batch) const {
    while (value != kNoValue) {
      const NodeId id = graph_.values[Index(value)].producer;
      if (id == kNoNode) return kNoNode;
      const auto& inputs = NodeAt(id).inputs;
      const auto from = std::ranges::find_if(
          inputs, [&](ValueId in) { return in != kNoValue && asked_.DependsOnInputs(in); });
      if (from == inputs.end()) return kNoNode;
      if (BeginsWith(asked_, *from, batch)) return id;
      value = *from;
    }
    return kNoNode;
  }

  // The last node that reads what follows and makes nothing that does, but for shapes.
  NodeId LastToFollow() const {
    for (NodeId id = NodeCount() - 1; id > 0; --id) {
      if (NodeAt(id).op_type != "Shape" && ViewOf(id).has_value()) return id;
    }
    return 0;
  }

  std::string InputsText(NodeId id) const {
    std::vector<std::string> types;
    for (const ValueId value : NodeAt(id).inputs) {
      if (value == kNoValue || !asked_.Resolved(value)) continue;
      types.push_back(ToString(asked_.TypeOf(value).tensor));
    }
    return fmt::format("{}", fmt::join(types, ", "));
  }

  [[noreturn]] void Refuse(NodeId id, SizeConflict conflict, std::string detail = {}) const {
    Error::Parts parts = {graph_.path, NodeText(graph_, id),
                          fmt::format("{}: {}", FixedText(), conflict.text),
                          ExportLine(graph_, changed_), std::move(detail)};
    throw SizeError(std::move(parts), std::move(conflict));
  }

  // "the batch is fixed at 1 in the file, and this node does not hold with 8".
  std::string FixedText() const {
    const ChangedDim& dim = changed_.front();
    std::string what = fmt::format("dimension {} of {} is", dim.axis, Quote(dim.input));
    if (is_batch_) what = "the batch is";
    const bool are_many = !is_batch_ && changed_.size() > 1;
    if (are_many) return "its sizes are fixed in the file, and this node does not hold with others";
    return fmt::format("{} fixed at {} in the file, and this node does not hold with {}", what,
                       dim.from, dim.to);
  }

  const Graph& graph_;
  std::vector<ChangedDim> changed_;
  bool is_batch_ = false;  // nothing but the batch has changed
  Inferrer written_;
  Inferrer asked_;
  std::vector<Dims> in_front_;  // by ValueId, as in RebindView
  std::vector<int> readers_;    // by ValueId
  Followings followings_;
  std::vector<NodeId> rebound_;  // in the order in which they were changed
};

}  // namespace

Graph Rebind(Graph graph, const DimBinding& binding, Warnings& warnings) {
  const BoundInputs asked = BindInputs(graph, binding);
  std::vector<ChangedDim> changed;
  const BoundInputs written = AsWritten(graph, asked, changed);
  if (changed.empty()) return graph;
  std::optional<Graph> rebound = Follow(graph, written, asked, std::move(changed), warnings);
  return rebound.has_value() ? *std::move(rebound) : std::move(graph);
}

std::optional<Graph> Follow(const Graph& graph, const BoundInputs& written,
                            const BoundInputs& asked, std::vector<ChangedDim> changed,
                            Warnings& warnings) {
  Rebinder rebinder(graph, asked, std::move(changed), written);
  if (!rebinder.HoldsAsWritten()) return std::nullopt;
  const Followings followings = rebinder.Follow();
  if (const auto summary = rebinder.Summary()) warnings.push_back(*summary);
  return followings.empty() ? graph : WithFollowings(graph, followings);
}

}  // namespace onnxfit
