#include "estimator/program/repeated_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

// --- By source lines ------------------------------------------------------------------------

class RepeatedModuleMarker {
 public:
  explicit RepeatedModuleMarker(Program& program)
      : modules_(program.modules), source_(program.source) {}

  void Mark(AtenCall& call) {
    const ModuleId module = call.module;
    const size_t shared = modules_.Shared(last_, module);
    Open(call, shared);
    const size_t again = FindAgain(call, shared);
    if (again < shared) {
      ++repeats_[again];
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
    if (std::ranges::all_of(repeats_, [](int repeats) { return repeats == 0; })) return module;
    std::vector<std::string> names = modules_.NamesOf(module);
    for (size_t level = 0; level < names.size(); ++level) {
      if (repeats_[level] > 0) names[level] += fmt::format("@{}", repeats_[level]);
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
    repeats_.resize(modules_.DepthOf(call.module));
    forwards_.resize(modules_.DepthOf(call.module));
    std::fill(repeats_.begin() + static_cast<std::ptrdiff_t>(from), repeats_.end(), 0);
    Restart(call, from);
  }

  void Restart(const AtenCall& call, size_t from) {
    for (size_t level = from; level < modules_.DepthOf(call.module); ++level) {
      if (level > from) repeats_[level] = 0;
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
  std::vector<int> repeats_;       // by level: how often it was called before
  std::vector<Forward> forwards_;  // by level
};

// --- By TorchScript's names -----------------------------------------------------------------

using Scope = std::vector<std::string>;

// k of "layer_k"; 0 without a number.
int64_t NumberOf(std::string_view module) {
  const size_t end = module.rfind('_');
  if (end == std::string_view::npos) return 0;
  int64_t number = 0;
  const char* const last = module.data() + module.size();
  const auto [stop, error] = std::from_chars(module.data() + end + 1, last, number);
  return error == std::errc() && stop == last ? number : 0;
}

class NumberedModuleMarker {
 public:
  explicit NumberedModuleMarker(Program& program) : program_(program) {
    for (const auto* names : {&program.parameters, &program.frozen, &program.buffers}) {
      for (const NameId name : *names) AddModules(program.values[Index(name)].name);
    }
  }

  void Mark() {
    std::set<ModuleId> called;
    for (const AtenCall& call : program_.calls) called.insert(call.module);
    if (std::ranges::none_of(called, [&](ModuleId module) { return MayBeNumbered(module); }))
      return;
    for (const ModuleId module : called) Count(program_.modules.NamesOf(module));
    for (auto module = parents_.rbegin(); module != parents_.rend(); ++module) CountLoop(*module);
    MarkAll();
  }

 private:
  // "m", "m.fc" of "m.fc.weight".
  void AddModules(std::string_view path) {
    for (size_t end = path.find('.'); end != std::string_view::npos;
         end = path.find('.', end + 1)) {
      modules_.emplace(path.substr(0, end));
    }
  }

  // Whether its name ends with a number of a call: m.fc_1 may be a module.
  bool MayBeNumbered(ModuleId module) const {
    return NumberOf(program_.modules.NameOf(module)) != 0 &&
           !modules_.contains(program_.modules.PathOf(module));
  }

  // `scope` without the number of its innermost module, if that is one.
  Scope WithoutNumber(const Scope& scope) const {
    if (scope.empty() || NumberOf(scope.back()) == 0) return scope;
    if (modules_.contains(ModulePath(scope))) return scope;
    Scope first = scope;
    first.back().resize(first.back().rfind('_'));
    return runs_.contains(first) ? first : scope;
  }

  void Count(const Scope& scope) {
    if (scope.empty()) return;
    const Scope first = WithoutNumber(scope);
    const int64_t run = first == scope ? 0 : NumberOf(scope.back());
    int64_t& runs = runs_[first];
    runs = std::max(runs, run + 1);
    for (size_t level = 1; level < scope.size(); ++level) {
      parents_.emplace(scope.begin(), scope.begin() + static_cast<std::ptrdiff_t>(level));
    }
  }

  // A module without nodes of its own that loops over others, "layers.0", …, calls each once.
  void CountLoop(const Scope& module) {
    if (runs_.contains(module)) return;
    int64_t fewest = std::numeric_limits<int64_t>::max();
    for (auto row = runs_.upper_bound(module); row != runs_.end(); ++row) {
      const Scope& inner = row->first;
      if (SharedModules(module, inner) < module.size()) break;
      if (inner.size() != module.size() + 1) continue;
      if (!IsListed(inner.back())) return;
      fewest = std::min(fewest, row->second);
    }
    if (fewest != std::numeric_limits<int64_t>::max()) runs_[module] = fewest;
  }

  // By level: how often its module runs.
  std::vector<int64_t> RunsOf(const Scope& scope) const {
    std::vector<int64_t> runs;
    Scope module;
    for (const std::string& name : scope) {
      module.push_back(name);
      const auto found = runs_.find(module);
      runs.push_back(found == runs_.end() ? (runs.empty() ? 1 : runs.back()) : found->second);
    }
    return runs;
  }

  void MarkAll() const {
    std::map<ModuleId, ModuleId> marked;
    for (AtenCall& call : program_.calls) {
      const auto [found, is_new] = marked.try_emplace(call.module, call.module);
      if (is_new) {
        Scope scope = program_.modules.NamesOf(call.module);
        Mark(scope);
        found->second = program_.modules.Enter(scope);
      }
      call.module = found->second;
    }
  }

  // Names of modules without children stay as they are: they are told apart.
  void Mark(Scope& scope) const {
    if (scope.size() < 2) return;
    const Scope first = WithoutNumber(scope);
    const std::vector<int64_t> runs = RunsOf(first);
    int64_t run = first == scope ? 0 : NumberOf(scope.back());
    Scope marked = first;
    bool has_run = false;  // a module with children
    for (size_t level = marked.size(); level-- > 0 && run > 0;) {
      const int64_t around = level == 0 ? 1 : runs[level - 1];
      if (runs[level] % around != 0) return;
      const int64_t turns = runs[level] / around;  // in one run of the module around it
      const int64_t turn = run % turns;
      if (turn > 0) marked[level] += fmt::format("@{}", turn);
      has_run |= turn > 0 && (level + 1 < marked.size() || parents_.contains(first));
      run /= turns;
    }
    if (has_run) scope = std::move(marked);
  }

  Program& program_;
  std::set<std::string, std::less<>> modules_;  // paths of those with parameters
  std::set<Scope> parents_;                     // modules that have children
  std::map<Scope, int64_t> runs_;               // of modules that have calls of their own
};

}  // namespace

void MarkRepeatedModules(Program& program) {
  RepeatedModuleMarker marker(program);
  for (AtenCall& call : program.calls) marker.Mark(call);
}

void MarkNumberedModules(Program& program) { NumberedModuleMarker(program).Mark(); }

}  // namespace onnxfit
