#include "estimator/fit/owners.h"

#include <fmt/format.h>

#include <utility>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

// By what the trace calls an operator: its module and ATen's name, numbered where a module has
// several, or that itself where it is a path or no module is known.  Numbers of a file, as in
// "node_Conv_754", change with every node before.
std::unordered_map<std::string_view, Owner> OwnersOfOperators(const Program& program) {
  std::unordered_map<std::string_view, Owner> owners;
  std::unordered_map<std::string, int> seen;
  for (const AtenCall& call : program.calls) {
    if (owners.contains(call.where)) continue;
    const std::string& module = program.modules.PathOf(call.module);
    std::string name = call.where;
    if (name.find('/') == std::string::npos && call.module != kOutside) {
      name = fmt::format("{}/{}", module, call.op);
      const int before = seen[name]++;
      if (before > 0) name += fmt::format("_{}", before);
    }
    owners.emplace(call.where, Owner{std::move(name), call.op, module});
  }
  return owners;
}

// "fc" of "fc.weight"; "" of a tensor of no module.
std::string_view ModuleOf(std::string_view tensor) {
  const size_t dot = tensor.rfind('.');
  return dot == tensor.npos ? "" : tensor.substr(0, dot);
}

}  // namespace

Owners::Owners(const Prediction& prediction)
    : trace_(prediction.trace), of_operators_(OwnersOfOperators(prediction.program)) {
  for (const auto* names : {&prediction.program.parameters, &prediction.program.frozen}) {
    for (const NameId name : *names) {
      parameters_.insert(prediction.program.values[Index(name)].name);
    }
  }
}

Owner Owners::Of(const LiveBuffer& live) const {
  const std::string& label = trace_.labels[Index(trace_.buffers[Index(live.buffer)].label)];
  switch (live.kind) {
    case Kind::kParameter:
    case Kind::kGradient:
    case Kind::kOptimizerState:
      return OfParameter(label);
    case Kind::kBuffer:
      return {label, "buffer", ModuleOf(label)};
    case Kind::kInput:
      return {label, "input", ""};
    case Kind::kWorkspace:
      return {label, "workspace", ""};
    case Kind::kActivation:
    case Kind::kTemporary:
      break;
  }
  return OfOperator(live.born, label);
}

// "fc.weight" for "fc.weight.exp_avg".
Owner Owners::OfParameter(const std::string& label) const {
  const std::string_view owner = ModuleOf(label);
  const bool is_owned = !parameters_.contains(label) && parameters_.contains(owner);
  const std::string_view parameter = is_owned ? owner : std::string_view(label);
  return {std::string(parameter), "parameter", ModuleOf(parameter)};
}

Owner Owners::OfOperator(int32_t born, const std::string& label) const {
  if (born < 0) return {label, "temporary", ""};
  const std::string& name = trace_.labels[Index(born)];
  const auto owner = of_operators_.find(name);
  return owner == of_operators_.end() ? Owner{name, "temporary", ""} : owner->second;
}

}  // namespace onnxfit
