// What exporters write as several nodes and PyTorch runs as one call, found in the graph.  Internal
// to recovery.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/exporters/bound_graph.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"
#include "estimator/program/program.h"

namespace onnxfit {

class ExportedGroups;

// A call that no node stands for, in front of the one that nodes became: k's own transpose,
// which an exporter merged with another one; the copy that contiguous() makes.
struct HiddenCall {
  // A value of the graph, or the result of an earlier hidden call.
  struct Operand {
    ValueId value = kNoValue;
    int hidden = -1;  // index into Rewritten::before
  };
  std::string_view aten;
  std::vector<Operand> inputs;
  TensorType type;  // of its result, as the file would have it
  std::vector<int64_t> ints = {};
  int takes_place_of = -1;  // the input of the rewritten call that its result is
  bool as_written = false;  // in fp32 whatever the model's precision
};

// A call that the code does not make: its first operand is its result.
inline constexpr std::string_view kNoCall = "";
// An operator without a row, which keeps all that it reads and makes; a warning says so.
inline constexpr std::string_view kUnknownOp = "?";

// Nodes that become one call.
struct Rewritten {
  std::string_view aten;
  std::vector<ValueId> inputs = {};
  NodeId last = kNoNode;           // the call takes this node's place and result
  std::vector<NodeId> nodes = {};  // all of them, `last` included
  std::vector<int64_t> ints = {};
  bool only_in_training = false;        // in eval it is its first input
  std::vector<HiddenCall> before = {};  // in their order
  NodeId dropout = kNoNode;             // where this drops out, ints[0] of the call is 1
  bool in_compute_type = false;         // under autocast its result has the lower type
  DType own_type = DType::kUndefined;   // of the result, where it is so whatever the precision
  std::vector<ValueId> results = {};    // where there are several; empty: that of `last`
  std::string_view aten_in_eval = {};   // "": the same
  std::optional<ModuleId> module = {};  // where it runs, if not where `last` does
};

// What the exporter says, then every place where a pattern matches
// completely: its inner results have no other reader and are no output.  No node is in two of
// them; earlier rows win.  O(nodes × rewrites).
std::vector<Rewritten> FindRewrites(const BoundGraph& bound);

// Whether sizes are as the call needs them: where the file says what PyTorch does not do, its
// nodes run as they are written.
bool FitsRule(const BoundGraph& bound, const Rewritten& call);

// --- What the exporter says (exported_calls.cc, recurrent_calls.cc) -------------------------

// Calls of torch.autograd.Functions (autograd_functions.h): the last node of each as the operator
// that has the backward, of the Function's operand and its own.  O(nodes × log).
// (function_calls.cc)
std::vector<Rewritten> FindFunctionCalls(const BoundGraph& bound);

// The groups of nodes whose call has a row in the table and whose operands are all found:
// by name, or, where the exporter has removed or renamed one, as what the nodes read in its
// place.  A group with more than one result outside of it is left as its nodes.
// In the order of groups.  O(nodes).
std::vector<Rewritten> FindExportedCalls(const ExportedGroups& groups);

// Calls that torch.export has taken apart before it wrote them, by PyTorch's decompositions: a
// Huber loss, of which the file names sub, abs, lt, mul and where.  All parts are on one line of
// the source, which spells none of them.  O(groups).
std::vector<Rewritten> FindDecomposedCalls(const ExportedGroups& groups);

// Equal splits of one line, which the code makes once: torch.export makes the parts anew behind
// each call that writes over one of them.  O(groups × log).
std::vector<Rewritten> FindRegeneratedParts(const ExportedGroups& groups);

// x[:, i, :i] = y, which torch.export writes as select_scatter and slice_scatter of parts of x: y
// is copied into x, which nobody reads behind it.  Last ones first.  O(groups).  (slice_writes.cc)
std::vector<Rewritten> FindSliceWrites(const ExportedGroups& groups);

// ATen calls that TorchScript's exporter has taken apart, by a table of patterns: atan2, remainder,
// cosine_similarity and the like.  Larger ones first.  O(nodes × rows).  (scripted_calls.cc)
std::vector<Rewritten> FindScriptedCalls(const BoundGraph& bound);

// The calls "lstm", "gru" and "rnn" (program/recurrent_layers.h), of all layers of a module: its
// nodes stand one behind the other, and only the next one reads what one makes.  States that the
// module makes itself are kNoValue.  Parameters stand behind Slice, Concat and Unsqueeze, since
// ONNX orders gates otherwise, or are packed as ONNX has them, where an exporter has folded these;
// where torch.export has computed biases together, those of the weights' names.
// O(nodes).
std::vector<Rewritten> FindRecurrentCalls(const BoundGraph& bound);

// "rnn.bias_ih_l0_reverse" for "rnn.weight_ih_l0_reverse"; "" for other names.
std::string BiasOfRecurrentWeight(std::string_view weight);

// Whether `op_type` is ONNX's operator of such a layer.
bool IsRecurrent(std::string_view op_type);

// Patterns, found by the last of their nodes:

// --- Attention (attention.cc) ---------------------------------------------------------------

// F.scaled_dot_product_attention (q, k, v, mask), as exporters write it:
//
//   MatMul (q·c, kᵀ·c)  [Add mask]  Softmax  [Where IsNaN]  [Dropout]  MatMul v
//
// It is known by its scale, a number whose square root multiplies q and kᵀ each: attention
// written by hand scales once, and runs in PyTorch as it is written.
// ints: 1 where it drops out, 1 where it is causal, 1 where heads are broadcast, 1 where a mask
// that hides nothing is left out but of compiled code.  `last` is the product with v.
std::optional<Rewritten> FindAttention(const BoundGraph& bound, NodeId last);

// Whether a permutation puts another dimension last, so that its numbers are apart in memory.
bool MovesLast(const std::vector<int64_t>& perm);

// Whether an attention of queries `q` and keys made of `key` copies the heads of all that it reads,
// by what is known of libraries (CopiesHeads in libraries.h), in a file of TorchScript's exporter;
// the copies of queries and values, where they are transposed.  O(nodes).
bool CopiesHeads(const BoundGraph& bound, ValueId q, ValueId key);
std::vector<Rewritten> FindHeadCopies(const BoundGraph& bound);

// bias.permute(2, 0, 1).contiguous(), a table of relative positions as attention's mask: the copy
// leaves no node in TorchScript's files, and a fused kernel reads no mask without it (timm 1.0.31,
// layers/pos_embed_rel.py).  `last` is the Transpose.
std::optional<Rewritten> FindBiasCopy(const BoundGraph& bound, NodeId last);

// x.reshape(…).permute(0, 3, 1, 2).contiguous() of what is known of libraries (CopiesPermuted in
// libraries.h): TorchScript's files have the permute alone.  O(nodes × (depth of modules + rows)).
std::vector<Rewritten> FindPermutedCopies(const BoundGraph& bound);

// torch.zeros (…, dtype=query.dtype) in the place of a bias that an attention does not have:
// T5's between decoder and encoder.  `last` makes it.
std::optional<Rewritten> FindZeroBias(const BoundGraph& bound, NodeId last);

// proj.unflatten(-1, (3, E)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous(), of which
// q, k and v are proj[0], proj[1], proj[2]: torch.nn.MultiheadAttention's projection of all
// three.  The copy leaves no node; `last` is the Squeeze.
// Source: _in_projection_packed of torch/nn/functional.py, pytorch v2.11.0.
std::optional<Rewritten> FindPackedProjection(const BoundGraph& bound, NodeId last);

// scores + mask of attention that is written in its parts, where a library makes the mask and, but
// while torch.export traces it, leaves out one that hides nothing.  `last` is the sum.
std::optional<Rewritten> FindUnmasked(const BoundGraph& bound, NodeId last);

// "if attention_mask is not None: x = x.masked_fill(torch.all(~attention_mask, dim=2), 0.0)" of
// such a mask (transformers 5.17, modeling_lasr.py and modeling_parakeet.py), in TorchScript's
// files.  `last` is the Where.
std::optional<Rewritten> FindUnfilled(const BoundGraph& bound, NodeId last);

// Attention of which the exporter was given a mask that PyTorch, in training, is not: transformers
// then passes grouped heads as they are (enable_gqa) instead of repeating keys and values, which
// is in the file (use_gqa_in_sdpa of integrations/sdpa_attention.py, transformers 5.17).
// Takes k[:, :, None].expand(…).reshape(…) back to k in such rewrites.  O(rewrites).
void TakeBackRepeatedHeads(const BoundGraph& bound, std::vector<Rewritten>& rewrites);

// --- Batch norms (batch_statistics.cc) ------------------------------------------------------

// One that keeps no statistics: Reshape, Transpose, ReduceMean, … of its input make them.
// `norm` is the BatchNormalization.
std::optional<Rewritten> FindBatchStatistics(const BoundGraph& bound, NodeId norm);

// --- Layers (layers.cc) ---------------------------------------------------------------------

// torch.nn's layers and activations, as exporters write them in their parts:
//   SiLU       x * sigmoid (x)
//   HardSwish  x * hardsigmoid (x)
//   Mish       x * tanh (softplus (x))
//   GLU        a * sigmoid (b) of the halves a, b of x
//   GELU       x * (erf (x / √2) + 1) * 0.5, or the same by tanh
//   Linear     x · wᵀ + b on more than two dimensions, and without a bias
//   GroupNorm  an instance norm over groups, then weight and bias
std::optional<Rewritten> FindSilu(const BoundGraph& bound, NodeId mul);
std::optional<Rewritten> FindHardSwish(const BoundGraph& bound, NodeId mul);
std::optional<Rewritten> FindMish(const BoundGraph& bound, NodeId mul);
std::optional<Rewritten> FindGlu(const BoundGraph& bound, NodeId mul);
std::optional<Rewritten> FindGelu(const BoundGraph& bound, NodeId halve);
std::optional<Rewritten> FindGeluTanh(const BoundGraph& bound, NodeId last);
std::optional<Rewritten> FindLinear(const BoundGraph& bound, NodeId add);
std::optional<Rewritten> FindProduct(const BoundGraph& bound, NodeId product);
std::optional<Rewritten> FindGroupNorm(const BoundGraph& bound, NodeId add);

// torch.rsqrt, which exporters write as 1 / √x; `last` is the division or Reciprocal.
std::optional<Rewritten> FindRsqrt(const BoundGraph& bound, NodeId last);

// weight * (x * rsqrt (mean (x.to (float32) ** 2) + ε)) of a module, in its parts as PyTorch
// runs them.  The cast does nothing in the fp32 model that was exported, and tracing gives its
// name to x itself; in 16 bits
//   with a cast back behind the product, x is in fp32 up to there   (Llama)
//   without one, only its square is, and the product of both        (T5)
// `last` is the product with the weight.  Norms that cast nothing are left as their nodes.
// Sources: T5LayerNorm and LlamaRMSNorm of transformers 5.17.
std::optional<Rewritten> FindRmsNorm(const BoundGraph& bound, NodeId last);

// torch.nn.functional.rms_norm, which torch.export takes apart and PyTorch 2.9 and later does not:
// the source line calls it.  `last` is the product with the weight.
std::optional<Rewritten> FindFusedRmsNorm(const BoundGraph& bound, NodeId last);
// The same without a weight.
std::optional<Rewritten> FindPlainRmsNorm(const BoundGraph& bound, NodeId last);

// torch.nn.LayerNorm before opset 17; `last` adds the bias.
std::optional<Rewritten> FindLayerNorm(const BoundGraph& bound, NodeId last);

// --- Views and positions (rewrites.cc) ------------------------------------------------------

// x.chunk(n, dim): TorchScript's exporter writes one slice a chunk, from 0 to the end of x, and
// each begins with the very product at which the one before ends (torch 2.11,
// torchscript_exporter/symbolic_opset11.py, prim_constant_chunk); x[:, :n] and x[:, n:] of a
// model's code have two numbers there, or an open end.  `last` is the last slice.
std::optional<Rewritten> FindChunk(const BoundGraph& bound, NodeId last);

// x[:, a:b] = y, which TorchScript's exporter writes as ScatterND of the places that it counts; y
// is copied into x.  `last` is the ScatterND.  (slice_writes.cc) Source: prepareIndexPutForONNX of
// torch/csrc/jit/passes/onnx/remove_inplace_ops_for_onnx.cpp, pytorch v2.11.0.
std::optional<Rewritten> FindSliceWrite(const BoundGraph& bound, NodeId last);

// What TorchScript's exporter writes as parts (scripted_views.cc): x.roll (…) as two slices of each
// dimension that are joined, F.pad (…, mode="circular") as parts beside x, x.unfold (…) as a slice
// for each window, x.unbind (…) as a Split and a Squeeze of each part, x.as_strided (…) as a Gather
// of places that it has counted.  `last` is the Concat, the last Squeeze, or the Gather.
std::optional<Rewritten> FindRoll(const BoundGraph& bound, NodeId last);
std::optional<Rewritten> FindCircularPad(const BoundGraph& bound, NodeId last);
std::optional<Rewritten> FindUnfold(const BoundGraph& bound, NodeId last);
std::optional<Rewritten> FindUnbind(const BoundGraph& bound, NodeId last);
std::optional<Rewritten> FindAsStrided(const BoundGraph& bound, NodeId last);

// x != y, which ONNX has no operator for: not (x == y).  `last` is the Not.
std::optional<Rewritten> FindNotEqual(const BoundGraph& bound, NodeId last);

// x.var(dim) and x.std(dim), which TorchScript's exporter writes as the mean of (x - mean (x))²,
// with a correction times n / (n - 1), and its root; where mean (x) is read, too, x.var_mean () and
// x.std_mean ().  `last` is the ReduceMean, Div or Sqrt.
// Source: _var_mean_helper of torch/onnx/_internal/torchscript_exporter/symbolic_helper.py, v2.11.
// (variances.cc)
std::optional<Rewritten> FindVariance(const BoundGraph& bound, NodeId last);

// softmax (x, dtype=torch.float64), which casts x first; both exporters write the cast behind it.
// `last` is the Cast.
std::optional<Rewritten> FindWideSoftmax(const BoundGraph& bound, NodeId last);

// x.log10 () and x.log2 (), which TorchScript's exporter writes as log (x) / log (10), log (x) /
// log (2), and x.log1p (), log (1 + x): of the code's own sum the number is behind.  `last` is the
// Div or the Log.
std::optional<Rewritten> FindLogOfBase(const BoundGraph& bound, NodeId last);
std::optional<Rewritten> FindLog1p(const BoundGraph& bound, NodeId last);

// (torch.cumsum(mask, dim=1).type_as(mask) + 0) * mask, create_position_ids_from_input_ids of
// transformers 5.17 (modeling_roberta.py): the file has a sum in the mask's type, which PyTorch
// makes in 64 bits, and no + 0.  `last` is the Mul.
std::optional<Rewritten> FindTokenPositions(const BoundGraph& bound, NodeId last);

}  // namespace onnxfit
