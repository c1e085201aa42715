// From symbolic dimensions to numbers: every value of a graph gets a type.  And what is said of
// dimensions that nobody gave a number, or another than the file's.
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

// Which elements of a mask are not 0: what attention asks of masks, told without looking at each of
// a million elements where the operators that make them say it:
// in each matrix (the last two dimensions), those …
enum class Nonzeros : uint8_t {
  kNone,
  kAll,
  kLower,  // where column ≤ row, and no others
  kUpper,  // where column > row, and no others
  kMixed,  // anything else
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

// Of elements, row-major; in matrices of `size` × `size`, where that is above 1 (kLower and kUpper
// are found in these alone).  No elements are all of them.  O(elements).
template <typename T>
Nonzeros NonzerosAmong(const std::vector<T>& elements, int64_t size);

// --- The inputs and their free dimensions --------------------------------------

// A dimension of an input that the file fixes and that is wanted otherwise.
struct ChangedDim {
  std::string input;
  int axis = 0;
  int64_t from = 0;
  int64_t to = 0;
  std::string name = {};  // that it is to have; "" for a standard one
};

// Which dimension of the inputs is the batch.  O(nodes).
int BatchAxis(const Graph& graph);

// The names of the dimensions that the file leaves free, as --dim takes them, in the order of
// inputs, but for the batch, which is the first.  O(nodes + inputs × dimensions).
std::vector<std::string> FreeDims(const Graph& graph);

// The same without the batch.
std::vector<std::string> FreeDimsBesideBatch(const Graph& graph);

// The height and the width of the inputs that are images: of four dimensions the last two.
struct ImageDims {
  std::vector<std::string> free = {};  // as --dim takes them, each once
  std::vector<ChangedDim> fixed = {};  // called "height" and "width"
};
ImageDims ImageDimsOf(const Graph& graph);

// All, and the dimensions that are computed from others, "past + 1", which --dim takes, too, for
// what the others follow from.  Cost as FreeDims.
std::vector<std::string> NamedDims(const Graph& graph);

// The names of the inputs, as --shape takes them.  O(inputs).
std::vector<std::string> InputNames(const Graph& graph);

// `binding` without what is optional and `graph` does not have.  Cost as FreeDims.
DimBinding WithoutMissing(const Graph& graph, DimBinding binding);

// --- The Python that exports a model with free dimensions ----------------------

// torch.onnx.export's argument that frees `dims` and what the file leaves free, an entry for each
// argument of forward, since the names of these need not be the file's:
// "dynamic_shapes=({0: \"batch\"}, None)".
// (torch/export/dynamic_shapes.py 2.11, _check_dynamic_shapes: a dict must have them all; strings
// are torch.onnx's, torch/onnx/_internal/exporter/_dynamic_shapes.py, from 2.7 on.)
std::string DynamicShapes(const Graph& graph, const std::vector<ChangedDim>& dims);

// That argument, of what is free of each input: {"0: \"batch\""}, {}.
std::string DynamicShapes(const std::vector<std::vector<std::string>>& inputs);

// The same for the export of TorchScript, whose names are the file's:
// "dynamic_axes={\"x\": {0: \"batch\"}}".
std::string DynamicAxes(const Graph& graph, const std::vector<ChangedDim>& dims);

// The whole line; for a file that no PyTorch wrote, what it has to do.
// REQUIRES: dims is not empty.
std::string ExportLine(const Graph& graph, const std::vector<ChangedDim>& dims);

// The elements of KnownTensors that were evaluated, of all graphs; 8 bytes each.  Beyond
// kMaxHeldElements (constants.h) evaluation throws Error: who keeps shapes for later lets them go
// before.
int64_t HeldElements();

}  // namespace onnxfit
