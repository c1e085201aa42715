// Calls that an export has left out, with a trace or without one: what put_backs.h puts together.
// Internal to recovery.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/exporters/bound_graph.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"
#include "estimator/parameters/batch_norms.h"
#include "estimator/patterns/rewrites.h"

namespace onnxfit {

struct LostCall {
  NodeId before = kNoNode;   // the node that read its result; kNoNode: all that read `input`
  ValueId input = kNoValue;  // what the node reads now
  std::string name;          // one call may have several readers
  std::string_view op;       // "dropout", "detach", …; "" where it repeats another call
  NodeId repeats = kNoNode;  // the node that made `input`, by an equal call
  NodeId behind = kNoNode;   // the node behind which it runs; kNoNode: before its reader
  // The module call that runs it, by its caller and its own name; "": by the caller's own forward,
  // and where there is no caller, either, beside its reader's.
  ModuleId caller = kOutside;
  std::string module = {};
  ValueId like = kNoValue;      // its second operand, if it has one
  std::string tensors_of = {};  // the module whose a repeated call reads, if not the same
  size_t frames = 0;            // of its reader's, as many as are around it; 0: as the caller says
  bool is_open = false;         // a cast that there may have been, of which the file has no trace
  bool is_type_held = false;    // `like` gives its type alone, which a variable holds
  bool is_rare = false;         // a dropout that is put back only where a flag says so
};

struct LostOperands {
  std::vector<LostCall> calls;  // in the order of nodes
  std::vector<bool> drops;      // by NodeId: whether a dropout is among those before it
};

// Signals: an operand of the call that a node came from which no node makes: in eval mode
// torch.export turns Dropout into "%clone_3" and removes it, as it does with contiguous(), which
// differs from it by what it copies: a view that the same module made, or the one in front of it in
// a Sequential; with "%cat_2", a
// concatenation of one tensor, which is a copy; with "%add_4", x + 0, or x * 1; with "%detach"
// that; and with
// "%relu_3", a call equal to one that it keeps, whose result the node then reads, or that of a norm
// with equal weights, whose own no call reads.  O(nodes).
LostOperands FindLostOperands(const Graph& graph, const ExporterMetadata& metadata);

// These; in files that name no calls, the detach() of a straight-through estimator, x + (q - x);
// dropouts of files exported for inference that left a gap in the indices of a Sequential:
// "classifier.0" missing before "classifier.1", which neither such a clone nor a folded batch norm
// explains (one at the end of a Sequential, or outside of one, is not seen); and those that a
// writer has kept as an Identity, by the name of its result.  In the order of nodes.  O(nodes).
std::vector<LostCall> FindLostCalls(const Graph& graph, const ExporterMetadata& metadata,
                                    const LostOperands& operands,
                                    const std::vector<FoldedBatchNorm>& folded);

// Whether the maximum m that a node of TorchScript's makes is read as exp(x - m) or softmax(x - m)
// alone, x being what it is of: x.amax(dim, keepdim=True).detach(), which its file does not tell
// from x.max(dim, keepdim=True), whose gradient would change nothing.  (Performers' kernels of
// softmax and denoising diffusion models' attention spell "torch.amax(…, keepdim=True).detach()".)
bool IsTakenOffMaximum(const BoundGraph& bound, NodeId maximum);
// The detach() of each, and that of boxes that topk chooses of proposals, which a decoder begins
// with, as all detectors in two stages of transformers 5.17 spell it.  In the order of nodes.
// O(nodes).  (detached_maxima.cc)
std::vector<LostCall> FindDetachedMaxima(const BoundGraph& bound);

// Whether there are such, which are then all that the model has.  O(nodes).
bool NamesDropouts(const Graph& graph);

// --- Casts (lost_casts.cc) ------------------------------------------------------------------

// RMS norms compute in fp32 whatever the model's type: x.to(torch.float32), and back to x's type
// before or behind the product with the weight.  In the fp32 model that torch.export saw these
// casts did nothing and left no node, but source lines tell of them:
//   variance = x.to(torch.float32).pow(2).mean(-1)     x itself stays as it is      (T5)
//   return self.weight * x.to(input_dtype)             back before the weight       (Llama)
//   output = self._norm(x.float())                     back behind it               (Gemma)
//   output = output * (1.0 + self.weight.float())      the weight, too              (Gemma)
// "to" casts to fp32, "type_as" to the type of `like`, which is no call where it is that already.
// A softmax and a norm without a weight may do so within their line, of which "to.inline" and
// "type_as.inline" are parts:
//   weights = softmax(scores.float(), dim=-1).type_as(scores)                       (XLM, MPT)
// Sources: transformers 5.17.  O(nodes).
std::vector<LostCall> FindLostCasts(const BoundGraph& bound);

// Those of which the file has no line, by what is known of libraries (CastRow in libraries.h), and
// those of a body of torch.autocast (enabled=False), whose lines name what they read "to_2"; in the
// order of calls.  O(calls × rows).  (known_casts.cc)
std::vector<LostCall> FindKnownCasts(const BoundGraph& bound);

// Whether what the node makes has the name of a type_as that did nothing, "type_as_1" of "%mul_3":
// x.type_as(y) returned x then, which the tracer calls so from there on (torch 2.11).  The same of
// x.to(y.dtype) and x.float() leaves no name: their file is that of a model without them.
bool IsNamedForTypeAs(const BoundGraph& bound, NodeId node);

// Adds to `calls`, behind, those that a line spells beside calls that left nodes, and that are not
// among them: "g.to(u.dtype) * u", "out = F.normalize(q.float(), dim=-1).to(v.dtype)".  Whose type
// it is, as in a .pt2 (program/forward_variables.h).  O(nodes + lines that cast × nodes of their
// forwards).  (line_casts.cc)
void AddLineCasts(const BoundGraph& bound, std::vector<LostCall>& calls);

// Adds to `calls`, behind, as open those of RMS norms by hand of which none is told, where a line
// that made no node may have been one: "x = x.float()" in front, and behind the last line that is
// known "return out.to(dtype)", which a file does not tell from "return out".  O(nodes).
// (open_norms.cc)
void AddOpenNorms(const BoundGraph& bound, std::vector<LostCall>& calls);

// Whether a product of a layer made it, or what views make of one: under autocast it has that type.
// O(views).  (open_norms.cc)
bool IsOfLayer(const BoundGraph& bound, ValueId value);

// --- Dropouts (lost_dropouts.cc) ------------------------------------------------------------

struct LostDropouts {
  std::vector<LostCall> calls;    // in the order of nodes
  std::vector<size_t> attention;  // rewrites that are attention which drops out
};

// Where transformers have dropouts; of files with metadata, which tell of other dropouts,
// attention alone; nothing of training exports.  Those called rare here are put back only where a
// flag says so, and are in doubt else.
//   in front of a residual sum, behind the linear layer of its branch
//   (rare) the same where the branch is scaled, or ends with a convolution of one element
//   (rare) behind the activation of such a branch: linear, activation, linear
//   behind the sum of an embedding and positions, or its layer norm, if nothing else reads it
//   behind a softmax that weighs values, and inside of fused attention
//   in front of the last layer of a feed-forward block or a classifier, and behind T5's final
//   norms, by the names that torch.nn and transformers give them
// O(nodes).
LostDropouts FindLostDropouts(const BoundGraph& bound, const std::vector<Rewritten>& rewrites);

// Whether a model with attention likely has a p above 0: where it reads words and has no rotary
// embedding.  Configurations of transformers 5.17 and models of timm 1.0 that read images or
// sounds, or that have rotary embeddings, have a p of 0 unless they are told another.  nullopt for
// models without attention.  O(nodes).
std::optional<bool> LikelyDropsOut(const BoundGraph& bound, const std::vector<Rewritten>& rewrites);

// --- Residual branches (residual_branches.cc) -----------------------------------------------

// Which call of PyTorch's a node stands for, rewrites included.  `bound` and
// `rewrites` must outlive it.
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

struct LostStochasticDepth {
  NodeId sum = kNoNode;       // the residual sum
  ValueId branch = kNoValue;  // its operand that was multiplied with noise
};

// What is known of libraries: in torchvision's MBConv (EfficientNet), CNBlock and Swin's blocks
// the block's result goes through StochasticDepth before the sum, but in the model's first block,
// whose rate is 0.  The class is in files of torch.export; in TorchScript's the structure shows it:
// a module that adds its input to the result of its child "block", a Sequential with SiLU
// (MobileNetV3's has HardSwish, and no stochastic depth).  Nothing in files exported in training
// mode.  O(nodes).
std::vector<LostStochasticDepth> FindLostStochasticDepths(const BoundGraph& bound,
                                                          const std::vector<Rewritten>& rewrites);

// x + branch, where a layer makes the branch.
struct BranchEnd {
  NodeId layer = kNoNode;
  ValueId value = kNoValue;  // where a dropout may stand: what the sum reads, or a scale before it
  NodeId reader = kNoNode;   // of `value`
  bool is_plain = true;      // a linear layer, of which the sum reads all, but for views
};

// Whose branch `sum` ends; of plain ones the first.  Those that are not are scaled, by a number
// ("x + 0.5 * ff (x)") or by a vector of the file (LayerScale), or are made, where `attends` says
// that the model has attention, by a convolution of one element (conformers).
std::optional<BranchEnd> FindBranchEnd(const BoundGraph& bound, const NodeCalls& calls, NodeId sum,
                                       bool attends);

// What an activation made, and its reader: a layer or a view in front of that.
struct Hidden {
  ValueId value = kNoValue;
  NodeId reader = kNoNode;
};

// Of a feed-forward block, layer (activation (layer (…))), of which `layer` is the second, if one
// forward calls all: "self.fc2 (act (self.fc1 (x)))".  nullopt where there is none; of a
// Sequential, whose gaps tell of dropouts; and of blocks of transformers that drop nothing out
// there.
std::optional<Hidden> FindHidden(const BoundGraph& bound, const NodeCalls& calls, NodeId layer);

// --- How a file was exported (lost_calls.cc) ------------------------------------------------

// True where the file shows what an export for inference would have lost (dropouts, noise,
// batch norms that compute statistics): what is not in it was not in the module.  O(nodes).
bool IsTrainingExport(const Graph& graph);

// Whether the file would show dropouts that its exporter took out: torch.export's, whose text of a
// node calls what it was given "%clone" where a dropout stood before it.  PyTorch 2.11.0 and 2.13.0
// write so; 2.15.0 names what went into the dropout, as TorchScript's exporter does.  2.14 was not
// seen and is taken to be as 2.15.
bool ShowsDropouts(const Graph& graph, const ExporterMetadata& metadata);

// True where a file of TorchScript's exporter transposes weights as it runs.  The exporter folds
// that unless it is told do_constant_folding=False, as torch.onnx asks of exports in training mode
// (2.11): such a file without dropouts is likely of a module that had none.  O(nodes).
bool IsUnfoldedExport(const Graph& graph);

}  // namespace onnxfit
