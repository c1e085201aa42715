#include "estimator/transforms/shared_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/program/checkpointed_spans.h"
#include "estimator/program/module_runs.h"
#include "estimator/writer/program_writer.h"

namespace onnxfit {
namespace {

constexpr std::string_view kSequenceParallelFlag = "--sequence-parallel";
constexpr size_t kTokens = 1;  // of [batch, tokens, features]

// Follows tokens through the calls of a program, once.
class TokenFollower {
 public:
  TokenFollower(Program& program, const SharedLayers& layers, int64_t ranks,
                const std::string& path)
      : program_(program), ranks_(ranks), path_(path), runs_(program) {
    for (const LinearLayer& layer : FindLinearLayers(program)) {
      for (const LinearRun& run : layer.runs) products_.insert(run.product);
    }
    blocks_ = OutermostRuns(program, {kAutoCheckpoint}, kSequenceParallelFlag);
    for (const SharedLayer& shared : layers.layers) {
      if (shared.whole_for.empty()) AddLayer(shared);
    }
    for (const NameId name : program.placement) of_model_.insert(name);
    made_at_.resize(program.values.size(), -1);
  }

  SharedTokens Follow() && {
    for (size_t i = 0; i < program_.calls.size(); ++i) {
      const auto call = static_cast<int64_t>(i);
      std::erase_if(open_, [&](size_t at) { return found_.calls[at].last < call; });
      EnterBlock(call);
      EnterModule(call);
      Pass(call);
      for (const NameId output : program_.calls[i].outputs) {
        if (output != kNoName) made_at_[Index(output)] = call;
      }
    }
    for (const NameId output : program_.outputs) {
      if (IsShared(output)) Gather(output);
    }
    if (found_.calls.empty()) Refuse("expected blocks that repeat, found none that share layers");
    std::ranges::stable_sort(found_.calls, {}, &TokenCall::before);
    return std::move(found_);
  }

 private:
  // Layers outside of blocks are given all tokens, and make them.
  void AddLayer(const SharedLayer& shared) {
    const bool is_head = shared.style == ParallelStyle::kGathered;
    for (const LinearRun& run : shared.layer.runs) {
      if (!is_head && !IsInBlock(run.product)) continue;
      if (shared.style == ParallelStyle::kRows) {
        rows_.insert(run.product);
        continue;
      }
      const int32_t own = runs_.RunOf(run.product);
      const int32_t taker = is_head || own < 0 ? own : RunAt(own).caller;
      if (taker >= 0) takers_.insert(taker);
      gathers_for_all_ = gathers_for_all_ && !is_head;
    }
  }

  [[noreturn]] void Refuse(std::string text) const {
    throw Error({.file = path_,
                 .where = std::string(kSequenceParallelFlag),
                 .text = std::move(text),
                 .hint = fmt::format("without {}", kSequenceParallelFlag)});
  }

  const Dims& DimsOf(NameId name) const { return program_.values[Index(name)].type.dims; }

  NameId Resolved(NameId name) const {
    for (auto at = open_.rbegin(); at != open_.rend(); ++at) {
      if (found_.calls[*at].name == name) return found_.calls[*at].made;
    }
    return name;
  }
  std::optional<Shard> ShardOf(NameId name) const {
    const auto shard = found_.shards.find(Resolved(name));
    return shard == found_.shards.end() ? std::nullopt : std::optional(shard->second);
  }
  bool IsShared(NameId name) const { return name != kNoName && ShardOf(name).has_value(); }

  NameId Like(NameId name, std::string_view what) {
    const ProgramValue& value = program_.values[Index(name)];
    return AddValue(program_, fmt::format("{}.{}", value.name, what), TensorType(value.type));
  }

  void Open(std::string_view op, NameId name, std::string_view what, const ModuleRun& run) {
    const NameId made = Like(name, what);
    const bool is_of_all = op == "gather_tokens_of_all";
    if (!is_of_all) found_.shards[made] = ShardOf(name).value_or(Shard{kTokens, 1});
    const NameId given = Resolved(name);
    open_.push_back(found_.calls.size());
    found_.calls.push_back({.op = op,
                            .name = name,
                            .given = given,
                            .made = made,
                            .before = run.first,
                            .last = run.last,
                            .module = run.module});
  }

