// Losses of classes with smoothed labels, as libraries write them out; PyTorch's own is
// cross_entropy_loss with ints (loss.h).  Internal to the room writer/.
#pragma once

#include <vector>

#include "estimator/writer/program_writer.h"

namespace onnxfit {

// Appends timm's LabelSmoothingCrossEntropy of `logits` [N, C] and `labels` [N] at `place`.
// Throws Error for logits of other dimensions, which it does not take.
// Source: timm 1.0.31, loss/cross_entropy.py.
void AppendTimmSmoothing(ProgramWriter& writer, const CallPlace& place, NameId logits,
                         NameId labels);

// Appends timm's SoftTargetCrossEntropy of `logits` [N, C] and `targets` [N, C] at `place`, which
// its Mixup has made.  Throws Error for logits of other dimensions.  An odd N, which Mixup refuses,
// is counted as if it did not.  Source: timm 1.0.31, loss/cross_entropy.py, data/mixup.py.
void AppendTimmSoftTargets(ProgramWriter& writer, const CallPlace& place, NameId logits,
                           NameId targets);

// Appends transformers' LabelSmoother of `logits` [..., C] and `labels` [...] at `place`: shifted
// by one first where `shifts`; a sum by `count`, or, where that is kNoName, by the labels that it
// counts itself.  `outputs` of the model are held until it has returned.
// Source: transformers 5.17.0, trainer_pt_utils.py, and trainer.py for what calls it.
struct SmoothedBy {
  bool shifts = false;
  NameId count = kNoName;
  std::vector<NameId> outputs = {};
};
void AppendTrainerSmoothing(ProgramWriter& writer, const CallPlace& place, NameId logits,
                            NameId labels, const SmoothedBy& by);

// `held` live until the last call that was written has returned.
void HoldUntilLast(Program& program, const std::vector<NameId>& held);

}  // namespace onnxfit
