#include "estimator/recover/places.h"

#include <map>

#include "estimator/base/index.h"
#include "estimator/base/text.h"
#include "estimator/recover/known_in_place.h"

namespace onnxfit {
namespace {

// Known from libraries, and said by flags: by a node's name or its module's.
std::set<NodeId> FindOutOfPlace(const BoundGraph& bound, const TrainingSettings& settings) {
  const Graph& graph = bound.graph();
  std::set<NodeId> found = FindOutOfPlaceActivations(graph, bound.metadata());
  if (settings.out_of_place.empty()) return found;
  std::vector<std::string> names;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
    names.push_back(DisplayName(graph, id));
    names.push_back(bound.metadata().PathOf(id));
  }
  const std::vector<bool> picked =
      PickNames(names, settings.out_of_place, {"--out-of-place", "nodes or modules", graph.path});
  for (size_t i = 0; i < picked.size(); ++i) {
    if (picked[i]) found.insert(static_cast<NodeId>(i / 2));
  }
  return found;
}

}  // namespace

Places::Places(const BoundGraph& bound, const std::vector<Rewritten>& calls,
               const TrainingSettings& settings)
    : bound_(bound), in_place_(bound.graph().nodes.size()) {
  DecideInPlace(calls, settings);
}

// What the source says, then what is known of a library; models with attention write over nothing;
// flags, and what such models do all the same, come last.
void Places::DecideInPlace(const std::vector<Rewritten>& calls, const TrainingSettings& settings) {
  const Graph& graph = bound_.graph();
  const std::map<NodeId, bool> known = FindKnownInPlace(graph, bound_.metadata());
  const bool has_attention = HasAttention(graph, calls);
  for (size_t i = 0; i < in_place_.size(); ++i) {
    const auto node = static_cast<NodeId>(i);
    in_place_[i] = InPlaceBySource(node);
    const auto row = in_place_[i].has_value() ? known.end() : known.find(node);
    if (row != known.end()) in_place_[i] = row->second;
    const std::vector<ValueId>& results = bound_.At(node).outputs;
    const bool is_float =
        !results.empty() && results[0] != kNoValue && IsFloat(bound_.TypeOf(results[0]).dtype);
    if (has_attention && is_float && !in_place_[i].has_value()) in_place_[i] = false;
  }
  for (const NodeId node : FindOutOfPlace(bound_, settings)) in_place_[Index(node)] = false;
  for (const NodeId node : FindInPlaceSums(graph)) in_place_[Index(node)] = true;
}

std::optional<bool> Places::InPlaceBySource(NodeId node) const {
  const NodeLines& lines = bound_.metadata().LinesOf(node);
  const bool has_line = !lines.frames.empty() && lines.frames.back() != kNoStatement;
  return has_line ? WrittenInPlace(lines.innermost) : std::nullopt;
}

CallPlace Places::Of(NodeId node) const {
  return {.where = DisplayName(bound_.graph(), node),
          .module = bound_.ModuleAround(node),
          .frames = bound_.metadata().LinesOf(node).frames,
          .written_in_place = in_place_[Index(node)]};
}

StatementId FrameAt(const ModuleTree& modules, const CallPlace& place, size_t level) {
  const size_t depth = modules.DepthOf(place.module);
  if (level >= depth) return kNoStatement;
  if (place.frames.size() >= depth) return place.frames[level];
  const size_t below = depth - (level + 1);
  return below <= 1 && below < place.frames.size() ? place.frames[place.frames.size() - 1 - below]
                                                   : kNoStatement;
}

std::set<std::string> FindOutsideAutocast(const BoundGraph& bound) {
  const ExporterMetadata& metadata = bound.metadata();
  std::vector<bool> is_generated;  // by index of lines, which nodes share
  for (const NodeLines& lines : metadata.lines) is_generated.push_back(IsGenerated(lines.text));
  std::set<std::string> modules;
  for (const NodeOrigin& origin : metadata.origins) {
    if (is_generated[Index(origin.lines)]) modules.insert(metadata.modules.PathOf(origin.module));
  }
  return modules;
}

}  // namespace onnxfit
