// What libraries do in a run and not, or otherwise, while torch.export traces them
// (libraries/libraries.h), by the lines of a call.  Internal to the room pt2/.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include "estimator/pt2/exported_program.h"

namespace onnxfit::pt2 {

// Whether `call` builds a mask that is left out of a run where it hides nothing or is causal:
// attention is told that it is causal instead.
bool BuildsLibraryMask(const Call& call);

// A statement of Python: its file and line.
using StatementPlace = std::pair<std::string_view, int64_t>;

// The statement that builds such a mask by `call`.  REQUIRES: BuildsLibraryMask(call).
StatementPlace MaskStatementOf(const Call& call);

// Those that read a tensor which they were given: what is padding, or where sequences begin.
std::set<StatementPlace> FindMasksOfTensors(const ExportedProgram& exported);

// Whether attention, which is told so by such a mask alone, is not causal then.
bool LosesCausality(const Call& call);

// Whether the product `call` casts its other operand to the type of the module's weight first,
// where that has 16 bits: a branch that an export in fp32 does not take.
bool CastsToWeightFirst(const Call& call);

// Whether the forward around the module of `call` casts what it passes to it to the type of its
// weight first, where they differ: a branch that an export in fp32 does not take.
bool CastsArgumentFirst(const Call& call);

// The name, in the forward around the module of `call`, of what that passes to it and has made
// contiguous before, of which an export says nothing if it was so already; "" of others.
std::string_view MadeContiguousFor(const Call& call, bool trains);

// The operator that has the backward of the torch.autograd.Function whose forward makes `call`; ""
// where there is none.
std::string_view FunctionAround(const Call& call);

// Whether `call` runs under torch.autocast(enabled=False), of which an export from the meta device
// says nothing.
bool LeavesAutocast(const Call& call);

// The same where all that `call` is given was cast before to the type of the autocast around it.
bool CastsToAutocastFirst(const Call& call);

}  // namespace onnxfit::pt2
