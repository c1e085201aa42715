#include "estimator/program/forward_variables.h"

#include <algorithm>
#include <map>
#include <set>

#include "estimator/program/identifiers.h"

namespace onnxfit {

size_t CountReads(std::string_view line, std::string_view variable) {
  size_t reads = 0;
  for (size_t at = FindWord(line, variable); at != line.npos;
       at = FindWord(line, variable, at + 1)) {
    if (!line.substr(at + variable.size()).starts_with(".dtype")) ++reads;
  }
  return reads;
}

size_t LastBinding(const LinedCalls& calls, size_t call, std::string_view variable) {
  size_t other = call;
  while (other > 0 && calls.StatementAt(other - 1) == calls.StatementAt(call)) --other;
  while (other-- > 0) {
    if (calls.TextAt(other).find(variable) == std::string_view::npos) continue;
    const std::vector<std::string> targets = calls.TargetsAt(other);
    if (std::ranges::find(targets, variable) != targets.end()) return other;
  }
  return calls.size();
}

std::string_view PartBoundTo(const LinedCalls& calls, size_t last, std::string_view variable) {
  std::set<std::string_view> read;
  std::vector<std::string_view> parts;
  for (size_t call = last + 1; call-- > 0;) {
    if (calls.StatementAt(call) != calls.StatementAt(last)) break;
    std::vector<std::string_view> made = calls.MakesAt(call);
    std::erase_if(made, [&](std::string_view part) { return read.contains(part); });
    parts.insert(parts.begin(), made.begin(), made.end());
    const std::vector<std::string_view> reads = calls.ReadsAt(call);
    read.insert(reads.begin(), reads.end());
  }
  const std::vector<std::string> targets = calls.TargetsAt(last);
  const auto at = static_cast<size_t>(std::ranges::find(targets, variable) - targets.begin());
  return parts.size() == targets.size() && at < parts.size() ? parts[at] : "";
}

TensorIndex PassedAs(const LinedCalls& calls, std::string_view variable) {
  std::set<std::string_view> made;
  std::map<TensorIndex, bool> passed;  // whether all lines that read it name the variable
  for (size_t call = 0; call < calls.size(); ++call) {
    const bool is_named = CountReads(calls.TextAt(call), variable) > 0;
    for (const std::string_view read : calls.ReadsAt(call)) {
      const TensorIndex tensor = made.contains(read) ? -1 : calls.FindPassed(read);
      if (tensor < 0) continue;
      const bool has_been = passed.try_emplace(tensor, true).first->second;
      passed[tensor] = has_been && is_named;
    }
    for (const std::string_view result : calls.MakesAt(call)) made.insert(result);
  }
  if (passed.size() > 1) std::erase_if(passed, [](const auto& read) { return !read.second; });
  return passed.size() == 1 ? passed.begin()->first : -1;
}

size_t FirstWidened(const LinedCalls& calls, size_t call, std::vector<std::string_view> tensors,
                    const std::function<bool(size_t)>& widens) {
  std::set<std::string_view> on_the_way(tensors.begin(), tensors.end());
  size_t first = calls.size();
  while (call-- > 0) {
    const auto leads = [&](std::string_view made) { return on_the_way.contains(made); };
    if (std::ranges::none_of(calls.MakesAt(call), leads)) continue;
    const std::vector<std::string_view> reads = calls.ReadsAt(call);
    on_the_way.insert(reads.begin(), reads.end());
    if (widens(call)) first = call;
  }
  return first;
}

}  // namespace onnxfit
