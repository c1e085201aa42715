#include "estimator/program/recalls.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/program/module_names.h"

namespace onnxfit {
namespace {

class RecallMarker {
 public:
  explicit RecallMarker(Program& program) : modules_(program.modules), source_(program.source) {}

  void Mark(AtenCall& call) {
    const ModuleId module = call.module;
    const size_t shared = modules_.Shared(last_, module);
    Open(call, shared);
    const size_t again = FindAgain(call, shared);
    if (again < shared) {
      ++recalls_[again];
      Restart(call, again);
    }
    call.module = Marked(module);
    last_ = module;
  }

 private:
  // With which call of its own or of a module a forward began, and where it is.
  struct Forward {
    StatementId first = kNoStatement;
    ModuleId first_child = kOutside;
    StatementId now = kNoStatement;
  };

  // `module` with the numbers of its runs and of those around it.
  ModuleId Marked(ModuleId module) {
    if (std::ranges::all_of(recalls_, [](int recalls) { return recalls == 0; })) return module;
    std::vector<std::string> names = modules_.NamesOf(module);
    for (size_t level = 0; level < names.size(); ++level) {
      if (recalls_[level] > 0) names[level] += fmt::format("@{}", recalls_[level]);
    }
    return modules_.Enter(names);
  }

  bool HasLines(const AtenCall& call) const {
    return call.module != kOutside && call.frames.size() >= modules_.DepthOf(call.module);
  }

  ModuleId ChildAt(const AtenCall& call, size_t level) const {
    return level + 1 < modules_.DepthOf(call.module) ? modules_.AtLevel(call.module, level + 1)
                                                     : kOutside;
  }

  // The modules of `call` from level `from` on are called for the first time.
  void Open(const AtenCall& call, size_t from) {
    recalls_.resize(modules_.DepthOf(call.module));
    forwards_.resize(modules_.DepthOf(call.module));
    std::fill(recalls_.begin() + static_cast<std::ptrdiff_t>(from), recalls_.end(), 0);
    Restart(call, from);
  }

  void Restart(const AtenCall& call, size_t from) {
    for (size_t level = from; level < modules_.DepthOf(call.module); ++level) {
      if (level > from) recalls_[level] = 0;
      const StatementId line = HasLines(call) ? call.frames[level] : kNoStatement;
      forwards_[level] = {line, ChildAt(call, level), line};
    }
  }

  // The level of the module that runs again; `shared` where none does.
  size_t FindAgain(const AtenCall& call, size_t shared) {
    if (!HasLines(call)) return shared;
    for (size_t level = 0; level < shared; ++level) {
      Forward& forward = forwards_[level];
      const StatementId before = std::exchange(forward.now, call.frames[level]);
      if (before == forward.now || source_.AreSame(before, forward.now)) continue;
      const bool begins = LineOf(forward.now) < LineOf(before) && IsFirst(forward);
      const ModuleId child = ChildAt(call, level);
      const bool is_again = begins && child != kOutside && child == forward.first_child;
      return is_again ? Repeated(call, level, shared) : shared;
    }
    return shared;
  }

  bool IsFirst(const Forward& forward) const {
    return forward.now == forward.first || source_.AreSame(forward.now, forward.first);
  }

  int64_t LineOf(StatementId line) const {
    return line == kNoStatement ? 0 : source_.At(line).line;
  }

  // Above the loops over modules around `level`.
  size_t Repeated(const AtenCall& call, size_t level, size_t shared) const {
    while (level > 0 && IsCalledByName(call.frames[level - 1])) --level;
    return level == 0 ? shared : level;
  }

  // "x = layer(x)", not "x = self.layer(x)" nor "x = self.layers[i](x)".
  bool IsCalledByName(StatementId line) const {
    return line == kNoStatement || source_.At(line).callee.find_first_of(".[") == std::string::npos;
  }

  ModuleTree& modules_;
  const SourceLines& source_;
  ModuleId last_ = kOutside;
  std::vector<int> recalls_;       // by level: how often it was called before
  std::vector<Forward> forwards_;  // by level
};

}  // namespace

void MarkRecalls(Program& program) {
  RecallMarker marker(program);
  for (AtenCall& call : program.calls) marker.Mark(call);
}

}  // namespace onnxfit
