// Calls that TorchScript's exporter merged with equal ones of another layer, run again.
#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/recover/lowering.h"
#include "estimator/recover/scopes.h"

namespace onnxfit {
namespace {

// "layer.#" of "layer.3".
std::string WithoutNumbers(const std::string& module) {
  std::string text;
  for (const char c : module) {
    const bool is_digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!is_digit) {
      text += c;
    } else if (text.empty() || text.back() != '#') {
      text += '#';
    }
  }
  return text;
}

// Modules of different layers that are the same in each.
bool AreTwins(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  if (a == b || a.size() != b.size()) return false;
  return std::ranges::equal(a, b, {}, &WithoutNumbers, &WithoutNumbers);
}

}  // namespace

// A layer reads integers that its twin has made of what both were passed: masks and positions,
// which each layer makes of its own.  Nothing of files that say which call a node came from.
void Lowering::RepeatShared(NodeId node) {
  if (!metadata_.groups.empty()) return;
  for (const ValueId value : At(node).inputs) {
    if (value == kNoValue || names_[Index(value)] == kNoName || IsFloat(TypeOf(value).dtype)) {
      continue;
    }
    const NodeId maker = graph_.values[Index(value)].producer;
    if (maker == kNoNode || !AreTwins(ScopeOf(graph_, maker), scope_)) continue;
    const auto key = std::pair(value, scope_);
    const auto known = shared_.find(key);
    Hide(value, known != shared_.end() ? known->second
                                       : shared_[key] = RepeatIn(value, ScopeOf(graph_, maker)));
  }
}

// `value` made anew, with what leads to it in the module `twin`.
NameId Lowering::RepeatIn(ValueId value, const std::vector<std::string>& twin) {
  const NodeId maker = graph_.values[Index(value)].producer;
  const NameId kept = names_[Index(value)];
  if (maker == kNoNode || kept == kNoName || ScopeOf(graph_, maker) != twin) return kept;
  std::vector<std::pair<ValueId, NameId>> inputs;  // as they were
  for (const ValueId input : At(maker).inputs) {
    if (input == kNoValue || names_[Index(input)] == kNoName) continue;
    const NameId again = RepeatIn(input, twin);
    inputs.emplace_back(input, std::exchange(names_[Index(input)], again));
  }
  LowerNode(At(maker));
  for (const auto& [input, name] : inputs) names_[Index(input)] = name;
  return std::exchange(names_[Index(value)], kept);
}

}  // namespace onnxfit
