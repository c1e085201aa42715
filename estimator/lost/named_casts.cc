// Casts of parameters that an fp32 export has left out and its lines show.
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

}  // namespace onnxfit
