#include "estimator/program/checkpointed_spans.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/base/text.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/module_runs.h"

namespace onnxfit {
namespace {

std::string_view LastName(std::string_view path) { return path.substr(path.rfind('.') + 1); }

std::string_view ParentPath(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? "" : path.substr(0, dot);
}

// "h.0" of "h.0.attn.weight": the outermost module with a number for a name and modules in it that
// is around a tensor, "" of none.
std::string_view ItemAround(std::string_view tensor) {
  for (size_t dot = tensor.find('.'); dot != tensor.npos; dot = tensor.find('.', dot + 1)) {
    const std::string_view path = tensor.substr(0, dot);
    if (IsNumbered(LastName(path)) && tensor.find('.', dot + 1) != tensor.npos) return path;
  }
  return "";
}

// Whether the modules are picked: by path.
class Picked {
 public:
  Picked(const Program& program, const std::vector<ModuleRun>& runs,
         const std::vector<std::string>& globs, std::string_view flag)
      : program_(program), runs_(runs), flag_(flag) {
    std::vector<std::string> named;
    for (const std::string& glob : globs) {
      if (glob == kAutoCheckpoint) {
        AddBlocks();
      } else if (glob.starts_with(kEveryCheckpoint)) {
        every_ = std::strtoll(glob.c_str() + std::strlen(kEveryCheckpoint), nullptr, 10);
        AddBlocks();
      } else {
        named.push_back(glob);
      }
    }
    if (!named.empty()) AddNamed(named);
  }

  bool Has(ModuleId module) const { return paths_.contains(PathOf(module)); }

  // Of the runs that are picked, in order: those of every N-th module.
  std::vector<ModuleRun> Counted(std::vector<ModuleRun> runs) const {
    if (every_ <= 1) return runs;
    const std::map<std::string_view, int64_t> numbers = Numbers(runs);
    std::erase_if(runs, [&](const ModuleRun& run) {
      return (numbers.at(PathOf(run.module)) + 1) % every_ != 0;
    });
    return runs;
  }

 private:
  const std::string& PathOf(ModuleId module) const { return program_.modules.PathOf(module); }

  // By module of `runs`: its place in the order of named_modules(), which parameters have, too;
  // modules without any come last.
  std::map<std::string_view, int64_t> Numbers(const std::vector<ModuleRun>& runs) const {
    std::map<std::string_view, int64_t> numbers;
    std::vector<std::string_view> paths;
    for (const ModuleRun& run : runs) {
      if (numbers.emplace(PathOf(run.module), 0).second) paths.push_back(PathOf(run.module));
    }
    AddIdle(paths);
    std::ranges::stable_sort(paths, {}, [&](std::string_view path) { return FirstOf(path); });
    for (size_t i = 0; i < paths.size(); ++i) numbers[paths[i]] = static_cast<int64_t>(i);
    return numbers;
  }

  // Items of lists of which nothing runs, as of a vision tower in a run on text.
  void AddIdle(std::vector<std::string_view>& paths) const {
    std::set<std::string_view> running;
    for (const ModuleRun& run : runs_) running.insert(PathOf(run.module));
    std::map<std::string_view, std::set<std::string_view>> lists;
    for (const NameId name : program_.placement) {
      const std::string_view item = ItemAround(program_.values[Index(name)].name);
      if (!item.empty()) lists[ParentPath(item)].insert(item);
    }
    for (const auto& [parent, items] : lists) {
      const auto runs = [&](std::string_view item) {
        const std::string inside = std::string(item) + ".";
        const auto next = running.lower_bound(inside);
        return running.contains(item) || (next != running.end() && next->starts_with(inside));
      };
      if (items.size() > 1) std::ranges::remove_copy_if(items, std::back_inserter(paths), runs);
    }
  }

  // Which parameter is the first in the module.
  size_t FirstOf(std::string_view path) const {
    const auto is_in = [&](NameId name) {
      const std::string& tensor = program_.values[Index(name)].name;
      return tensor.starts_with(path) && tensor.size() > path.size() && tensor[path.size()] == '.';
    };
    const auto first = std::ranges::find_if(program_.placement, is_in);
    return static_cast<size_t>(first - program_.placement.begin());
  }

