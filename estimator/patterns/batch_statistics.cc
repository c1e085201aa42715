// Batch norms that keep no statistics, F.batch_norm (x, None, None, training=True), of which
// TorchScript's exporter writes how they are computed: of timm's and transformers' standardized
// weights, and of torch.nn.BatchNorm2d(track_running_stats=False).
// Source: _batchnorm_helper of torch/onnx/_internal/torchscript_exporter/symbolic_helper.py, v2.11.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/patterns/rewrites.h"

namespace onnxfit {
namespace {

enum : size_t { kNormX, kNormWeight, kNormBias, kNormMean, kNormVariance, kNormInputs };

// The nodes between a norm's input and its statistics.
class StatisticsNodes {
 public:
  StatisticsNodes(const BoundGraph& bound, NodeId norm)
      : bound_(bound), x_(bound.At(norm).inputs[kNormX]), found_({norm}) {}

  // In the graph's order, the norm last; empty where something else is made of them, or they of
  // something else.
  std::vector<NodeId> Find() && {
    const Node& norm = bound_.At(found_[0]);
    if (!Follow(norm.inputs[kNormMean]) || !Follow(norm.inputs[kNormVariance])) return {};
    std::ranges::sort(found_);
    return AreReadHereAlone() ? std::move(found_) : std::vector<NodeId>();
  }

 private:
  static constexpr size_t kMost = 12;

  bool Follow(ValueId value) {
    if (value == x_ || bound_.IsNumber(value) || bound_.Known(value) != nullptr) return true;
    const NodeId maker = bound_.graph().values[Index(value)].producer;
    if (maker == kNoNode || found_.size() > kMost) return false;
    if (std::ranges::find(found_, maker) != found_.end()) return true;
    found_.push_back(maker);
    return std::ranges::all_of(bound_.At(maker).inputs,
                               [&](ValueId input) { return input == kNoValue || Follow(input); });
  }

  bool AreReadHereAlone() const {
    const auto is_found = [&](NodeId node) { return std::ranges::binary_search(found_, node); };
    return std::all_of(found_.begin(), found_.end() - 1, [&](NodeId node) {
      return std::ranges::all_of(bound_.ReadersOf(bound_.At(node).outputs[0]), is_found);
    });
  }

  const BoundGraph& bound_;
  ValueId x_;
  std::vector<NodeId> found_;
};

// The exporter's ones and zeros stand for None.
ValueId Given(const BoundGraph& bound, ValueId value) {
  return bound.Maker(value, "Constant") == kNoNode ? value : kNoValue;
}

}  // namespace

std::optional<Rewritten> FindBatchStatistics(const BoundGraph& bound, NodeId norm) {
  const std::vector<ValueId>& inputs = bound.At(norm).inputs;
  if (inputs.size() != kNormInputs) return std::nullopt;
  std::vector<NodeId> nodes = StatisticsNodes(bound, norm).Find();
  if (nodes.size() < 2) return std::nullopt;
  return Rewritten{"batch_norm",
                   {inputs[kNormX], Given(bound, inputs[kNormWeight]),
                    Given(bound, inputs[kNormBias]), kNoValue, kNoValue},
                   norm,
                   std::move(nodes)};
}

}  // namespace onnxfit
