#include "estimator/lost/unread_runs.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/base/module_names.h"
#include "estimator/exporters/module_children.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

// The outermost level whose module is of a class that ends so; nullopt without one.
std::optional<size_t> LevelOfClass(const std::vector<std::string>& classes, std::string_view end) {
  const auto found =
      std::ranges::find_if(classes, [&](const std::string& type) { return type.ends_with(end); });
  if (found == classes.end()) return std::nullopt;
  return static_cast<size_t>(found - classes.begin());
}

// Whether the child `name` of the module at that level around `node` runs it.
bool RunsInChild(const ExporterMetadata& metadata, NodeId node, size_t level,
                 std::string_view name) {
  const ModuleId module = metadata.ModuleOf(node);
  return level + 1 < metadata.modules.DepthOf(module) &&
         ChildOf(metadata.modules.NameAt(module, level + 1)) == name;
}

// The nodes of a file by the modules around them, of which a row is asked once.
class NodesByModules {
 public:
  using LevelOf = std::function<std::optional<size_t>(NodeId)>;
  struct Leveled {
    NodeId node = kNoNode;
    size_t level = 0;
  };

  explicit NodesByModules(const ExporterMetadata& metadata) {
    for (size_t i = 0; i < metadata.origins.size(); ++i) {
      const NodeOrigin& origin = metadata.origins[i];
      nodes_[{origin.module, origin.classes}].push_back(static_cast<NodeId>(i));
    }
  }

  // Those, in order, whose modules have a level, with it.  `level_of` looks at modules alone.
  std::vector<Leveled> WithLevel(const LevelOf& level_of) const {
    std::vector<Leveled> found;
    for (const auto& [modules, nodes] : nodes_) {
      const std::optional<size_t> level = level_of(nodes.front());
      for (size_t i = 0; level.has_value() && i < nodes.size(); ++i) {
        found.push_back({nodes[i], *level});
      }
    }
    std::ranges::sort(found, {}, &Leveled::node);
    return found;
  }

 private:
  std::map<std::pair<ModuleId, int32_t>, std::vector<NodeId>> nodes_;
};

class UnreadRunFinder {
 public:
  UnreadRunFinder(const BoundGraph& bound, const IsLostTensor& is_lost)
      : bound_(bound),
        is_lost_(is_lost),
        nodes_(bound.metadata()),
        runs_(PathsOfModules(bound.metadata())) {
    for (const SignatureEntry& entry : bound.metadata().signature) {
      named_.insert(ParentOf(entry.target));
    }
  }

  std::vector<UnreadRun> Find() {
    for (const UnreadRunRow& row : UnreadRuns()) AddAll(row);
    return std::move(found_);
  }

 private:
  void AddAll(const UnreadRunRow& row) {
    std::map<std::string, UnreadRun> by_caller;  // the last node decides
    const auto level_of = [&](NodeId node) { return LevelOf(row, node); };
    for (const auto& [node, level] : nodes_.WithLevel(level_of)) {
      const std::optional<UnreadRun> run = RunBehind(row, node, level);
      if (run.has_value()) by_caller[run->caller] = *run;
    }
    for (auto& [caller, run] : by_caller) {
      if (AreUnread(row, caller) && found_in_.insert(caller).second) {
        found_.push_back(std::move(run));
      }
    }
  }

  bool AreUnread(const UnreadRunRow& row, const std::string& caller) const {
    if (!row.copy_line.empty()) return ChildOf(caller) == row.called && !Gathers(caller);
    const bool is_norm = row.norm.empty() || IsUnread(ChildPath(caller, row.norm));
    const bool is_pooler = row.pooler.empty() || IsUnread(ChildPath(caller, row.pooler) + ".dense");
    return is_norm && is_pooler;
  }

  // Whether the file shows that the forward does.
  bool Gathers(const std::string& caller) const {
    const std::vector<Node>& nodes = bound_.graph().nodes;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const bool is_own = bound_.metadata().PathOf(static_cast<NodeId>(i)) == caller;
      if (is_own && nodes[i].op_type == "GatherElements") return true;
    }
    return false;
  }

  // Where `node`, in the child that comes before, makes states.
  std::optional<UnreadRun> RunBehind(const UnreadRunRow& row, NodeId node, size_t level) const {
    const ModuleTree& modules = bound_.metadata().modules;
    const ModuleId module = bound_.metadata().ModuleOf(node);
    const std::vector<ValueId>& made = bound_.At(node).outputs;
    const bool makes_states = !made.empty() && IsFloat(bound_.TypeOf(made[0]).dtype) &&
                              bound_.DimsOf(made[0]).size() == 3;
    if (!makes_states) return std::nullopt;
    return UnreadRun{node, made[0], level, modules.PathOf(modules.AtLevel(module, level)), &row};
  }

  // Of the forward that the row is of, by its class, where `node` runs in the child that comes
  // before; of a file without classes, by the tensors that it has lost there.
  std::optional<size_t> LevelOf(const UnreadRunRow& row, NodeId node) const {
    const ModuleTree& modules = bound_.metadata().modules;
    const auto known = LevelOfClass(bound_.metadata().ClassesOf(node), row.in_class);
    if (known && !RunsInChild(bound_.metadata(), node, *known, row.behind)) return std::nullopt;
    if (known.has_value()) return known;
    const ModuleId module = bound_.metadata().ModuleOf(node);
    for (size_t level = 0; named_.empty() && level + 1 < modules.DepthOf(module); ++level) {
      if (!RunsInChild(bound_.metadata(), node, level, row.behind)) continue;
      if (AreUnread(row, modules.PathOf(modules.AtLevel(module, level)))) return level;
    }
    return std::nullopt;
  }

  bool IsUnread(const std::string& path) const {
    const bool has_name = named_.empty() ? is_lost_(path + ".weight") : named_.contains(path);
    return has_name && !runs_.contains(path);
  }

  const BoundGraph& bound_;
  const IsLostTensor& is_lost_;
  const NodesByModules nodes_;
  std::set<std::string> runs_;        // modules that have nodes
  std::set<std::string_view> named_;  // modules that have tensors
  std::set<std::string> found_in_;    // callers: earlier rows win
  std::vector<UnreadRun> found_;
};

