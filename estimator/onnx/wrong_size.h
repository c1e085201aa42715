// Sizes that contradict one another: which of those that a user chose is wrong, told so that
// whoever chose it can find it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"

namespace onnx {
class NodeProto;
}  // namespace onnx

namespace onnxfit {

struct HostTensor;

// Two sizes that a node wants to be the same.
struct SizeConflict {
  std::string text = {};   // "it reads 4 channels of …, its weight … takes 3"
  int64_t found = 0;       // 0: which sizes they are is not known
  int64_t expected = 0;    // by a weight, a table, another operand
  bool by_weight = false;  // or by a table: no other export would have it in another size
};

// What a node does not take: `where` is the node, `text` the conflict's, or says more.
class SizeError : public Error {
 public:
  SizeError(Parts parts, SizeConflict conflict)
      : Error(std::move(parts)), conflict_(std::move(conflict)) {}

  const SizeConflict& conflict() const { return conflict_; }

 private:
  SizeConflict conflict_;
};

// `error` told by the input and the dimension that are to blame, with what they ought to be; or
// `error` itself where no single one is.  Found by trial: the dimension without whose size the
// graph holds.  `file` is the graph as it was loaded.  O(nodes) for each of up to 32 trials.
Error WrongSize(const Graph& file, const DimBinding& binding, const SizeError& error);

// --- What an operator asks of its inputs' sizes --------------------------------

// In sentences for people.  Internal to the room onnx/.  ONNX's own inference passes over some of
// it (the channels of a convolution, the rows of a table), and tells the rest in its own words.

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
