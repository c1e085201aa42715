// Runs the calls of a program on the machine: forward under autograd, and the gradients
// of one call when the engine asks for them.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "estimator/eager/machine.h"
#include "estimator/eager/op_rule.h"
#include "estimator/program/program.h"

namespace onnxfit {

class Runner {
 public:
  // `program` must outlive the runner.
  Runner(const Program& program, Machine& machine, InPlaceUse in_place);

  // Binds `name` to `tensor` and takes over the caller's reference; what the name held
  // before is released afterwards, as in Python.
  void Bind(NameId name, TensorId tensor);
  void Unbind(NameId name);
  TensorId Lookup(NameId name) const { return names_[static_cast<size_t>(name)]; }

  // Makes the tensor of a parameter: a leaf that accumulates its gradient.
  void BindParameter(int32_t index, TensorId tensor);

  // Runs call `index`.  With `grad`, a node is made where a gradient is wanted.
  void Run(int32_t index, bool grad);

  // The gradients of the inputs of `node`'s call, one reference each, kNoTensor where
  // none is wanted, in the order in which PyTorch allocates them.  `incoming` are the
  // gradients of its outputs, kNoTensor where none arrived, or once it has been let go.
  std::vector<TensorId> Gradients(GradNodeId node, std::vector<TensorId>& incoming);

  // What the call's input `i` is, and how its gradient is called.
  const TensorType& InputType(int32_t call, size_t input) const;
  LabelId GradientLabel(NameId name);
  LabelId NameLabel(NameId name) const { return name_labels_[static_cast<size_t>(name)]; }
  LabelId OperatorLabel(int32_t call) const { return labels_[static_cast<size_t>(call)].at; }

  const Program& program() const { return program_; }
  Machine& machine() { return machine_; }
  GradNodeId leaf(int32_t parameter) const { return leaves_[static_cast<size_t>(parameter)]; }

 private:
  struct CallLabels {
    LabelId at = -1;
    std::array<LabelId, 3> aux = {-1, -1, -1};
    LabelId scratch = -1;
  };
  // The tensors of a call that is running.
  struct Frame {
    std::vector<TensorId> inputs;  // borrowed from the names
    std::vector<TensorId> outputs;
    std::array<TensorId, 3> aux = {kNoTensor, kNoTensor, kNoTensor};
    TensorId clone = kNoTensor;  // of input 0, saved in its stead
  };

  void Forward(int32_t index, Frame& frame);
  void ForwardStep(int32_t index, const Step& step, Frame& frame);
  TensorId MakeOutput(int32_t index, size_t output, Frame& frame);
  bool MayOverwrite(int32_t index, const Frame& frame) const;
  TensorId Overwrite(int32_t index, Frame& frame);
  TensorId MakeView(const AtenCall& call, const OpRule& rule, const TensorType& type,
                    TensorId input);
  void Record(int32_t index, const Frame& frame);
  std::vector<Edge> NextEdges(int32_t index, const Frame& frame);
  std::vector<TensorId> Save(int32_t index, const std::vector<Edge>& next, const Frame& frame);
  void BackwardStep(GradNodeId node, const Step& step, std::vector<TensorId>& incoming,
                    std::vector<TensorId>& gradients);
  void MakeWantedGradient(GradNodeId node, size_t input, const std::vector<TensorId>& incoming,
                          std::vector<TensorId>& gradients);
  TensorId MakeGradient(int32_t call, size_t input, const std::vector<TensorId>& incoming);
  TensorId ViewGradient(int32_t call, size_t input, TensorId incoming);
  void TakeWorkspace(Workspace workspace);
  void TakeScratch(int32_t index, TypeFunction type);
  std::vector<TensorType> TypesOf(const std::vector<NameId>& names) const;
  const TensorType& TypeOf(NameId name) const;
  LabelId AuxLabel(int32_t index, size_t aux);

  const Program& program_;
  Machine& machine_;
  std::vector<const OpRule*> rules_;      // by call
  std::vector<CallLabels> labels_;        // by call
  std::vector<LabelId> name_labels_;      // by NameId
  std::vector<LabelId> gradient_labels_;  // by NameId, made when first needed
  std::vector<TensorId> names_;           // by NameId: what it holds, one reference
  std::vector<GradNodeId> leaves_;        // by parameter
  std::vector<TensorId> scratch_;         // of the call that is running
  InPlaceUse in_place_;
  bool in_backward_ = false;
  // By thread (forward, backward) and library: allocated at first use, never freed.
  std::array<std::array<TensorId, 2>, 2> workspaces_ = {
      {{kNoTensor, kNoTensor}, {kNoTensor, kNoTensor}}};
};

}  // namespace onnxfit
