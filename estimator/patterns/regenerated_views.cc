// Parts that torch.export makes anew behind each call that writes over one of them.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/exporters/exported_groups.h"
#include "estimator/patterns/rewrites.h"

namespace onnxfit {
namespace {

using Parts = std::map<int64_t, std::vector<NodeId>>;  // which part -> SequenceAt nodes

std::string TextOf(const FxArgument& argument) {
  std::string text(argument.text);
  for (const FxArgument& item : argument.items) text += "," + TextOf(item);
  return text;
}

// What equal splits of one line have in common; "" of other calls.
std::string KeyOf(const ExportedGroups& groups, int32_t index) {
  const FxNode& call = groups.At(index).call;
  const std::string_view line = groups.LineOf(index);
  if (!call.target.starts_with("aten.split") || line.empty()) return "";
  std::string key(line);
  for (const FxArgument& argument : call.arguments) key += " " + TextOf(argument);
  return key;
}

class SplitFinder {
 public:
  explicit SplitFinder(const ExportedGroups& groups) : groups_(groups), bound_(groups.bound()) {}

  std::vector<Rewritten> Find() const {
    std::map<std::string, std::vector<NodeId>> equal;
    for (int32_t i = 0; i < groups_.count(); ++i) {
      const std::string key = KeyOf(groups_, i);
      const NodeId split = groups_.At(i).nodes.back();
      if (key.empty() || bound_.At(split).op_type != "SplitToSequence") continue;
      equal[key].push_back(split);
    }
    std::vector<Rewritten> calls;
    for (const auto& [key, splits] : equal) {
      if (splits.size() > 1) Join(splits, calls);
    }
    return calls;
  }

 private:
  void Join(const std::vector<NodeId>& splits, std::vector<Rewritten>& calls) const {
    Parts parts;
    for (const NodeId split : splits) {
      if (!AddParts(split, parts)) return;
    }
    Rewritten call = {.aten = "split",
                      .inputs = {bound_.At(splits[0]).inputs[0]},
                      .last = splits[0],
                      .nodes = splits};
    for (const auto& [part, nodes] : parts) {
      call.nodes.push_back(nodes[0]);
      call.results.push_back(bound_.At(nodes[0]).outputs[0]);
    }
    call.module = ModuleOf(splits);
    calls.push_back(call);
    for (const auto& [part, nodes] : parts) {
      for (size_t i = 1; i < nodes.size(); ++i) {
        calls.push_back({.aten = kNoCall,
                         .inputs = {bound_.At(nodes[0]).outputs[0]},
                         .last = nodes[i],
                         .nodes = {nodes[i]}});
      }
    }
  }

  // False where it is not known which parts are read.
  bool AddParts(NodeId split, Parts& parts) const {
    for (const NodeId id : bound_.AllReadersOf(bound_.At(split).outputs[0])) {
      const Node& reader = bound_.At(id);
      const KnownTensor* at =
          reader.op_type == "SequenceAt" ? bound_.Known(reader.inputs[1]) : nullptr;
      if (at == nullptr || at->elements().size() != 1) return false;
      parts[at->elements()[0]].push_back(id);
    }
    return true;
  }

  // Those behind the first are said to be of the modules that wrote.
  ModuleId ModuleOf(const std::vector<NodeId>& splits) const {
    const ModuleTree& modules = bound_.metadata().modules;
    ModuleId module = bound_.ModuleAround(splits[0]);
    for (const NodeId split : splits) {
      const size_t shared = modules.Shared(module, bound_.ModuleAround(split));
      while (modules.DepthOf(module) > shared) module = modules.CallerOf(module);
    }
    return module;
  }

  const ExportedGroups& groups_;
  const BoundGraph& bound_;
};

}  // namespace

std::vector<Rewritten> FindRegeneratedParts(const ExportedGroups& groups) {
  return SplitFinder(groups).Find();
}

}  // namespace onnxfit
