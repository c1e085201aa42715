#include "estimator/ranks/hooked_modules.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/statements.h"

namespace onnxfit {
namespace {

constexpr size_t kModel = 0;

class HookFinder {
 public:
  HookFinder(const Program& program, size_t model_end, const std::vector<NameId>& parameters)
      : program_(program), model_end_(model_end), runs_(program), owned_(1) {
    for (size_t i = 0; i < parameters.size(); ++i) index_of_[parameters[i]] = i;
    modules_of_runs_.resize(runs_.all().size(), kModel);
    by_path_[""] = kModel;
    FindLeaves();
  }

  HookedModules Find() {
    for (size_t i = 0; i < runs_.all().size(); ++i) AddRun(i);
    for (size_t i = 0; i < model_end_; ++i) AddReads(i);
    for (const auto& [name, index] : index_of_) AddNamed(name, index);
    for (const std::set<size_t>& owned : owned_) {
      found_.parameters.emplace_back(owned.begin(), owned.end());
    }
    found_.are_leaves.resize(owned_.size());
    for (const std::string& path : leaves_) found_.are_leaves[by_path_.at(path)] = true;
    std::ranges::stable_sort(found_.runs, {}, [](const HookedRun& run) { return run.span.first; });
    return std::move(found_);
  }

 private:
  size_t NewModule() {
    owned_.emplace_back();
    return owned_.size() - 1;
  }

  void FindLeaves() {
    const std::vector<ModuleCall> forwards = FindModuleCalls(program_, runs_);
    for (size_t i = 0; i < forwards.size(); ++i) {
      const bool is_leaf = std::ranges::any_of(forwards[i].statements, [&](const Statement& s) {
        if (s.source == kNoStatement) return false;
        const SourceStatement& line = program_.source.At(s.source);
        return IsLeafForward(line.file, line.text);
      });
      if (is_leaf) leaves_.insert(program_.modules.PathOf(runs_.all()[i].module));
    }
  }

  // The leaf around `path`, itself aside, or "".
  std::string_view LeafAround(std::string_view path) const {
    for (size_t dot = path.rfind('.'); dot != std::string_view::npos; dot = path.rfind('.')) {
      path = path.substr(0, dot);
      if (const auto leaf = leaves_.find(path); leaf != leaves_.end()) return *leaf;
    }
    return "";
  }

  void AddRun(size_t index) {
    const ModuleRun& run = runs_.all()[index];
    if (Index(run.first) >= model_end_) return;
    const std::string& path = program_.modules.PathOf(run.module);
    if (const std::string_view leaf = LeafAround(path); !leaf.empty()) {
      modules_of_runs_[index] = by_path_.find(leaf)->second;
      return;
    }
    const auto [found, is_new] = by_path_.try_emplace(path, owned_.size());
    if (is_new) NewModule();
    modules_of_runs_[index] = found->second;
    if (found->second != kModel) AddSpan(found->second, run.first, run.last);
  }

  void AddSpan(size_t module, int64_t first, int64_t last) {
    found_.runs.push_back(
        {static_cast<int32_t>(module), {static_cast<int32_t>(first), static_cast<int32_t>(last)}});
  }

  void AddReads(size_t call) {
    std::set<size_t> read;
    for (const NameId name : program_.calls[call].inputs) {
      const auto found = name == kNoName ? index_of_.end() : index_of_.find(name);
      if (found != index_of_.end()) read.insert(found->second);
    }
    if (read.empty()) return;
    const int32_t run = runs_.RunOf(static_cast<int64_t>(call));
    const size_t module = run < 0 ? NewModule() : modules_of_runs_[Index(run)];
    owned_[module].insert(read.begin(), read.end());
    if (run < 0) AddSpan(module, static_cast<int64_t>(call), static_cast<int64_t>(call));
  }

  // Those of modules that never run are of nobody.
  void AddNamed(NameId name, size_t index) {
    const std::string_view path = program_.values[Index(name)].name;
    const size_t dot = path.rfind('.');
    if (dot == std::string_view::npos) return;
    const std::string_view leaf = LeafAround(path);
    Own(leaf.empty() ? path.substr(0, dot) : leaf, index);
    const std::optional<std::string_view> reader = OutsideReaderOf(path);
    if (reader) Own(*reader, index);
  }

  void Own(std::string_view path, size_t index) {
    const auto found = by_path_.find(path);
    if (found != by_path_.end()) owned_[found->second].insert(index);
  }

  const Program& program_;
  const size_t model_end_;
  const ModuleRuns runs_;
  std::map<NameId, size_t> index_of_;
  std::map<std::string, size_t, std::less<>> by_path_;
  std::set<std::string, std::less<>> leaves_;  // paths
  std::vector<size_t> modules_of_runs_;
  std::vector<std::set<size_t>> owned_;  // by module
  HookedModules found_;
};

}  // namespace

HookedModules FindHookedModules(const Program& program, size_t model_end,
                                const std::vector<NameId>& parameters) {
  return HookFinder(program, model_end, parameters).Find();
}

}  // namespace onnxfit
