// Casts that an fp32 export has left out and a line of the model's spells beside calls that left
// nodes: "g.to(u.dtype) * u", "F.normalize(q.float(), dim=-1).to(v.dtype)".
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/lost/lost_calls.h"
#include "estimator/program/forward_variables.h"
#include "estimator/program/identifiers.h"
#include "estimator/program/source_statement.h"
#include "estimator/program/spelled_casts.h"

namespace onnxfit {
namespace {

constexpr std::string_view kFloat32 = "torch.float32";

// A node's first, kNoValue where nobody wants that.
ValueId ResultOf(const Node& node) { return node.outputs.empty() ? kNoValue : node.outputs[0]; }

// "return super().forward(x).to(x.dtype)": the next frame is of the same module.
bool CallsBase(const BoundGraph& bound, StatementId statement) {
  return statement != kNoStatement &&
         bound.metadata().source.At(statement).text.find("super().forward(") != std::string::npos;
}

constexpr ModuleId kUnknown = -1;

// The module whose forward has the frame at `level` of the node's lines; kUnknown where the file
// has frames that are no module's.
ModuleId ModuleAt(const BoundGraph& bound, NodeId node, size_t level) {
  const std::vector<StatementId>& frames = bound.metadata().LinesOf(node).frames;
  const ModuleTree& modules = bound.metadata().modules;
  ModuleId module = bound.metadata().ModuleOf(node);
  const bool calls_bases = frames.size() != modules.DepthOf(module);
  ModuleId at_level = module;
  for (size_t at = frames.size(); at-- > 0;) {
    if (at == level) at_level = module;
    const bool is_same = at > 0 && calls_bases && CallsBase(bound, frames[at - 1]);
    if (!is_same) module = modules.CallerOf(module);
    if (module == kOutside && at > 0) return kUnknown;
  }
  return module == kOutside ? at_level : kUnknown;
}

// One run of a forward: its frame is that at `level` of the nodes' lines.
struct ForwardRun {
  ModuleId module = kOutside;
  size_t level = 0;
  bool operator==(const ForwardRun&) const = default;
};

// Nodes of one run of a forward and of the modules that it calls; those without lines are none.
class NodesOfForward final : public LinedCalls {
 public:
  // Around `node`.
  NodesOfForward(const BoundGraph& bound, NodeId node, ForwardRun run) : bound_(bound), run_(run) {
    NodeId first = node;
    while (first > 0 && MayBeIn(first - 1)) --first;
    const auto end = static_cast<NodeId>(bound.graph().nodes.size());
    for (NodeId other = first; other < end && MayBeIn(other); ++other) {
      if (!bound.metadata().LinesOf(other).frames.empty()) nodes_.push_back(other);
    }
  }

  const std::vector<NodeId>& nodes() const { return nodes_; }
  bool IsAround(NodeId node, const ForwardRun& run) const {
    return run == run_ && std::ranges::binary_search(nodes_, node);
  }
  size_t IndexOf(NodeId node) const {
    return static_cast<size_t>(std::ranges::lower_bound(nodes_, node) - nodes_.begin());
  }

  size_t size() const override { return nodes_.size(); }
  int64_t StatementAt(size_t call) const override { return StatementOf(call); }
  std::string_view TextAt(size_t call) const override {
    const StatementId statement = StatementOf(call);
    return statement == kNoStatement ? std::string_view() : At(statement).text;
  }
  std::vector<std::string> TargetsAt(size_t call) const override {
    const StatementId statement = StatementOf(call);
    return statement == kNoStatement ? std::vector<std::string>() : At(statement).targets;
  }
  std::vector<std::string_view> ReadsAt(size_t call) const override {
    return NamesOf(bound_.At(nodes_[call]).inputs);
  }
  std::vector<std::string_view> MakesAt(size_t call) const override {
    return NamesOf(bound_.At(nodes_[call]).outputs);
  }
  TensorIndex FindPassed(std::string_view tensor) const override {
    const ValueId value = FindValue(tensor);
    const bool is_own = value == kNoValue || bound_.graph().values[Index(value)].initializer >= 0;
    return is_own || !IsFloat(bound_.TypeOf(value).dtype) ? kNoValue : value;
  }

