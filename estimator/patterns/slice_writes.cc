// x[:, a:b] = y, as exporters write it.
#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/exporters/exported_groups.h"
#include "estimator/patterns/rewrites.h"

namespace onnxfit {
namespace {

// All that makes `value` and nothing else; a node is asked for once for each of its readers.
std::set<NodeId> MadeFor(const BoundGraph& bound, ValueId value) {
  std::set<NodeId> made;
  std::vector<ValueId> asked = {value};
  while (!asked.empty()) {
    const Value& next = bound.graph().values[Index(asked.back())];
    const NodeId maker = next.producer;
    const auto is_inside = [&](NodeId reader) { return made.contains(reader); };
    const bool is_inner =
        asked.back() == value || std::ranges::all_of(bound.ReadersOf(asked.back()), is_inside);
    asked.pop_back();
    if (maker == kNoNode || next.is_output || !is_inner || !made.insert(maker).second) continue;
    for (const ValueId input : bound.At(maker).inputs) {
      if (input != kNoValue) asked.push_back(input);
    }
  }
  return made;
}

// Whether the exporter counts places itself: such nodes are in no module.
bool CountsPlaces(const BoundGraph& bound, ValueId places) {
  std::set<ValueId> seen;
  std::vector<ValueId> asked = {places};
  while (!asked.empty()) {
    const ValueId value = asked.back();
    asked.pop_back();
    const NodeId maker = bound.graph().values[Index(value)].producer;
    if (!seen.insert(value).second || maker == kNoNode) continue;
    const Node& node = bound.At(maker);
    if (node.op_type == "Range" && !IsNamedByTorchScript(node)) return true;
    if (node.op_type == "Shape") continue;
    std::ranges::copy_if(node.inputs, std::back_inserter(asked),
                         [](ValueId input) { return input != kNoValue; });
  }
  return false;
}

// --- torch.export's -------------------------------------------------------------------------

// Writes of torch.export's: x[:, i, :i] = y is select_scatter (x, slice_scatter (x[:, i], y)).
class SliceWriteFinder {
 public:
  explicit SliceWriteFinder(const ExportedGroups& groups)
      : groups_(groups), bound_(groups.bound()) {}

  std::vector<Rewritten> Find() const {
    std::vector<Rewritten> calls;
    std::set<std::string_view> written;
    for (int32_t i = groups_.count() - 1; i >= 0; --i) {
      Rewritten call;
      if (!IsScatter(i) || IsInner(i) || !FindWrite(i, call)) continue;
      calls.push_back(std::move(call));
      written.insert({Argument(i, 0), groups_.At(i).call.name});
    }
    if (!written.empty()) AddCopies(written, calls);
    return calls;
  }

 private:
  bool IsScatter(int32_t index) const {
    const std::string_view target = groups_.At(index).call.target;
    const bool is_scatter =
        target == "aten.select_scatter.default" || target == "aten.slice_scatter.default";
    return is_scatter && groups_.At(index).call.arguments.size() > 2;
  }

  std::string_view Argument(int32_t index, size_t place) const {
    return groups_.At(index).call.arguments[place].text;
  }

  // The scatter whose result `index` writes into a larger tensor, -1: it writes another's.
  int32_t InnerOf(int32_t index) const {
    const int32_t inner = groups_.Find(Argument(index, 1));
    if (inner < 0 || !IsScatter(inner)) return -1;
    const int32_t view = groups_.Find(Argument(inner, 0));
    const bool is_part = view >= 0 && !groups_.At(view).call.arguments.empty() &&
                         Argument(view, 0) == Argument(index, 0);
    return is_part ? inner : -1;
  }

  bool IsInner(int32_t index) const {
    const NodeId last = groups_.ResultOf(index, groups_.NodesOf(index));
    if (last == kNoNode) return false;
    const auto readers = bound_.AllReadersOf(bound_.At(last).outputs[0]);
    return readers.size() == 1 && bound_.metadata().GroupOf(readers[0]) >= 0 &&
           IsScatter(bound_.metadata().GroupOf(readers[0])) &&
           InnerOf(bound_.metadata().GroupOf(readers[0])) == index;
  }

