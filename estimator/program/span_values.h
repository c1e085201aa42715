// What passes between a part of a program and the rest.
#pragma once

#include <span>
#include <vector>

#include "estimator/program/checkpointed_spans.h"
#include "estimator/program/program.h"

namespace onnxfit {

struct SpanValues {
  std::vector<NameId> given;       // made before it: what it reads, by first reads, then the rest
  bool by_position = false;        // all that is given, as far as its caller's line shows
  std::vector<NameId> returned;    // made in it and held behind it, whether anybody reads it or not
  std::vector<NameId> attributes;  // made in it, held by modules from then on ("self.attn = …")
  std::vector<int32_t> items;      // of Program::stored, in a dict that it is given
};

// By span.  The model's own tensors and what autocast keeps of them are neither given nor
// returned, nor is what lies in a dict.  O(calls × depth of modules + the calls of all spans).
std::vector<SpanValues> ValuesAcross(const Program& program, std::span<const CallSpan> spans);

}  // namespace onnxfit
