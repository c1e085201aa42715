// What an optimizer keeps for each parameter, and what its step allocates meanwhile: one
// row for each implementation.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "estimator/base/framework.h"
#include "estimator/base/settings.h"
#include "estimator/base/tensor_type.h"

namespace onnxfit {

// The type of a tensor that belongs to one parameter; dtype kUndefined where it has none.
using TypeForParameter = TensorType (*)(const TensorType& parameter);

struct StateTensor {
  std::string_view name;  // as in optimizer.state[p]
  TypeForParameter type = nullptr;
  bool shared = false;  // one for all parameters, made for the first that has it
  bool paged = false;   // of large parameters in managed memory, which no allocator counts
};

// When the states come to be.
enum class StatesMade : uint8_t {
  kFirstStep,     // all, before the first update
  kByStatement,   // where a statement of the step says so
  kConstruction,  // with the optimizer, for all parameters
};

// What a norm or a mean is taken over: all elements, or one dimension, counted from the last.
enum class Reduced : uint8_t { kAll, kLast, kLastButOne };

// How a step makes a tensor.
struct Making {
  TypeForParameter type = nullptr;
  TypeForParameter summed = nullptr;  // of a norm or a mean: what it is of
  Reduced dim = Reduced::kAll;        // of a norm or a mean
  bool product = false;               // of two matrices, by cuBLAS
};

// The local variables of the step functions: what they hold stays until they are bound
// again, deleted, or the function returns.
enum class Local : uint8_t {
  kRoot,
  kDenominator,
  kNumerator,
  kRowMean,
  kColumnMean,
  kMean,
  kSquare,
  kEstimate,
  kUpdate,
  kOrthogonal,
  kGram,
  kGramUpdate,
  kClampedNorm,
  kGradient,
  kParameter,
  kScales,
  kScalesOfSquares,
  kMoment,
  kMomentOfSquares,
  kCodes,
  kCodesOfSquares,
};
inline constexpr int kLocals = 21;

// One statement that allocates or frees.  Foreach runs it for a whole list of parameters,
// and a local is a list; a loop runs all statements for one parameter after the other.
struct UpdateStep {
  enum class Type : uint8_t {
    kEnd,     // fills unused places of a row
    kBind,    // local = a new tensor; what it held goes after that
    kAlias,   // local = what `from` holds
    kDelete,  // del local
    kPass,    // a tensor that one expression makes and drops
    kNorms,   // local = torch._foreach_norm of a list of such tensors
    kKeep,    // optimizer.state[p][…] = a new tensor; what it held goes after that
    kStates,  // the states that are not there yet: in a loop those of one parameter
    kAnew,    // statements behind are those of another loop over the parameters
    kMuon,    // local = muon_update of all (muon_batches.h)
    kSoap,    // a turn of SOAP's loop (soap_step.h)
    kGaLore,  // the same of GaLore's (galore_step.h)
  };
  Type type = Type::kEnd;
  Local local = Local::kRoot;
  Local from = Local::kRoot;
  Making making = {};
};

constexpr UpdateStep Bind(Local local, Making making) {
  return {.type = UpdateStep::Type::kBind, .local = local, .making = making};
}
constexpr UpdateStep Alias(Local local, Local from) {
  return {.type = UpdateStep::Type::kAlias, .local = local, .from = from};
}
constexpr UpdateStep Delete(Local local) {
  return {.type = UpdateStep::Type::kDelete, .local = local};
}
constexpr UpdateStep Pass(Making making) {
  return {.type = UpdateStep::Type::kPass, .making = making};
}

constexpr UpdateStep Norms(Local local, TypeForParameter of) {
  return {.type = UpdateStep::Type::kNorms, .local = local, .making = {.type = of}};
}

constexpr UpdateStep Keep(Making making) {
  return {.type = UpdateStep::Type::kKeep, .making = making};
}

inline constexpr UpdateStep kMakeStates = {.type = UpdateStep::Type::kStates};
inline constexpr UpdateStep kUpdateByMuon = {.type = UpdateStep::Type::kMuon,
                                             .local = Local::kUpdate};
inline constexpr UpdateStep kTurnOfSoap = {.type = UpdateStep::Type::kSoap};
inline constexpr UpdateStep kTurnOfGaLore = {.type = UpdateStep::Type::kGaLore};
inline constexpr UpdateStep kLoopAnew = {.type = UpdateStep::Type::kAnew};

using OptimizerSteps = std::array<UpdateStep, 32>;
using OptimizerStates = std::array<StateTensor, 6>;

struct OptimizerRule {
  Optimizer optimizer = Optimizer::kNone;
  OptimizerImpl impl = OptimizerImpl::kForeach;
  uint8_t args = 0;  // OptimizerArg bits: those with which the row is taken
  bool FrameworkProfile::*only_where = nullptr;  // there in some versions alone
  OptimizerStates states = {};
  OptimizerStates states_in_32_bits = {};  // where a parameter has "optim_bits": 32; none: states
  StatesMade states_made = StatesMade::kFirstStep;
  bool begins_with_states = false;  // the first step makes states and updates nothing
  bool by_norm_of_all = false;      // step() finds the norm of all gradients, before its groups
  bool matrices_apart = false;      // lists hold matrices alone, or vectors alone
  bool in_step_itself = false;      // step() has the locals, which last from group to group
  OptimizerSteps steps = {};
  // Of gradients of embedding(sparse=True), whose equal indices it joins first (coalesce): how many
  // tensors of the joined rows it holds.  0: no gradient may be sparse, unless its update is one
  // call (sgd).
  int joined_blocks = 0;
  // Takes hidden matrices alone; this one steps the others behind it.  kNone: takes all.
  Optimizer of_others = Optimizer::kNone;
};

// The row of `optimizer` in the implementation `impl`, or the one that PyTorch takes when it
// is not told, with those of `args` (OptimizerArg bits) that take memory there.
// Throws Error where the optimizer has no such implementation in `framework`.
const OptimizerRule& FindOptimizerRule(Optimizer optimizer, std::optional<OptimizerImpl> impl,
                                       const FrameworkProfile& framework, uint8_t args = 0);

// Whether there is a row of that implementation.
bool HasImpl(Optimizer optimizer, OptimizerImpl impl, const FrameworkProfile& framework);

// Whether weight decay makes copies of all gradients that the rest of the step holds.  Throws as
// FindOptimizerRule does.
bool CopiesGradientsToDecay(Optimizer optimizer, std::optional<OptimizerImpl> impl,
                            const FrameworkProfile& framework);

// Of `args`, those that the optimizer's constructor takes.
uint8_t ArgsTaken(Optimizer optimizer, uint8_t args);

// Those of a parameter, which may have "optim_bits": 32.
const OptimizerStates& StatesOf(const OptimizerRule& rule, bool in_32_bits);

// What the device's allocator has of the state for that parameter; dtype kUndefined where it has
// none, or where the state is in managed memory, which the card takes in while it has room.
TensorType StateType(const StateTensor& state, const TensorType& parameter);

}  // namespace onnxfit
