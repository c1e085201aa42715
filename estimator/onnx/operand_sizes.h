// What an operator asks of its inputs' sizes, in sentences for people.  Internal to the room
// onnx/.  ONNX's own inference passes over some of it (the channels of a convolution, the rows of
// a table), and tells the rest in its own words.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/onnx/constants.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/size_error.h"

namespace onnxfit {

// The inputs of one node.
struct Operands {
  const onnx::NodeProto* node = nullptr;
  std::vector<std::optional<TensorType>> types;  // nullopt: left out, not known
  std::vector<const HostTensor*> known;          // null: elements that nobody knows
  std::vector<bool> from_inputs;                 // depends on an input of the graph
  // As StoredBehind below.
  std::function<std::string(size_t input, int64_t size)> stored_behind;

  bool has(size_t input) const { return input < types.size() && types[input].has_value(); }
  const Dims& dims(size_t input) const { return types[input]->dims; }
};

struct OperandRow {
  std::string_view op_type;
  std::optional<SizeConflict> (*find)(const Operands&) = nullptr;
  bool is_silent = false;       // ONNX's inference does not find it
  bool reads_elements = false;  // of what is known of the second input
};

// The row of an operator of ONNX's own domain, or null.
const OperandRow* FindOperandRow(std::string_view op_type);

// The name of the stored tensor that `value` is made of by moving elements, "" where there is
// none: of that which has `size` in one of its dimensions, or of any where `size` is 0.
std::string StoredBehind(const Graph& graph, ValueId value, int64_t size);

// "float32[3, 4], float32[2, 7]".
std::string TypesText(const Operands& operands);

}  // namespace onnxfit
