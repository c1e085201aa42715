// How many dimensions values of a file of opset 6 or older have.  Internal to the room onnx/.
#pragma once

#include <onnx/onnx_pb.h>

#include <optional>
#include <string>
#include <unordered_map>

namespace onnxfit {

// Of the values that nodes, one after the other, were seen to make.
class OldRanks {
 public:
  // Knows the graph's inputs and initializers.  `graph` outlives this.
  explicit OldRanks(const onnx::GraphProto& graph);

  // Gives its outputs their ranks.  Those that it reads were made by nodes that were seen.
  void See(const onnx::NodeProto& node);

  // nullopt where it is not known.
  std::optional<int> Of(const std::string& value) const;
  std::optional<int> OfInput(const onnx::NodeProto& node, int input) const;

  // The tensor that is stored, or that a Constant makes, under this name; nullptr where none is.
  const onnx::TensorProto* Stored(const std::string& value) const;

 private:
  std::unordered_map<std::string, int> ranks_;
  std::unordered_map<std::string, const onnx::TensorProto*> stored_;
};

}  // namespace onnxfit
