// The steps of each module's forward, of a run that was watched or of a file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/observed/skeletons.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"

namespace onnxfit {

// One run of a module's forward, and where its steps are in the program.
struct ForwardOfRun {
  std::string_view class_name;  // Interned; "" where the file does not say
  std::vector<SkeletonStep> steps;
  std::vector<int64_t> calls;     // by step: the last call of it
  std::vector<int32_t> children;  // by step: the run, as an index into ModuleRuns::all; -1: a call
};

// By run, as ModuleRuns::all has them, and behind them the model's own forward where the file names
// the modules that it calls, not itself (TorchScript's).  Casts that autocast makes are none of its
// steps.  O(calls × depth).
std::vector<ForwardOfRun> ForwardsOf(const Program& program, const ModuleRuns& runs);

// Whether what the call makes is the tensor that it is given first.
bool WritesOverFirst(const AtenCall& call);

// x.to(dtype) and the like.
bool IsCastCall(const AtenCall& call);
bool IsCast(const SkeletonStep& step);
// Whether files may lack it: a cast, a dropout, what did nothing.
bool MayBeLost(const SkeletonStep& step);
// Whether an exporter that names no classes joins it with others, or makes it in another place: a
// view of a tensor, or a copy that lies as one.
bool MayBeMoved(const SkeletonStep& step);
// Whether a file lacks it for one of these reasons, or may; `is_named`: it names classes.
bool MayBeMissing(const SkeletonStep& step, bool is_named);

// Skeletons of all modules of a program whose deaths were observed (names/observed_lifetimes.h), a
// run of this kind.  A value that dies while a child runs dies behind it.  O(calls × depth).
std::vector<Skeleton> SkeletonsOf(const Program& program, SkeletonRuns run);

}  // namespace onnxfit
