// Casts that an fp32 export has left out.  Internal to the room recover/.
#pragma once

#include <vector>

#include "estimator/recover/bound_graph.h"
#include "estimator/recover/lost_calls.h"

namespace onnxfit {

// RMS norms compute in fp32 whatever the model's type: x.to(torch.float32), and back to x's type
// before or behind the product with the weight.  In the fp32 model that torch.export saw these
// casts did nothing and left no node, but source lines tell of them:
//   variance = x.to(torch.float32).pow(2).mean(-1)     x itself stays as it is      (T5)
//   return self.weight * x.to(input_dtype)             back before the weight       (Llama)
//   output = self._norm(x.float())                     back behind it               (Gemma)
//   output = output * (1.0 + self.weight.float())      the weight, too              (Gemma)
// "to" casts to fp32, "type_as" to the type of `like`, which is no call where it is that already.
// Sources: transformers 5.17.  O(nodes).
std::vector<LostCall> FindLostCasts(const BoundGraph& bound);

}  // namespace onnxfit