  void AddNamed(const std::vector<std::string>& globs) {
    std::set<std::string> all;
    for (const ModuleRun& run : runs_) all.insert(PathOf(run.module));
    const std::vector<std::string> names(all.begin(), all.end());
    const std::vector<bool> picked = PickNames(names, globs, {flag_, "modules", ""});
    for (size_t i = 0; i < names.size(); ++i) {
      if (picked[i]) paths_.insert(names[i]);
    }
  }

  // Items of lists: those with modules in them.
  void AddBlocks() {
    std::set<std::string> with_modules;
    for (const ModuleRun& run : runs_) {
      if (run.caller >= 0) with_modules.insert(PathOf(runs_[Index(run.caller)].module));
    }
    std::map<std::string_view, std::set<std::string>> lists;
    for (const std::string& path : with_modules) {
      if (IsNumbered(LastName(path))) lists[ParentPath(path)].insert(path);
    }
    for (const auto& [parent, items] : lists) {
      if (items.size() > 1) paths_.insert(items.begin(), items.end());
    }
  }

  const Program& program_;
  const std::vector<ModuleRun>& runs_;
  std::string_view flag_;
  std::set<std::string> paths_;
  int64_t every_ = 1;
};

// The modules that the model's library puts checkpoints around, where it is known to choose.
std::set<std::string> LayersOfLibrary(const Program& program) {
  const ModuleRuns runs(program);
  std::set<std::string> layers;
  for (const ModuleRun& run : runs.all()) {
    if (IsCheckpointedLayer(program.modules.ClassOf(run.module)))
      layers.insert(program.modules.PathOf(run.module));
  }
  return layers;
}

// The model's own.
std::vector<CallSpan> SpansOfModel(const Program& program) {
  std::vector<CallSpan> spans;
  int32_t last = -1;
  for (size_t i = 0; i < program.calls.size(); ++i) {
    const int32_t checkpoint = program.calls[i].checkpoint;
    const auto call = static_cast<int32_t>(i);
    if (checkpoint >= 0 && checkpoint != last) spans.push_back({call, call});
    if (checkpoint >= 0) spans.back().last = call;
    last = checkpoint;
  }
  return spans;
}

}  // namespace

std::vector<ModuleRun> OutermostRuns(const Program& program, const std::vector<std::string>& globs,
                                     std::string_view flag) {
  if (globs.empty()) return {};
  const ModuleRuns runs(program);
  const Picked picked(program, runs.all(), globs, flag);
  std::vector<ModuleRun> outermost;
  for (const ModuleRun& run : runs.all()) {
    const bool is_inside = !outermost.empty() && run.first <= outermost.back().last;
    if (!is_inside && picked.Has(run.module)) outermost.push_back(run);
  }
  return picked.Counted(std::move(outermost));
}

std::vector<CallSpan> CheckpointedSpans(const Program& program,
                                        const std::vector<std::string>& globs) {
  if (globs.empty()) return SpansOfModel(program);
  std::vector<std::string> named = globs;
  const auto by_library = std::ranges::find(named, kAutoCheckpoint);
  if (by_library != named.end()) {
    const std::set<std::string> layers = LayersOfLibrary(program);
    if (!layers.empty()) named.insert(named.erase(by_library), layers.begin(), layers.end());
  }
  std::vector<CallSpan> spans;
  for (const ModuleRun& run : OutermostRuns(program, named, "--checkpoint")) {
    spans.push_back({static_cast<int32_t>(run.first), static_cast<int32_t>(run.last), run.module});
  }
  return spans;
}

bool AreReentrant(const Program& program, const TrainingSettings& settings) {
  return settings.checkpoint.empty() ? program.has_reentrant_checkpoints
                                     : settings.checkpoint_reentrant;
}

}  // namespace onnxfit