  // The first thing that a block reads of those before it and that has tokens: hidden states.
  NameId GivenTo(const ModuleRun& block) const {
    for (int64_t call = block.first; call <= block.last; ++call) {
      for (const NameId name : ReadInputs(program_.calls[Index(call)])) {
        const bool is_of_block =
            name == kNoName || of_model_.contains(name) || made_at_[Index(name)] >= block.first;
        if (!is_of_block && HasRowsDims(block, name)) return name;
      }
    }
    return kNoName;
  }
  bool HasRowsDims(const ModuleRun& block, NameId name) const {
    const auto row = rows_.lower_bound(block.first);
    const NameId made = program_.calls[Index(*row)].outputs[0];
    return IsFloat(program_.values[Index(name)].type.dtype) && DimsOf(name) == DimsOf(made);
  }

  void EnterBlock(int64_t call) {
    while (next_block_ < blocks_.size() && blocks_[next_block_].first < call) ++next_block_;
    if (next_block_ == blocks_.size() || blocks_[next_block_].first != call) return;
    const ModuleRun& block = blocks_[next_block_];
    const auto row = rows_.lower_bound(block.first);
    const auto end = rows_.upper_bound(block.last);
    if (row == end) return;
    std::for_each(row, end, [&](int64_t product) {
      CheckTokens(DimsOf(program_.calls[Index(product)].outputs[0]), block);
    });
    const NameId given = GivenTo(block);
    if (given == kNoName) RefuseBlock(block, "is given no tokens");
    if (!IsShared(given)) Open("take_tokens", given, "tokens", block);
  }

  [[noreturn]] void RefuseBlock(const ModuleRun& block, std::string_view why) const {
    Refuse(fmt::format("expected blocks that leave tokens to ranks, but {} {}",
                       program_.modules.PathOf(block.module), why));
  }

  void CheckTokens(const Dims& dims, const ModuleRun& block) const {
    if (dims.size() != 3) RefuseBlock(block, "has no [batch, tokens, features]");
    if (dims[kTokens] % ranks_ == 0) return;
    Refuse(
        fmt::format("expected tokens that {} ranks share evenly, found {}", ranks_, dims[kTokens]));
  }

  // Modules that begin with this call.
  void EnterModule(int64_t call) {
    std::vector<int32_t> begun;
    for (int32_t run = runs_.RunOf(call); run >= 0 && RunAt(run).first == call;
         run = RunAt(run).caller)
      begun.push_back(run);
    for (auto run = begun.rbegin(); run != begun.rend(); ++run) {
      if (takers_.contains(*run)) {
        EnterTaker(RunAt(*run));
      } else if (IsNorm(*run)) {
        EnterNorm(RunAt(*run));
      }
    }
  }
  const ModuleRun& RunAt(int32_t run) const { return runs_.all()[Index(run)]; }

  // What of tokens a module is given: the first that it reads.
  NameId TokensGivenTo(const ModuleRun& run) const {
    for (int64_t call = run.first; call <= run.last; ++call) {
      for (const NameId name : ReadInputs(program_.calls[Index(call)])) {
        if (IsShared(name) && made_at_[Index(name)] < run.first) return name;
      }
    }
    return kNoName;
  }

  void EnterTaker(const ModuleRun& run) {
    const NameId given = TokensGivenTo(run);
    if (given != kNoName) Open("gather_tokens_of_all", given, "all", run);
  }

  // A module without others in it that has vectors, but no matrices.
  bool IsNorm(int32_t run) const {
    const ModuleRun& of = RunAt(run);
    bool has_vectors = false;
    for (int64_t call = of.first; call <= of.last; ++call) {
      if (products_.contains(call) || runs_.RunOf(call) != run) return false;
      for (const NameId name : program_.calls[Index(call)].inputs) {
        if (!of_model_.contains(name)) continue;
        if (DimsOf(name).size() > 1) return false;
        has_vectors = true;
      }
    }
    return has_vectors;
  }

  void EnterNorm(const ModuleRun& run) {
    const NameId given = TokensGivenTo(run);
    if (given == kNoName) return;
    Open("as_distributed", given, "distributed", run);
    for (int64_t call = run.first; call <= run.last; ++call) PassCast(call, given, run.last);
    for (int64_t call = run.first; call <= run.last; ++call)
      AddTensors(program_.calls[Index(call)]);
    // What it returns is the rank's own again (use_local_output).
    for (int64_t call = run.first; call < run.last; ++call) found_.distributed.insert(call);
  }

  void AddTensors(const AtenCall& call) {
    for (const NameId name : call.inputs) {
      if (of_model_.contains(name)) found_.replicated.insert(name);
    }
  }

