// The tensors of the module, as far as a file tells them: what each initializer is to training (a
// parameter, a buffer or a constant), and what an export has done to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/settings.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"
#include "estimator/parameters/batch_norms.h"
#include "estimator/parameters/lost_rotary.h"
#include "estimator/patterns/rewrites.h"
#include "estimator/program/module_tensors.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Gives every parameter and buffer that the file still names an initializer of its own, and
// lets its node read that.  Exporters keep one of several tensors with equal values, and drop
// biases of zeros, as every newly made model has them:
//   TorchScript writes `b = Identity (a)`, `a` an initializer; where `a` is the transpose of
//     a weight, both are that weight;
//   torch.export names %p_b in the call that a node came from, and the node reads `a`, or
//   nothing in the place of a bias.
// A view of a parameter that the exporter has computed ("view_1") is that parameter.
// What a call names and the exporter has computed anew (a transposed weight) gets the
// module's name, and so does what was expanded to the file's batch (a class token).  Tied
// parameters stay one: nothing names the second.  Adds values and initializers, no node; a note for
// -v.  O(nodes + signature).
void RestoreTensors(Graph& graph, const ExporterMetadata& metadata);

enum class Role : uint8_t {
  kConstant,   // serves shapes, scalars, masks: not on the device for training
  kParameter,  // trained: has a gradient and optimizer state
  kBuffer,     // lives on the device, untrained: batch-norm statistics, position ids
};

// Tensors that belong to a folded batch norm or an affine one: their names in `parameters` and
// `buffers` are its module's, with .weight, .bias, .running_mean, .running_var and
// .num_batches_tracked.
struct Roles : ModuleTensors {
  std::vector<Role> of_initializer;               // by index into Graph::initializers
  std::vector<FoldedBatchNorm> folded;            // put back
  std::vector<AffineBatchNorm> affine;            // run as batch norms
  std::vector<std::pair<ValueId, ValueId>> ties;  // a copy, and the tensor that it is
  // An initializer, and the buffer of which it is a view that the exporter computed.
  std::vector<std::pair<ValueId, std::string>> views;
  // An initializer, and the table of which it is the first rows.
  std::optional<std::pair<ValueId, std::string>> table_rows;
  std::vector<std::string> assumptions;
  std::vector<Doubt> doubts;       // what was guessed and no flag said
  std::vector<std::string> notes;  // for -v
  Warnings warnings;
};

struct TensorFindings;

// Signals, surest first: the exporter's graph_signature; the operator that reads the
// value (statistics of a batch norm); its type and use.
// O((nodes + initializers) × log initializers).
Roles FindRoles(const BoundGraph& bound, const TensorFindings& found,
                const TrainingSettings& settings);

// Throws Error, with the reason, where loss.backward() would raise one for every batch: no
// output of floats, weights of integers (whatever biases there are), no parameter, all of them
// frozen, or none on the way to the loss.  Does nothing in eval and without a loss.
void CheckTrainable(const Graph& graph, const Program& program, const TrainingSettings& settings);

// What they ask, internal to recovery:

// --- Parameters and buffers that a file does not hold (lost_tensors.cc) ---------------------

struct LostTensor {
  Role role = Role::kBuffer;
  std::string name;
  TensorType type;  // as the file would have it
};

struct LostTensors {
  std::vector<LostTensor> tensors;
  // An initializer, and the lost buffer of which it is a view that the exporter computed.
  std::vector<std::pair<ValueId, std::string>> views;
  std::vector<std::string> assumptions;
  Warnings warnings;
};

// What graph_signature names and is not `in_file`, where the file tells its type: copies that no
// call reads, position ids as long as their table, a buffer that was sliced, norms whose result
// is not used.  Empty where there is no signature.  O((signature + initializers) × log).
LostTensors FindLostTensors(const BoundGraph& bound, const std::optional<LostRotary>& rotary,
                            std::vector<ModuleTensor> in_file);

// A table of which the file holds the rows that a model took, as a table of positions is read.
struct FoldedTable {
  ValueId rows = kNoValue;  // [n, width]
  LostTensor table;
};

// Signals: the one parameter that neither the file nor a call names, and the one constant that is
// called for a call of embedding.  The table has as many rows as the largest of the module's
// triangles, which mask positions, else those that were taken.  O(initializers + calls).
std::optional<FoldedTable> FindFoldedTable(const Graph& graph, const ExporterMetadata& metadata);

// Buffers that state_dict leaves out (position ids), which are constants to TorchScript's exporter;
// so are the numbers and sizes that code spells, which are fewer.  Their names are ours,
// "embeddings.buffer_0".  O(nodes).
std::vector<ModuleTensor> FindConstantBuffers(const BoundGraph& bound);

// The position_ids of transformers' embeddings that no forward reads, by the tensors of the file.
// O(nodes + tensors × log).
std::vector<LostTensor> FindUnreadIds(const BoundGraph& bound,
                                      const std::vector<ModuleTensor>& parameters,
                                      const std::vector<ModuleTensor>& buffers);

// A parameter of a known library that no result of a model needs: TorchScript's exporter leaves it
// out.
struct UnreadTensor {
  std::string name;         // "vision_model.post_layernorm.weight"
  std::string_view module;  // "vision_model", which holds it behind all that the file has of it
  std::string_view like;    // the tensor of the file that has its type
  std::string_view rows_of = {};  // one whose first size comes before that type's; "": none
  Dims sizes = {};                // between both
};