  // A value that one of the nodes reads or makes; kNoValue of others.
  ValueId FindValue(std::string_view name) const {
    if (values_.empty()) {
      for (const NodeId node : nodes_) {
        for (const ValueId value : bound_.At(node).inputs) AddValue(value);
        for (const ValueId value : bound_.At(node).outputs) AddValue(value);
      }
    }
    const auto found = values_.find(name);
    return found == values_.end() ? kNoValue : found->second;
  }

 private:
  bool MayBeIn(NodeId node) const {
    const size_t depth = bound_.metadata().LinesOf(node).frames.size();
    return depth == 0 || (depth > run_.level && ModuleAt(bound_, node, run_.level) == run_.module);
  }
  StatementId StatementOf(size_t call) const {
    return bound_.metadata().LinesOf(nodes_[call]).frames[run_.level];
  }
  const SourceStatement& At(StatementId statement) const {
    return bound_.metadata().source.At(statement);
  }
  std::vector<std::string_view> NamesOf(const std::vector<ValueId>& values) const {
    std::vector<std::string_view> names;
    for (const ValueId value : values) {
      const bool is_float = value != kNoValue && IsFloat(bound_.TypeOf(value).dtype);
      if (is_float) names.push_back(bound_.NameOf(value));
    }
    return names;
  }
  void AddValue(ValueId value) const {
    if (value != kNoValue) values_.emplace(bound_.NameOf(value), value);
  }

  const BoundGraph& bound_;
  ForwardRun run_;
  std::vector<NodeId> nodes_;
  mutable std::map<std::string_view, ValueId> values_;
};

// What a line assigns or returns, or all of it.
std::string_view ValueIn(std::string_view line) {
  const size_t assigned = line.find(" = ");
  const bool assigns =
      assigned != line.npos && line.substr(0, assigned).find_first_of("([") == line.npos;
  return assigns ? line.substr(assigned + 3) : line;
}

// What a line has in place of a cast, and who reads that.
struct CastOperand {
  ValueId value = kNoValue;
  std::vector<NodeId> readers = {};  // in the line
  NodeId behind = kNoNode;           // the line's last, where all that it makes is cast
};

// Whose type a cast has.
struct CastType {
  bool is_known = false;
  ValueId like = kNoValue;  // kNoValue: fp32
  bool is_held = false;     // by a variable
};

class LineCastFinder {
 public:
  LineCastFinder(const BoundGraph& bound, std::vector<LostCall>& calls)
      : bound_(bound), calls_(calls) {
    for (const LostCall& call : calls) NoteKnown(call);
  }

  void Add() {
    std::vector<std::pair<ModuleId, StatementId>> last;  // of the node before, by level
    for (NodeId node = 0; node < static_cast<NodeId>(bound_.graph().nodes.size()); ++node) {
      const std::vector<StatementId>& frames = bound_.metadata().LinesOf(node).frames;
      if (frames.empty()) continue;
      std::vector<std::pair<ModuleId, StatementId>> here;
      for (size_t level = 0; level < frames.size(); ++level) {
        here.emplace_back(ModuleAt(bound_, node, level), frames[level]);
        const bool goes_on = level < last.size() && last[level] == here[level];
        const bool is_known = frames[level] != kNoStatement && here[level].first != kUnknown;
        if (!goes_on && is_known) AddLine(node, {here[level].first, level});
      }
      last = std::move(here);
    }
    for (const FxGroup& group : bound_.metadata().groups) {
      if (IsNamedForTypeAs(bound_, group.nodes.back())) AddNamed(group.nodes.back());
    }
    for (const auto& [last, run] : widening_) AddReturned(last, run);
  }

