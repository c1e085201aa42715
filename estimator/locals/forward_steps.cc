#include "estimator/locals/forward_steps.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "estimator/base/index.h"
#include "estimator/base/module_names.h"

namespace onnxfit {
namespace {

// "norm" of "norm_2", where a step before has that name.
std::string_view NameOfTurns(const std::vector<ForwardStep>& steps, std::string_view key) {
  const size_t end = key.find_last_of("_@");
  if (end == std::string_view::npos || !IsNumbered(key.substr(end + 1))) return key;
  const std::string_view name = key.substr(0, end);
  const bool is_turn = std::ranges::any_of(
      steps, [=](const ForwardStep& step) { return step.is_child && step.key == name; });
  return is_turn ? name : key;
}

// Whether behind call `context` the forward adds to what it was, "x + self.attend(x)" and not
// "self.proj(out) + x", and runs other layers.
bool RunsFurtherLayers(const std::vector<AtenCall>& calls, const ModuleRuns& runs,
                       const ForwardRun& forward, int64_t context) {
  constexpr std::string_view kLayers[] = {"linear", "matmul", "addmm", "mm", "convolution"};
  std::set<NameId> made;
  bool adds = false;
  for (int64_t i = context; i <= forward.last; ++i) {
    const AtenCall& call = calls[Index(i)];
    const bool is_own = runs.DepthAt(i) == forward.level;
    if (is_own && call.op == "add" && !adds) {
      if (made.contains(call.inputs[0])) return false;
      adds = true;
    }
    if (adds && !is_own && std::ranges::find(kLayers, call.op) != std::end(kLayers)) return true;
    made.insert(call.outputs.begin(), call.outputs.end());
  }
  return false;
}

}  // namespace

bool CallsMethods(const Program& program, const ModuleRuns& runs, const ForwardRun& forward) {
  if (program.sized.empty()) return true;
  for (int64_t i = forward.first; i <= forward.last; ++i) {
    if (runs.DepthAt(i) <= forward.level) continue;
    const std::vector<NameId>& read = program.calls[Index(i)].inputs;
    const bool asks = !read.empty() && std::ranges::binary_search(program.sized, read[0]);
    if (asks) return true;
    i = runs.EndOf(i, forward.level);
  }
  return false;
}

bool Attends(const ForwardStep& step) {
  return !step.is_child &&
         (step.key == "softmax" || step.key.find("_attention") != std::string_view::npos);
}

int64_t EndOfAttention(const Program& program, const ModuleRuns& runs, const ForwardRun& forward,
                       int64_t context) {
  const std::vector<AtenCall>& calls = program.calls;
  const bool is_outermost = forward.level == 0;
  int64_t next = context + 1;
  const auto is_passed = [&](int64_t i) {
    return runs.DepthAt(i) == forward.level || calls[Index(i)].op == "dropout";
  };
  while (next <= forward.last && is_passed(next)) ++next;
  if (next > forward.last) return is_outermost ? context : forward.last;
  const bool is_method = is_outermost ? CallsMethods(program, runs, forward)
                                      : RunsFurtherLayers(calls, runs, forward, next);
  return is_method ? runs.EndOf(next, forward.level) : forward.last;
}

std::vector<ForwardStep> StepsOf(const Program& program, const ModuleRuns& runs,
                                 const ForwardRun& forward) {
  std::vector<ForwardStep> steps;
  for (int64_t i = forward.first; i <= forward.last; i = steps.back().last + 1) {
    const AtenCall& call = program.calls[Index(i)];
    const bool is_child = forward.level < runs.DepthAt(i);
    const int64_t last = is_child ? runs.EndOf(i, forward.level) : i;
    const std::string_view key =
        is_child ? std::string_view(program.modules.NameAt(call.module, forward.level)) : call.op;
    steps.push_back({key, i, last, is_child});
  }
  return steps;
}

size_t NextTurnOf(const std::vector<ForwardStep>& steps, size_t turn) {
  const std::string_view name = NameOfTurns(steps, steps[turn].key);
  size_t next = turn + 1;
  while (next < steps.size() &&
         !(steps[next].is_child && NameOfTurns(steps, steps[next].key) == name)) {
    ++next;
  }
  return next;
}

int64_t EndOfNextLayer(const ModuleTree& modules, const std::vector<AtenCall>& calls,
                       const ModuleRuns& runs, const ForwardRun& forward, int64_t last) {
  if (forward.level == 0) return -1;
  const size_t level = forward.level - 1;
  const auto name = [&](int64_t call) {
    return std::string_view(modules.NameAt(calls[Index(call)].module, level));
  };
  const std::string_view own = name(forward.first);
  const int64_t end = level == 0 ? last : runs.EndOf(forward.first, level - 1);
  for (int64_t i = forward.last + 1; IsListed(own) && i <= end; ++i) {
    if (runs.DepthAt(i) <= level || !IsListed(name(i))) continue;
    if (ParentOf(name(i)) == ParentOf(own)) return runs.EndOf(i, level);
  }
  return -1;
}

std::vector<LoopOfLayers> LoopsOf(const std::vector<ForwardStep>& steps) {
  std::map<std::string_view, std::vector<const ForwardStep*>> turns;
  for (const ForwardStep& step : steps) {
    if (step.is_child && IsListed(step.key)) turns[ParentOf(step.key)].push_back(&step);
  }
  std::vector<LoopOfLayers> loops;
  for (auto& [list, layers] : turns) loops.push_back({list, std::move(layers)});
  return loops;
}

}  // namespace onnxfit
