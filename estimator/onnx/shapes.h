// From symbolic dimensions to numbers: every value of a graph gets a type.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/nonzeros.h"

namespace onnxfit {

// What the user fixes.
struct DimBinding {
  // The free dimension that a recurrent layer reads as the batch, else the first in the order of
  // inputs and their dimensions; in a graph without one, dimension 0 of the inputs that share its
  // size, or that which a recurrent layer reads so.
  std::optional<int64_t> batch;
  std::map<std::string, int64_t> dims = {};  // --dim NAME=N
  std::map<std::string, Dims> inputs = {};   // --shape IN=2x512, whole inputs
  // Of these, what a graph need not have: it is another's, and left out.
  std::set<std::string> optional = {};
};

struct ValueType {
  TensorType tensor;         // of a sequence: its elements, where they agree
  bool is_sequence = false;  // holds a list of tensors (SplitToSequence)
};

class LazyElements;

// An integer or bool tensor whose elements are known.
struct KnownTensor {
  Dims dims;
  // Each dimension as in `dims`, or 1 where the elements repeat (a mask expanded over the
  // batch); always equal to `dims` in tensors of up to 4096 elements.
  Dims stored;
  std::shared_ptr<const LazyElements> lazy;

  // Row-major over `stored`; 0 or 1 in bool tensors.  Masks and other big tensors are
  // computed at the first call, so that they cost nothing where nobody asks.
  const std::vector<int64_t>& elements() const;
  // Which of them are not 0, mostly without computing them.  Looked for at the first call.
  Nonzeros nonzeros() const;
};

struct Shapes {
  int64_t batch = 1;
  // "dimension 1 of x, as its LSTM reads it"; "" where it is an input's first.
  std::string batch_place = {};
  std::vector<ValueType> types;  // by ValueId
  // By ValueId: what a value is, where it follows from shapes and constants alone.
  // Such values are arithmetic on the host, not tensors on the device.  Which ones are
  // known does not depend on the batch unless more than 2^20 elements do.
  std::vector<std::optional<KnownTensor>> known;
  // By ValueId: what all elements of a small float tensor are (scales, epsilons).
  std::vector<std::optional<double>> known_scalar;
  Warnings warnings;
};

// Binds free dimensions and infers every value's type with ONNX's own schemas; the
// types stored in the file are used only where a schema does not exist.
// Throws Error where a dimension stays free (all of them are listed, with the command
// to type), where a flag names no dimension or input, and where shapes contradict one
// another.  O(nodes + kept elements).
Shapes BindShapes(const Graph& graph, const DimBinding& binding);

// Which dimension of the inputs is the batch.  O(nodes).
int BatchAxis(const Graph& graph);

// The names of the dimensions that the file leaves free, as --dim takes them, in the order of
// inputs, but for the batch, which is the first.  O(nodes + inputs × dimensions).
std::vector<std::string> FreeDims(const Graph& graph);

// The names of the inputs, as --shape takes them.  O(inputs).
std::vector<std::string> InputNames(const Graph& graph);

// `binding` without what is optional and `graph` does not have.  Cost as FreeDims.
DimBinding WithoutMissing(const Graph& graph, DimBinding binding);

}  // namespace onnxfit
