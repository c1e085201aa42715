// How ONNX's inference functions see one node: types that are numbers already, and the
// elements of inputs that are known.  Internal to the room onnx/.
#pragma once

#include <onnx/defs/schema.h>
#include <onnx/defs/shape_inference.h>
#include <onnx/onnx_pb.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "estimator/onnx/constants.h"

namespace onnxfit {

// What sub-graphs (Scan) and function bodies are inferred in.  Made only for them, since
// it names every value of the graph.
struct OuterScope {
  std::unordered_map<std::string, int> opsets;                      // by domain
  std::unordered_map<std::string, onnx::TypeProto*> types_by_name;  // captures
};

using ScopeMaker = std::function<const OuterScope&()>;

class NodeContext final : public onnx::InferenceContext {
 public:
  struct Input {
    const onnx::TypeProto* type = nullptr;             // null: left out
    const std::optional<HostTensor>* known = nullptr;  // null: left out
  };

  // All that is pointed at outlives the context.  `scope` is called for sub-graphs only.
  NodeContext(const onnx::NodeProto& node, std::vector<Input> inputs,
              std::vector<onnx::TypeProto*> outputs, const ScopeMaker& scope);
  ~NodeContext() override;

  // Attributes that the node leaves out then have the schema's values, as a function body
  // reads them.
  void UseDefaults(const onnx::OpSchema& schema) { defaults_ = &schema; }

  const onnx::AttributeProto* getAttribute(const std::string& name) const override;
  size_t getNumInputs() const override { return inputs_.size(); }
  const onnx::TypeProto* getInputType(size_t index) const override;
  bool hasInput(size_t index) const override;
  const onnx::TensorProto* getInputData(size_t index) const override;
  size_t getNumOutputs() const override { return outputs_.size(); }
  onnx::TypeProto* getOutputType(size_t index) override;
  bool hasOutput(size_t index) override;
  onnx::GraphInferencer* getGraphAttributeInferencer(const std::string& name) override;
  const onnx::SparseTensorProto* getInputSparseData(size_t) const override { return nullptr; }
  const onnx::TensorShapeProto* getSymbolicInput(size_t) const override { return nullptr; }

 private:
  struct SubGraph;

  const onnx::NodeProto& node_;
  std::vector<Input> inputs_;
  std::vector<onnx::TypeProto*> outputs_;
  const ScopeMaker& scope_;
  const onnx::OpSchema* defaults_ = nullptr;
  mutable std::vector<std::unique_ptr<onnx::TensorProto>> data_;  // by input, when asked for
  std::map<std::string, std::unique_ptr<SubGraph>> sub_graphs_;
};

// Runs the schema's inference function, or that of its body where it has only a body.
// Returns false where it has neither.  Throws onnx::InferenceError.
bool InferOutputs(const onnx::OpSchema& schema, const onnx::NodeProto& node, int64_t opset,
                  NodeContext& context);

}  // namespace onnxfit
