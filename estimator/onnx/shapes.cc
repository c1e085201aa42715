#include "estimator/onnx/shapes.h"

#include <utility>

#include "estimator/onnx/constants.h"
#include "estimator/onnx/dim_binding.h"
#include "estimator/onnx/inferrer.h"

namespace onnxfit {
namespace {

// KnownTensor promises full elements up to this many.
constexpr int64_t kFullElements = 4096;

KnownTensor Exported(const HostTensor& tensor) {
  HostTensor full = HasUpTo(tensor, kFullElements) ? InFull(tensor) : tensor;
  return {std::move(full.dims), std::move(full.stored), std::move(full.elements)};
}

std::optional<double> Scalar(const HostTensor& tensor) {
  return tensor.is_float() && Numel(tensor.stored) == 1 ? std::optional(tensor.floats()[0])
                                                        : std::nullopt;
}

void Export(const Inferrer& inferrer, ValueId value, Shapes& shapes) {
  const auto place = static_cast<size_t>(value);
  shapes.types[place] = inferrer.TypeOf(value);
  const std::optional<HostTensor>& known = inferrer.KnownOf(value);
  if (!known.has_value()) return;
  if (known->is_float()) {
    shapes.known_scalar[place] = Scalar(*known);
  } else {
    shapes.known[place] = Exported(*known);
  }
}

}  // namespace

const std::vector<int64_t>& KnownTensor::elements() const {
  return std::get<Integers>(lazy->Get());
}

Nonzeros KnownTensor::nonzeros() const { return lazy->NonzerosOf(MatrixSize(stored)); }

Shapes BindShapes(const Graph& graph, const DimBinding& binding) {
  Inferrer inferrer(graph, binding);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
    inferrer.Infer(id);
    if (!inferrer.OutputsResolved(id)) inferrer.RefuseUnresolved(id);
  }
  if (const std::string unused = inferrer.UnusedName(); !unused.empty()) {
    RefuseUnused(graph, binding, unused);
  }
  Shapes shapes;
  shapes.batch = inferrer.batch();
  shapes.batch_place = inferrer.batch_place();
  shapes.warnings = inferrer.CollectWarnings();
  shapes.types.resize(graph.values.size());
  shapes.known.resize(graph.values.size());
  shapes.known_scalar.resize(graph.values.size());
  for (ValueId value = 0; value < static_cast<ValueId>(graph.values.size()); ++value) {
    Export(inferrer, value, shapes);
  }
  return shapes;
}

}  // namespace onnxfit
