// The sizes of tensors that no call reads, of which a file of torch.export's has names alone.
// Internal to recovery.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/parameters/roles.h"
#include "estimator/program/module_tensors.h"

namespace onnxfit {

// Of what the signature names, no call reads and `known`, the module's other tensors, does not
// have, those whose sizes `known` tells:
//   "backs.5.weight"       as all in other layers, "backs.4.weight", which are alike
//   "head.mlp.fc1.weight"  as all that end so below other modules, by the longest such end
//   "rope.inv_freq"        a buffer of floats, as all of that name
//   "pooler.dense.weight"  by a row of libraries/libraries.h, where it is known how wide its module
//   is
// O(signature × known).
std::vector<LostTensor> SizeUnreadTensors(const BoundGraph& bound,
                                          const std::vector<ModuleTensor>& known);

// Parameters of modules that run no node, which the signature names and `known`, those of the file
// and those that were sized, does not have: their bytes are missing in an answer.  nullopt where
// there are none, or where as many are in modules that do run, which are other names of known
// tensors. O(signature + nodes).
std::optional<Warning> FindUnsized(const BoundGraph& bound, const std::vector<ModuleTensor>& known);

}  // namespace onnxfit
