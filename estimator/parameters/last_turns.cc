#include "estimator/parameters/last_turns.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/base/module_names.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

constexpr int64_t kFewestTurns = 3;
constexpr int kMostSteps = 3;  // between what a layer makes and the child that reads it

// The outermost list that a path is in.
std::optional<ListTurn> TurnOf(std::string_view path) {
  std::vector<ListTurn> turns = TurnsAround(path);
  if (turns.empty()) return std::nullopt;
  return std::move(turns.front());
}

class LastTurnFinder {
 public:
  LastTurnFinder(const BoundGraph& bound, const std::set<std::string_view>& names)
      : bound_(bound), names_(names) {
    for (const Node& node : bound.graph().nodes) nodes_.emplace(node.name, bound.IdOf(node));
  }

  std::vector<UnreadTensor> Find() const {
    std::vector<UnreadTensor> found;
    for (const Initializer& initializer : bound_.graph().initializers) {
      const std::string_view name = bound_.NameOf(initializer.value);
      const std::optional<ListTurn> turn = TurnOf(name);
      if (!turn.has_value() || !EndsIn(*turn, name)) continue;
      if (!IsLeftOut(initializer.value, *turn)) continue;
      std::string lost = InTurn(std::string(name), *turn, turn->number + 1);
      found.push_back({std::move(lost), ListOf(name, *turn), *names_.find(name)});
    }
    return found;
  }

 private:
  // Whether each turn up to that one has the tensor, and the next one has not.
  bool EndsIn(const ListTurn& turn, std::string_view name) const {
    const auto has = [&](int64_t number) {
      return names_.contains(InTurn(std::string(name), turn, number));
    };
    if (turn.number + 1 < kFewestTurns || !has(turn.number) || has(turn.number + 1)) return false;
    int64_t before = 0;
    while (before < turn.number && has(before)) ++before;
    return before == turn.number;
  }

  static std::string_view ListOf(std::string_view name, const ListTurn& turn) {
    return name.substr(0, turn.list.size());
  }

  // What a layer makes, and the node that reads it on the way to a child.
  struct Branch {
    ValueId value = kNoValue;
    NodeId first = kNoNode;
    ListTurn turn;  // of the layer
  };

  // From the only node that reads `tensor` back to what a layer of that number has made.
  std::optional<Branch> BranchOf(ValueId tensor, int64_t number) const {
    if (bound_.ReadersOf(tensor).size() != 1) return std::nullopt;
    Branch branch;
    branch.first = bound_.ReadersOf(tensor)[0];
    for (int step = 0; step < kMostSteps; ++step) {
      if (bound_.At(branch.first).inputs.empty()) return std::nullopt;  // a constant, noise
      branch.value = bound_.At(branch.first).inputs[0];
      if (branch.value == kNoValue || branch.value == tensor) return std::nullopt;
      const NodeId maker = bound_.graph().values[Index(branch.value)].producer;
      if (maker == kNoNode) return std::nullopt;
      const std::optional<ListTurn> turn = TurnOf(PathOf(maker));
      if (turn.has_value() && turn->number == number) {
        branch.turn = *turn;
        return branch;
      }
      branch.first = maker;
    }
    return std::nullopt;
  }

  // What the next turn makes as `branch` has its value; kNoValue where it does not.
  ValueId InNextTurn(const Branch& branch) const {
    const NodeId maker = bound_.graph().values[Index(branch.value)].producer;
    const Node& node = bound_.At(maker);
    const auto next =
        nodes_.find(InTurn(std::string(node.name), branch.turn, branch.turn.number + 1));
    if (next == nodes_.end() || next->second == maker) return kNoValue;
    const auto place = std::ranges::find(node.outputs, branch.value) - node.outputs.begin();
    const std::vector<ValueId>& made = bound_.At(next->second).outputs;
    return place < std::ssize(made) ? made[Index(place)] : kNoValue;
  }

  // Whether nothing reads in the next turn what the child that has `tensor` reads, and all else
  // does; of a child of the layer that makes it: of several lists the last may be shorter.
  bool IsLeftOut(ValueId tensor, const ListTurn& turn) const {
    const std::optional<Branch> branch = BranchOf(tensor, turn.number);
    const bool is_inside = branch.has_value() && branch->turn.list == turn.list;
    const ValueId next = is_inside ? InNextTurn(*branch) : kNoValue;
    if (next == kNoValue) return false;
    std::multiset<std::string> readers = ReadersOf(branch->value, branch->turn);
    readers.extract(KeyOf(branch->first, branch->turn));
    return !readers.empty() && readers == ReadersOf(next, branch->turn);
  }

  std::multiset<std::string> ReadersOf(ValueId value, const ListTurn& turn) const {
    std::multiset<std::string> keys;
    for (const NodeId node : bound_.AllReadersOf(value)) keys.insert(KeyOf(node, turn));
    return keys;
  }

  // "Conv in layers.11.skip", also of the one in "layers.10.skip".
  std::string KeyOf(NodeId node, const ListTurn& turn) const {
    return std::string(bound_.At(node).op_type) + " in " +
           InTurn(PathOf(node), turn, turn.number + 1);
  }

  std::string PathOf(NodeId node) const {
    const ExporterMetadata& metadata = bound_.metadata();
    return metadata.modules.PathOf(metadata.ModuleOf(node));
  }

  const BoundGraph& bound_;
  const std::set<std::string_view>& names_;
  std::unordered_map<std::string_view, NodeId> nodes_;  // by name
};

}  // namespace

std::vector<UnreadTensor> FindLastTurns(const BoundGraph& bound,
                                        const std::set<std::string_view>& names) {
  return LastTurnFinder(bound, names).Find();
}

}  // namespace onnxfit
