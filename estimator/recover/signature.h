// What torch.export says of a module's tensors: the graph_signature that its exporter
// writes into the metadata of the file.
#pragma once

#include <string_view>
#include <vector>

#include "estimator/onnx/graph.h"

namespace onnxfit {

struct SignatureEntry {
  enum class Kind : uint8_t { kParameter, kBuffer };
  Kind kind = Kind::kParameter;
  std::string_view name;    // "p_layer1_0_conv1_weight": how calls refer to it
  std::string_view target;  // "layer1.0.conv1.weight": also the initializer's name
};

// The parameters and buffers of the signature, in its order, which is that of
// named_parameters(remove_duplicate=False) and named_buffers(); empty where the file has
// none.  Lines read "p_fc_weight: PARAMETER target='fc.weight'" (torch 2.11).
std::vector<SignatureEntry> ReadSignature(const Graph& graph);

}  // namespace onnxfit