  // A cast to the type that `given` has is `given`, which torch.export calls by the cast's name
  // from there on: behind the module that is no DTensor.
  void PassCast(int64_t at, NameId given, int64_t last) {
    const AtenCall& call = program_.calls[Index(at)];
    if (call.op != "to" || call.inputs[0] != given) return;
    const NameId cast = call.outputs[0];
    if (program_.values[Index(cast)].type != program_.values[Index(given)].type) return;
    bool is_read_on = false;
    for (auto later = Index(last) + 1; later < program_.calls.size(); ++later)
      is_read_on = Rename(program_.calls[later], cast, given) || is_read_on;
    if (!is_read_on) return;
    const int64_t end = std::max({TakeDeath(given), TakeDeath(cast), last});
    program_.calls[Index(end)].dies.push_back(given);
    program_.calls[Index(last)].dies.push_back(cast);
  }

  // Whether the call reads it.
  static bool Rename(AtenCall& call, NameId from, NameId to) {
    const bool is_read = std::ranges::find(call.inputs, from) != call.inputs.end();
    std::ranges::replace(call.inputs, from, to);
    std::ranges::replace(call.last_reads, from, to);
    for (HeldValue& held : call.held) {
      if (held.value == from) held.value = to;
    }
    return is_read;
  }

  // The call behind which it died.
  int64_t TakeDeath(NameId name) {
    for (auto at = std::ssize(program_.calls) - 1; at >= 0; --at) {
      if (std::erase(program_.calls[Index(at)].dies, name) > 0) return at;
    }
    return -1;
  }

  void Pass(int64_t at) {
    const AtenCall& call = program_.calls[Index(at)];
    if (rows_.contains(at)) {
      found_.shards[call.outputs[0]] = {kTokens, 1};
      return;
    }
    const auto is_shared = [&](NameId name) { return IsShared(name); };
    if (std::ranges::none_of(ReadInputs(call), is_shared)) return;
    const std::optional<Shard> passed = ShardBehind(
        program_, call, [&](NameId name) { return ShardOf(name); }, ranks_);
    if (!passed || !IsOfPlan(at)) return GatherFor(at);
    for (const NameId output : call.outputs) {
      if (output != kNoName) found_.shards[output] = *passed;
    }
  }

  bool IsInBlock(int64_t call) const {
    return std::ranges::any_of(
        blocks_, [&](const ModuleRun& block) { return block.first <= call && call <= block.last; });
  }

  // In blocks, or norms and dropouts behind them (SequenceParallel), or on the way to a head that
  // puts tokens together itself.
  bool IsOfPlan(int64_t at) const {
    const int32_t run = runs_.RunOf(at);
    return !gathers_for_all_ || IsInBlock(at) || program_.calls[Index(at)].op == "dropout" ||
           (run >= 0 && IsNorm(run));
  }

  void GatherFor(int64_t at) {
    const AtenCall& call = program_.calls[Index(at)];
    if (IsInBlock(at)) {
      Refuse(
          fmt::format("expected blocks that leave tokens to ranks, but {} at {} needs all of them",
                      call.op, call.where));
    }
    const std::vector<NameId> inputs = call.inputs;
    for (const NameId name : inputs) {
      if (IsShared(name)) Gather(name);
    }
  }

  // From where it was made on, but for what passes on tokens: when the block has returned that it
  // is of, or the module.
  void Gather(NameId name) {
    const int64_t made_at = made_at_[Index(name)];
    const auto end = static_cast<int64_t>(program_.calls.size());
    open_.push_back(found_.calls.size());
    found_.calls.push_back({.op = "gather_tokens",
                            .name = name,
                            .given = name,
                            .made = Like(name, "all"),
                            .before = made_at + 1,
                            .last = end,
                            .module = program_.calls[Index(made_at)].module,
                            .begin = BeginOf(made_at)});
  }

  int64_t BeginOf(int64_t call) const {
    for (const ModuleRun& block : blocks_) {
      if (block.first <= call && call <= block.last) return block.first;
    }
    const int32_t run = runs_.RunOf(call);
    return run < 0 ? call : RunAt(run).first;
  }

  Program& program_;
  const int64_t ranks_;
  const std::string& path_;
  const ModuleRuns runs_;
  std::vector<ModuleRun> blocks_;
  size_t next_block_ = 0;
  std::set<int64_t> products_;    // of linear layers
  std::set<int64_t> rows_;        // of these: whose rows are shared
  std::set<int32_t> takers_;      // runs of modules that have columns
  bool gathers_for_all_ = true;   // what is behind the blocks
  std::set<NameId> of_model_;     // its tensors
  std::vector<int64_t> made_at_;  // by name: the call, -1: none
  std::vector<size_t> open_;      // of found_.calls, innermost last
  SharedTokens found_;
};

}  // namespace

SharedTokens FindSharedTokens(Program& program, const SharedLayers& layers, int64_t ranks,
                              const std::string& path) {
  return TokenFollower(program, layers, ranks, path).Follow();
}

}  // namespace onnxfit
