#include "estimator/recover/affine_batch_norm.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/recover/bound_graph.h"
#include "estimator/recover/exporter_metadata.h"
#include "estimator/recover/fold_marks.h"

namespace onnxfit {
namespace {

// A node with one number for each channel.
struct PerChannel {
  ValueId input = kNoValue;
  ValueId numbers = kNoValue;
  int64_t channels = 0;
};

class AffineFinder {
 public:
  explicit AffineFinder(const BoundGraph& bound) : graph_(bound.graph()), bound_(bound) {}

  std::optional<AffineBatchNorm> Find(NodeId id) const {
    const Node& node = graph_.nodes[Index(id)];
    const std::optional<PerChannel> scale = Read(id, "Mul");
    if (!scale.has_value()) return std::nullopt;
    const std::optional<std::string> marked = MarkedBatchNorm(graph_, node);
    const NodeId shift = ShiftOf(*scale, node.outputs[0]);
    if (!marked.has_value() && !(shift != kNoNode && IsBehindConvolution(*scale))) {
      return std::nullopt;
    }
    const std::string module = marked.value_or("");
    return AffineBatchNorm{
        .scale = id,
        .shift = shift,
        .input = scale->input,
        .module = module.empty() ? std::string(bound_.NameOf(scale->numbers)) : module,
        .channels = scale->channels};
  }

 private:
  bool IsStored(ValueId value) const {
    return value != kNoValue && graph_.values[Index(value)].initializer >= 0;
  }

  std::optional<PerChannel> Read(NodeId id, std::string_view op_type) const {
    const Node& node = graph_.nodes[Index(id)];
    if (node.op_type != op_type || !node.domain.empty() || node.inputs.size() != 2) {
      return std::nullopt;
    }
    if (node.outputs.empty() || node.outputs[0] == kNoValue) return std::nullopt;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const ValueId numbers = node.inputs[side];
      const ValueId input = node.inputs[1 - side];
      if (input == kNoValue || !IsStored(numbers) || IsStored(input)) continue;
      const int64_t channels = ChannelsOf(numbers, input);
      if (channels > 1) return PerChannel{input, numbers, channels};
    }
    return std::nullopt;
  }

  // The size of dimension 1, or of the last, if that is the one that `numbers` has; else 0.
  int64_t ChannelsOf(ValueId numbers, ValueId input) const {
    const Dims& dims = bound_.DimsOf(numbers);
    const Dims& map = bound_.DimsOf(input);
    if (!IsFloat(bound_.TypeOf(numbers).dtype) || dims.size() > map.size() || map.size() < 2) {
      return 0;
    }
    const auto is_wide = [](int64_t size) { return size > 1; };
    if (std::ranges::count_if(dims, is_wide) != 1) return 0;
    const size_t place = Index(std::ranges::find_if(dims, is_wide) - dims.begin());
    const size_t axis = place + map.size() - dims.size();
    const bool is_channel = axis == 1 || axis + 1 == map.size();
    return is_channel && map[axis] == dims[place] ? dims[place] : 0;
  }

  NodeId ShiftOf(const PerChannel& scale, ValueId product) const {
    const std::span<const NodeId> readers = bound_.ReadersOf(product);
    if (readers.size() != 1 || graph_.values[Index(product)].is_output) return kNoNode;
    const std::optional<PerChannel> shift = Read(readers[0], "Add");
    return shift.has_value() && shift->channels == scale.channels ? readers[0] : kNoNode;
  }

  bool IsBehindConvolution(const PerChannel& scale) const {
    const std::string_view name = bound_.NameOf(scale.numbers);
    const bool is_pytorch = name.find('.') != std::string_view::npos || IsComputedName(name);
    return !is_pytorch && bound_.Inner(scale.input, "Conv") != kNoNode;
  }

  const Graph& graph_;
  const BoundGraph& bound_;
};

}  // namespace

std::vector<AffineBatchNorm> FindAffineBatchNorms(const BoundGraph& bound) {
  const AffineFinder finder(bound);
  std::vector<AffineBatchNorm> found;
  for (size_t i = 0; i < bound.graph().nodes.size(); ++i) {
    if (auto norm = finder.Find(static_cast<NodeId>(i))) found.push_back(std::move(*norm));
  }
  return found;
}

}  // namespace onnxfit
