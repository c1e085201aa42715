#include "estimator/names/held_attributes.h"

#include <iterator>

#include "estimator/base/index.h"
#include "estimator/program/modules.h"

namespace onnxfit {

void HeldAttributes::Note(NameId value, size_t module, const Statement& statement, size_t place) {
  const std::string& target = statement.targets[place];
  if (value == kNoName || !target.starts_with("self.")) return;
  values_[PathOf(static_cast<int32_t>(module)) + target][statement.last] = value;
}

void HeldAttributes::Note(NameId value, int64_t maker, const std::string& target) {
  values_[PathOf(runs_.RunOf(maker)) + target][maker] = value;
}

std::string HeldAttributes::PathOf(int32_t run) const {
  if (run < 0) return "";  // the model itself
  const std::string& path = program_.modules.PathOf(runs_.all()[Index(run)].module);
  return path.substr(0, path.find('@'));
}

std::vector<NameId> HeldAttributes::Follow(ValueLives& lives) const {
  std::vector<NameId> beyond;
  for (const auto& [attribute, values] : values_) {
    for (auto value = values.begin(); value != values.end(); ++value) {
      const auto next = std::next(value);
      next == values.end() ? beyond.push_back(value->second)
                           : lives.HoldBy(attribute, value->second, next->first);
    }
  }
  return beyond;
}

}  // namespace onnxfit
