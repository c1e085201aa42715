#include "estimator/recover/node_calls.h"

#include <algorithm>
#include <iterator>

#include "estimator/base/index.h"

namespace onnxfit {

NodeCalls::NodeCalls(const BoundGraph& bound, const std::vector<Rewritten>& rewrites)
    : bound_(bound),
      rewrites_(rewrites),
      rewrite_of_(bound.graph().nodes.size(), -1),
      is_inner_(bound.graph().nodes.size()) {
  for (size_t i = 0; i < rewrites.size(); ++i) {
    for (const NodeId node : rewrites[i].nodes) is_inner_[Index(node)] = true;
    rewrite_of_[Index(rewrites[i].last)] = static_cast<int32_t>(i);
    is_inner_[Index(rewrites[i].last)] = false;
  }
}

std::string_view NodeCalls::CallOf(NodeId node) const {
  const int32_t rewrite = RewriteAt(node);
  return rewrite < 0 ? std::string_view() : rewrites_[Index(rewrite)].aten;
}

bool NodeCalls::IsLinear(NodeId node) const {
  const Node& made = bound_.At(node);
  if (CallOf(node) == "linear" || made.op_type == "Gemm") return true;
  return made.op_type == "MatMul" && bound_.IsStored(made.inputs[1], 2);
}

bool NodeCalls::IsLayerNorm(NodeId node) const {
  return bound_.At(node).op_type == "LayerNormalization" || CallOf(node) == "layer_norm";
}

bool NodeCalls::IsActivation(NodeId node) const {
  constexpr std::string_view kCalls[] = {"gelu", "silu", "mish", "hardswish"};
  constexpr std::string_view kOps[] = {"Relu",
                                       "LeakyRelu",
                                       "PRelu",
                                       "Elu",
                                       "Selu",
                                       "Celu",
                                       "Clip",
                                       "Tanh",
                                       "Softplus",
                                       "HardSwish",
                                       "Mish",
                                       "Gelu",
                                       "com.microsoft.Gelu",
                                       "com.microsoft.FastGelu",
                                       "com.microsoft.BiasGelu",
                                       "com.microsoft.QuickGelu"};
  const auto is_in = [](const auto& names, std::string_view name) {
    return std::ranges::find(names, name) != std::end(names);
  };
  return RewriteAt(node) < 0 ? is_in(kOps, bound_.At(node).op_type) : is_in(kCalls, CallOf(node));
}

bool NodeCalls::IsPointwise(NodeId node) const {
  const Node& made = bound_.At(node);
  if (made.op_type != "Conv" || RewriteAt(node) >= 0) return false;
  return bound_.IsStored(made.inputs[1], 3) && bound_.DimsOf(made.inputs[1])[2] == 1;
}

ValueId NodeCalls::InputOf(NodeId node) const {
  const int32_t rewrite = RewriteAt(node);
  return rewrite < 0 ? bound_.At(node).inputs[0] : rewrites_[Index(rewrite)].inputs[0];
}

}  // namespace onnxfit