// Of a file with the tensors `names`, whose modules run `operators`, "model.mlp.act/Tanh"; both
// must outlive the result.  O(names × log (names)).
std::vector<UnreadTensor> FindUnreadTensors(const std::set<std::string_view>& names,
                                            const std::set<std::string>& operators = {});

// --- Weights without their names (folded_weights.cc) ----------------------------------------

// A weight of a linear layer that an exporter stored transposed.
struct FoldedWeight {
  ValueId value = kNoValue;   // "onnx::MatMul_123", [k, n] of a weight [n, k]
  std::string name;           // "encoder.fc.weight", by the scope of the product
  ValueId before = kNoValue;  // the tensor that it stands in front of in the module's order,
                              // kNoValue: behind all of them
  ValueId tied = kNoValue;    // the embedding [n, k] that it may be a copy of
};

// TorchScript's exporter computes the transpose of what a product of more than two dimensions
// multiplies with, and lists the result behind all that kept its name.  A weight stands in
// front of its bias; without one, in front of what its module holds beside it (the position
// bias of T5's attention) and of a norm beside its module in a numbered layer, which
// transformers lists last; else in front of what is used later.
// A weight that makes an output, or does so with a sum that is not of its module, may be that
// of an embedding.
// In the order of the file.  O(initializers² of nameless ones).
std::vector<FoldedWeight> FindFoldedWeights(const Graph& graph, const ExporterMetadata& metadata);

struct TensorUses;

// The optimizer of torch.export's ONNX runs calls on parameters, "self.U.t()" or "-self.A", and
// keeps the result under the call's name, "t_1", "neg": the parameter that such a result likely was
// made of, by it.  In the order of use they take the parameters of the reader's module that the
// file names and does not hold.  O(initializers × log).
std::map<ValueId, std::string_view> FindFoldedParameters(const BoundGraph& bound,
                                                         const TensorUses& uses);

// --- Tensors with several names (tied_tensors.cc) -------------------------------------------

// torch.export lists a tied parameter under each of its names, in the order of
// named_parameters(remove_duplicate=False), and stores it under one: by that, the name that
// comes first in the list, where it is another one.  A name that no call reads belongs to the
// parameter that the calls of its module read instead: "wte.weight" to "lm_head.weight" where
// wte's embedding reads %p_lm_head_weight.
// O(nodes).
std::map<std::string_view, std::string_view> FindFirstNames(const Graph& graph,
                                                            const ExporterMetadata& metadata);

// Whether a language model's head, where nothing tells, likely has the weight of its embedding.
// Configurations of transformers 5.17 say so, but those of Llama and its kin, whose feed-forward
// blocks have a gate_proj and whose words are not scaled (Gemma's are).  O(nodes).
bool LikelyTiesHead(const Graph& graph, const ExporterMetadata& metadata);

// Whether `weight` is the embedding that it may be a copy of, among `roles.ties` then: stored
// elements say it; where they are not in the file it is a guess, of which `roles` tells.  O(nodes).
void DecideTie(const BoundGraph& bound, const TrainingSettings& settings,
               const FoldedWeight& weight, Roles& roles);

// The initializer that `value` is, or null.
const Initializer* InitializerOf(const Graph& graph, ValueId value);

// Makes `value` one, the last.
void StoreTensor(Graph& graph, ValueId value, TensorType type);

// TorchScript's exporter keeps one of several equal tensors, of which others are copies,
// `b = Identity (a)`: b becomes an initializer, and its node is left without a result.  How many
// initializers there are more.  O(nodes + initializers).
size_t SplitCopies(Graph& graph, const ExporterMetadata& metadata);

// Moves the initializers from `first` on, which are in the order of the module, to their places
// among those before, which are, too: each behind the one that was moved before it, beside those
// whose path shares most modules with its own, and there in front of the first that is used
// later.  The order of use alone would not do: transformers lists norms behind what they feed.
// O(moved × initializers).
void PlaceMerged(Graph& graph, size_t first);

// --- What is not trained (trainable.cc) -----------------------------------------------------

// Initializers that are never trained: what is only compared with something (a triangle of
// ones, tril == 0), and what libraries and tutorials call by names of buffers.  O(nodes).
std::unordered_set<ValueId> FindFloatBuffers(const Graph& graph);

// What the nodes of a file do with the values that they read.
struct TensorUses {
  struct Place {
    NodeId node = kNoNode;
    size_t input = 0;
  };
  std::unordered_map<ValueId, Place> first;
  std::unordered_map<ValueId, Role> roles;  // by the meaning of an operator's input
  std::unordered_set<ValueId> on_device;    // read by what does not follow from shapes
};

// `rewrites`: what their inner nodes alone read is a constant.  O(nodes).
TensorUses FindUses(const BoundGraph& bound, const std::vector<Rewritten>& rewrites);

// What a file shows of them before any setting is asked.  Those of TorchScript's exporter alone,
// which writes no signature, are empty for others.
struct TensorFindings {
  TensorUses uses;
  std::map<std::string_view, std::string_view> first_names;  // of tied ones
  std::map<ValueId, std::string_view> folded_parameters;     // torch.export's
  std::optional<FoldedTable> folded_table;
  std::unordered_set<ValueId> float_buffers;  // TorchScript's
  std::vector<FoldedWeight> folded_weights;   // TorchScript's
  std::optional<LostRotary> rotary;
};

}  // namespace onnxfit