// Whether an input or a node's line shows what `line` makes.
bool IsShown(const BoundGraph& bound, std::string_view line) {
  const std::string_view name = line.substr(0, line.find(' '));
  const bool is_given = std::ranges::any_of(
      bound.graph().inputs, [&](ValueId input) { return bound.NameOf(input) == name; });
  return is_given || std::ranges::any_of(bound.metadata().lines, [&](const NodeLines& lines) {
           return lines.innermost == line;
         });
}

// Of the forward around `node` that a row is of, by its class, or by what it runs further on.
std::optional<size_t> LevelOfZeros(const ExporterMetadata& metadata, const UnreadZerosRow& row,
                                   NodeId node, const std::set<std::string>& paths) {
  const std::vector<std::string>& classes = metadata.ClassesOf(node);
  const auto known = LevelOfClass(classes, row.in_class);
  if (known.has_value()) return known;
  const ModuleId module = metadata.ModuleOf(node);
  for (size_t level = 0; classes.empty() && level < metadata.modules.DepthOf(module); ++level) {
    const ModuleId caller = metadata.modules.AtLevel(module, level);
    if (paths.contains(metadata.modules.PathOf(caller) + "." + std::string(row.runs))) return level;
  }
  return std::nullopt;
}

// Of the forward around `node` that a row is of, by its class, or by a tensor of the head that it
// has lost there.
std::optional<size_t> LevelOfHead(const ExporterMetadata& metadata, const UnreadHeadRow& row,
                                  NodeId node, const IsLostTensor& is_lost) {
  const std::vector<std::string>& classes = metadata.ClassesOf(node);
  const auto known = LevelOfClass(classes, row.in_class);
  if (known.has_value()) return known;
  const ModuleId module = metadata.ModuleOf(node);
  for (size_t level = 0; classes.empty() && level < metadata.modules.DepthOf(module); ++level) {
    if (!RunsInChild(metadata, node, level, row.before)) continue;
    const std::string& caller = metadata.modules.PathOf(metadata.modules.AtLevel(module, level));
    const std::string layer = ChildPath(ChildPath(caller, row.head), row.layers[0]);
    if (is_lost(layer + ".weight")) return level;
  }
  return std::nullopt;
}

// Features [batch, places, features] that a node makes and `reader` reads; kNoValue without such.
ValueId StatesReadBy(const BoundGraph& bound, NodeId reader) {
  for (const ValueId value : bound.At(reader).inputs) {
    if (value == kNoValue || bound.graph().values[Index(value)].producer == kNoNode) continue;
    if (IsFloat(bound.TypeOf(value).dtype) && bound.DimsOf(value).size() == 3) return value;
  }
  return kNoValue;
}

}  // namespace

std::vector<UnreadTensorOfZeros> FindUnreadZeros(const BoundGraph& bound) {
  std::vector<UnreadTensorOfZeros> found;
  const ModuleTree& modules = bound.metadata().modules;
  const std::set<std::string> paths = PathsOfModules(bound.metadata());
  const NodesByModules nodes(bound.metadata());
  for (const UnreadZerosRow& row : UnreadZeros()) {
    if (IsShown(bound, row.line)) continue;
    std::set<ModuleId> callers;  // each makes them once
    const auto level_of = [&](NodeId node) {
      const std::optional<size_t> level = LevelOfZeros(bound.metadata(), row, node, paths);
      const bool is_before = level && RunsInChild(bound.metadata(), node, *level, row.before);
      return is_before ? level : std::nullopt;
    };
    for (const auto& [node, level] : nodes.WithLevel(level_of)) {
      const ModuleId caller = modules.AtLevel(bound.metadata().ModuleOf(node), level);
      if (callers.insert(caller).second) found.push_back({node, level, &row});
    }
  }
  return found;
}

std::vector<UnreadHead> FindUnreadHeads(const BoundGraph& bound, const IsLostTensor& is_lost) {
  std::vector<UnreadHead> found;
  const ModuleTree& modules = bound.metadata().modules;
  const std::set<std::string> paths = PathsOfModules(bound.metadata());
  const NodesByModules nodes(bound.metadata());
  for (const UnreadHeadRow& row : UnreadHeads()) {
    std::set<ModuleId> callers;  // each runs it once
    const auto level_of = [&](NodeId node) {
      const std::optional<size_t> level = LevelOfHead(bound.metadata(), row, node, is_lost);
      const bool is_before = level && RunsInChild(bound.metadata(), node, *level, row.before);
      return is_before ? level : std::nullopt;
    };
    for (const auto& [node, level] : nodes.WithLevel(level_of)) {
      const ModuleId caller = modules.AtLevel(bound.metadata().ModuleOf(node), level);
      const std::string path = ChildPath(modules.PathOf(caller), row.head);
      const ValueId states = StatesReadBy(bound, node);
      if (states == kNoValue || !callers.insert(caller).second) continue;
      if (!paths.contains(ChildPath(path, row.layers[0])))
        found.push_back({node, states, level, path, &row});
    }
  }
  return found;
}

std::vector<UnreadRun> FindUnreadRuns(const BoundGraph& bound, const IsLostTensor& is_lost) {
  return UnreadRunFinder(bound, is_lost).Find();
}

}  // namespace onnxfit