  // All that `index` is, with what it is made of: false where x is read behind it, as it was.
  bool FindWrite(int32_t index, Rewritten& call) const {
    const ValueId x = groups_.ValueOf(Argument(index, 0));
    call.nodes = groups_.NodesOf(index);
    call.last = groups_.ResultOf(index, call.nodes);
    if (x == kNoValue || call.last == kNoNode || !IsWritten(x, call.last)) return false;
    int32_t write = index;
    for (int32_t inner = InnerOf(index); inner >= 0; inner = InnerOf(inner)) {
      for (const int32_t part : {inner, groups_.Find(Argument(inner, 0))}) {
        const std::vector<NodeId> nodes = groups_.NodesOf(part);
        call.nodes.insert(call.nodes.begin(), nodes.begin(), nodes.end());
      }
      write = inner;
    }
    std::ranges::sort(call.nodes);
    const ValueId y = groups_.ValueOf(Argument(write, 1));
    call.aten = "copy_slice";
    call.inputs = {x, y};
    return y != kNoValue && IsFloat(bound_.TypeOf(y).dtype) && FitsRule(groups_.bound(), call);
  }

  // x[:, i, :i].clone(), kept as it was before x[:, i, :i] is written: no dropout of an export for
  // inference, which is such a clone, too.
  void AddCopies(const std::set<std::string_view>& written, std::vector<Rewritten>& calls) const {
    for (int32_t i = 0; i < groups_.count(); ++i) {
      const FxNode& clone = groups_.At(i).call;
      const bool is_plain = clone.target == "aten.clone.default" && clone.named.empty();
      if (!is_plain || !written.contains(WholeOf(i))) continue;
      const NodeId last = groups_.ResultOf(i, groups_.NodesOf(i));
      const ValueId part = groups_.ValueOf(Argument(i, 0));
      if (last == kNoNode || part == kNoValue) continue;
      calls.push_back({.aten = "clone", .inputs = {part}, .last = last, .nodes = {last}});
    }
  }

  // What the call `index` reads a part of, by torch.export's name; "" where it does not.
  std::string_view WholeOf(int32_t index) const {
    std::string_view whole;
    for (int32_t part = groups_.Find(Argument(index, 0)); part >= 0; part = groups_.Find(whole)) {
      const std::string_view target = groups_.At(part).call.target;
      if (target != "aten.slice.Tensor" && target != "aten.select.int") break;
      whole = Argument(part, 0);
    }
    return whole;
  }

  bool IsWritten(ValueId x, NodeId last) const {
    const NodeId maker = bound_.graph().values[Index(x)].producer;
    const auto is_before = [&](NodeId reader) { return reader <= last; };
    return maker != kNoNode && IsFloat(bound_.TypeOf(x).dtype) &&
           std::ranges::all_of(bound_.AllReadersOf(x), is_before);
  }

  const ExportedGroups& groups_;
  const BoundGraph& bound_;
};

}  // namespace

std::vector<Rewritten> FindSliceWrites(const ExportedGroups& groups) {
  return SliceWriteFinder(groups).Find();
}

std::optional<Rewritten> FindSliceWrite(const BoundGraph& bound, NodeId last) {
  const Node& node = bound.At(last);
  const ValueId places = node.inputs[1];
  const Dims& dims = bound.DimsOf(places);
  const bool is_whole = !dims.empty() && dims.back() == std::ssize(bound.DimsOf(node.inputs[0]));
  const NodeId joined = bound.Maker(places, "Concat");
  if (!IsNamedByTorchScript(node) || !is_whole || joined == kNoNode) return std::nullopt;
  if (!CountsPlaces(bound, places)) return std::nullopt;
  const std::set<NodeId> made = MadeFor(bound, places);
  Rewritten call = {"copy_slice", {node.inputs[0], node.inputs[2]}, last, {}};
  call.nodes.assign(made.begin(), made.end());
  call.nodes.push_back(last);
  return call;
}

}  // namespace onnxfit
