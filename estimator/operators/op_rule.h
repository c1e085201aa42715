// What one ATen operator does to memory, as a row of a table.  A row says what each
// gradient *reads*; what must be saved for backward is derived from that, so frozen
// weights and data inputs need no special case.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/base/settings.h"
#include "estimator/base/tensor_type.h"
#include "estimator/program/program.h"

namespace onnxfit {

// A set of tensors of one call: inputs 0-11, outputs 12-19, auxiliary results 20-27.
struct Slots {
  uint32_t bits = 0;

  constexpr bool Has(Slots other) const { return (bits & other.bits) == other.bits; }
  constexpr bool empty() const { return bits == 0; }
  friend constexpr Slots operator|(Slots a, Slots b) { return {a.bits | b.bits}; }
  friend constexpr Slots operator&(Slots a, Slots b) { return {a.bits & b.bits}; }
  bool operator==(const Slots&) const = default;
};

inline constexpr int kMaxInputSlots = 12;
inline constexpr int kMaxOutputSlots = 8;
inline constexpr int kMaxAuxSlots = 8;

constexpr Slots In(int i) { return {uint32_t{1} << i}; }
inline constexpr Slots kInputs = {(uint32_t{1} << kMaxInputSlots) - 1};
constexpr Slots Out(int i) { return {uint32_t{1} << (kMaxInputSlots + i)}; }
constexpr Slots Aux(int i) { return {uint32_t{1} << (kMaxInputSlots + kMaxOutputSlots + i)}; }

// How the gradient of one input comes to be.
struct Gradient {
  enum class Form : uint8_t {
    kNone,         // not differentiable
    kPassThrough,  // the incoming gradient itself
    kView,         // the incoming gradient, seen in the input's shape
    kExpanded,     // the incoming gradient of a sum, seen in the input's shape
    kPart,         // the part of the incoming gradient that ints say, as of select and diagonal
    kNew,          // a new tensor in the input's shape
    kNewLikeIn,    // the same, in the input's order of dimensions
    kNewAsIn,      // the same, as empty_like(input)
    kNewInFormat,  // the same, in the memory format that the input suggests
    kNewLikeOut,   // a new tensor that lies as the incoming gradient does
    kCastBack,     // the same in the input's type
    kChannelSum,   // the incoming gradient, summed up over all dimensions but 1
    kRows,         // a sparse tensor: a row for each index, which the call saved first
    kNewRows,      // the same, whose rows are new
  };
  Form form = Form::kNone;
  Slots reads = {};  // what its formula needs beside the incoming gradient
};

inline constexpr Gradient kNoGradient;

constexpr Gradient PassThrough() { return {Gradient::Form::kPassThrough, {}}; }
constexpr Gradient ViewOfGradient() { return {Gradient::Form::kView, {}}; }
constexpr Gradient PartOfGradient() { return {Gradient::Form::kPart, {}}; }
constexpr Gradient Expands() { return {Gradient::Form::kExpanded, {}}; }
// A gradient in the input's shape whose formula reads `slots`.
constexpr Gradient Reads(Slots slots) { return {Gradient::Form::kNew, slots}; }
// The same for a product of matrices, which writes a transposed operand's gradient transposed.
constexpr Gradient ReadsForMatrix(Slots slots) { return {Gradient::Form::kNewLikeIn, slots}; }
// The same for what lies as the input does.
constexpr Gradient ReadsAsInput(Slots slots) { return {Gradient::Form::kNewAsIn, slots}; }
// The same for what keeps the input's memory format (SuggestedFormat).
constexpr Gradient ReadsInFormat(Slots slots) { return {Gradient::Form::kNewInFormat, slots}; }
// Of a table whose rows indices name (embedding_sparse_backward): the incoming gradient's rows.
constexpr Gradient SparseRows(Slots slots) { return {Gradient::Form::kRows, slots}; }
constexpr Gradient SparseNewRows(Slots slots) { return {Gradient::Form::kNewRows, slots}; }
constexpr Gradient CastsBack() { return {Gradient::Form::kCastBack, {}}; }
// The bias of a convolution: [C] of [N, C, …].
constexpr Gradient SumsToChannels(Slots slots) { return {Gradient::Form::kChannelSum, slots}; }
// As Reads, for elementwise operators: it has the output's shape, and where the input was
// broadcast the engine sums it up into one more tensor.
constexpr Gradient ReadsElementwise(Slots slots) { return {Gradient::Form::kNewLikeOut, slots}; }

// Types of the tensors of one call and its integer arguments, and what runs it, for rows that
// compute a size.
class CallTypes {
 public:
  // All must outlive it.
  CallTypes(const Program& program, const AtenCall& call, const TrainingSettings& settings,
            const StridedType* incoming_gradient = nullptr)
      : program_(program),
        call_(call),
        settings_(settings),
        incoming_gradient_(incoming_gradient) {}

