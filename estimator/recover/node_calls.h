// Which call of PyTorch's a node stands for, rewrites included.  Internal to the room recover/.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "estimator/onnx/graph.h"
#include "estimator/recover/bound_graph.h"
#include "estimator/recover/rewrites.h"

namespace onnxfit {

// `bound` and `rewrites` must outlive it.
class NodeCalls {
 public:
  NodeCalls(const BoundGraph& bound, const std::vector<Rewritten>& rewrites);

  // The rewrite that ends at `node`, an index, or -1.
  int32_t RewriteAt(NodeId node) const { return rewrite_of_[static_cast<size_t>(node)]; }
  // Its call; "" where there is none.
  std::string_view CallOf(NodeId node) const;
  // Whether `node` is inside of a rewrite, and not its end.
  bool IsInner(NodeId node) const { return is_inner_[static_cast<size_t>(node)]; }

  bool IsLinear(NodeId node) const;
  bool IsLayerNorm(NodeId node) const;
  // Of one operand; products of two are none.
  bool IsActivation(NodeId node) const;
  // torch.nn.Conv1d of one element, as linear as a layer over channels.
  bool IsPointwise(NodeId node) const;

  // What the call reads first.
  ValueId InputOf(NodeId node) const;

 private:
  const BoundGraph& bound_;
  const std::vector<Rewritten>& rewrites_;
  std::vector<int32_t> rewrite_of_;  // by node: the rewrite that ends here
  std::vector<bool> is_inner_;       // by node: inside of a rewrite
};

}  // namespace onnxfit
