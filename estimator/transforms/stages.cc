#include "estimator/transforms/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/program/checkpointed_spans.h"
#include "estimator/program/module_runs.h"
#include "estimator/transforms/shard_rules.h"

namespace onnxfit {
namespace {

constexpr std::string_view kBeginsFlag = "--split-at";

std::string_view ParentOf(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? "" : path.substr(0, dot);
}

// The item with which `stage` begins, of the model's: what is before the blocks, each block, what
// is behind them.
size_t FirstItem(size_t items, size_t stages, size_t stage) {
  return stage * (items / stages) + std::min(stage, items % stages);
}

std::vector<int32_t> BeginsOfBlocks(const Program& program, size_t stages) {
  const std::vector<ModuleRun> blocks =
      OutermostRuns(program, {std::string(kAutoCheckpoint)}, kBeginsFlag);
  const size_t items = blocks.size() + 2;
  if (blocks.empty() || items < stages) {
    throw Error(
        {.where = "--world",
         .text = fmt::format("expected at most {} stages of {} blocks that repeat, found {}",
                             blocks.empty() ? 1 : items, blocks.size(), stages),
         .hint = "--split-at MODULE for each stage but the first"});
  }
  std::vector<int32_t> begins = {0};
  for (size_t stage = 1; stage < stages; ++stage) {
    const size_t item = FirstItem(items, stages, stage);
    const bool is_block = item <= blocks.size();
    begins.push_back(
        static_cast<int32_t>(is_block ? blocks[item - 1].first : blocks.back().last + 1));
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
                                     "{} that run, one within another counted once",
                                     ranks.world, begins.size() - 1),
                 .hint = fmt::format("--world {}", begins.size())});
  }
  return begins;
}

// A rank without a call, or without a parameter, trains nothing.
void CheckBegins(const Program& program, const std::vector<int32_t>& begins) {
  for (size_t stage = 0; stage < begins.size(); ++stage) {
    const bool is_last = stage + 1 == begins.size();
    const int64_t end = is_last ? std::ssize(program.calls) : begins[stage + 1];
    if (begins[stage] < end) continue;
    throw Error({.where = "--strategy",
                 .text = fmt::format("pipeline: expected calls in each of {} stages, found none in "
                                     "stage {}",
                                     begins.size(), stage),
                 .hint = "fewer stages (--world), or --split-at MODULE for each but the first"});
  }
}

// The innermost item of a list around a module, or itself: "h.3" of "h.3.attn.c_proj".
std::string BlockOf(const std::string& path) {
  std::string_view block = path;
  while (!block.empty() && !IsNumbered(block.substr(block.rfind('.') + 1))) block = ParentOf(block);
  return block.empty() ? path : std::string(block);
}

// A module: its first call, its last, and whether one of them runs here.
struct Running {
  int32_t first = 0;
  int32_t last = 0;
  bool is_here = false;
};

