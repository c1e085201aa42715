// What an export has lost and its program has again: which calls, where, and what was assumed.
// Internal to the room recover/.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/recover/bound_graph.h"
#include "estimator/recover/lost_calls.h"
#include "estimator/recover/lost_rotary.h"
#include "estimator/recover/roles.h"

namespace onnxfit {

struct PutBacks {
  std::multimap<NodeId, LostCall> before;       // by the node that reads them
  std::multimap<NodeId, LostCall> behind;       // by the node behind which they run
  std::map<NodeId, ValueId> stochastic_depths;  // residual sum -> branch
  std::optional<LostRotary> rotary;
  std::map<size_t, bool> attention;  // index of a call -> whether it drops out
  std::vector<std::string> assumptions;
  std::vector<Doubt> doubts;       // what was guessed and no flag said
  std::vector<std::string> notes;  // for -v
};

// Calls that leave a trace (lost_calls.h, lost_casts.h), a rotary embedding, and the dropouts and
// stochastic depths that libraries have, where they are likely or `settings` tell of them.
// Throws Error where a glob of settings.placed_dropouts picks nothing.  O(nodes).
PutBacks FindPutBacks(const BoundGraph& bound, const Roles& roles,
                      const TrainingSettings& settings);

}  // namespace onnxfit
