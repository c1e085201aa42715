// Casts that an fp32 export has left out, and its lines, too: those that libraries are known for,
// and those that lines of torch.export's own refer to.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/libraries/libraries.h"
#include "estimator/lost/lost_calls.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

// "matmul" of "aten.matmul.default".
std::string_view OperatorName(std::string_view target) {
  target = target.substr(target.find('.') + 1);
  return target.substr(0, target.find('.'));
}

// Casts that no row tells.
constexpr CastRow kToFloat = {"", "", "", CastRow::Of::kFirst, CastRow::To::kFloat, -1, {}};
constexpr CastRow kBack = {"", "", "", CastRow::Of::kResult, CastRow::To::kRead, -1, {}};

class KnownCastFinder {
 public:
  explicit KnownCastFinder(const BoundGraph& bound) : bound_(bound) {}

  std::vector<LostCall> Find() {
    for (const FxGroup& group : bound_.metadata().groups) {
      if (IsGeneratedBy(group.nodes.back())) AddGenerated(group);
      const std::string_view op = OperatorName(group.call.target);
      const CastRow* counted = nullptr;  // each call counts once on the way through a line
      for (const CastRow& row : CastRows()) {
        if (row.op == op && IsAround(row, group)) Apply(row, group, counted);
      }
    }
    return std::move(calls_);
  }

 private:
  // One run of a line: what its first call read, and how often each operator was called.
  struct LineRun {
    ModuleId module = kOutside;
    ValueId read = kNoValue;
    std::map<std::string_view, int> calls;
  };

  // --- Graphs of torch.export's, of a part under torch.autocast (enabled=False) ---------------

  bool IsGeneratedBy(NodeId node) const {
    return IsGenerated(bound_.metadata().LinesOf(node).text);
  }

  // "matmul.default(transpose, to_2)" reads a cast of what the code around has made; what it makes
  // goes back to the type of that where other code reads it.
  void AddGenerated(const FxGroup& group) {
    const NodeId last = group.nodes.back();
    const std::vector<ValueId> operands = OperandsOf(group);
    const std::vector<std::string_view> names = NamesIn(bound_.metadata().LinesOf(last).innermost);
    LineRun& run = RunOf("torch.ops.", bound_.metadata().ModuleOf(last));
    for (size_t i = 0; i < operands.size() && names.size() == operands.size(); ++i) {
      const NodeId maker = bound_.graph().values[Index(operands[i])].producer;
      const bool is_cast = names[i] == "to" || names[i].starts_with("to_");
      if (!is_cast || maker == kNoNode || IsGeneratedBy(maker)) continue;
      if (run.read == kNoValue) run.read = operands[i];
      run.calls.try_emplace("to", 1);
      AddBefore(kToFloat, group, operands[i], run);
    }
    const auto is_outside = [&](NodeId reader) { return !IsGeneratedBy(reader); };
    const ValueId made = bound_.At(last).outputs[0];
    const bool leaves = std::ranges::any_of(bound_.AllReadersOf(made), is_outside);
    if (run.read != kNoValue && leaves) AddBehind(kBack, group, run);
  }

