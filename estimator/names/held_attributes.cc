#include "estimator/names/held_attributes.h"

#include <iterator>

#include "estimator/base/index.h"
#include "estimator/program/modules.h"

namespace onnxfit {

void HeldAttributes::Note(NameId value, size_t module, const Statement& statement, size_t place) {
  const std::string& target = statement.targets[place];
  if (value == kNoName || !target.starts_with("self.")) return;
  const std::string path = program_.modules.PathOf(runs_.all()[module].module);
  values_[path.substr(0, path.find('@')) + target][statement.last] = value;
}

void HeldAttributes::Note(NameId value, int64_t maker, const std::string& target) {
  const std::string& path = program_.modules.PathOf(runs_.all()[Index(runs_.RunOf(maker))].module);
  values_[path.substr(0, path.find('@')) + target][maker] = value;
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
