// A rotary embedding that an exporter has computed, so that its buffer is lost with its calls.
// Internal to recovery.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/exporters/bound_graph.h"

namespace onnxfit {

// What transformers' rotary embeddings compute of n positions and the f elements of their
// buffer inv_freq depends on no input: torch.export's optimizer runs as much of it as it takes
// for small.  Its forward (transformers 5.17, modeling_llama.py; all decoders have a copy):
//   freqs = (inv_freq_expanded @ position_ids_expanded).transpose(1, 2)    freqs: [1, n, f]
//   emb = torch.cat((freqs, freqs), dim=-1)                                [1, n, 2f]
//   cos = emb.cos() * self.attention_scaling                               sin likewise
struct LostRotary {
  std::string module;          // "model.rotary_emb"
  ModuleId caller = kOutside;  // the module whose forward calls it
  NodeId layer = kNoNode;      // the first node of the caller's first layer: it ran before
  int64_t positions = 0;
  int64_t frequencies = 0;
  std::vector<NodeId> nodes;  // what the file has left of it
  // Its results, [1, n, 2f], or what each layer makes of them, [1, 1, n, 2f].
  std::vector<ValueId> cos;
  std::vector<ValueId> sin;
};

// Signals: a buffer inv_freq in the signature that the file does not hold; a constant that
// torch.export has named for the call that made it, and what reads it.  Nothing where the model
// has several such buffers: their constants look alike.  O(nodes + initializers).
std::optional<LostRotary> FindLostRotary(const BoundGraph& bound);

}  // namespace onnxfit
