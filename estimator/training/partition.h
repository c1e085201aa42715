// What the forward pass of a compiled model keeps for its backward.  AOTAutograd traces both, and
// min_cut_rematerialization_partition (torch/_functorch/partitioners.py, pytorch v2.11.0) chooses:
// products, convolutions, attention and what is drawn are never computed again; what such a kernel
// reads in backward is kept as it is; all else may be computed anew, in kernels that are fused,
// from whatever is cheapest to keep.  Here that graph is the program's calls, each with what its
// gradients read, not their decompositions.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/base/tensor_type.h"
#include "estimator/eager/holders.h"
#include "estimator/program/program.h"

namespace onnxfit {

// A value of the forward pass that has bytes of its own: one of the program's names, or what a call
// makes beside its results.
struct ForwardValue {
  int32_t maker = -1;      // call; -1: given
  int64_t bytes = 0;       // as compiled code has it
  bool is_kept = false;    // for backward
  bool is_stored = false;  // in memory for a while: not only between parts of fused kernels
  int32_t last_read = -1;  // call that reads it as it is
};

// What a call has made beside its results: a given tensor in the memory format in which a
// convolution reads it, the signs of a result.
struct ExtraTensor {
  TensorType type;
  bool is_kept = false;  // for backward
};

struct Partition {
  std::vector<int32_t> value_of;                            // by name: index of values
  std::map<std::pair<int32_t, int>, int32_t> value_of_aux;  // by call and its auxiliary tensor
  std::vector<ForwardValue> values;
  std::vector<bool> is_again;  // by name: what another call has made before, which is not made
  std::multimap<int32_t, ExtraTensor> extras;  // by call
  std::vector<bool> casts_in_backward;         // by call: whose gradients are of autocast's type
};

// By call: whether Inductor has it in kernels with its neighbours, in backward too.  Those from
// `model_end` on are not compiled.
std::vector<bool> AreFused(const Program& program, size_t model_end);

// `holders` are of a run of `program` in which nothing is written over its input; its calls from
// `model_end` on are not compiled.  O(calls × log) beside the cut.
Partition PartitionForward(const Program& program, const TrainingSettings& settings,
                           size_t model_end, const Holders& holders);

}  // namespace onnxfit
