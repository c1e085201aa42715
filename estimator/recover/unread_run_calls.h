// Writes modules that run though no output needs what they make (unread_runs.h).  Internal to the
// room recover/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/lost/places.h"
#include "estimator/lost/unread_runs.h"
#include "estimator/recover/lowering.h"

namespace onnxfit {

// Writes all of them, while the units around them are lowered.
class UnreadRunWriter {
 public:
  // All must outlive it.
  UnreadRunWriter(Recovery& recovery, const Places& places);

  // Those in front of `node`, or behind it, whose tensors are known.
  void WriteBefore(NodeId node);
  void WriteBehind(NodeId node);

 private:
  void Write(const UnreadRun& run);
  void Write(const UnreadHead& head);
  NameId WriteNorm(const UnreadRun& run, NameId states);
  NameId WriteCopy(const UnreadRun& run, NameId states);
  NameId WritePooler(const UnreadRun& run, NameId states);
  NameId TakeFirst(UnitWriter unit, NameId states);
  CallPlace PlaceOf(NodeId node, size_t level, std::string_view line, int64_t below);
  // A place in child `path` of the forward at `caller`, whose own forward has `line`.
  CallPlace Enter(CallPlace caller, const std::string& path, std::string_view line);
  NameId TensorOf(const std::string& name) const;

  Recovery& recovery_;
  const Places& places_;
  std::multimap<NodeId, UnreadRun> runs_;  // by the node in front
  std::vector<UnreadTensorOfZeros> zeros_;
  std::vector<UnreadHead> heads_;
};

}  // namespace onnxfit