  // "x" and "y" of "z = torch.ops.aten.add.Tensor(x, y, 1);  x = None".
  static std::vector<std::string_view> NamesIn(std::string_view line) {
    std::vector<std::string_view> names;
    line = line.substr(0, line.find(';'));
    line.remove_prefix(std::min(line.find('(') + 1, line.size()));
    while (!line.empty()) {
      const size_t end = std::min(line.find_first_of(",)"), line.size());
      std::string_view name = line.substr(0, end);
      name.remove_prefix(std::min(name.find_first_not_of(" [("), name.size()));
      const bool is_name = !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) != 0;
      if (is_name && name.find('=') == std::string_view::npos) names.push_back(name);
      line.remove_prefix(std::min(end + 1, line.size()));
    }
    return names;
  }

  // --- Libraries' -----------------------------------------------------------------------------

  bool IsAround(const CastRow& row, const FxGroup& group) const {
    return std::ranges::any_of(bound_.metadata().LinesOf(group.nodes.back()).lines,
                               [&](const FileLine& line) {
                                 return line.file.find(row.file) != std::string_view::npos &&
                                        line.text.find(row.line) != std::string_view::npos;
                               });
  }

  // The run that the module call `module` is in, the last one or a new one.
  LineRun& RunOf(std::string_view line, ModuleId module) {
    LineRun& run = runs_[line];
    const ModuleTree& modules = bound_.metadata().modules;
    ModuleId within = module;
    while (within != kOutside && within != run.module) within = modules.CallerOf(within);
    if (!run.calls.empty() && within == run.module) return run;
    run = LineRun();
    run.module = module;
    return run;
  }

  // Tensors of floats that others made and the call reads, in the order of its nodes.
  std::vector<ValueId> OperandsOf(const FxGroup& group) const {
    std::vector<ValueId> operands;
    for (const NodeId node : group.nodes) {
      for (const ValueId value : bound_.At(node).inputs) {
        if (value == kNoValue || !IsFloat(bound_.TypeOf(value).dtype)) continue;
        const NodeId maker = bound_.graph().values[Index(value)].producer;
        const bool is_inner = std::ranges::find(group.nodes, maker) != group.nodes.end();
        const bool is_number = maker != kNoNode && bound_.IsNumber(value);
        const bool is_known = std::ranges::find(operands, value) != operands.end();
        if (!is_inner && !is_number && !is_known) operands.push_back(value);
      }
    }
    return operands;
  }

  void Apply(const CastRow& row, const FxGroup& group, const CastRow*& counted) {
    const std::vector<ValueId> operands = OperandsOf(group);
    if (operands.empty()) return;
    LineRun& run = RunOf(row.line, bound_.metadata().ModuleOf(group.nodes.back()));
    if (counted == nullptr || counted->line != row.line) ++run.calls[row.op];
    counted = &row;
    if (row.nth >= 0 && run.calls[row.op] != row.nth + 1) return;
    const bool tells_read = row.of != CastRow::Of::kResult || row.to == CastRow::To::kRead;
    if (tells_read && run.read == kNoValue) run.read = operands[0];
    if (row.of == CastRow::Of::kResult) return AddBehind(row, group, run);
    for (size_t i = 0; i < operands.size(); ++i) {
      const bool is_it = row.of == CastRow::Of::kFirst ? i == 0 : bound_.IsStored(operands[i], 1);
      if (is_it) AddBefore(row, group, operands[i], run);
    }
  }

  // What is cast is cast once in a module, whoever reads it there.
  void AddBefore(const CastRow& row, const FxGroup& group, ValueId value, const LineRun& run) {
    std::string& name = names_[{value, run.module}];
    if (name.empty()) name = NameOf(bound_.At(group.nodes.back()).outputs[0], value);
    for (const NodeId node : group.nodes) {
      if (std::ranges::find(bound_.At(node).inputs, value) == bound_.At(node).inputs.end())
        continue;
      calls_.push_back({.before = node, .input = value, .name = name, .op = "to.inline"});
      if (row.to == CastRow::To::kFloat) continue;
      calls_.back().op = "type_as.inline";
      calls_.back().like = run.read;
    }
  }

  void AddBehind(const CastRow& row, const FxGroup& group, const LineRun& run) {
    const ValueId made = bound_.At(group.nodes.back()).outputs[0];
    calls_.push_back({.input = made,
                      .name = std::string(bound_.NameOf(made)) + ".cast",
                      .op = "to.inline",
                      .behind = group.nodes.back(),
                      .caller = ModuleOfLine(row, group.nodes.back())});
    if (row.to == CastRow::To::kFloat) return;
    calls_.back().op = "type_as.inline";
    calls_.back().like = run.read;
  }

  // Whose forward casts: that of the call, or its caller's, where the line names the module.
  ModuleId ModuleOfLine(const CastRow& row, NodeId node) const {
    const ExporterMetadata& metadata = bound_.metadata();
    const ModuleId module = metadata.ModuleOf(node);
    if (module == kOutside) return module;
    const std::string called = fmt::format("self.{}", ChildOf(metadata.PathOf(node)));
    const bool is_called = row.line.starts_with(called + ".") || row.line.starts_with(called + "(");
    return is_called ? metadata.modules.CallerOf(module) : module;
  }

  std::string NameOf(ValueId result, ValueId operand) const {
    return fmt::format("{}.{}.float", bound_.NameOf(result), bound_.NameOf(operand));
  }

  const BoundGraph& bound_;
  std::vector<LostCall> calls_;
  std::map<std::string_view, LineRun> runs_;
  std::map<std::pair<ValueId, ModuleId>, std::string> names_;
};

