// Which module call a node belongs to, as far as the file says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/graph/graph.h"

namespace onnxfit {

// Module paths from the outermost in, without the operator itself:
//   node "/model/layer1/layer1.0/conv1/Conv"      -> model, layer1, layer1.0, conv1
//   name_scopes "['layer1', 'layer1.0', 'conv2d']" -> layer1, layer1.0
// The first is how TorchScript names nodes, the second what torch.export writes into
// their metadata.  Empty where a node has neither, or one of more than 64 modules.
std::vector<std::string> ScopeOf(const Graph& graph, NodeId node);

// Classes of these modules, of which torch.export alone tells: "torch.nn.modules.linear.Linear".
std::vector<std::string> ClassesOf(const Node& node);

// "model.layer1.0.conv1", the path of the innermost module of `scope`: a child of a
// Sequential repeats its parent's name, and the number of its call ("@1"), any other child does
// not.
std::string ModulePath(const std::vector<std::string>& scope);

// A name that TorchScript's exporter gives to what it computed, "onnx::MatMul_12" or
// "/fc/Transpose_output_0", and not one of the module's.
bool IsComputedName(std::string_view name);

// The name that torch.export gives to a number that the model's code makes: torch.tensor(2.0).
bool IsLifted(std::string_view name);

// "layer1.0" and "conv1" of "layer1.0.conv1": a module and its child, or its tensor.  Both
// are `path` itself where it has no dot.  The child of a module's second call, "conv1@1", has
// the same name.
std::string_view ParentOf(std::string_view path);
std::string_view ChildOf(std::string_view path);

// Whether a module of a scope is a child of a ModuleList or a Sequential: "layers.3".
bool IsListed(std::string_view module);

// "encoder.layers.3" of "encoder.layers.3.linear1.bias": up to the last number; else "".
std::string_view NumberedLayer(std::string_view path);

// How many modules two scopes have in common, from the outermost in.
size_t SharedModules(const std::vector<std::string>& a, const std::vector<std::string>& b);

}  // namespace onnxfit
