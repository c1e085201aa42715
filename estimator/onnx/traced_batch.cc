// The batch that a file was traced with, where it is in the file's constants alone.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/onnx/dim_binding.h"
#include "estimator/onnx/onnx_model.h"
#include "estimator/onnx/rebind.h"

namespace onnxfit {
namespace {

// With a batch of 1 most graphs hold, since its constants are broadcast: it comes last.
constexpr int64_t kTracedWith[] = {2, 3, 4, 8, 16, 32, 64, 1};

// What `asked` has otherwise than `written`; both are of `graph`.
std::vector<ChangedDim> ChangedBetween(const Graph& graph, const BoundInputs& written,
                                       const BoundInputs& asked) {
  std::vector<ChangedDim> changed;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const auto& from = written.types[i].tensor_type().shape();
    const auto& to = asked.types[i].tensor_type().shape();
    for (int axis = 0; axis < std::min(from.dim_size(), to.dim_size()); ++axis) {
      const int64_t size = from.dim(axis).dim_value();
      if (size == to.dim(axis).dim_value()) continue;
      changed.push_back({graph.model->inputs[i]->name(), axis, size, to.dim(axis).dim_value()});
    }
  }
  return changed;
}

// `graph`, traced with that batch, with the batch of `asked`; nullopt where it does not hold with
// it or has it otherwise than as a free dimension.  Throws Error where it does not follow.
std::optional<Graph> RebindFrom(int64_t traced, const Graph& graph, DimBinding binding,
                                const BoundInputs& asked, Warnings& warnings) {
  binding.batch = traced;
  const BoundInputs written = BindInputs(graph, binding);
  std::vector<ChangedDim> changed = ChangedBetween(graph, written, asked);
  if (changed.empty() || written.rebound.has_value()) return std::nullopt;
  return Follow(graph, written, asked, std::move(changed), warnings);
}

// The first dimension of `output` in the file, where that is the batch: of its name, or free where
// nothing else is.
bool IsBatchOf(const Graph& graph, ValueId output, const std::vector<std::string>& free) {
  for (const onnx::ValueInfoProto& info : graph.model->proto.graph().output()) {
    if (info.name() != graph.values[Index(output)].name) continue;
    const auto& dims = info.type().tensor_type().shape().dim();
    if (dims.empty() || dims[0].has_dim_value()) return false;
    return free.size() == 1 || dims[0].dim_param() == free.front();
  }
  return false;
}

// The size that an output has in place of the batch; nullopt where all have the batch.
std::optional<int64_t> SizeInPlaceOfBatch(const Graph& graph, const Shapes& shapes) {
  const std::vector<std::string> free = FreeDims(graph);
  if (free.empty() || BatchAxis(graph) != 0) return std::nullopt;
  for (const ValueId output : graph.outputs) {
    if (!IsBatchOf(graph, output, free)) continue;
    const Dims& dims = shapes.types[Index(output)].tensor.dims;
    if (!dims.empty() && dims[0] > 0 && dims[0] < shapes.batch) return dims[0];
  }
  return std::nullopt;
}

}  // namespace

std::optional<Graph> RebindLost(const Graph& graph, const Graph& bound, const Shapes& shapes,
                                const DimBinding& binding, Warnings& warnings) {
  if (shapes.batch == 1) return std::nullopt;
  const std::optional<int64_t> traced = SizeInPlaceOfBatch(bound, shapes);
  if (!traced) return std::nullopt;
  Warnings told;
  try {
    std::optional<Graph> found =
        RebindFrom(*traced, graph, binding, BindInputs(graph, binding), told);
    if (!found || told.empty()) return std::nullopt;
    if (SizeInPlaceOfBatch(*found, BindShapes(*found, binding))) return std::nullopt;
    warnings.insert(warnings.end(), told.begin(), told.end());
    return found;
  } catch (const Error&) {
    return std::nullopt;  // as it is written, it holds
  }
}

std::optional<Graph> RebindTraced(const Graph& graph, const DimBinding& binding,
                                  Warnings& warnings) {
  const BoundInputs asked = BindInputs(graph, binding);
  for (const int64_t traced : kTracedWith) {
    try {
      std::optional<Graph> found = RebindFrom(traced, graph, binding, asked, warnings);
      if (found.has_value()) return found;
    } catch (const Error&) {
      return std::nullopt;  // the batch is given otherwise, or does not follow
    }
  }
  return std::nullopt;
}

}  // namespace onnxfit
