#include "estimator/locals/ordered_names.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/base/numbered_names.h"

namespace onnxfit {
namespace {

class OrderedNameFinder {
 public:
  // All must outlive it.
  OrderedNameFinder(const Program& program, const std::vector<ForwardStep>& steps)
      : program_(program), calls_(program.calls), steps_(steps) {
    for (size_t i = 0; i < steps_.size(); ++i) {
      for (const NameId value : ReadBy(steps_[i])) readers_[value].push_back(i);
      keys_.push_back(NumberPattern(steps_[i].key));
    }
    for (size_t i = 0; i <= steps_.size(); ++i) ++neighbours_[{KeyOf(i - 1), KeyOf(i)}];
  }

  // Those that the forward holds until its last call.
  std::vector<NameId> Find() const {
    std::vector<NameId> found;
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].is_child || IsRepeated(i)) continue;
      for (const NameId value : MadeBy(steps_[i])) {
        const auto readers = readers_.find(value);
        if (readers == readers_.end() || !IsNamed(i, readers->second.back(), value)) continue;
        found.push_back(value);
      }
    }
    return found;
  }

 private:
  const std::vector<NameId>& MadeBy(const ForwardStep& step) const {
    return calls_[Index(step.last)].outputs;
  }

  std::set<NameId> ReadBy(const ForwardStep& step) const {
    std::set<NameId> read;
    for (int64_t i = step.first; i <= step.last; ++i) {
      read.insert(calls_[Index(i)].inputs.begin(), calls_[Index(i)].inputs.end());
    }
    read.erase(kNoName);
    return read;
  }

  // Not of what attention reads, which has names of its own, of what a list gathers, "x =
  // torch.cat([x, y])", and of what may lose its name to what is made of it, "x = x + y".
  bool IsNamed(size_t maker, size_t reader, NameId value) const {
    const auto begin = steps_.begin() + static_cast<std::ptrdiff_t>(maker);
    const auto end = steps_.begin() + static_cast<std::ptrdiff_t>(reader) + 1;
    const bool is_other = steps_[reader].is_child || steps_[reader].key == "cat";
    return !is_other && IsNamedBetween(maker, reader, value) && !MayTakeName(reader, value) &&
           std::none_of(begin, end, Attends);
  }

  // "" of none.
  std::string_view KeyOf(size_t step) const {
    return step < keys_.size() ? std::string_view(keys_[step]) : "";
  }

  // Whether the forward makes the same elsewhere, before or behind the same.
  bool IsRepeated(size_t i) const {
    return neighbours_.at({KeyOf(i - 1), KeyOf(i)}) > 1 ||
           neighbours_.at({KeyOf(i), KeyOf(i + 1)}) > 1;
  }

  // Python evaluates operands from left to right: between what step `maker` makes and the step that
  // reads it are those alone that make what that reads behind it, unless it is of another line.
  bool IsNamedBetween(size_t maker, size_t reader, NameId value) const {
    const std::vector<NameId>& operands = calls_[Index(steps_[reader].first)].inputs;
    std::set<NameId> needed(std::ranges::find(operands, value), operands.end());
    for (size_t i = reader - 1; i > maker; --i) {
      const auto is_needed = [&](NameId name) { return needed.contains(name); };
      if (std::ranges::none_of(MadeBy(steps_[i]), is_needed)) return true;
      needed.merge(ReadBy(steps_[i]));
    }
    return false;
  }

  // Whether the expression that step `reader` is part of makes what is as large, of the same type.
  bool MayTakeName(size_t reader, NameId value) const {
    const std::vector<NameId>& made = MadeBy(steps_[EndOfExpression(reader)]);
    if (made.size() != 1 || made[0] == kNoName) return true;
    const auto numel = [&](NameId name) { return Numel(program_.values[Index(name)].type.dims); };
    return numel(made[0]) == numel(value);
  }

  // The step that ends it: each is read by the next one, and by no other.
  size_t EndOfExpression(size_t i) const {
    for (; i + 1 < steps_.size(); ++i) {
      const std::vector<NameId>& made = MadeBy(steps_[i]);
      const auto readers = made.size() == 1 ? readers_.find(made[0]) : readers_.end();
      if (readers == readers_.end() || readers->second != std::vector<size_t>{i + 1}) return i;
    }
    return i;
  }

  const Program& program_;
  const std::vector<AtenCall>& calls_;
  const std::vector<ForwardStep>& steps_;
  std::map<NameId, std::vector<size_t>> readers_;  // by value: the steps that read it
  std::vector<std::string> keys_;                  // of the steps, without numbers
  std::map<std::pair<std::string_view, std::string_view>, int> neighbours_;  // how many there are
};

}  // namespace

void FindOrderedNames(const Program& program, const ForwardRun& forward,
                      const std::vector<ForwardStep>& steps, size_t known,
                      std::vector<KnownName>& names) {
  for (const NameId value : OrderedNameFinder(program, steps).Find()) {
    if (!HoldsSince(names, known, value))
      names.push_back({value, forward.last, "what is read out of order"});
  }
}

}  // namespace onnxfit
