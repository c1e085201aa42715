// A graph as recovery asks for it: bound, with what its exporter says.
#pragma once

#include <utility>

#include "estimator/onnx/shapes.h"
#include "estimator/recover/findings.h"

namespace onnxfit {

struct BoundModel {
  explicit BoundModel(Graph file) : BoundModel(std::move(file), DimBinding()) {}
  BoundModel(Graph file, const DimBinding& binding)
      : graph(std::move(file)),
        metadata(ReadExporterMetadata(graph)),
        shapes(BindShapes(graph, binding)),
        found(graph, metadata, shapes),
        bound(found.bound) {}
  BoundModel(const BoundModel&) = delete;
  BoundModel& operator=(const BoundModel&) = delete;

  Graph graph;
  ExporterMetadata metadata;
  Shapes shapes;
  Findings found;
  const BoundGraph& bound;
};

}  // namespace onnxfit