// Of scans in files without lines.
class ScanCastFinder {
 public:
  explicit ScanCastFinder(const BoundGraph& bound) : bound_(bound) {
    for (const Initializer& stored : bound.graph().initializers) {
      const std::string_view name = bound.NameOf(stored.value);
      if (ChildOf(name) == "A_log") scans_.insert(ParentOf(name));
    }
    for (const NodeOrigin& origin : bound.metadata().origins) {
      const std::string& path = bound.metadata().modules.PathOf(origin.module);
      if (scans_.contains(ParentOf(path))) children_[ParentOf(path)].insert(ChildOf(path));
    }
  }

  std::vector<LostCall> Find() {
    const bool has_lines = bound_.metadata().lines.size() > 1;
    for (NodeId node = 0; !has_lines && node < static_cast<NodeId>(bound_.graph().nodes.size());
         ++node) {
      const std::string& path = ScanOf(node);
      if (path.empty()) continue;
      for (const ScanCast& row : ScanCasts()) Apply(row, node, path);
    }
    return std::move(calls_);
  }

 private:
  // The module whose forward runs `node`, if it scans, else "".
  const std::string& ScanOf(NodeId node) const {
    static const std::string kNone;
    const std::string& path = bound_.metadata().PathOf(node);
    return scans_.contains(path) ? path : kNone;
  }

  void Apply(const ScanCast& row, NodeId id, const std::string& path) {
    const Node& node = bound_.At(id);
    const auto children = children_.find(path);
    if (node.op_type != row.op_type || children == children_.end() ||
        !children->second.contains(row.child)) {
      return;
    }
    const auto rank = static_cast<int16_t>(bound_.DimsOf(node.outputs[0]).size());
    if (row.rank >= 0 && rank != row.rank) return;
    const int count = counts_[{&row, path}]++;
    if (row.nth >= 0 && count != row.nth) return;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (row.operand >= 0 && static_cast<size_t>(row.operand) != i) continue;
      AddBefore(id, node.inputs[i], row.to_other ? node.inputs[i == 0 ? 1 : 0] : kNoValue);
    }
  }

  // To the type of `like`, if there is one.
  void AddBefore(NodeId node, ValueId value, ValueId like) {
    const bool is_tensor =
        value != kNoValue && IsFloat(bound_.TypeOf(value).dtype) && Numel(bound_.DimsOf(value)) > 1;
    if (!is_tensor) return;
    calls_.push_back(
        {.before = node,
         .input = value,
         .name = fmt::format("{}.{}", bound_.NameOf(value), like == kNoValue ? "float" : "cast"),
         .op = like == kNoValue ? "to.inline" : "type_as.inline",
         .like = like});
  }

  const BoundGraph& bound_;
  std::set<std::string_view> scans_;
  std::map<std::string_view, std::set<std::string_view>> children_;
  std::map<std::pair<const ScanCast*, std::string>, int> counts_;
  std::vector<LostCall> calls_;
};

}  // namespace

std::vector<LostCall> FindKnownCasts(const BoundGraph& bound) {
  std::vector<LostCall> calls = KnownCastFinder(bound).Find();
  for (LostCall& call : ScanCastFinder(bound).Find()) calls.push_back(std::move(call));
  return calls;
}

}  // namespace onnxfit
