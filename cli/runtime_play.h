// Other sessions of ONNX Runtime than those that were run: by the order of weights, by settings.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "estimator/report/runtime_run.h"

namespace onnxfit {

// Plays orders of the weights of `told`, and what settings make of them, into `run`, which has its
// sessions, context and card.  Where no requests were told, `run` says so.  Some 0.1 s.
void AddPlayed(const ToldSessions& told, const RuntimeOptions& options, RuntimeRun& run);

// The card's verdict by the worst of what ran and was played.
void JudgeSessions(RuntimeRun& run);

// What ended the first session that did not come to its end; "" where all did.
std::string FirstError(const std::vector<RuntimeSession>& sessions);

}  // namespace onnxfit
