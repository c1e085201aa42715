// What passes between a part of a program and the rest.
#pragma once

#include <span>
#include <vector>

#include "estimator/program/checkpointed_spans.h"
#include "estimator/program/program.h"

namespace onnxfit {

struct SpanValues {
  std::vector<NameId> given;     // made before the span, read in it; in the order of first reads
  std::vector<NameId> returned;  // made in it, read behind it or an output of the model
};

// By span.  The model's own tensors and what autocast keeps of them are not given.  O(calls + the
// calls of all spans).
std::vector<SpanValues> ValuesAcross(const Program& program, std::span<const CallSpan> spans);

}  // namespace onnxfit
