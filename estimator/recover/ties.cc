#include "estimator/recover/ties.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "estimator/base/index.h"
#include "estimator/program/libraries.h"
#include "estimator/program/module_names.h"
#include "estimator/recover/exporter_metadata.h"

namespace onnxfit {
namespace {

using Kind = SignatureEntry::Kind;

// The parameters that are stored, or that a call reads, by the signature's names.
std::unordered_set<std::string_view> NamesInUse(const Graph& graph,
                                                const ExporterMetadata& metadata) {
  std::unordered_set<std::string_view> stored;
  for (const Initializer& initializer : graph.initializers) {
    stored.insert(graph.values[Index(initializer.value)].name);
  }
  std::unordered_set<std::string_view> names;
  for (const SignatureEntry& entry : metadata.signature) {
    if (stored.contains(entry.target)) names.insert(entry.name);
  }
  for (const FxGroup& group : metadata.groups) {
    for (const std::string_view name : References(group.call)) names.insert(name);
  }
  return names;
}

class TieFinder {
 public:
  TieFinder(const Graph& graph, const ExporterMetadata& metadata)
      : metadata_(metadata), used_(NamesInUse(graph, metadata)) {
    for (const SignatureEntry& entry : metadata.signature) {
      if (entry.kind == Kind::kParameter) parameters_.emplace(entry.name, &entry);
    }
    for (size_t i = 0; i < metadata.groups.size(); ++i) {
      const NodeId first = metadata.groups[i].nodes.front();
      groups_of_.emplace(metadata.PathOf(first), i);
    }
  }

  std::map<std::string_view, std::string_view> Find() const {
    std::map<std::string_view, std::string_view> first_names;
    for (const SignatureEntry& entry : metadata_.signature) {
      if (entry.kind != Kind::kParameter || used_.contains(entry.name)) continue;
      const SignatureEntry* kept = KeptFor(entry);
      if (kept != nullptr && &entry < kept) first_names.try_emplace(kept->target, entry.target);
    }
    return first_names;
  }

 private:
  // What the calls of the entry's module read in its stead, or of its child that has it, too.
  const SignatureEntry* KeptFor(const SignatureEntry& entry) const {
    const std::string module(ParentOf(entry.target));
    const SignatureEntry* kept = KeptIn(module, entry);
    return kept != nullptr ? kept
                           : KeptIn(fmt::format("{}.{}", module, ChildWithTiedBias()), entry);
  }

  const SignatureEntry* KeptIn(const std::string& module, const SignatureEntry& entry) const {
    const auto [begin, end] = groups_of_.equal_range(module);
    for (auto group = begin; group != end; ++group) {
      for (const std::string_view name : References(metadata_.groups[group->second].call)) {
        const auto found = parameters_.find(name);
        if (found == parameters_.end()) continue;
        const bool is_elsewhere = ParentOf(found->second->target) != ParentOf(entry.target);
        if (is_elsewhere && ChildOf(found->second->target) == ChildOf(entry.target)) {
          return found->second;
        }
      }
    }
    return nullptr;
  }

  const ExporterMetadata& metadata_;
  std::unordered_set<std::string_view> used_;
  std::unordered_map<std::string_view, const SignatureEntry*> parameters_;  // by name
  std::unordered_multimap<std::string, size_t> groups_of_;                  // by module
};

}  // namespace

std::map<std::string_view, std::string_view> FindFirstNames(const Graph& graph,
                                                            const ExporterMetadata& metadata) {
  return metadata.signature.empty() ? std::map<std::string_view, std::string_view>()
                                    : TieFinder(graph, metadata).Find();
}

bool LikelyTiesHead(const Graph& graph, const ExporterMetadata& metadata) {
  const auto is_stored = [&](ValueId id) {
    if (id == kNoValue) return false;
    const Value& value = graph.values[Index(id)];
    return value.initializer >= 0 ||
           (value.producer != kNoNode && graph.nodes[Index(value.producer)].op_type == "Constant");
  };
  std::set<ValueId> words;
  bool has_gate = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.inputs.empty() || node.inputs[0] == kNoValue) continue;
    if (node.op_type == "Gather" && is_stored(node.inputs[0])) words.insert(node.outputs[0]);
    const bool is_product = node.op_type == "Mul" && node.inputs.size() == 2;
    if (is_product && words.contains(node.inputs[0]) && is_stored(node.inputs[1])) return true;
    has_gate = has_gate || HasOwnHead(metadata.PathOf(static_cast<NodeId>(i)));
  }
  return !has_gate;
}

}  // namespace onnxfit
