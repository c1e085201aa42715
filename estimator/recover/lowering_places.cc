// Where a node was called: in which module, under which rules.
#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/base/text.h"
#include "estimator/recover/exporter_metadata.h"
#include "estimator/recover/habits.h"
#include "estimator/recover/lowering.h"
#include "estimator/recover/scopes.h"
#include "estimator/recover/source_text.h"

namespace onnxfit {

// Known from libraries, and said by flags: by a node's name or its module's.
std::set<NodeId> Lowering::FindOutOfPlace() const {
  std::set<NodeId> found = FindOutOfPlaceActivations(graph_);
  if (settings_.out_of_place.empty()) return found;
  std::vector<std::string> names;
  for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes.size()); ++id) {
    names.push_back(DisplayName(graph_, id));
    names.push_back(ModulePath(ScopeOf(graph_, id)));
  }
  const std::vector<bool> picked =
      PickNames(names, settings_.out_of_place, {"--out-of-place", "nodes or modules", graph_.path});
  for (size_t i = 0; i < picked.size(); ++i) {
    if (picked[i]) found.insert(static_cast<NodeId>(i / 2));
  }
  return found;
}

// torch.export takes the body of `with torch.autocast(…)` apart from its module's forward; what
// models do so for is torch.autocast(enabled=False), as rotary embeddings do.
std::set<std::string> Lowering::FindOutsideAutocast() const {
  std::set<std::string> modules;
  for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes.size()); ++id) {
    const std::string_view frames = FindMetadata(At(id).metadata, kSourceKey);
    if (IsGenerated(frames)) modules.insert(ModulePath(ScopeOf(graph_, id)));
  }
  if (rotary_.has_value()) modules.insert(ModulePath(rotary_->scope));
  return modules;
}

std::vector<StatementId> Lowering::FramesOf(const Node& node) {
  const std::string_view written = FindMetadata(node.metadata, kSourceKey);
  const auto [found, is_new] = frames_of_.try_emplace(written);
  if (is_new) {
    for (const SourceFrame& frame : SourceFrames(node)) {
      found->second.push_back(frame.line == 0 ? kNoStatement
                                              : program_.source.Read(frame.line, frame.text));
    }
  }
  return found->second;
}

StatementId Lowering::Beside(StatementId statement, std::vector<std::string> targets) {
  const int64_t line = program_.source.At(statement).line;
  return program_.source.PutBack({.line = line, .targets = std::move(targets)});
}

// Of a node of which torch.export says nothing (a Split): that of the first that reads it.  Of a
// function that torch.jit.script made, whose nodes have names without a scope: its caller's.
std::vector<std::string> Lowering::ScopeFor(NodeId id) {
  std::vector<std::string> scope = ScopeOf(graph_, id);
  if (!scope.empty()) return last_scope_ = scope;
  if (metadata_.groups.empty()) return At(id).name.starts_with('/') ? scope : ScopeAround(id);
  for (const ValueId output : At(id).outputs) {
    for (const Node* reader : ReadersOf(output)) {
      scope = ScopeOf(graph_, static_cast<NodeId>(reader - graph_.nodes.data()));
      if (!scope.empty()) return scope;
    }
  }
  return scope;
}

// What the nearest scopes before and behind a node have in common.
std::vector<std::string> Lowering::ScopeAround(NodeId id) {
  const auto nodes = static_cast<NodeId>(graph_.nodes.size());
  next_scoped_ = std::max(next_scoped_, id);
  while (next_scoped_ < nodes && ScopeOf(graph_, next_scoped_).empty()) ++next_scoped_;
  if (next_scoped_ >= nodes) return {};
  std::vector<std::string> scope = last_scope_;
  scope.resize(SharedModules(scope, ScopeOf(graph_, next_scoped_)));
  return scope;
}

}  // namespace onnxfit