 private:
  // A line, whose first node is `first`, in a run of a forward.
  struct Line {
    const NodesOfForward& forward;
    ForwardRun run;
    std::string text;
    std::vector<SpelledCast> casts;
    std::vector<NodeId> nodes;
  };

  void AddLine(NodeId first, const ForwardRun& run) {
    const StatementId statement = bound_.metadata().LinesOf(first).frames[run.level];
    const SourceStatement& source = bound_.metadata().source.At(statement);
    if (source.is_generated) return;
    std::string text = WithFloat32(source.text);
    std::vector<SpelledCast> casts = SpelledCastsOf(text);
    if (casts.empty()) return;
    const NodesOfForward forward(bound_, first, run);
    Line line{forward, run, std::move(text), std::move(casts), {}};
    for (size_t at = forward.IndexOf(first); at < forward.size(); ++at) {
      if (forward.StatementAt(at) != statement) break;
      line.nodes.push_back(forward.nodes()[at]);
    }
    for (const SpelledCast& cast : line.casts) AddCast(line, cast);
  }

  void AddCast(const Line& line, const SpelledCast& cast) {
    const CastOperand operand = FindOperand(line, cast);
    if (operand.value == kNoValue || !IsFloat(bound_.TypeOf(operand.value).dtype)) return;
    if (bound_.DimsOf(operand.value).empty()) return;  // a number, which may be the host's
    const CastType type = FindType(line, cast, operand);
    if (!type.is_known || type.like == operand.value) return;
    LostCall call = {.input = operand.value,
                     .name = NameOf(operand, type),
                     .op = type.like == kNoValue || type.is_held ? "to.inline" : "type_as.inline",
                     .behind = operand.behind,
                     .caller = line.run.module,
                     .like = type.like,
                     .frames = line.run.level + 1,
                     .is_type_held = type.is_held};
    if (operand.behind != kNoNode) Put(call);
    for (const NodeId reader : operand.readers) {
      call.before = reader;
      Put(call);
    }
    const bool is_passed = !operand.readers.empty() && IsPassed(line.forward, operand.value);
    if (is_passed && type.like == kNoValue)
      widening_.emplace(line.forward.nodes().back(), line.run);
  }

  bool IsPassed(const NodesOfForward& forward, ValueId value) const {
    const NodeId maker = bound_.graph().values[Index(value)].producer;
    return forward.FindPassed(bound_.NameOf(value)) != kNoValue &&
           (maker == kNoNode || !std::ranges::binary_search(forward.nodes(), maker));
  }

  // "return y.to(x.dtype)" behind "y = f(x.float())", the last line that made a node, where a layer
  // reads what is returned: with weights of another type it would refuse fp32.
  void AddReturned(NodeId last, const ForwardRun& run) {
    const SourceStatement& line =
        bound_.metadata().source.At(bound_.metadata().LinesOf(last).frames[run.level]);
    const ValueId made = ResultOf(bound_.At(last));
    if (line.returns || line.targets.empty() || made == kNoValue) return;
    const NodesOfForward forward(bound_, last, run);
    const auto is_within = [&](NodeId reader) {
      return std::ranges::binary_search(forward.nodes(), reader);
    };
    if (made_.contains(made) || std::ranges::any_of(bound_.AllReadersOf(made), is_within)) return;
    const CastType type = HeldType(forward, last, made);
    if (!type.is_known || !FeedsLayer(made)) return;
    Put({.input = made,
         .name = fmt::format("{}.cast", bound_.NameOf(made)),
         .op = "type_as",
         .behind = last,
         .like = type.like});
  }

  // Whether a layer reads it, or what views and activations make of it.
  bool FeedsLayer(ValueId value) const {
    constexpr std::string_view kPassing[] = {"Relu",    "Gelu",    "Sigmoid",   "Tanh",
                                             "Dropout", "Reshape", "Transpose", "Identity"};
    constexpr int kMostSteps = 8;
    for (int step = 0; step < kMostSteps && value != kNoValue; ++step) {
      const std::span<const NodeId> readers = bound_.ReadersOf(value);
      if (std::ranges::any_of(readers, [&](NodeId node) { return IsLayer(node); })) return true;
      const auto passes = std::ranges::find_if(readers, [&](NodeId node) {
        return std::ranges::find(kPassing, bound_.At(node).op_type) != std::end(kPassing);
      });
      value = passes == readers.end() ? kNoValue : bound_.At(*passes).outputs[0];
    }
    return false;
  }

