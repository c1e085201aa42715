// The weights of attention, and the logits of a router, that forwards return beside their result,
// and the names that hold them though nothing reads them: "attn_output, attn_weights =
// self.attn(x)", "outputs = layer(x)", "_, scores, indices = self.router(x)".
// Internal to the room names/.
#pragma once

#include <cstddef>
#include <vector>

#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"
#include "estimator/program/statements.h"

namespace onnxfit {

// Target `place` of a statement, by its index in its module call, and that one's.
struct HeldWeights {
  NameId weights = kNoName;
  size_t module = 0;
  size_t statement = 0;
  size_t place = 0;
};

// What a softmax has made and a product reads is taken to be returned by the forward or the method
// that made it, where its caller binds a second name that says so, or calls it as libraries do that
// always return it, and does not tell whether it wants them ("output_attentions"); and so on
// outwards, also to a name that ends with "outputs", until one that calls numbered layers, which
// keeps what the last one returned.
// `modules` are those of `runs`, in that order.  O(calls × (depth of modules + statements)).
std::vector<HeldWeights> FindHeldWeights(const Program& program, const ModuleRuns& runs,
                                         const std::vector<ModuleCall>& modules);

}  // namespace onnxfit