  size_t input_count() const { return call_.inputs.size(); }
  bool has_input(size_t i) const { return i < call_.inputs.size() && call_.inputs[i] != kNoName; }
  // REQUIRES: the call has them.
  const StridedType& in(size_t i) const { return TypeOf(call_.inputs[i]); }
  const StridedType& out(size_t i) const { return TypeOf(call_.outputs[i]); }
  const std::vector<int64_t>& ints() const { return call_.ints; }
  // REQUIRES: in backward.
  const StridedType& incoming_gradient() const { return *incoming_gradient_; }
  const FrameworkProfile& framework() const { return settings_.framework; }
  const DeviceProfile& device() const { return settings_.device; }

 private:
  const StridedType& TypeOf(NameId name) const { return program_.values[Index(name)].type; }

  const Program& program_;
  const AtenCall& call_;
  const TrainingSettings& settings_;
  const StridedType* incoming_gradient_;
};

// Types of dtype kUndefined stand for a tensor that is not made.
using TypeFunction = TensorType (*)(const CallTypes&);
using TypePredicate = bool (*)(const CallTypes&);
using StridesFunction = Dims (*)(const CallTypes&);  // of output 0, whose dims are known

enum class Workspace : uint8_t {
  kCublas,
  kCublasLt,
  kCudnnForward,  // these three: of a convolution's pass, where it was measured
  kCudnnDataGradient,
  kCudnnWeightGradient,
  kCudnnAttention,  // of the size that the row computes
};

// What a formula does in backward where no list of steps can say it.
class Kernel {
 public:
  virtual ~Kernel() = default;