  // A product with a weight of the file, which may be transposed.
  bool IsLayer(NodeId node) const {
    const std::string_view type = bound_.At(node).op_type;
    if (type != "MatMul" && type != "Gemm" && type != "Conv") return false;
    const ValueId factor = bound_.At(node).inputs[1];
    const NodeId transpose = bound_.Maker(factor, "Transpose");
    const ValueId weight = transpose == kNoNode ? factor : bound_.At(transpose).inputs[0];
    return bound_.graph().values[Index(weight)].initializer >= 0;
  }

  std::string NameOf(const CastOperand& operand, const CastType& type) const {
    const NodeId namer = operand.readers.empty() ? operand.behind : operand.readers.front();
    const std::string_view made =
        namer == kNoNode ? std::string_view() : bound_.NameOf(bound_.At(namer).outputs[0]);
    return fmt::format("{}.{}.{}", bound_.NameOf(operand.value), made,
                       type.like == kNoValue ? "float" : "cast");
  }

  // "return out.type_as(x)" of what `maker` makes: of what was cast to fp32 in a forward around it.
  void AddNamed(NodeId maker) {
    const ValueId made = bound_.At(maker).outputs[0];
    if (made_.contains(made)) return;
    for (size_t level = bound_.metadata().LinesOf(maker).frames.size(); level-- > 0;) {
      const ForwardRun run{ModuleAt(bound_, maker, level), level};
      if (run.module == kUnknown) return;
      const NodesOfForward forward(bound_, maker, run);
      const CastType type = HeldType(forward, maker, made);
      if (!type.is_known) continue;
      return Put({.input = made,
                  .name = fmt::format("{}.cast", bound_.NameOf(made)),
                  .op = "type_as",
                  .behind = maker,
                  .like = type.like});
    }
  }

  void Put(const LostCall& call) {
    if (!IsNew(call)) return;
    NoteKnown(call);
    calls_.push_back(call);
  }

  bool IsNew(const LostCall& call) const {
    return call.behind != kNoNode ? !made_.contains(call.input)
                                  : !read_.contains({call.before, call.input});
  }

  void NoteKnown(const LostCall& call) {
    if (call.behind != kNoNode) made_.insert(call.input);
    read_.insert({call.before, call.input});
    const bool widens = call.op.starts_with("to") && call.like == kNoValue;
    if (widens && call.before != kNoNode) widened_.insert({call.before, call.input});
  }

  // --- What is cast -------------------------------------------------------------------------

  CastOperand FindOperand(const Line& line, const SpelledCast& cast) const {
    if (cast.is_whole && cast.receiver.empty()) return WholeOf(line);
    if (IsIdentifier(cast.receiver)) {
      return ReadAs(line, cast, ValueBoundTo(line, cast.receiver));
    }
    if (!cast.receiver.empty()) return ReadAs(line, cast, OwnTensor(line, cast.receiver));
    if (cast.operand.ends_with(')')) return ResultOfChild(line, cast.operand);
    if (cast.operand.ends_with(']')) return PartOf(line, cast);
    return {};
  }

  // What the line makes and itself reads no more.
  CastOperand WholeOf(const Line& line) const {
    const NodeId last = line.nodes.back();
    const ValueId made = ResultOf(bound_.At(last));
    if (made == kNoValue || bound_.At(last).op_type == "Cast") return {};
    const auto is_in_line = [&](NodeId node) {
      return std::ranges::find(line.nodes, node) != line.nodes.end();
    };
    if (std::ranges::any_of(bound_.AllReadersOf(made), is_in_line)) return {};
    return {.value = made, .behind = last};
  }

