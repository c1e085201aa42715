#include "estimator/parameters/untrained_tensors.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "estimator/exporters/exporter_metadata.h"
#include "estimator/libraries/libraries.h"

namespace onnxfit {
namespace {

class UntrainedFinder {
 public:
  UntrainedFinder(const BoundGraph& bound, const std::vector<ModuleTensor>& parameters)
      : bound_(bound) {
    for (const ModuleTensor& parameter : parameters) names_.insert(parameter.name);
  }

  bool IsUntrained(const ModuleTensor& parameter) const {
    return std::ranges::any_of(UntrainedParameters(), [&](const UntrainedParameter& row) {
      return IsNamed(parameter.name, row) && (row.in_class.empty() || IsIn(parameter, row));
    });
  }

 private:
  bool IsNamed(std::string_view name, const UntrainedParameter& row) const {
    if (!name.ends_with(row.name)) return false;
    const std::string_view module = name.substr(0, name.size() - row.name.size());
    const bool is_whole = module.empty() || module.ends_with('.');
    const bool has_other =
        row.beside.empty() || names_.contains(std::string(module) + std::string(row.beside));
    return is_whole && has_other;
  }

  // Whether a node that reads it runs in a module of the row's class.
  bool IsIn(const ModuleTensor& parameter, const UntrainedParameter& row) const {
    if (parameter.value == kNoValue) return false;
    const auto is_of_class = [&](std::string_view it) { return it.ends_with(row.in_class); };
    return std::ranges::any_of(bound_.ReadersOf(parameter.value), [&](NodeId reader) {
      return std::ranges::any_of(bound_.metadata().ClassesOf(reader), is_of_class);
    });
  }

  const BoundGraph& bound_;
  std::set<std::string> names_;
};

bool IsOfAdapters(const ModuleTensor& parameter) {
  const std::string& name = parameter.name;
  return name.find(".lora_") != name.npos || name.find(".modules_to_save.") != name.npos;
}

}  // namespace

std::vector<bool> FindUntrained(const BoundGraph& bound,
                                const std::vector<ModuleTensor>& parameters) {
  const UntrainedFinder finder(bound, parameters);
  const bool has_adapters = std::ranges::any_of(parameters, IsOfAdapters);
  std::vector<bool> untrained;
  for (const ModuleTensor& parameter : parameters) {
    const bool is_base = has_adapters && !IsOfAdapters(parameter);
    untrained.push_back(is_base || finder.IsUntrained(parameter));
  }
  return untrained;
}

}  // namespace onnxfit
