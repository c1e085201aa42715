// Where the calls of nodes run: in which module, by which lines, in place or not.  Internal to the
// room recover/.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/program/program_writer.h"
#include "estimator/recover/bound_graph.h"
#include "estimator/recover/rewrites.h"

namespace onnxfit {

class Places {
 public:
  // `bound` must outlive it.  Throws Error where a glob of settings.out_of_place picks nothing.
  // O(nodes × log).
  Places(const BoundGraph& bound, const std::vector<Rewritten>& calls,
         const TrainingSettings& settings);

  // Of a call that `node` stands for.
  CallPlace Of(NodeId node) const;

 private:
  std::optional<bool> InPlaceBySource(NodeId node) const;
  void DecideInPlace(const std::vector<Rewritten>& calls, const TrainingSettings& settings);

  const BoundGraph& bound_;
  std::vector<std::optional<bool>> in_place_;  // by node
};

// The statement of the forward at `level` of a call that runs at `place`; kNoStatement where the
// file does not show it.  O(depth).
StatementId FrameAt(const ModuleTree& modules, const CallPlace& place, size_t level);

// Paths of modules whose calls leave autocast: torch.export takes the body of `with
// torch.autocast(…)` apart from its module's forward; what models do so for is
// torch.autocast(enabled=False), as rotary embeddings do.  O(nodes).
std::set<std::string> FindOutsideAutocast(const BoundGraph& bound);

}  // namespace onnxfit