  // By all that read it in the line, where that names it for casts of one type alone.
  CastOperand ReadAs(const Line& line, const SpelledCast& cast, ValueId value) const {
    const auto is_same = [&](const SpelledCast& other) {
      return other.receiver == cast.receiver && other.type == cast.type;
    };
    const auto same = static_cast<size_t>(std::ranges::count_if(line.casts, is_same));
    if (value == kNoValue || CountReads(ValueIn(line.text), cast.receiver) != same) return {};
    return {.value = value, .readers = ReadersIn(line, value)};
  }

  std::vector<NodeId> ReadersIn(const Line& line, ValueId value) const {
    std::vector<NodeId> readers;
    for (const NodeId node : line.nodes) {
      const std::span<const NodeId> all = bound_.ReadersOf(value);
      if (std::ranges::find(all, node) != all.end()) readers.push_back(node);
    }
    return readers;
  }

  // "self.scale" of the module whose forward it is.
  ValueId OwnTensor(const Line& line, std::string_view attribute) const {
    constexpr std::string_view kSelf = "self.";
    if (!attribute.starts_with(kSelf)) return kNoValue;
    attribute.remove_prefix(kSelf.size());
    const std::string& path = bound_.metadata().modules.PathOf(line.run.module);
    const std::string name =
        path.empty() ? std::string(attribute) : path + "." + std::string(attribute);
    const ValueId value = line.forward.FindValue(name);
    const bool is_stored =
        value != kNoValue && bound_.graph().values[Index(value)].initializer >= 0;
    return is_stored ? value : kNoValue;
  }

  // Of "self.g(x)".
  CastOperand ResultOfChild(const Line& line, std::string_view operand) const {
    constexpr std::string_view kSelf = "self.";
    const std::string_view called = operand.substr(0, operand.find('('));
    const bool is_own = called.starts_with(kSelf) && IsIdentifier(called.substr(kSelf.size()));
    if (!is_own) return {};
    NodeId last = kNoNode;
    for (const NodeId node : line.nodes) {
      if (ChildAround(line, node) == called.substr(kSelf.size())) last = node;
    }
    const ValueId made = last == kNoNode ? kNoValue : ResultOf(bound_.At(last));
    if (made == kNoValue) return {};
    return {.value = made, .readers = ReadersIn(line, made)};
  }

  // The module that the line calls to run the node, by its name; "" of the forward's own.
  std::string_view ChildAround(const Line& line, NodeId node) const {
    if (bound_.metadata().LinesOf(node).frames.size() <= line.run.level + 1) return "";
    const ModuleId child = ModuleAt(bound_, node, line.run.level + 1);
    return ChildOf(bound_.metadata().modules.PathOf(child));
  }

  // Of "self.table[:, :n]" or "h[:, 0]": what the line's views make of it.
  CastOperand PartOf(const Line& line, const SpelledCast& cast) const {
    const std::string_view operand = cast.operand;
    const std::string_view whole = operand.substr(0, operand.find('['));
    ValueId value = IsIdentifier(whole) ? ValueBoundTo(line, whole) : OwnTensor(line, whole);
    if (value == kNoValue || CountReads(ValueIn(line.text), whole) != 1) return {};
    std::vector<NodeId> readers = ReadersIn(line, value);
    while (readers.size() == 1 && IsPart(readers[0])) {
      value = bound_.At(readers[0]).outputs[0];
      readers = ReadersIn(line, value);
    }
    return {.value = value, .readers = std::move(readers)};
  }

  bool IsPart(NodeId node) const {
    const std::string_view type = bound_.At(node).op_type;
    return type == "Slice" || type == "Gather" || type == "Unsqueeze" || type == "Squeeze" ||
           type == "Identity";  // of all
  }

  // --- Whose type it has --------------------------------------------------------------------

