// The loss of the training loop as calls, and the parameters that its gradients reach.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/tensor_type.h"
#include "estimator/program/program.h"
#include "estimator/writer/program_writer.h"

namespace onnxfit {

// A model's output by the name that the file gives it.
struct NamedOutput {
  std::string_view name;
  DType dtype = DType::kUndefined;
};

// Which of `outputs` the loss takes: `asked`, else (asked == "") the first of floats.
// Throws Error for the model `path` where no output of floats has that name; nullopt where none
// is left.
std::optional<size_t> FindLossOutput(const std::string& path,
                                     const std::vector<NamedOutput>& outputs,
                                     std::string_view asked);

// The loss of a model whose output is `output`: a single number, of which no class can be told, is
// the loss itself (F.cross_entropy refuses it, PyTorch 2.11.0).
Loss LossOf(Loss asked, const TensorType& output);

// The labels that the loss takes with `output`, as one more input of the program: a batch
// has them in eval too; or the input that is called `given`, if that is not "".  kNoName where
// the loss takes none.  Throws Error where no input has that name.
NameId AddLabels(ProgramWriter& writer, NameId output, Loss loss, std::string_view given);

// Appends the loss of `output` to the program, at `place`.  Cross entropy takes [N, C] as it is,
// [N, S, V] as [N·S, V], [N, C, H, W …] with the classes in dimension 1; with the writer's
// settings.label_smoothing it smooths the labels.
void AppendLoss(ProgramWriter& writer, const CallPlace& place, NameId output, NameId labels,
                Loss loss);

// Parameters to which no gradient flows from the loss: no call leads from them to it through
// floats alone.  REQUIRES: the program has a loss.  O(calls).
std::vector<NameId> UnreachedParameters(const Program& program);

}  // namespace onnxfit
