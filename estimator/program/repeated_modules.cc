#include "estimator/program/repeated_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
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
  explicit NumberedModuleMarker(Program& program) : program_(program), tree_(program.modules) {
    for (const auto* names : {&program.parameters, &program.frozen, &program.buffers}) {
      for (const NameId name : *names) AddModules(program.values[Index(name)].name);
    }
  }

  void Mark() {
    std::set<ModuleId> called;
    for (const AtenCall& call : program_.calls) called.insert(call.module);
    if (std::ranges::none_of(called, [&](ModuleId module) { return MayBeNumbered(module); }))
      return;
    for (const ModuleId module : called) Count(module);
    CountLoops();
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
    return NumberOf(tree_.NameOf(module)) != 0 && !modules_.contains(tree_.PathOf(module));
  }

  // `module` without the number of its call, if it has one.
  ModuleId WithoutNumber(ModuleId module) const {
    if (!MayBeNumbered(module)) return module;
    const std::string& name = tree_.NameOf(module);
    const std::optional<ModuleId> first =
        tree_.Find(tree_.CallerOf(module), name.substr(0, name.rfind('_')));
    return first.has_value() && runs_.contains(*first) ? *first : module;
  }

  void Count(ModuleId module) {
    if (module == kOutside) return;
    const ModuleId first = WithoutNumber(module);
    const int64_t run = first == module ? 0 : NumberOf(tree_.NameOf(module));
    int64_t& runs = runs_[first];
    runs = std::max(runs, run + 1);
    for (ModuleId around = tree_.CallerOf(module); around != kOutside;
         around = tree_.CallerOf(around)) {
      parents_.insert({tree_.DepthOf(around), around});
    }
  }

  // A module without nodes of its own that loops over others, "layers.0", …, calls each once.
  void CountLoops() {
    for (const auto& [module, runs] : runs_) AddChild(module, runs);
    for (auto parent = parents_.rbegin(); parent != parents_.rend(); ++parent) {
      const ModuleId module = parent->second;
      const auto loop = loops_.find(module);
      if (loop == loops_.end() || !loop->second.is_list || runs_.contains(module)) continue;
      runs_[module] = loop->second.fewest;
      AddChild(module, loop->second.fewest);
    }
  }

  void AddChild(ModuleId module, int64_t runs) {
    Loop& loop = loops_[tree_.CallerOf(module)];
    loop.fewest = std::min(loop.fewest, runs);
    loop.is_list = loop.is_list && IsListed(tree_.NameOf(module));
  }

  // How often it runs; where it has no calls of its own, as often as what is around it.
  int64_t RunsOf(ModuleId module) const {
    for (; module != kOutside; module = tree_.CallerOf(module)) {
      if (const auto found = runs_.find(module); found != runs_.end()) return found->second;
    }
    return 1;
  }

  void MarkAll() {
    std::map<ModuleId, ModuleId> marked;
    for (AtenCall& call : program_.calls) {
      const auto [found, is_new] = marked.try_emplace(call.module, call.module);
      if (is_new) found->second = Marked(call.module);
      call.module = found->second;
    }
  }

  // Names of modules without children stay as they are: they are told apart.
  ModuleId Marked(ModuleId module) {
    const ModuleId first = WithoutNumber(module);
    if (first == module) return module;
    int64_t run = NumberOf(tree_.NameOf(module));
    std::vector<std::string> names = tree_.NamesOf(first);
    bool has_run = false;  // a module with children
    for (size_t level = names.size(); level-- > 0 && run > 0;) {
      const ModuleId own = tree_.AtLevel(first, level);
      const int64_t around = RunsOf(tree_.CallerOf(own));
      if (RunsOf(own) % around != 0) return module;
      const int64_t turns = RunsOf(own) / around;  // in one run of the module around it
      const int64_t turn = run % turns;
      if (turn > 0) names[level] += fmt::format("@{}", turn);
      has_run |= turn > 0 && (level + 1 < names.size() || HasChildren(first));
      run /= turns;
    }
    return has_run ? tree_.Enter(names) : module;
  }

  bool HasChildren(ModuleId module) const {
    return parents_.contains({tree_.DepthOf(module), module});
  }

  // What a module calls.
  struct Loop {
    int64_t fewest = std::numeric_limits<int64_t>::max();  // runs of one of them
    bool is_list = true;                                   // all are children of lists
  };

  Program& program_;
  ModuleTree& tree_;
  std::set<std::string, std::less<>> modules_;     // paths of those with parameters
  std::set<std::pair<size_t, ModuleId>> parents_;  // modules that have children, by depth
  std::map<ModuleId, int64_t> runs_;               // of modules that have calls of their own
  std::map<ModuleId, Loop> loops_;                 // by who calls
};

}  // namespace

void MarkRepeatedModules(Program& program) {
  RepeatedModuleMarker marker(program);
  for (AtenCall& call : program.calls) marker.Mark(call);
}

void MarkNumberedModules(Program& program) { NumberedModuleMarker(program).Mark(); }

}  // namespace onnxfit
