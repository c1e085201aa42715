// What is known of libraries and no file says.  Internal to the room recover/.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "estimator/onnx/graph.h"
#include "estimator/recover/rewrites.h"

namespace onnxfit {

// Activations that do not work in place, though they could: in torchvision's
// SqueezeExcitation (0.26, ops/misc.py) `activation` is made by torch.nn.ReLU() without
// arguments.  Its children are called avgpool, fc1, fc2, activation and scale_activation.
// And torch.nn's activations in modules of diffusers and transformers, where torch.export
// names their classes.
// O(nodes).
std::set<NodeId> FindOutOfPlaceActivations(const Graph& graph);

// Of torchvision's activations and sums: whether they write over their input, as
// nn.ReLU(inplace=True) and "out += identity" do.  By the classes that torch.export names, else by
// the children of modules.  O(nodes × log).
std::map<NodeId, bool> FindKnownInPlace(const Graph& graph);

// Whether the library that has a dropout makes it with a p of 0 unless it is told another one, by
// the classes of the modules around it, outermost first, as torch.export names them.  `weighs`: it
// is one of attention's weights.
bool NeverDropsOut(const std::vector<std::string>& classes, bool weighs);

// Whether a language model's head, where nothing tells, likely has the weight of its embedding.
// Configurations of transformers 5.17 say so, but those of Llama and its kin, whose feed-forward
// blocks have a gate_proj and whose words are not scaled (Gemma's are).  O(nodes).
bool LikelyTiesHead(const Graph& graph);

// Sums that are written over their first operand, though the model has attention: "score +=
// p2c_att / scale" of transformers' DeBERTa (5.17, modeling_deberta_v2.py), of what two gathers
// picked, and "relative_buckets += torch.where(…)" of its T5.  O(nodes).
std::set<NodeId> FindInPlaceSums(const Graph& graph);

// Whether the model has attention.  Those of torch.nn, transformers and torchvision that do
// write x + y and relu(x), never over an operand.  O(nodes).
bool HasAttention(const Graph& graph, const std::vector<Rewritten>& rewrites);

}  // namespace onnxfit
