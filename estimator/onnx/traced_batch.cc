// The batch that a file was traced with, where it is in the file's constants alone.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/onnx/dim_binding.h"
#include "estimator/onnx/onnx_model.h"
#include "estimator/onnx/rebind.h"

namespace onnxfit {
namespace {

// A batch of 1 is told by nothing, since its constants are broadcast.
constexpr int64_t kTracedWith[] = {2, 3, 4, 8, 16, 32, 64};

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

}  // namespace

std::optional<Graph> RebindTraced(const Graph& graph, const DimBinding& binding,
                                  Warnings& warnings) {
  const BoundInputs asked = BindInputs(graph, binding);
  for (const int64_t traced : kTracedWith) {
    DimBinding with = binding;
    with.batch = traced;
    try {
      const BoundInputs written = BindInputs(graph, with);
      std::vector<ChangedDim> changed = ChangedBetween(graph, written, asked);
      if (changed.empty() || written.rebound.has_value()) continue;
      std::optional<Graph> found = Follow(graph, written, asked, std::move(changed), warnings);
      if (found.has_value()) return found;
    } catch (const Error&) {
      return std::nullopt;  // the batch is given otherwise, or does not follow
    }
  }
  return std::nullopt;
}

}  // namespace onnxfit
