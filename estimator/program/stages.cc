#include "estimator/program/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/program/checkpointed_spans.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/shard_rules.h"

namespace onnxfit {
namespace {

constexpr std::string_view kBeginsFlag = "--split-at";

std::string_view ParentOf(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? "" : path.substr(0, dot);
}

// How many of `blocks` the stages before `stage` have.
size_t BlocksBefore(size_t blocks, size_t stages, size_t stage) {
  const size_t items = blocks + 2;
  const size_t before = stage * (items / stages) + std::min(stage, items % stages);
  return std::min(before - 1, blocks);
}

std::vector<int32_t> BeginsOfBlocks(const Program& program, size_t stages) {
  const std::vector<ModuleRun> blocks =
      OutermostRuns(program, {std::string(kAutoCheckpoint)}, kBeginsFlag);
  if (blocks.size() < stages) {
    throw Error({.where = "--world",
                 .text = fmt::format("expected at most as many stages as blocks that repeat, {}, "
                                     "found {}",
                                     blocks.size(), stages),
                 .hint = "--split-at MODULE for each stage but the first"});
  }
  std::vector<int32_t> begins = {0};
  for (size_t stage = 1; stage < stages; ++stage) {
    const size_t block = std::min(BlocksBefore(blocks.size(), stages, stage), blocks.size() - 1);
    begins.push_back(static_cast<int32_t>(blocks[block].first));
  }
  return begins;
}

std::vector<int32_t> BeginsOfModules(const Program& program, const RankSettings& ranks) {
  std::vector<int32_t> begins = {0};
  for (const ModuleRun& run : OutermostRuns(program, ranks.pipeline.begins, kBeginsFlag)) {
    begins.push_back(static_cast<int32_t>(run.first));
  }
  if (std::ssize(begins) != ranks.world) {
    throw Error({.where = std::string(kBeginsFlag),
                 .text = fmt::format("expected a module for each of {} stages but the first, found "
                                     "{} that run",
                                     ranks.world, begins.size() - 1)});
  }
  return begins;
}

// By path of a module that runs, and of those around it: whether it does so among the calls for
// which `runs` says so.
std::map<std::string_view, bool> RunningModules(const Program& program,
                                                const std::vector<bool>& runs) {
  std::map<std::string_view, bool> running;
  for (size_t i = 0; i < program.calls.size(); ++i) {
    for (ModuleId module = program.calls[i].module; module != kOutside;
         module = program.modules.CallerOf(module)) {
      bool& does = running[program.modules.PathOf(module)];
      does = does || runs[i];
    }
  }
  return running;
}

class StageMaker {
 public:
  StageMaker(const Program& program, const std::vector<int32_t>& begins, size_t stage)
      : program_(program),
        first_(begins[stage]),
        last_(stage + 1 < begins.size() ? begins[stage + 1]
                                        : static_cast<int32_t>(program.calls.size())),
        is_last_(stage + 1 == begins.size()),
        maker_(program.values.size(), -1),
        is_trained_(program.values.size()),
        is_read_(program.values.size()),
        runs_(program.calls.size()) {
    Follow();
  }

  Program Make() && {
    for (int32_t i = first_; i < last_; ++i) Take(i);
    Program stage = program_;
    stage.calls.clear();
    for (size_t i = 0; i < program_.calls.size(); ++i) {
      if (runs_[i]) stage.calls.push_back(program_.calls[i]);
    }
    stage.received = Crossing(first_);
    stage.sent = Crossing(last_);
    if (!is_last_) stage.loss = kNoName;
    KeepRead(stage.inputs);
    std::erase_if(stage.outputs, [&](NameId name) { return !IsMadeHere(name); });
    KeepTensors(stage);
    return stage;
  }

 private:
  // Which call makes a value, and whether parameters have a part in it.
  void Follow() {
    for (const auto* names : {&program_.parameters, &program_.frozen}) {
      for (const NameId name : *names) is_trained_[Index(name)] = true;
    }
    for (const QuantizedWeight& weight : program_.quantized) {
      is_trained_[Index(weight.packed)] = true;
    }
    for (size_t i = 0; i < program_.calls.size(); ++i) {
      const AtenCall& call = program_.calls[i];
      const bool is_trained = std::ranges::any_of(
          ReadInputs(call), [&](NameId name) { return name != kNoName && is_trained_[Index(name)]; });
      for (const NameId name : call.outputs) {
        if (name == kNoName) continue;
        maker_[Index(name)] = static_cast<int32_t>(i);
        is_trained_[Index(name)] = is_trained;
      }
    }
  }

