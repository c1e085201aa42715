// What is known of libraries and no file says: every fact about torch.nn, transformers,
// torchvision, timm and diffusers that is a name or a number.  One row a fact, with the release in
// which it was seen; tests/check_libraries.py says which rows an installed release no longer has.
// (A library's algorithm is beside the code that imitates it, with its source.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/settings.h"

namespace onnxfit {

// Where a fact was read: a file below an installed package, and a part of its text.
struct SeenIn {
  std::string_view library;  // "transformers 5.17.0"
  std::string_view file;     // "models/bert/modeling_bert.py"
  std::string_view text;
};

// --- Dropouts -------------------------------------------------------------------------------

// Classes whose dropouts have a p of 0 unless they are told another one.
struct DropoutDefault {
  std::string_view classes;  // how they begin
  bool weights_too;          // those of attention's weights
  SeenIn seen;
};

// Whether a dropout has a p of 0 by default, by the classes of the modules around it, outermost
// first, as torch.export names them: the innermost that is not torch's own decides, a library's
// module, or one that somebody put beside it.  `weighs`: it is one of attention's weights.
bool NeverDropsOut(const std::vector<std::string>& classes, bool weighs);

// A module whose forward, or whose caller's, drops out where a linear layer or a norm stands.
struct DropoutBeside {
  enum class Where : uint8_t {
    kBeforeLayer,   // what the layer reads
    kBehindNorm,    // what the norm makes, unless it is that of a numbered layer
    kInsideBranch,  // what the layer makes: the module that has it drops out, not the one that sums
  };
  std::string_view module;  // its name
  std::string_view caller;  // that of the module that calls it; "": any
  Where where;
  SeenIn seen;
};
// Whether a layer of that path is one of `where`.
bool HasDropout(DropoutBeside::Where where, std::string_view path);

// Layers of a feed-forward block that drops nothing out in between.
struct UndroppedBlock {
  std::string_view first;  // the ends of their paths
  std::string_view second;
  SeenIn seen;
};
bool IsUndroppedBlock(std::string_view first, std::string_view second);

// fairseq's layers, which transformers took over: "fc1" and "fc2" of a numbered layer, with an
// activation_dropout of 0, beside a "final_layer_norm"; no dropout inside of attention, whose own
// "out_proj" the layer drops out.
bool IsFairseqsSecondLayer(std::string_view path);
// The tensors that show such a layer, by its path.
std::string FairseqsFirstBias(std::string_view layer);
std::string FairseqsNorm(std::string_view layer);
bool IsFairseqsProjection(std::string_view path, std::string_view caller);

// A module whose own forward ends with a dropout: "embeddings".
bool EndsWithDropout(std::string_view name);
// A module that drops no words out where its caller has no module of that name; "" for others.
std::string_view MissesWordDropoutWithout(std::string_view name);

// A residual block whose branch goes through stochastic depth, but in the model's first block,
// whose rate is 0.
struct StochasticDepthBlock {
  std::string_view type;       // of the block
  std::string_view statement;  // the sum, in its forward
  size_t branch;               // which operand of the sum was multiplied
  SeenIn seen;
};
std::span<const StochasticDepthBlock> StochasticDepthBlocks();

// --- In place -------------------------------------------------------------------------------

// Whether the activations that classes make write over their input: nullopt where nothing is known.
// `holder` is the innermost class around one that is not torch's own.
enum class ActivationUse : uint8_t { kUnknown, kOutOfPlace, kInPlace };
struct ActivationRow {
  std::string_view classes;  // how they begin; earlier rows win
  ActivationUse use;
  SeenIn seen;
};
ActivationUse ActivationsOf(std::string_view holder);

// What files that name no class show of torchvision's networks: a module that has all of these
// children, and where in it is written in place.
struct InPlaceChildren {
  enum class Of : uint8_t { kActivations, kSums };
  std::string_view children[4];
  std::string_view glob;  // of modules, as their path below it; "": itself
  bool is_listed;         // those that are children of a Sequential alone
  Of of;
  bool in_place;
  SeenIn seen;
};
std::span<const InPlaceChildren> InPlaceModules();

// x.permute (0, 3, 1, 2), x.permute (0, 2, 1).reshape (n, c, h, w), what x.unfold (-2, …) makes
// with its last but one dimension in front, and what relative positions multiply, rows in front.
enum class PermutedBy : uint8_t { kPermute, kReshape, kWindows, kRows };
// Whether a module of that name is what permutes, its child, or, as "a/b", a child of its child.
using HasName = std::function<bool(std::string_view)>;
// Whether the forward of a module that has those names copies what it permutes so.
bool CopiesPermuted(PermutedBy by, const HasName& has);

// Whether an attention that scales queries before it takes them apart by heads, and has a layer for
// keys of that name, without a bias, copies all heads.
bool CopiesHeads(std::string_view keys);

// Whether a forward adds the parameter `positions` in place to what it has joined to `token`.
bool AddsPositionsInPlace(std::string_view positions, std::string_view token);

// Whether a batch norm that calls a child of that name lets it write over what the norm has made.
bool IsActivationOfNorm(std::string_view child);

// --- Parameters and buffers -----------------------------------------------------------------

// Whether a language model's head has weights of its own by default, where a feed-forward block of
// that path is in it.
bool HasOwnHead(std::string_view path);

// Buffers of floats, by their names.
bool IsFloatBuffer(std::string_view name);

// A child of a module whose tensors no result needs, so that TorchScript's exporter leaves them
// out; another child shows which module it is, "layer.*.a" of each number in a list.
struct UnreadChild {
  std::string_view shows;
  std::string_view lost;
  SeenIn seen;
  std::string_view beside = {};  // the end of another tensor's path; "": of none
};
std::span<const UnreadChild> UnreadChildren();

// Whether a module without a bias is a library's own linear layer, "x @ self.weight.T": autocast
// keeps no cast of a view.
bool MultipliesTransposed(std::string_view path);

// The same of a parameter beside others, by paths in the module that has all of them.
struct UnreadParameter {
  std::string_view shows;
  std::string_view lost;
  std::string_view like;  // beside it, of its size; "": a number
  SeenIn seen;
  std::string_view rows_of = {};  // one whose first size comes before those; "": none
  // Sizes between both, as large as the library makes them by default; 0: no further.
  std::array<int16_t, 4> sizes = {};
  std::string_view runs = {};  // an operator of a module in it, "mlp.act/Tanh"; "": any
};
std::span<const UnreadParameter> UnreadParameters();

// A parameter that its module makes with requires_grad=False: the end of its path, in a module that
// has the parameter `beside`, or in a module of a class, where it is named.
struct UntrainedParameter {
  std::string_view name;
  std::string_view beside;
  std::string_view in_class;
  SeenIn seen;
};
std::span<const UntrainedParameter> UntrainedParameters();

// A child that a forward runs under torch.no_grad(), in a module that has the child `beside`, too.
struct UntrackedChild {
  std::string_view child;
  std::string_view beside;
  SeenIn seen;
};
std::span<const UntrackedChild> UntrackedChildren();

// Buffers of embeddings that count positions, of as many numbers as `table` has rows.
struct PositionBuffer {
  std::string_view table;  // the module's child
  std::string_view buffer;
  SeenIn seen;
};
std::span<const PositionBuffer> PositionBuffers();

// A forward that reads a tensor of a module in it, if only its type: to libraries that watch what
// modules read (DeepSpeed's ZeRO stage 3) it is of that one, too.
struct OutsideReader {
  std::string_view reader;  // the module's last name
  std::string_view tensor;  // its path from there
  SeenIn seen;
};
// The path of the module that reads `tensor` so, nullopt where none is known.  O(rows).
std::optional<std::string_view> OutsideReaderOf(std::string_view tensor);

// Whether a forward with that line is of a module that DeepSpeed's ZeRO stage 3 takes for a whole,
// with all that is in it, unless it is told others (leaf_module of its JSON).
bool IsLeafForward(std::string_view file, std::string_view line);

// A tensor that no call reads, so that an export has its name alone.
struct UnreadTensorRow {
  std::string_view tail;  // of its path, below a module: "pooler.dense.weight"
  // Its sizes: multiples of the module's width, or, below zero, numbers as they are.
  std::array<int16_t, 4> sizes;
  std::string_view like;  // another tensor of that module, whose sizes come behind those; "": none
  SeenIn seen;
  std::string_view rows_of = {};  // one whose first size comes before those; "": none
};
std::span<const UnreadTensorRow> UnreadTensorRows();
// The same of a buffer of integers, as large as a library makes it by default.
struct UnreadIntegersRow {
  std::string_view tail;
  std::array<int16_t, 2> sizes;  // 0: no further
  SeenIn seen;
};
std::span<const UnreadIntegersRow> UnreadIntegers();
// The two vectors of a spectral norm, by their names in its module, and the weight [n, …] beside it
// that they are of: together they have as many numbers as a row and a column.  Training replaces
// the first, so that a file has its name alone.
struct NormedVectors {
  std::string_view replaced;
  std::string_view kept;
  std::string_view weight;
  SeenIn seen;
};
const NormedVectors& VectorsOfSpectralNorm();
// What a forward makes of its states and returns, whoever reads it: a norm, then a pooler.
struct UnreadRunRow {
  std::string_view in_class;  // how the class of the module ends whose forward it is; in files
                              // without classes what is lost tells the row, earlier rows win
  std::string_view behind;    // the child that makes the states
  std::string_view first;     // the line that takes the first of them; "": none does
  std::string_view norm;      // a child, "": none
  std::string_view norm_line;
  std::string_view pooler;  // a child with a layer "dense" and tanh, "": none
  std::string_view pooler_line;
  SeenIn seen;
  // The line that gathers all states by places that are counted, in a module of that name; "": none
  // does.
  std::string_view copy_line = {};
  std::string_view called = {};
};
std::span<const UnreadRunRow> UnreadRuns();
// A head that a forward of that class, or, in files without classes, one that has lost its tensors,
// runs on what its child `before`, the next one, reads, detached, and returns: its layers are
// linear ones, or the activation "gelu".
struct UnreadHeadRow {
  std::string_view in_class;
  std::string_view before;
  std::string_view head;
  std::string_view layers[5];
  std::string_view line;
  SeenIn seen;
};
std::span<const UnreadHeadRow> UnreadHeads();
// Zeros of the sizes of the words that a forward of that class makes in `line`, where it is given
// none, in front of its child `before`, which may read nothing of them.
struct UnreadZerosRow {
  std::string_view in_class;
  std::string_view before;
  std::string_view line;
  std::string_view runs;  // a path below it that tells the class in files that name none
  SeenIn seen;
};
std::span<const UnreadZerosRow> UnreadZeros();
// Whether the line makes a normal distribution of its parameters: variance, too, where a mean alone
// is read.
bool MakesPosterior(std::string_view line);
// A mask [n, n] that no call reads, of n positions of a table, so many modules above it.
struct UnreadMask {
  std::string_view buffer;  // the end of its path
  int up;
  std::string_view table;
  SeenIn seen;
};
std::span<const UnreadMask> UnreadMasks();
// Whether integers that a module adds to what that child of its looks up are a buffer of its own,
// where the parts of a table begin.
bool ReadsByOffsets(std::string_view table);
// Whether a module of that name is transformers' rotary embedding: the frequencies that it computes
// once are a buffer, of which it has a clone.
bool IsRotaryEmbedding(std::string_view module);
// Whether those of that class return cosines and sines as they are, in fp32, for rotations that
// cast what they rotate.
bool KeepsRotaryInFloat(std::string_view type);
// How BERT and its kin call the module that has their tables of words, positions and types.
std::string_view NameOfEmbeddings();

// Whether a module in eval mode indexes its parameter of that name once and keeps the result.
bool IsIndexedOnce(std::string_view parameter);

// A function whose last results, of as many different arguments, a cache of the library holds.
struct CachedFunction {
  std::string_view name;  // "get_patches_center_coordinates"
  int32_t results;
  SeenIn seen;
  bool in_fp32 = false;  // of floats, whatever the run's type is
};
// That of the name; null where no cache is known.
const CachedFunction* CachedFunctionOf(std::string_view function);
// Whether the line calls one that makes floats in fp32.
bool MakesInFp32(std::string_view line);

// The child of a head by which its own bias is read, too: "lm_head.decoder.bias" is "lm_head.bias".
std::string_view ChildWithTiedBias();
// How the name of a clone of a buffer begins: "original_inv_freq".
std::string_view CloneOfBuffer();

// --- Names of Python's ----------------------------------------------------------------------

// What a forward binds to a name, told by the children of its module: of files without lines.
struct KnownNameRow {
  // Those that it has, and, with "!", has not; "attention/self" one that has another, or runs such
  // an operator; "@block" is its own name, ">cat" a call of its own.
  std::string_view children[4];
  // One of them, "blocks.*" of a list, or an operator; "pad>view": the first view behind a pad;
  // "<norm": what that one was given; "+stage": what each layer of a list in that one makes;
  // "attn/softmax": what that operator or module in it makes.
  std::string_view made_by;
  std::string_view name;  // Python's
  // What makes what is bound next, whichever comes first, "<norm": before it; "": the forward's
  // end.
  std::string_view until[3];
  bool is_returned;  // among others, and held until the caller's forward returns
  SeenIn seen;
};
std::span<const KnownNameRow> KnownNameRows();

// Attention whose scores have a name beside that of the weights, told by the children of its
// module.
struct NamedScores {
  std::string_view children[3];
  // How many forwards return the weights: that one alone, so that its caller holds them, or the
  // layer around it, too, until the next one has returned its own.
  uint8_t returned_by;
  std::string_view in_float;  // glob of the modules whose softmax runs in fp32, and is cast back
  SeenIn seen;
  std::string_view attribute = {};  // of the module that holds the weights; "": none
};
std::span<const NamedScores> NamedScoresOfAttention();

// Whether a method that the outermost forward calls begins with a child of that name, which itself
// has children: that forward's name holds what it is given.
bool BeginsHead(std::string_view child);

// What a helper binds to names: a method or function whose lines the file does not show, and a call
// that makes it or reads it.
struct HelperLocal {
  std::string_view helper;
  std::string_view op;
  bool is_result;
  bool are_operands;
  std::string_view before;  // that call: by then an inner helper has returned, which names it
  SeenIn seen;
};
std::span<const HelperLocal> HelperLocals();

// What a function that a line calls by `call` binds, in order: a line for each statement that makes
// a call, "targets = operator", or calls a module, "targets = self.child" or "targets =
// self.list.*", where "-name" is dropped behind it, "a=b" are two names of one value, and what is
// bound to "xs[]" is added to a list.  "cast" is a cast to whatever type; "operator?" is not in
// exports that leave out what nothing reads.  Lines that begin with two spaces are a loop's.
// "return a, b" is the last one, where the caller's names hold more than what is read later,
// "return a+b" what an object holds.  `file` is part of the line's, where functions of other files
// are called so, too.
struct HelperFrame {
  std::string_view call;
  std::string_view text;
  SeenIn seen;
  std::string_view file = {};
};
std::span<const HelperFrame> HelperFrames();

// Whether forwards of that file return the states of all their layers, or of none.
bool CollectsStates(std::string_view file);
// Whether a list of layers of that name is one of those.
bool IsListOfCollected(std::string_view list);
// Whether a local of that name is a field of what such a forward returns.
bool IsReturnedField(std::string_view name);
// Whether a forward with that line returns what it binds in a field; and all that it calls there.
bool BindsReturned(std::string_view line);
bool ReturnsAllOf(std::string_view line);
// Whether a line calls a backbone, which returns those states that its configuration names.
bool CallsBackbone(std::string_view line);
// Whether a line calls a method that returns all that a tower does.
bool CallsForFeatures(std::string_view line);

// Whether what that line of that file binds asks for gradients where checkpoints are around the
// layers.
bool AsksUnderCheckpoints(std::string_view line, std::string_view file);

// Whether the forward that has that line in that file passes what it binds to all of its layers by
// keyword.
bool IsPassedToLayers(std::string_view line, std::string_view file);

// Whether a line of that file calls self-attention whose forward returns weights, too, whoever asks
// for them.
bool ReturnsWeights(std::string_view line, std::string_view file);

// The local of a forward that what `line` calls returns last, to a name that nobody reads; "" where
// none is known.
std::string_view LastReturnedLocal(std::string_view line);

// The name that the statement behind `line` takes the first of its results for, which makes
// nothing;
// "" where none is known.
std::string_view NameOfFirstResult(std::string_view line);

// Whether layers of that file return them only to those who ask, in a tuple of outputs.
bool ReturnsWeightsIfAsked(std::string_view file);

// Whether a forward whose product of weights is this line returns them only to those who ask.
bool KeepsWeightsUnlessAsked(std::string_view line);

// Whether the line calls a method whose object holds what it was given last.
bool ReplacesWhatItHolds(std::string_view line);
// What a forward with that line puts into a dict that it was given, in the last layer of each kind.
struct StoredNames {
  std::string_view file;  // part of its path
  std::string_view line;
  std::string_view names[2];
  std::string_view dict;
  SeenIn seen;
};
const StoredNames& NamesStoredByKind();
// Whether the line passes a dict of keywords, "mask_kwargs", that holds embeddings, too.
bool PassesEmbeddings(std::string_view line);
// How a line calls eager attention: its products, scale, mask, softmax and dropout run there.
std::string_view CallOfEagerAttention();
// Forwards of a class whose name ends so return, beside their value, what the last item of that
// list in them has made, whoever reads it: a stage's states before it samples them down.
struct ReturnedItemRow {
  std::string_view in_class;
  std::string_view list;
  SeenIn seen;
};
std::span<const ReturnedItemRow> ReturnedItems();
// Whether that of a model in `file` leaves the softmax's type to autocast, and casts the weights to
// the values' then.
bool CastsWeightsToValues(std::string_view file);

// --- What torch.export's tracing does otherwise ---------------------------------------------

// By the line that a call was made in, of the file `file`:
// whether it builds a mask that is left out of a run where it hides nothing or is causal;
bool BuildsMask(std::string_view file, std::string_view line);
// in files without lines, whether attention of that path, whose layers have no biases, is given a
// mask that no run leaves out;
bool MakesMaskAlways(std::string_view attention);
// whether it solves triangular systems, whose inverse a trace has written out (traced_solves.h);
bool SolvesTriangular(std::string_view file, std::string_view line);
// whether it calls attention that is not causal where such a mask is left out;
bool IsNeverCausal(std::string_view file, std::string_view line);
// whether it casts to the type of the module's weight first, where that has 16 bits, a branch that
// an export in fp32 does not take, in a module of class `type`;
bool CastsToWeight(std::string_view file, std::string_view line, std::string_view type);
// whether it casts what it passes to a linear layer to the type of its weight first, where they
// differ;
bool CastsArgument(std::string_view file, std::string_view line);
// the same of files without lines, by the layer's path;
bool CastsArgument(std::string_view layer);
// the name of what it passes to a convolution, in training or not, where a statement before it has
// made that contiguous, of which an export says nothing if it was so already; "" of others;
std::string_view ContiguousArgumentOf(std::string_view file, std::string_view line, bool trains);
// whether it calls a helper that indexes a table by numbers that are on the host, though an export
// of a model on the CPU has them beside the others;
bool IndexesFromHost(std::string_view file, std::string_view line);
// whether it reads a buffer that its module has replaced by a cast to the type of what it is given;
bool ReadsKeptCast(std::string_view file, std::string_view line);
// whether it runs under torch.autocast(enabled=False), which is none on the meta device.
bool RunsOutsideAutocast(std::string_view file, std::string_view line);
// whether it does so, and what it is given was cast to the type of the autocast around it before.
bool CastsToAutocast(std::string_view file, std::string_view line);
// the same of what a norm is given that a module of that class runs there;
bool CastsNormToAutocast(std::string_view type);
// the operator whose backward a torch.autograd.Function has, whose forward made the call; "" of
// others: its calls keep nothing, the last one is that operator of the Function's first operand and
// its own;
std::string_view FunctionOf(std::string_view file, std::string_view line);
// the same of what a module of that name calls, in a file without lines.
std::string_view FunctionOfModule(std::string_view name);
// Whether attention without a mask is passed grouped heads of so many numbers as they are, instead
// of repeating them.
bool PassesGroupedHeads(int64_t key_width, int64_t value_width);

// Casts to fp32, or to the type of a product's other operand, that a file without lines does not
// show, in the forward of a module that has a parameter "A_log" and a child `child`, by nodes in
// their order.
struct ScanCast {
  std::string_view child;
  std::string_view op_type;
  int16_t rank;     // of the result; -1: any
  int16_t nth;      // of those of the forward; -1: each
  int16_t operand;  // -1: all
  SeenIn seen;
  bool to_other = false;
};
std::span<const ScanCast> ScanCasts();

// Casts that do nothing in an fp32 model, of which an export of it has lost the lines, too
// (libraries/casts.cc): those around a call that is made on the way through a line.
struct CastRow {
  enum class Of : uint8_t { kFirst, kParameters, kResult };
  enum class To : uint8_t {
    kFloat,  // fp32
    kRead,   // the type of what the line's first call in the table reads
  };
  std::string_view file;  // part of its path
  std::string_view line;  // part of its text
  std::string_view op;    // of the call, as torch.export names it: "matmul"
  Of of;
  To to;
  int8_t nth;  // of those calls on the way through the line; -1: all
  SeenIn seen;
};
std::span<const CastRow> CastRows();

// Whether a local of that name, in that file's forwards, holds the type of parameters, which
// autocast leaves alone: "sample.to(upscale_dtype)".
bool HoldsTypeOfParameters(std::string_view file, std::string_view name);

// --- Recomputation --------------------------------------------------------------------------

// Whether it is a class of transformers' whose forward gradient_checkpointing_enable() puts a
// checkpoint around ("transformers.models.dpt.modeling_dpt.DPTViTLayer").
bool IsCheckpointedLayer(std::string_view class_name);

// Whether a model that has a module of that name ("embed_tokens") returns it as its input
// embedding.
bool IsInputEmbedding(std::string_view module);

// --- Training loops -------------------------------------------------------------------------

// What a library's loop does otherwise than the plain one of training/training.h.
enum class LoopFact : uint8_t {
  kCastsOutputs,        // autocast is around the model alone, whose outputs become fp32
  kCastsEachTime,       // autocast keeps no cast of a weight for the next call
  kDividesLoss,         // by the number of micro-batches, be it 1, when it goes backward
  kModelTakesLabels,    // and computes the loss in its forward
  kTakesBatchesAtOnce,  // those of a whole step, before the first runs
  kSumsLosses,          // in a number on the device
  kTestsLoss,           // whether it is a number, behind backward
  kRepeatsLosses,       // of evaluation, for each sample, and adds them up with what it keeps
  kHoldsNorm,           // of the gradients, until the next is computed
  kDropsGradients,      // behind the step
  kDecaysSome,          // the optimizer has two groups: parameters that decay, then others
  kClips,               // gradients, unless it is told otherwise
  kFusesAdamW,          // the same
  kFusesAdam,           // the same
  kKeeps32Bits,         // in states of embeddings' weights, where the optimizer's are in 8
  kNamesMean,           // the loss divided by the number of micro-batches, be it 1, is the loss
  kCopiesLoss,          // which is reported, until the next batch comes
  kDropsLoss,           // behind the step
  kDetachesLoss,        // when backward has returned: its graph goes
  kDropsBatch,          // before the next is taken
  kZeroesInClosure,     // between forward and backward, unless it is told otherwise
  kLoadsImages,         // batches come ahead as bytes, on a stream of their own
  kHoldsResult,         // outputs, until the next loss is there, unless it is told otherwise
  kDividesInPlace,      // the loss by the number of micro-batches
  kDecaysMatrices,      // the optimizer has two groups: parameters that do not decay, then others
  kSmoothsLabels,       // by a formula of its own, unless it is told otherwise
  kReducesLast,         // of a step's micro-batches: gradients of others stay with their rank
  kReducesLastInDdp,    // the same, where the model is in DistributedDataParallel
  kDecaysWeights,       // the optimizer has three groups: weights, norms and biases
  kAveragesModel,       // in a copy of it, unless it is told otherwise
  kLaysChannelsLast,    // the model, not its batches, unless it is told otherwise
  kFillsStep,           // with micro-batches up to 64 samples, unless it is told otherwise
  kAddsLosses,          // of micro-batches, which it divides by nothing
  kAveragesLoss,        // beside its sum, in a number on the device
  kHoldsEvenBatches,    // the first, the third, …: each until the next but one is taken
  kAsksForWorkspaces,   // CUBLAS_WORKSPACE_CONFIG=:4096:8
  kTellsClasses,        // its models that are known here: their outputs are logits of classes
};
bool DoesLoop(LoopLibrary library, LoopFact fact);

// Whether transformers' Trainer lets a parameter of that path not decay, beside those of LayerNorm.
bool IsUndecayed(std::string_view parameter);

// Whether a model of timm lets a parameter of that path not decay, beside vectors and biases.
bool IsUndecayedByTimm(std::string_view parameter);

// How a model of transformers computes its loss: cross entropy of its logits, and
struct ModelLoss {
  enum Does : uint8_t {
    kShiftsLabels = 1,    // by one, beside logits in fp32
    kDivides = 2,         // a sum by the number of labels, instead of a mean
    kTakesNoCount = 4,    // its forward, which the Trainer therefore does not count labels for
    kShiftsInputs = 8,    // labels become "decoder_input_ids"
    kIsCausalLm = 16,     // its labels are shifted for the LabelSmoother, too
    kAddsAuxiliary = 32,  // that of the logits of an auxiliary head, weighted
  };
  std::string_view classes;  // how their names end
  uint8_t does;
  SeenIn seen;
};
const ModelLoss& LossOfModel(std::string_view class_name);

// --- Adapters -------------------------------------------------------------------------------

// The layers that peft puts LoRA beside in models of a type where nobody picks others.
struct AdapterTargets {
  std::string_view model_type;  // "gpt2"
  std::array<std::string_view, 8> names;
  SeenIn seen;
};

// By the type's name or that of its module in transformers ("deberta_v2"); of a type that is not
// known the names that most types have, of those that its `layers` are called, empty where there
// are none such.
std::vector<std::string> AdapterTargetsOf(std::string_view model_type,
                                          const std::set<std::string_view>& layers);

// How ranks share a linear layer (Megatron-LM's words): columns of its matrix are features that it
// makes, rows those that it takes.
enum class ParallelStyle : uint8_t {
  kNone,
  kColumns,
  kRows,
  kGathered,  // columns, whose features are put together on each rank
};

// Layers that plans of tensor parallelism name, by the ends of their paths.
struct ParallelLayer {
  std::string_view name;  // "mlp.fc1"
  ParallelStyle style;
  SeenIn seen;
};
ParallelStyle ParallelStyleOf(std::string_view path);

// Layers that transformers keeps in fp32, and does not quantize: the ends of their paths.
struct KeptLayer {
  std::string_view model_type;
  std::string_view name;
  SeenIn seen;
};
bool IsKeptIn32Bits(std::string_view model_type, std::string_view path);

}  // namespace onnxfit
