#include "estimator/program/sharded_modules.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

constexpr size_t kWholeModel = 0;

class Sharding {
 public:
  Sharding(const Program& program, const std::vector<std::string>& globs) : program_(program) {
    modules_.emplace_back();
    for (const ModuleRun& run : OutermostRuns(program, globs, "--fsdp-modules")) AddRun(run);
    FindReaders();
    if (std::ranges::find(globs, kAutoCheckpoint) != globs.end()) AddIdle();
  }

  std::vector<ShardedModule> Take() {
    const std::set<NameId> buffers(program_.buffers.begin(), program_.buffers.end());
    std::vector<size_t> order = {kWholeModel};
    for (const NameId name : program_.placement) {
      const size_t owner = OwnerOf(name);
      ShardedModule& module = modules_[owner];
      (buffers.contains(name) ? module.buffers : module.parameters).push_back(name);
      if (std::ranges::find(order, owner) == order.end()) order.push_back(owner);
    }
    std::vector<ShardedModule> ordered;
    for (const size_t index : order) ordered.push_back(std::move(modules_[index]));
    return ordered;
  }

 private:
  void AddRun(const ModuleRun& run) {
    const std::string& path = program_.modules.PathOf(run.module);
    const auto [found, is_new] = by_path_.try_emplace(path, modules_.size());
    if (is_new) modules_.push_back({.path = path});
    modules_[found->second].runs.push_back(
        {static_cast<int32_t>(run.first), static_cast<int32_t>(run.last)});
  }

  void FindReaders() {
    std::vector<size_t> module_of(program_.calls.size(), kWholeModel);
    for (size_t i = 1; i < modules_.size(); ++i) {
      for (const CallSpan& span : modules_[i].runs) {
        for (int32_t call = span.first; call <= span.last; ++call) module_of[Index(call)] = i;
      }
    }
    for (size_t i = 0; i < program_.calls.size(); ++i) {
      for (const NameId name : program_.calls[i].inputs) {
        if (name != kNoName) readers_[name].insert(module_of[i]);
      }
    }
  }

  // Blocks that repeat and never run, such as those of a vision tower that is given no picture: by
  // the names of their parameters, as far as nobody reads those.
  void AddIdle() {
    std::map<std::string_view, std::set<std::string_view>> lists;
    for (const NameId name : program_.placement) {
      const std::string_view block = BlockAround(program_.values[Index(name)].name);
      if (block.empty() || readers_.contains(name) || OwnerOf(name) != kWholeModel) continue;
      lists[block.substr(0, block.rfind('.'))].insert(block);
    }
    for (const auto& [parent, blocks] : lists) {
      if (blocks.size() < 2) continue;
      for (const std::string_view block : blocks) {
        by_path_.try_emplace(std::string(block), modules_.size());
        modules_.push_back({.path = std::string(block)});
      }
    }
  }

  // "visual.blocks.0" of "visual.blocks.0.mlp.fc1.weight": the outermost item of a list that has
  // modules in it, "" where there is none.
  static std::string_view BlockAround(std::string_view tensor) {
    for (size_t dot = tensor.find('.'); dot != std::string_view::npos;) {
      const size_t end = tensor.find('.', dot + 1);
      if (end == std::string_view::npos) return "";
      const bool has_modules = tensor.find('.', end + 1) != std::string_view::npos;
      if (has_modules && IsNumbered(tensor.substr(dot + 1, end - dot - 1)))
        return tensor.substr(0, end);
      dot = end;
    }
    return "";
  }

  size_t OwnerOf(NameId name) const {
    std::string_view path = program_.values[Index(name)].name;
    for (size_t dot = path.rfind('.'); dot != std::string_view::npos; dot = path.rfind('.')) {
      path = path.substr(0, dot);
      const auto found = by_path_.find(path);
      if (found != by_path_.end()) return found->second;
    }
    const auto readers = readers_.find(name);
    const bool has_one = readers != readers_.end() && readers->second.size() == 1;
    return has_one ? *readers->second.begin() : kWholeModel;
  }

  const Program& program_;
  std::vector<ShardedModule> modules_;
  std::map<std::string, size_t, std::less<>> by_path_;
  std::map<NameId, std::set<size_t>> readers_;  // by tensor: the modules whose runs read it
};

}  // namespace

std::vector<ShardedModule> ShardedModules(const Program& program,
                                          const std::vector<std::string>& globs) {
  return Sharding(program, globs).Take();
}

std::vector<std::string> ShardedGlobs(const RankSettings& ranks) {
  return ranks.fsdp_modules.empty() ? std::vector<std::string>{kAutoCheckpoint}
                                    : ranks.fsdp_modules;
}

}  // namespace onnxfit