  virtual const CallTypes& types() const = 0;
  virtual bool IsWanted(int input) const = 0;
  // Whether a gradient of output `i` has come in.
  virtual bool HasIncoming(int output) const = 0;
  // The gradient of input `i`, if it is wanted; `strides` empty: as its form says, contiguous of
  // all but kNewAsIn, kNewInFormat and kNewLikeOut.  `storage`: the dims of the tensor of which it
  // is a part, if it is one.
  virtual void MakeGrad(int i, Dims strides = {}, const Dims& storage = {}) = 0;
  // The same also if nobody wants it, for as long as the call runs.
  virtual void MakeGradAnyway(int i) = 0;
  // Those of all inputs from `first` on that are wanted: parts of one new tensor of `dims`.
  virtual void MakeGradsInOne(int first, const Dims& dims) = 0;
  // A tensor that lives until it is freed, or until the call returns.
  virtual int Take(const TensorType& type) = 0;
  virtual void Free(int taken) = 0;
  virtual void Use(Workspace workspace) = 0;
};

class Dispatcher;

// A tensor that a call makes and the graph does not show: a mask, indices, statistics.
struct AuxTensor {
  std::string_view name = {};
  TypeFunction type = nullptr;
  bool for_gradients = false;  // not made under torch.no_grad()
};

// One allocation of a call.  The order of steps is the order in PyTorch's events.
struct Step {
  enum class Type : uint8_t {
    kEnd,           // fills unused places of a row
    kOut,           // output `index`
    kAux,           // auxiliary result `index`
    kGrad,          // gradient of input `index`, if it is wanted
    kScratch,       // lives until the call returns; `index` as in ScratchWith
    kWorkspace,     // of a library, as the framework holds them; in backward only behind a
                    // gradient that is wanted
    kDropGradient,  // backward lets go of the incoming gradient before its end
    kDropScratch,   // the call lets go of all scratch so far, or of `count` of it from the
                    // `index`-th on
  };
  Type type = Type::kEnd;
  int8_t index = 0;                // of kWorkspace: a Workspace
  TypeFunction scratch = nullptr;  // of kWorkspace: cuDNN's attention's
  bool only_over_view = false;     // in backward of what wrote over a view (CopySlices)
  bool passes = false;             // a scratch that is freed at once
  int8_t count = 0;                // of kDropScratch; 0: all
};

constexpr Step MakeOut(int i) { return {Step::Type::kOut, static_cast<int8_t>(i), nullptr}; }
constexpr Step MakeAux(int i) { return {Step::Type::kAux, static_cast<int8_t>(i), nullptr}; }
constexpr Step MakeGrad(int i) { return {Step::Type::kGrad, static_cast<int8_t>(i), nullptr}; }
constexpr Step Scratch(TypeFunction type) { return {Step::Type::kScratch, -1, type}; }
// Freed before the next step.
constexpr Step Passing(TypeFunction type) {
  Step step = Scratch(type);
  step.passes = true;
  return step;
}
// Only where the gradient of input `i` is wanted.
constexpr Step ScratchWith(int i, TypeFunction type) {
  return {Step::Type::kScratch, static_cast<int8_t>(i), type};
}
// The same, freed before the next step.
constexpr Step PassingWith(int i, TypeFunction type) {
  Step step = ScratchWith(i, type);
  step.passes = true;
  return step;
}
constexpr Step OverView(Step step) {
  step.only_over_view = true;
  return step;
}
constexpr Step DropGradient() { return {Step::Type::kDropGradient, 0, nullptr}; }
constexpr Step DropScratch() { return {Step::Type::kDropScratch, 0, nullptr}; }
// Of the row's scratches, from 0: `count` from the `first` on.
constexpr Step DropScratch(int first, int count) {
  Step step = {Step::Type::kDropScratch, static_cast<int8_t>(first), nullptr};
  step.count = static_cast<int8_t>(count);
  return step;
}
constexpr Step Uses(Workspace workspace) {
  return {Step::Type::kWorkspace, static_cast<int8_t>(workspace), nullptr};
}

// cuDNN's attention's, gone at once.
constexpr Step UsesForAttention(TypeFunction type) {
  return {Step::Type::kWorkspace, static_cast<int8_t>(Workspace::kCudnnAttention), type};
}

// How the output shares the storage of input 0.
enum class Alias : uint8_t {
  kNone,
  kReshape,  // the same elements in the same order, where strides allow a view
  kPermute,  // ints: the permutation
  kExpand,   // broadcast, stride 0
  kNarrow,   // a part (slice, select, split); ints: the axis and the step, where they matter
};

// What becomes of input 0 where the call may write over it.
enum class InPlace : uint8_t {
  kNever,
  kResult,   // the result takes its storage
  kClone,    // the same, and a clone of the input is saved for backward
  kAlways,   // the operator's name ends in "_": in place whatever else is so
  kIfNamed,  // where the call's does ("x.clamp_()"); input 0 is cloned if backward reads it
};

// What torch.autocast does with a call's arguments.
enum class AutocastPolicy : uint8_t {
  kAsIs,          // runs in the type of its input
  kLower,         // casts to the 16-bit type
  kFp32,          // casts to fp32
  kFp32Result,    // makes a result of fp32, of what its kernel reads as it is
  kFp32FromHalf,  // the same of fp16, whose kernel reads it; casts bf16
  kWidest,        // casts to the widest type of its inputs
};

using BackwardSteps = std::array<Step, 20>;

struct OpRule {
  std::string_view name = {};
  // A call that PyTorch takes apart, by the types and strides of its operands (dispatcher.h).
  void (*take_apart)(Dispatcher&, const AtenCall&) = nullptr;
  StridesFunction strides = nullptr;  // of the result where it is new; null: contiguous
  TypeFunction storage = nullptr;     // of which output 0 is a part; null: none but itself
  Alias alias = Alias::kNone;
  InPlace in_place = InPlace::kNever;
  AutocastPolicy autocast = AutocastPolicy::kAsIs;
  bool FrameworkProfile::*not_autocast = nullptr;  // versions where it runs as it is instead
  bool has_own_type = false;      // the result has the type that its call says, of no input
  bool promotes = false;          // the result has the widest type of its inputs, not the first's
  bool variadic = false;          // every input is as input 0: its gradient, its reads
  bool asks_cudnn = false;        // for a workspace whose size is known where it was measured
  bool keeps_everything = false;  // saves all inputs and outputs: an operator we do not know
  // Of a function of Python's (torch.autograd.Function) that keeps what it saves in attributes of
  // its context: as long as its node, whatever runs.
  bool keeps_in_node = false;
  bool saves_behind = false;          // another of Python's: it saves when its kernels have run
  DType refuses = DType::kUndefined;  // of input 0: what PyTorch has no kernel for
  std::array<Gradient, 5> gradients = {};
  bool FrameworkProfile::*reads_input = nullptr;  // versions whose backward reads input 0, too
  // Whether one kernel makes all gradients: those that nobody wants die when it has run.  Of
  // calls with one output.
  TypePredicate makes_all_gradients = nullptr;
  std::array<AuxTensor, 3> aux = {};
  std::array<Step, 26> forward = {};        // empty: outputs, then auxiliary results
  BackwardSteps backward = {};              // empty: gradients in the order of inputs
  void (*run_backward)(Kernel&) = nullptr;  // instead of both
};

// The gradient of input `i` as `rule` says it.
constexpr const Gradient& GradientOf(const OpRule& rule, int i) {
  const auto slot = rule.variadic ? size_t{0} : static_cast<size_t>(i);
  return slot < rule.gradients.size() ? rule.gradients[slot] : kNoGradient;
}

// What a call keeps until its backward when gradients of the inputs in `wanted` are
// wanted.  Not for rules that keep everything.
constexpr Slots SavedForBackward(const OpRule& rule, Slots wanted) {
  Slots saved;
  for (int i = 0; i < kMaxInputSlots; ++i) {
    if (wanted.Has(In(i))) saved = saved | GradientOf(rule, i).reads;
  }
  return saved;
}

// The row of `name`, or of the operator that it runs like (program/like.h), or the cautious one
// that keeps all inputs and outputs. O(1).
const OpRule& FindOpRule(std::string_view name);
bool HasOpRule(std::string_view name);

// Every row, by family: what the files ops_FAMILY.cc hold.
std::span<const std::span<const OpRule>> AllOpRules();

// --- The families of the operator table, and what their rows are made of ------

// A new operator is one row in the file of its family and one line in tests/op_rule_test.cc.

std::span<const OpRule> AttentionRules();      // ops_attention.cc
std::span<const OpRule> ConvolutionRules();    // ops_convolution.cc
std::span<const OpRule> DropoutRules();        // ops_elementwise.cc
std::span<const OpRule> ElementwiseRules();    // ops_elementwise.cc
std::span<const OpRule> EmbeddingRules();      // ops_embedding.cc
std::span<const OpRule> IndexingRules();       // ops_indexing.cc
std::span<const OpRule> LinearRules();         // ops_linear.cc
std::span<const OpRule> LossRules();           // ops_losses.cc
std::span<const OpRule> MathRules();           // ops_math.cc
std::span<const OpRule> NormalizationRules();  // ops_normalization.cc
std::span<const OpRule> PackedRules();         // ops_packed.cc
std::span<const OpRule> PoolRules();           // ops_pools.cc
std::span<const OpRule> RecurrentRules();      // ops_recurrent.cc
std::span<const OpRule> NormRules();           // ops_norms.cc
std::span<const OpRule> ReductionRules();      // ops_reductions.cc
std::span<const OpRule> RepeatRules();         // ops_repeats.cc
std::span<const OpRule> ScanRules();           // ops_scans.cc
std::span<const OpRule> SortRules();           // ops_sorts.cc
std::span<const OpRule> ViewRules();           // ops_views.cc

// Types of what is made on the way.
inline TensorType LikeInput(const CallTypes& call) { return call.in(0); }
// Of a second and a third operand, which may be a number, in the result's type.
inline TensorType LikeSecond(const CallTypes& call) {
  return call.has_input(1) ? TensorType{call.out(0).dtype, call.in(1).dims} : TensorType();
}
inline TensorType LikeThird(const CallTypes& call) {
  return call.has_input(2) ? TensorType{call.out(0).dtype, call.in(2).dims} : TensorType();
}
inline TensorType LikeOutput(const CallTypes& call) { return call.out(0); }
// What a sum over some of the input's dimensions takes on the way (kernel_scratch.h): partial sums,
// then semaphores, which are freed first.  In ops_reductions.cc.
TensorType SumsOfBlocks(const CallTypes& call);
TensorType SemaphoresOfBlocks(const CallTypes& call);
// As the 0 of where (condition, grad, 0), on the device: at::where of a number (pytorch v2.11.0,
// aten/src/ATen/native/TensorCompare.cpp).
inline TensorType ScalarLikeOutput(const CallTypes& call) { return {call.out(0).dtype, {}}; }
inline TensorType BoolsLikeInput(const CallTypes& call) { return {DType::kBool, call.in(0).dims}; }
inline TensorType BoolsLikeOutput(const CallTypes& call) {
  return {DType::kBool, call.out(0).dims};
}
inline TensorType IntegersLikeOutput(const CallTypes& call) {
  return {DType::kInt64, call.out(0).dims};
}
inline TensorType OneInteger(const CallTypes&) { return {DType::kInt64, {1}}; }
inline int64_t CountOfInput(const CallTypes& call) { return Numel(call.in(0).dims); }
inline TensorType IntegersLikeInput(const CallTypes& call) {
  return {DType::kInt64, call.in(0).dims};
}
// Bools and integers are summed up in 64 bits, for which they are cast.
TensorType CastOfIntegers(const CallTypes& call);  // ops_reductions.cc

// A formula of backward that makes so many tensors on the way (tools/autograd/derivatives.yaml,
// pytorch v2.6.0): cos is grad * -sin (x).  Sources: torch 2.11 events.
constexpr BackwardSteps OnTheWay(size_t count) {
  BackwardSteps steps = {};
  for (size_t i = 0; i < count; ++i) steps[i] = Scratch(LikeInput);
  steps[count] = MakeGrad(0);
  return steps;
}

// The gradient of a largest element, or of the middle one, is shared by all that are as large:
// grad / their count, where they are.  A sum of bools casts them (scale_grad_by_count and
// evenly_distribute_backward).
inline constexpr BackwardSteps kSharedByEqualOfAll = {Scratch(BoolsLikeInput),
                                                      Scratch(BoolsLikeOutput),
                                                      Scratch(BoolsLikeInput),
                                                      Scratch(IntegersLikeOutput),
                                                      Passing(IntegersLikeInput),
                                                      Scratch(LikeOutput),
                                                      MakeGrad(0)};

// The strides of an elementwise kernel's result.
Dims AsOperands(const CallTypes& call);  // ops_elementwise.cc

}  // namespace onnxfit