// By path of a module that runs.
std::map<std::string_view, Running> RunningModules(const Program& program,
                                                   const std::vector<bool>& runs) {
  std::map<std::string_view, Running> modules;
  for (size_t i = 0; i < program.calls.size(); ++i) {
    for (ModuleId module = program.calls[i].module; module != kOutside;
         module = program.modules.CallerOf(module)) {
      const auto [at, is_new] = modules.try_emplace(program.modules.PathOf(module));
      if (is_new) at->second.first = static_cast<int32_t>(i);
      at->second.last = static_cast<int32_t>(i);
      at->second.is_here = at->second.is_here || runs[i];
    }
  }
  return modules;
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
    KeepStored(stage);
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
      const bool is_trained = std::ranges::any_of(ReadInputs(call), [&](NameId name) {
        return name != kNoName && is_trained_[Index(name)];
      });
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
    const std::map<std::string_view, Running> modules = RunningModules(program_, runs_);
    KeepUnread(modules);
    for (auto* names : {&stage.parameters, &stage.adapters, &stage.frozen, &stage.buffers,
                        &stage.placement, &stage.copy_order}) {
      KeepRead(*names);
      std::stable_partition(names->begin(), names->end(), [&](NameId name) {
        const auto own = modules.find(ParentOf(program_.values[Index(name)].name));
        return own == modules.end() || own->second.is_here;
      });
    }
    std::erase_if(stage.quantized,
                  [&](const QuantizedWeight& weight) { return !is_read_[Index(weight.packed)]; });
  }

  void KeepUnread(const std::map<std::string_view, Running>& modules) {
    std::vector<bool> is_read_anywhere(program_.values.size());
    for (const AtenCall& call : program_.calls) {
      for (const NameId name : call.inputs) {
        if (name != kNoName) is_read_anywhere[Index(name)] = true;
      }
    }
    for (const QuantizedWeight& weight : program_.quantized) {
      const QuantizedWeight::Scales& scales = weight.scales;
      for (const NameId name : {scales.code, scales.offset, scales.scales_of_scales, scales.scales,
                                scales.code_of_scales}) {
        if (name == kNoName) continue;
        is_read_anywhere[Index(name)] = true;
        is_read_[Index(name)] = is_read_[Index(weight.packed)];
      }
    }
    for (const NameId name : program_.placement) {
      if (is_read_anywhere[Index(name)]) continue;
      is_read_[Index(name)] = IsAround(program_.values[Index(name)].name, modules);
    }
  }

  // Whether the innermost module around a tensor that runs at all begins in this stage, or has
  // ended before it and runs here anew; the first stage has what lies in none.
  bool IsAround(std::string_view tensor, const std::map<std::string_view, Running>& modules) const {
    for (std::string_view path = ParentOf(tensor); !path.empty(); path = ParentOf(path)) {
      const auto found = modules.find(path);
      if (found == modules.end()) continue;
      const Running& module = found->second;
      return (first_ <= module.first && module.first < last_) ||
             (module.last < first_ && module.is_here);
    }
    return first_ == 0;
  }

  // What modules of other stages put into dicts is received, if at all.
  void KeepStored(Program& stage) const {
    std::erase_if(stage.stored, [&](const StoredItem& item) {
      return !std::ranges::all_of(item.values, [&](NameId name) { return IsMadeHere(name); });
    });
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
  if (ranks.world == 1) return {0};
  std::vector<int32_t> begins = ranks.pipeline.begins.empty()
                                    ? BeginsOfBlocks(program, Index(ranks.world))
                                    : BeginsOfModules(program, ranks);
  CheckBegins(program, begins);
  return begins;
}

Program StageOf(const Program& program, const std::vector<int32_t>& begins, size_t stage) {
  Program made = StageMaker(program, begins, stage).Make();
  if (made.parameters.empty()) {
    throw Error({.where = "--strategy",
                 .text = fmt::format("pipeline: expected parameters to train in each of {} stages, "
                                     "found none in stage {}, {}",
                                     begins.size(), stage, StageText(program, begins, stage)),
                 .hint = "fewer stages (--world), or --split-at MODULE for each but the first"});
  }
  return made;
}

void MarkCheckpoints(Program& program, const TrainingSettings& settings) {
  const std::vector<CallSpan> spans = CheckpointedSpans(program, settings.checkpoint);
  const bool is_reentrant = AreReentrant(program, settings);
  for (size_t i = 0; i < spans.size(); ++i) {
    for (int32_t call = spans[i].first; call <= spans[i].last; ++call) {
      program.calls[Index(call)].checkpoint = static_cast<int32_t>(i);
    }
  }
  program.has_reentrant_checkpoints = is_reentrant;
}

std::string StageText(const Program& program, const std::vector<int32_t>& begins, size_t stage) {
  const auto block_at = [&](int32_t call) {
    return BlockOf(program.modules.PathOf(program.calls[Index(call)].module));
  };
  const bool is_last = stage + 1 == begins.size();
  return fmt::format("{} to {}", stage == 0 ? "the model's input" : block_at(begins[stage]),
                     is_last ? "the loss" : block_at(begins[stage + 1] - 1));
}

}  // namespace onnxfit
