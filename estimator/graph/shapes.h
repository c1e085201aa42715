// From symbolic dimensions to numbers: every value of a graph gets a type.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/graph/graph.h"

namespace onnxfit {

// What the user fixes.
struct DimBinding {
  // The first free dimension in the order of inputs and their dimensions; in a graph
  // without one, dimension 0 of the inputs that share its size.
  std::optional<int64_t> batch;
  std::map<std::string, int64_t> dims;  // --dim NAME=N
  std::map<std::string, Dims> inputs;   // --shape IN=2x512, whole inputs
};

struct ValueType {
  TensorType tensor;         // of a sequence: its elements, where they agree
  bool is_sequence = false;  // holds a list of tensors (SplitToSequence)
};

// An integer or bool tensor whose elements are known, in row-major order.
struct KnownTensor {
  Dims dims;
  std::vector<int64_t> elements;
};

struct Shapes {
  int64_t batch = 1;
  std::vector<ValueType> types;  // by ValueId
  // By ValueId: what a value is, where it follows from shapes and constants alone.
  // Such values are arithmetic on the host, not tensors on the device.
  std::vector<std::optional<KnownTensor>> known;
  Warnings warnings;
};

// Binds free dimensions and infers every value's type with ONNX's own schemas; the
// types stored in the file are used only where a schema does not exist.
// Throws Error where a dimension stays free (all of them are listed, with the command
// to type), where a flag names no dimension or input, and where shapes contradict one
// another.  O(nodes + kept elements).
Shapes BindShapes(const Graph& graph, const DimBinding& binding);

}  // namespace onnxfit
