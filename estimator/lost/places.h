// Where the calls of nodes run: in which module, by which lines, in place or not.  Internal to
// recovery.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/lost/generated_bodies.h"
#include "estimator/onnx/graph.h"
#include "estimator/patterns/rewrites.h"
#include "estimator/writer/program_writer.h"

namespace onnxfit {

// Whether a node works in place, by NodeId; nullopt: neither the file nor a library says it.
using InPlaceNodes = std::vector<std::optional<bool>>;

class Places {
 public:
  // `bound` and `bodies` must outlive it.  Throws Error where a glob of settings.out_of_place picks
  // nothing.  O(nodes).
  Places(const BoundGraph& bound, const GeneratedBodies& bodies, InPlaceNodes in_place,
         const TrainingSettings& settings);

  // Of a call that `node` stands for.
  CallPlace Of(NodeId node) const;

 private:
  const BoundGraph& bound_;
  const GeneratedBodies& bodies_;
  InPlaceNodes in_place_;
};

// The statement of the forward at `level` of a call that runs at `place`; kNoStatement where the
// file does not show it.  O(depth).
StatementId FrameAt(const ModuleTree& modules, const CallPlace& place, size_t level);

// --- In place: which calls write over their input -------------------------------------------

// What the source says, then what is known of a library; models with attention write over nothing,
// but for what such models do all the same; and no code does over what an earlier node has read, a
// product that it adds to, or the argument of a module that an activation begins.
// O(nodes × log).
InPlaceNodes FindInPlace(const BoundGraph& bound, const std::vector<Rewritten>& rewrites);

// Whether a line of source writes over an operand: "out += x", "x.relu_()"; not "F.relu(x)".  An
// empty one says nothing, nor does a module's "F.relu(input, inplace=self.inplace)".
std::optional<bool> WrittenInPlace(std::string_view line);

// Activations that do not work in place, though they could: in torchvision's
// SqueezeExcitation (0.26, ops/misc.py) `activation` is made by torch.nn.ReLU() without
// arguments.  Its children are called avgpool, fc1, fc2, activation and scale_activation.
// And torch.nn's activations in modules of diffusers and transformers, where torch.export
// names their classes.
// O(nodes).
std::set<NodeId> FindOutOfPlaceActivations(const Graph& graph, const ExporterMetadata& metadata);

// Of torchvision's activations and sums: whether they write over their input, as
// nn.ReLU(inplace=True) and "out += identity" do.  By the classes that torch.export names, else by
// the children of modules.  O(nodes × log).
std::map<NodeId, bool> FindKnownInPlace(const Graph& graph, const ExporterMetadata& metadata);

// Sums that are written over their first operand, though the model has attention: "score +=
// p2c_att / scale" of transformers' DeBERTa (5.17, modeling_deberta_v2.py), of what two gathers
// picked, and "relative_buckets += torch.where(…)" of its T5.  O(nodes).
std::set<NodeId> FindInPlaceSums(const Graph& graph);

// Whether the model has attention.  Those of torch.nn, transformers and torchvision that do
// write x + y and relu(x), never over an operand.  O(nodes).
bool HasAttention(const Graph& graph, const std::vector<Rewritten>& rewrites);

// Whether the model has a convolution.  Activations that write over their input are a habit of such
// networks (torchvision 0.26 and timm 1.0.31 have nn.ReLU(inplace=True) in no other); perceptrons'
// code writes nn.ReLU(): the MLPs of GPUMemNet's runs, and PyTorch's tutorials.  O(nodes).
bool HasConvolution(const Graph& graph);

}  // namespace onnxfit
