// A graph's inputs as its file declares them: which dimensions it leaves free, and which of them is
// the batch.  Internal to the room onnx/.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/onnx/graph.h"

namespace onnxfit {

struct DeclaredInput {
  std::string name;
  onnx::TypeProto type;      // as in the file, then with what is bound
  bool given_whole = false;  // by --shape

  // Of the tensor, which may be inside a sequence or an optional.
  bool IsTensor() const;
  bool HasShape() const;
  const onnx::TensorShapeProto& Shape() const;
  onnx::TensorShapeProto& MutableShape();
};

struct FreeDim {
  std::string name;
  std::string input;
  int axis = 0;             // of the input
  bool is_made_up = false;  // nobody chose the name
};

// A dimension whose name says how it follows from others: "past_sequence_length + 1".
struct ComputedDim {
  std::string name;
  std::string input;
  std::vector<std::string> of;  // which others, all of them free
};

struct DeclaredInputs {
  std::vector<DeclaredInput> inputs;  // by Graph::inputs
  std::vector<FreeDim> free;          // the batch first, then in the order of inputs and dimensions
  std::vector<ComputedDim> computed;
  bool batch_is_written = false;  // though other dimensions may be free
  std::string batch_input = {};   // that the file, or a recurrent layer, says; else ""
  int batch_axis = 0;
  int place_axis = 0;            // the same, or that of the free dimension that is the batch
  std::string batch_place = {};  // as of Shapes

  // In a file that fixes it; nullptr where no input has that dimension, but for empty ones.
  const onnx::TensorShapeProto::Dimension* BatchDim() const;

  // nullptr where no dimension of this name is computed.
  const ComputedDim* FindComputed(const std::string& name) const;

  std::vector<std::string> FreeNames() const;
};

// O(inputs × dimensions + nodes).
DeclaredInputs DeclareInputs(const Graph& graph);

// A named dimension goes by its name, another free one by its place: "ids.1".
std::string DimName(const onnx::TensorShapeProto::Dimension& dim, std::string_view input, int axis);

// "[N, 512]".
std::string DeclaredShape(const onnx::TensorShapeProto& shape);

// As exporters and people call a batch: "bs".
bool IsBatchName(std::string_view name);

}  // namespace onnxfit
