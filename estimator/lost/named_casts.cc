// Casts that an fp32 export has left out and its lines show: to the type of a variable, of a
// parameter.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/lost/lost_calls.h"
#include "estimator/program/source_statement.h"

namespace onnxfit {
namespace {

// "key" of "x = f(y).to(key.dtype)", where that ends the line and is its only cast; else "".
std::string_view TypedLike(std::string_view line) {
  constexpr std::string_view kCast = ").to(";
  constexpr std::string_view kType = ".dtype)";
  const size_t cast = line.find(kCast);
  const bool is_only = cast != line.npos && line.find(".to(", cast + kCast.size()) == line.npos;
  if (!is_only || !line.ends_with(kType) || line.find("float") < cast) return "";
  line.remove_prefix(cast + kCast.size());
  line.remove_suffix(kType.size());
  return line.find_first_of("(.[, ") == line.npos ? line : "";
}

class NamedCastFinder {
 public:
  explicit NamedCastFinder(const BoundGraph& bound) : bound_(bound) {}

  std::vector<LostCall> Find() {
    for (const FxGroup& group : bound_.metadata().groups) Add(group);
    return std::move(calls_);
  }

 private:
  void Add(const FxGroup& group) {
    const NodeId last = group.nodes.back();
    const std::string_view variable = TypedLike(bound_.metadata().LinesOf(last).innermost);
    if (variable.empty() || IsCast(group) || !IsLastOfLine(last)) return;
    const ValueId made = bound_.At(last).outputs[0];
    const ValueId like = BoundTo(variable, last);
    if (like == kNoValue || !IsFloat(bound_.TypeOf(made).dtype)) return;
    for (const NodeId reader : bound_.ReadersOf(made)) {
      calls_.push_back({.before = reader,
                        .input = made,
                        .name = std::string(bound_.NameOf(made)) + ".cast",
                        .op = "type_as.inline",
                        .behind = last,
                        .like = like});
    }
  }

  static bool IsCast(const FxGroup& group) {
    return group.call.target.find("_to_copy") != std::string_view::npos;
  }

  // What it makes is read by other lines alone.
  bool IsLastOfLine(NodeId node) const {
    const NodeLines& lines = bound_.metadata().LinesOf(node);
    return HasResult(bound_.At(node)) &&
           std::ranges::none_of(
               bound_.AllReadersOf(bound_.At(node).outputs[0]),
               [&](NodeId reader) { return bound_.metadata().LinesOf(reader).text == lines.text; });
  }

  // What the last line of the forward around `node` has bound to `variable` before.
  ValueId BoundTo(std::string_view variable, NodeId node) const {
    const std::vector<StatementId>& frames = bound_.metadata().LinesOf(node).frames;
    if (frames.empty()) return kNoValue;
    const size_t level = frames.size() - 1;
    for (NodeId id = node - 1; id >= 0; --id) {
      if (!IsCalledBy(id, node)) continue;
      const std::vector<StatementId>& others = bound_.metadata().LinesOf(id).frames;
      if (others.size() <= level || others[level] == kNoStatement) continue;
      if (others[level] == frames[level]) continue;
      const std::vector<std::string>& targets = bound_.metadata().source.At(others[level]).targets;
      if (targets.size() == 1 && targets[0] == variable) return bound_.At(id).outputs[0];
    }
    return kNoValue;
  }

  // Whether the forward that runs `node` runs `id`, too, itself or in a module that it calls.
  bool IsCalledBy(NodeId id, NodeId node) const {
    const ExporterMetadata& metadata = bound_.metadata();
    ModuleId module = metadata.ModuleOf(id);
    while (module != kOutside && module != metadata.ModuleOf(node)) {
      module = metadata.modules.CallerOf(module);
    }
    return module == metadata.ModuleOf(node);
  }

  const BoundGraph& bound_;
  std::vector<LostCall> calls_;
};

// "weight" of "layers.0.weight", a tensor of the module "layers.0"; "" of other modules' tensors.
std::string_view NameWithin(std::string_view module, std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == name.npos) return module.empty() ? name : "";
  return name.substr(0, dot) == module ? name.substr(dot + 1) : "";
}

// Whether a line casts the module's own tensor of that name: "-torch.exp(self.A_log.float())".
// Where it casts what the forward was given, too, the result goes back, which no line shows.
bool CastsOwn(std::string_view line, std::string_view name) {
  constexpr std::string_view kCasts[] = {".float()", ".to(torch.float32)"};
  const std::string spelled = WithFloat32(line);
  bool is_cast = false;
  for (const std::string_view cast : kCasts) {
    for (size_t at = spelled.find(cast); at != spelled.npos; at = spelled.find(cast, at + 1)) {
      const std::string_view before = std::string_view(spelled).substr(0, at);
      const std::string_view operand = before.substr(before.find_last_of(" (,-") + 1);
      if (!operand.starts_with("self.")) return false;
      is_cast = is_cast || operand.substr(operand.find('.') + 1) == name;
    }
  }
  return is_cast;
}

}  // namespace

void AddParameterCasts(const BoundGraph& bound, std::vector<LostCall>& calls) {
  const ExporterMetadata& metadata = bound.metadata();
  for (NodeId node = 0; node < std::ssize(bound.graph().nodes); ++node) {
    const std::string_view line = metadata.LinesOf(node).innermost;
    const std::vector<ValueId>& made = bound.At(node).outputs;
    if (line.find("self.") == line.npos || made.empty() || made[0] == kNoValue) continue;
    for (const ValueId read : bound.At(node).inputs) {
      if (read == kNoValue || bound.graph().values[Index(read)].initializer < 0) continue;
      const std::string_view name = NameWithin(metadata.PathOf(node), bound.NameOf(read));
      if (name.empty() || !IsFloat(bound.TypeOf(read).dtype) || !CastsOwn(line, name)) continue;
      const bool is_known = std::ranges::any_of(calls, [=](const LostCall& other) {
        return other.before == node && other.input == read;
      });
      if (is_known) continue;
      calls.push_back({.before = node,
                       .input = read,
                       .name = std::string(bound.NameOf(made[0])) + ".float",
                       .op = "to.inline"});
    }
  }
}

std::vector<LostCall> FindNamedCasts(const BoundGraph& bound) {
  return NamedCastFinder(bound).Find();
}

}  // namespace onnxfit