  // A call of the stage, and those before it whose results it needs and computes anew.
  void Take(int32_t call) {
    std::vector<int32_t> pending = {call};
    while (!pending.empty()) {
      const int32_t next = pending.back();
      pending.pop_back();
      if (runs_[Index(next)]) continue;
      runs_[Index(next)] = true;
      for (const NameId name : program_.calls[Index(next)].inputs) {
        if (name == kNoName) continue;
        is_read_[Index(name)] = true;
        const int32_t maker = maker_[Index(name)];
        if (maker >= 0 && maker < first_ && !is_trained_[Index(name)]) pending.push_back(maker);
      }
    }
  }

  // What parameters have a part in, is made before call `at`, and is read from there on, by first
  // reads.
  std::vector<NameId> Crossing(int32_t at) const {
    std::vector<NameId> crossing;
    std::vector<bool> is_known(program_.values.size());
    for (size_t i = Index(at); i < program_.calls.size(); ++i) {
      for (const NameId name : program_.calls[i].inputs) {
        if (name == kNoName || !is_trained_[Index(name)] || is_known[Index(name)]) continue;
        is_known[Index(name)] = true;
        const int32_t maker = maker_[Index(name)];
        if (maker >= 0 && maker < at) crossing.push_back(name);
      }
    }
    return crossing;
  }

  bool IsMadeHere(NameId name) const {
    const int32_t maker = maker_[Index(name)];
    return maker >= first_ && maker < last_;
  }

  void KeepRead(std::vector<NameId>& names) const {
    std::erase_if(names, [&](NameId name) { return !is_read_[Index(name)]; });
  }

  // Tensors that no call reads are where the modules around them are; those that are read here but
  // lie elsewhere, as a tied head's, are a module's that comes later.
  void KeepTensors(Program& stage) {
    const std::map<std::string_view, bool> running = RunningModules(program_, runs_);
    std::vector<bool> is_read_anywhere(program_.values.size());
    for (const AtenCall& call : program_.calls) {
      for (const NameId name : call.inputs) {
        if (name != kNoName) is_read_anywhere[Index(name)] = true;
      }
    }
    for (const NameId name : program_.placement) {
      if (is_read_anywhere[Index(name)]) continue;
      is_read_[Index(name)] = RunsAround(program_.values[Index(name)].name, running);
    }
    for (auto* names : {&stage.parameters, &stage.adapters, &stage.frozen, &stage.buffers,
                        &stage.placement, &stage.copy_order}) {
      KeepRead(*names);
      std::ranges::stable_partition(*names, [&](NameId name) {
        const auto own = running.find(ParentOf(program_.values[Index(name)].name));
        return own == running.end() || own->second;
      });
    }
    std::erase_if(stage.quantized,
                  [&](const QuantizedWeight& weight) { return !is_read_[Index(weight.packed)]; });
  }

  // Whether the innermost module around a tensor that runs at all does so here; the first stage has
  // what lies in none.
  bool RunsAround(std::string_view tensor, const std::map<std::string_view, bool>& running) const {
    for (std::string_view path = ParentOf(tensor); !path.empty(); path = ParentOf(path)) {
      if (const auto found = running.find(path); found != running.end()) return found->second;
    }
    return first_ == 0;
  }

  const Program& program_;
  const int32_t first_;
  const int32_t last_;
  const bool is_last_;
  std::vector<int32_t> maker_;    // by value: the call, -1 where none is
  std::vector<bool> is_trained_;  // by value: parameters have a part in it
  std::vector<bool> is_read_;     // by value: by calls of the stage
  std::vector<bool> runs_;        // by call
};

}  // namespace

std::vector<int32_t> StageBegins(const Program& program, const RankSettings& ranks) {
  return ranks.pipeline.begins.empty() ? BeginsOfBlocks(program, Index(ranks.world))
                                       : BeginsOfModules(program, ranks);
}

Program StageOf(const Program& program, const std::vector<int32_t>& begins, size_t stage) {
  return StageMaker(program, begins, stage).Make();
}

std::string StageText(const Program& program, const std::vector<int32_t>& begins, size_t stage) {
  const auto module_at = [&](int32_t call) {
    return program.modules.PathOf(program.calls[Index(call)].module);
  };
  const bool is_first = stage == 0;
  const bool is_last = stage + 1 == begins.size();
  const std::string from = is_first ? "the first call" : module_at(begins[stage]);
  const std::string to = is_last ? "the loss" : module_at(begins[stage + 1] - 1);
  return fmt::format("{} to {}", from, to);
}

}  // namespace onnxfit
