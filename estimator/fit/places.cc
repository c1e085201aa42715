#include "estimator/fit/places.h"

#include <fmt/format.h>

#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/fit/predict.h"
#include "estimator/memory/timeline.h"

namespace onnxfit {
namespace {

struct Owner {
  std::string name;
  std::string_view op;
};

// By what the trace calls an operator: its module and ATen's name, numbered where a module has
// several, or that itself where it is a path or no module is known.  Numbers of a file, as in
// "node_Conv_754", change with every node before.
std::unordered_map<std::string_view, Owner> OwnersOf(const Program& program) {
  std::unordered_map<std::string_view, Owner> owners;
  std::unordered_map<std::string, int> seen;
  for (const AtenCall& call : program.calls) {
    if (owners.contains(call.where)) continue;
    std::string name = call.where;
    if (name.find('/') == std::string::npos && call.module != kOutside) {
      name = fmt::format("{}/{}", program.modules.PathOf(call.module), call.op);
      const int before = seen[name]++;
      if (before > 0) name += fmt::format("_{}", before);
    }
    owners.emplace(call.where, Owner{std::move(name), call.op});
  }
  return owners;
}

class Attribution {
 public:
  explicit Attribution(const Prediction& prediction)
      : trace_(prediction.trace), owners_(OwnersOf(prediction.program)) {
    for (const auto* names : {&prediction.program.parameters, &prediction.program.frozen}) {
      for (const NameId name : *names) {
        parameters_.insert(prediction.program.values[Index(name)].name);
      }
    }
  }

  Owner Of(const LiveBuffer& live) const {
    const std::string& label = trace_.labels[Index(trace_.buffers[Index(live.buffer)].label)];
    switch (live.kind) {
      case Kind::kParameter:
      case Kind::kGradient:
      case Kind::kOptimizerState:
        return OfParameter(label);
      case Kind::kBuffer:
        return {label, "buffer"};
      case Kind::kInput:
        return {label, "input"};
      case Kind::kWorkspace:
        return {label, "workspace"};
      case Kind::kActivation:
      case Kind::kTemporary:
        break;
    }
    return OfOperator(live.born, label);
  }

 private:
  // "fc.weight" for "fc.weight.exp_avg".
  Owner OfParameter(const std::string& label) const {
    const size_t dot = label.rfind('.');
    const std::string owner = dot == std::string::npos ? label : label.substr(0, dot);
    const bool is_owned = !parameters_.contains(label) && parameters_.contains(owner);
    return {is_owned ? owner : label, "parameter"};
  }

  Owner OfOperator(int32_t born, const std::string& label) const {
    if (born < 0) return {label, "temporary"};
    const std::string& name = trace_.labels[Index(born)];
    const auto owner = owners_.find(name);
    return owner == owners_.end() ? Owner{name, "temporary"} : owner->second;
  }

  const Trace& trace_;
  std::unordered_map<std::string_view, Owner> owners_;
  std::unordered_set<std::string_view> parameters_;
};

}  // namespace

std::vector<Place> PlacesAtPeak(const Prediction& prediction, const Timeline& timeline) {
  const Attribution attribution(prediction);
  std::vector<Place> places;
  std::unordered_map<std::string, size_t> index_of;
  for (const LiveBuffer& live : timeline.live_at_peak) {
    auto [name, op] = attribution.Of(live);
    const auto [at, is_first] = index_of.try_emplace(name, places.size());
    if (is_first) places.push_back({.name = std::move(name), .op = std::string(op)});
    places[at->second].bytes += prediction.trace.buffers[Index(live.buffer)].bytes;
  }
  return places;
}

}  // namespace onnxfit
