// What ONNX's own parser made of a file, and the steps from there to a Graph.  Internal to the room
// onnx/: the other rooms see Graph alone.  Errors are thrown without a file but for BuildGraph's.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/onnx/graph.h"

namespace onnxfit {

// Functions are inlined, big tensors have lost their contents.  Nodes keep the file's
// order in here; a NodeId is a place in Graph::nodes, which may be sorted differently.
struct OnnxModel {
  onnx::ModelProto proto;
  std::vector<const onnx::NodeProto*> nodes;        // by NodeId
  std::vector<const onnx::ValueInfoProto*> inputs;  // by place in Graph::inputs
  // Of initializers, where they were kept.  By value: initializers change places (RestoreTensors).
  std::unordered_map<ValueId, const onnx::TensorProto*> contents;
  std::set<std::string> op_types;  // of other domains than ONNX's own

  const onnx::NodeProto& NodeOf(NodeId node) const { return *nodes[Index(node)]; }

  // The tensor with its elements, or null where they were not kept: the weights are
  // left out of the file, too big, in another file, sparse, or the file never had it.
  const onnx::TensorProto* ContentsOf(ValueId initializer) const {
    const auto found = contents.find(initializer);
    return found == contents.end() ? nullptr : found->second;
  }
};

// ONNX's text form, as ParseGraph (loader.h) takes it, parsed and no more.  Throws Error without a
// file.
onnx::ModelProto ParseOnnxText(std::string_view text);

// True where all elements of `tensor` are in its raw_data or typed data, as many as its
// dimensions say.  False for what was skipped, is external, or does not add up; so it is
// to be asked before the elements of an attribute's tensor (Constant) are read.
bool HasContents(const onnx::TensorProto& tensor);

// Checks `proto` and turns it into a Graph.  `proto` may not call functions of its own.
// Throws Error.  O(nodes).
Graph BuildGraph(onnx::ModelProto proto, std::string path, std::vector<std::string> notes = {});

// The same for those who rewrite a model (control flow): `changed` is a copy of that of `graph`,
// of which the rest is kept.
Graph RebuildGraph(onnx::ModelProto changed, const Graph& graph);

// --- Checks of single things in a model ----------------------------------------

// Dimensions of a tensor, as PyTorch's reductions (ATen/WrapDimUtilsMulti.h, dim_bitset_size) and
// NumPy 2 (NPY_MAXDIMS): each node costs as many numbers.
inline constexpr int64_t kMaxRank = 64;

// Throws Error where `model` has no graph, no nodes or no outputs.
void CheckIsComplete(const onnx::ModelProto& model);

// ONNX's own opset must be named, if used, and be one that is supported.
void CheckOpset(const onnx::ModelProto& model);

// The dimensions that the file states for a graph input are >= 0, and not above kMaxRank.
void CheckInput(const onnx::ValueInfoProto& input);

// The type of an initializer; Error where its element type is unknown, a dimension is
// negative, there are above kMaxRank of them, its size does not fit 63 bits, or its contents do not
// match it.
TensorType TypeOfInitializer(const onnx::TensorProto& tensor);
TensorType TypeOfInitializer(const onnx::SparseTensorProto& tensor);

// The error for a name that nothing makes; `names` are those that there are.
// `where` uses it as `what` ("input", "a sub-graph's input", "output").
Error DanglingName(std::string where, std::string_view what, std::string_view name,
                   std::span<const Value> values);

// --- What is done to a model before it is built --------------------------------

// Scalars of int64 that the graph has, and lists of one, by name.  Views of `graph`.
// O(nodes + initializers).
using KnownPlaces = std::unordered_map<std::string_view, int64_t>;
KnownPlaces KnownPlacesIn(const onnx::GraphProto& graph);

// Model-local functions: their calls become the nodes of their bodies.  `model` has none
// afterwards; those for another opset
// than the model's stay calls (of unknown operators) and are told in `notes`.
// Throws Error (without a file) where functions call themselves, are defined twice, are
// called with too many inputs or outputs, or would expand to more than 65,536 nodes and 32 for each
// that the file has.
void InlineFunctions(onnx::ModelProto& model, std::vector<std::string>& notes);

// A file of opset 6 or older becomes one of opset 7, with a note; others stay as they are.
// O(nodes).  (old_opsets.cc)
void UpgradeOldOpset(onnx::ModelProto& model, std::vector<std::string>& notes);

// Dimensions that exporters leave open and write as -1, "?" or "None" are free: those of inputs go
// by their places ("x.2") where several are written alike.  So is a first dimension of 0, where no
// input has a batch, and what is 0 behind it.  O(values × dimensions).  (unknown_dims.cc)
void FreeUnknownDims(onnx::GraphProto& graph);

// In a file without weights, inputs that are called as a module's parameters ("conv1.weight") and
// all behind them, as torch.onnx's export_params=False lists them, become initializers without
// contents.  nullopt where there are none.  O(inputs).  (bare_parameters.cc)
std::optional<Warning> StoreBareParameters(onnx::GraphProto& graph);

// TorchScript's exporter writes the axes of x.permute(0, -2, -1, 1) as they are, which ONNX counts
// from the front.  O(nodes).
void CountPermutationsFromFront(onnx::ModelProto& model);

// x.unfold (-2, size, step), whose windows TorchScript's exporter joins at -2 of the result, which
// has a dimension more than x: the file computes another tensor than the model, and often nothing
// at all, since a layer behind takes no such features.  Joined where PyTorch has them, with a note.
// A code's own torch.stack ([x.narrow (-2, …).transpose (-1, -2) …], -2) has its slices one by one.
// Source: unfold of torch/onnx/_internal/torchscript_exporter/symbolic_opset9.py, torch 2.11.
// O(nodes).  (scripted_windows.cc)
void JoinWindowsInFront(onnx::ModelProto& model, std::vector<std::string>& notes);

// For files that name their weights and do not hold them (torch.onnx's include_initializers=False):
// each name that nodes read and nothing makes becomes an initializer without contents, of the
// type that the graph's value_info gives it; a note for -v tells how many.  Throws Error
// (without a file) where a file without any initializer stores no type for several such names:
// no shape follows from a name.  A single one, or one among others, is left to BuildGraph, which
// says it is misspelt.  O(nodes).
void DeclareMissingInitializers(onnx::ModelProto& model, std::vector<std::string>& notes);

// The elements of a tensor in the file; "" where they are not there.
using ReadElements = std::function<std::string(const onnx::TensorProto&)>;

// torch.export's optimizer computes what is made of a module's tensors alone, stores the result and
// notes their names beside it: an expanded query is stored as often as the batch has samples,
// weights of an LSTM lie in ONNX's order.  Where it is known how that was made, the file's tensor
// becomes the module's again, and nodes that make what is stored; a note tells how many, a warning
// of those that may be larger.  Not in a file that python -m onnxfit export wrote, whose program is
// beside its nodes.  O(nodes + initializers + elements of what was expanded).  (folded_tensors.cc)
void UnfoldTensors(onnx::ModelProto& model, const ReadElements& read,
                   std::vector<std::string>& notes, Warnings& warnings);

// --- What comes before what ----------------------------------------------------

// What the bodies of If, Loop and Scan read from the graph around them: the names that sub-graphs
// of `node` use and do not define, each once, in the order of use; empty for a node without
// sub-graphs.  O(what the sub-graphs hold × nesting).
std::vector<std::string_view> CapturedNames(const onnx::NodeProto& node);

// Things put after what they need.
struct Sorted {
  std::vector<int32_t> order;  // complete where `cycle` is empty
  std::vector<int32_t> cycle;  // each needs the next, the last the first; "" if there is none
};

// `needs[i]` lists what i needs (repetitions allowed).  Of all valid orders, the one
// whose first place has the smallest number, and so on: 0, 1, 2 … where that is valid.
// O((items + needs) log items), O(items + needs) for one that is in order.
Sorted SortByNeeds(const std::vector<std::vector<int32_t>>& needs);

}  // namespace onnxfit
