// Which module call a node belongs to, as far as the file says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/onnx/graph.h"
#include "estimator/program/module_names.h"

namespace onnxfit {

// Module paths from the outermost in, without the operator itself:
//   node "/model/layer1/layer1.0/conv1/Conv"      -> model, layer1, layer1.0, conv1
//   name_scopes "['layer1', 'layer1.0', 'conv2d']" -> layer1, layer1.0
// The first is how TorchScript names nodes, the second what torch.export writes into
// their metadata.  Empty where a node has neither, or one of more than 64 modules.
std::vector<std::string> ScopeOf(const Graph& graph, NodeId node);

// Classes of these modules, of which torch.export alone tells: "torch.nn.modules.linear.Linear".
std::vector<std::string> ClassesOf(const Node& node);

// A name that TorchScript's exporter gives to what it computed, "onnx::MatMul_12" or
// "/fc/Transpose_output_0", and not one of the module's.
bool IsComputedName(std::string_view name);

// The name that torch.export gives to a number that the model's code makes: torch.tensor(2.0).
bool IsLifted(std::string_view name);

}  // namespace onnxfit
