// The calls of a program, ready to run: their rows, what the trace calls their tensors,
// and the libraries' workspaces.  What forward and backward share.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "estimator/base/calibration.h"
#include "estimator/base/index.h"
#include "estimator/base/settings.h"
#include "estimator/eager/machine.h"
#include "estimator/operators/op_rule.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Forward runs in Python's thread, backward in the engine's: each has its own handles.
enum class Thread : uint8_t { kForward, kBackward };

class CallTable {
 public:
  // All must outlive the table.
  CallTable(const Program& program, Machine& machine, const TrainingSettings& settings);

  const Program& program() const { return program_; }
  Machine& machine() { return machine_; }
  const AtenCall& call(int32_t i) const { return program_.calls[Index(i)]; }
  const OpRule& rule(int32_t i) const { return *rules_[Index(i)]; }
  const StridedType& TypeOf(NameId name) const;
  CallTypes TypesOf(int32_t i) const { return {program_, call(i), settings_}; }

  LabelId OperatorLabel(int32_t call) const { return labels_[Index(call)].at; }
  LabelId NameLabel(NameId name) const { return name_labels_[Index(name)]; }
  LabelId GradientLabel(NameId name);          // "w.grad"
  LabelId AuxLabel(int32_t call, size_t aux);  // "y.mask"
  LabelId ScratchLabel(int32_t call);          // "/fc/Gemm.scratch"

  const TrainingSettings& settings() const { return settings_; }

  // What `call` needs of a library when it runs in `thread`: cuBLAS's instead of cublasLt's
  // where that does not take its product.  It is there for the call, or from then on; cuDNN's is
  // gone at once.
  // REQUIRES: `step` is one of its row, of type kWorkspace.
  void TakeWorkspace(int32_t call, const Step& step, Thread thread);
  // From now on both have one set of handles, and of convolutions whose plans were tried.
  void ShareWorkspaces(const CallTable& other) {
    workspaces_ = other.workspaces_;
    tried_ = other.tried_;
  }
  // Of cuBLAS alone, for products that are no call.
  void TakeCublasWorkspace(Thread thread);

 private:
  static constexpr int32_t kUnasked = -1;
  static constexpr int32_t kUntold = -2;  // the file does not say all of it

  struct CallLabels {
    LabelId at = -1;
    std::array<LabelId, 3> aux = {-1, -1, -1};
    LabelId scratch = -1;
    std::array<int32_t, 3> convolved = {kUnasked, kUnasked, kUnasked};  // of convolved_, by pass
  };

  struct Convolved {
    int64_t bytes = 0;
    int32_t logged = -1;  // index into ConvolvedLog::convolutions, once it is there
  };

  bool IsForLt(int32_t call) const;
  void Convolve(int32_t call, ConvolutionPass pass);
  int32_t FindConvolved(int32_t call, ConvolutionPass pass);
  void PassConvolved(int32_t convolved);
  void ConvolveBenchmarked(const Convolution& convolution);
  void Pass(size_t library, int64_t bytes);
  void TakeCublasLtWorkspace(Thread thread);
  int64_t CublasBytes() const;
  int64_t CublasLtBytes() const;
  LabelId WorkspaceLabel(size_t library);
  void Hold(Workspace workspace, Thread thread, int64_t bytes);
  void LetGo(Workspace workspace, Thread thread);
  LabelId Derived(std::vector<LabelId>& labels, NameId name, const char* suffix);

  const Program& program_;
  Machine& machine_;
  const TrainingSettings& settings_;
  std::vector<const OpRule*> rules_;                    // by call
  std::vector<CallLabels> labels_;                      // by call
  std::vector<LabelId> name_labels_;                    // by name
  std::vector<LabelId> gradient_labels_;                // by name, made when first needed
  using Held = std::array<std::array<TensorId, 2>, 2>;  // by thread and library
  std::shared_ptr<Held> workspaces_;
  std::shared_ptr<std::set<Convolution>> tried_;  // PyTorch's benchmark_cache, by process
  std::map<Convolution, int32_t> convolved_at_;   // of those that ran: indices into
  std::vector<Convolved> convolved_;
  std::array<LabelId, 5> workspace_labels_;  // by library, made when first needed
};

}  // namespace onnxfit