  CastType FindType(const Line& line, const SpelledCast& cast, const CastOperand& operand) const {
    if (cast.type == kFloat32) return {.is_known = true};
    const bool is_tensors = cast.method == "type_as";
    const std::string_view tensor = is_tensors ? cast.type : TypedTensor(cast.type);
    if (IsIdentifier(tensor)) return TypeLike(ValueBoundTo(line, tensor));
    if (!IsIdentifier(cast.type)) return {};
    const size_t at = line.forward.IndexOf(line.nodes.front());
    if (LastBinding(line.forward, at, cast.type) != line.forward.size())
      return TypeLike(ValueBoundTo(line, cast.type));  // x.to(y)
    return HeldType(line.forward, line.nodes.back(), operand.value);
  }

  static CastType TypeLike(ValueId value) { return {.is_known = value != kNoValue, .like = value}; }

  // That of what the forward has cast to fp32 first, of all that `value` is by node `last`.
  CastType HeldType(const NodesOfForward& forward, NodeId last, ValueId value) const {
    const std::vector<NodeId>& nodes = forward.nodes();
    const auto widened = [&](size_t call) {
      for (const ValueId read : bound_.At(nodes[call]).inputs) {
        if (widened_.contains({nodes[call], read})) return read;
      }
      return kNoValue;
    };
    const size_t first = FirstWidened(forward, forward.IndexOf(last) + 1, {bound_.NameOf(value)},
                                      [&](size_t call) { return widened(call) != kNoValue; });
    if (first == forward.size()) return {};
    return {.is_known = true, .like = widened(first), .is_held = true};
  }

  // What a statement before the line has bound to the variable, or the forward was passed.
  ValueId ValueBoundTo(const Line& line, std::string_view variable) const {
    const NodesOfForward& forward = line.forward;
    const size_t binding = LastBinding(forward, forward.IndexOf(line.nodes.front()), variable);
    if (binding == forward.size()) return PassedAs(forward, variable);
    if (forward.TargetsAt(binding).size() != 1)
      return forward.FindValue(PartBoundTo(forward, binding, variable));
    return ResultOf(bound_.At(forward.nodes()[binding]));
  }

  const BoundGraph& bound_;
  std::vector<LostCall>& calls_;
  std::set<ValueId> made_;                        // what is cast behind its maker
  std::set<std::pair<NodeId, ValueId>> read_;     // and before a reader
  std::set<std::pair<NodeId, ValueId>> widened_;  // of these, to fp32
  std::map<NodeId, ForwardRun> widening_;         // forwards that cast what they are passed, by end
};

}  // namespace

namespace {

// Whether the line calls PyTorch's own norm, which has such a cast and is taken apart here
// (aten/src/ATen/native/layer_norm.cpp): a root that the line does not spell.
bool IsOfOwnNorm(const BoundGraph& bound, NodeId node) {
  const ExporterMetadata& metadata = bound.metadata();
  const NodeLines& lines = metadata.LinesOf(node);
  if (lines.innermost.find("sqrt(") != std::string_view::npos || lines.frames.empty()) return false;
  for (NodeId other = node; other >= 0; --other) {
    if (metadata.LinesOf(other).frames != lines.frames) return false;
    if (bound.At(other).op_type == "Sqrt") return true;
  }
  return false;
}

}  // namespace

bool IsNamedForTypeAs(const BoundGraph& bound, NodeId node) {
  constexpr std::string_view kMethod = "type_as";
  const FxNode* call = bound.metadata().CallOf(node);
  const ValueId made = ResultOf(bound.At(node));
  if (call == nullptr || made == kNoValue) return false;
  if (IsOfOwnNorm(bound, node)) return false;
  std::string_view name = bound.NameOf(made);
  if (!name.starts_with(kMethod) || name == call->name) return false;
  name.remove_prefix(kMethod.size());
  return name.empty() || name.starts_with('_');
}

void AddLineCasts(const BoundGraph& bound, std::vector<LostCall>& calls) {
  LineCastFinder(bound, calls).Add();
}

}  // namespace onnxfit
