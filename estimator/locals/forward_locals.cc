#include "estimator/locals/forward_locals.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/locals/attention_names.h"
#include "estimator/locals/forward_steps.h"
#include "estimator/locals/handed_on.h"
#include "estimator/locals/loop_names.h"
#include "estimator/locals/nested_calls.h"
#include "estimator/locals/read_later.h"
#include "estimator/locals/row_names.h"
#include "estimator/locals/turn_names.h"
#include "estimator/program/like.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

constexpr int64_t kNoRead = -1;

class KnownNameFinder {
 public:
  KnownNameFinder(const Program& program, const ModuleRuns& runs)
      : program_(program),
        calls_(program.calls),
        source_(program.source),
        runs_(runs),
        last_reads_(program.values.size(), kNoRead) {
    for (size_t i = 0; i < calls_.size(); ++i) {
      for (const NameId value : calls_[i].inputs) {
        if (value != kNoName) last_reads_[Index(value)] = static_cast<int64_t>(i);
      }
    }
  }

  std::vector<KnownName> Find(int64_t last) {
    const auto shows_lines = [](const AtenCall& call) { return !call.frames.empty(); };
    if (last < 0) return {};
    last_ = last;
    shows_lines_ = std::ranges::any_of(calls_, shows_lines);
    Read({0, last, 0});
    for (const ModuleRun& run : runs_.all()) {
      if (run.first <= last) Read({run.first, run.last, run.level + 1});
    }
    return std::move(names_);
  }

  bool shows_lines() const { return shows_lines_; }

 private:
  const AtenCall& At(int64_t call) const { return calls_[Index(call)]; }

  void Read(const ForwardRun& forward) {
    const std::vector<ForwardStep> steps = StepsOf(program_, runs_, forward);
    known_ = names_.size();
    IndexOwnMakers(steps);
    if (shows_lines_) return FindShared(forward, steps);
    FindRowNames(program_, runs_, last_reads_, forward, steps, last_, names_);
    FindEmbedded(forward, steps);
    FindShared(forward, steps);
    FindNestedNames(calls_, last_reads_, steps, names_);
    FindReadLater(program_, runs_, forward, steps, known_, names_);
    FindFeatures(forward, steps);
    FindLastLine(calls_, forward, steps, known_, names_);
    FindLoopNames(program_, runs_, last_reads_, forward, steps, known_, names_);
    for (const ForwardStep& step : steps) {
      if (!step.is_child && step.key == "scaled_dot_product_attention") BindQuery(step, forward);
    }
    FindCached(forward, steps);
    FindFilled(forward, steps);
    FindQuantized(forward, steps);
    FindHandedOn(calls_, forward, steps, known_, names_);
    FindTurnNames(program_, runs_, forward, steps, known_, names_);
    FindUnread(forward, steps);
  }

  void Bind(const ForwardStep& step, int64_t until, std::string_view name) {
    for (const NameId value : At(step.last).outputs) {
      if (value != kNoName) names_.push_back({value, until, std::string(name)});
    }
  }

  // embeds = self.embed(ids)
  void FindEmbedded(const ForwardRun& forward, const std::vector<ForwardStep>& steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      const AtenCall& last = At(steps[i].last);
      const size_t depth = forward.level + 1;
      const bool is_leaf =
          runs_.DepthAt(steps[i].first) == depth && runs_.DepthAt(steps[i].last) == depth;
      if (!steps[i].is_child || !is_leaf) continue;
      const bool embeds = last.op == "embedding" || (At(steps[i].first).op == "embedding");
      if (!embeds || IsScaled(last, i + 1 < steps.size() ? &steps[i + 1] : nullptr)) continue;
      const bool is_known = !last.outputs.empty() && IsKnown(last.outputs[0]);
      if (forward.level > 0 && !IsOfSequential(forward, steps[i]) && !is_known)
        Bind(steps[i], forward.last, steps[i].key);
      BindPositions(forward, steps, steps[i]);
    }
  }

  // "x = x + residual" of a loop's last turn, and what a layer returns there: what is made and
  // never read has a name.
  void FindUnread(const ForwardRun& forward, const std::vector<ForwardStep>& steps) {
    for (const ForwardStep& step : steps) {
      const bool is_layer = step.is_child && IsListed(step.key);
      for (int64_t i = step.first; i <= step.last; ++i) {
        const bool is_own = runs_.DepthAt(i) == forward.level + (is_layer ? 1 : 0);
        if (is_own && IsUnreadSum(At(i)))
          names_.push_back({At(i).outputs[0], forward.last, "what is not read"});
      }
    }
  }

  bool IsUnreadSum(const AtenCall& call) const {
    return call.op == "add" && !call.outputs.empty() &&
           last_reads_[Index(call.outputs[0])] == kNoRead && !IsOutput(call.outputs[0]);
  }

  bool IsOutput(NameId value) const {
    return value == program_.loss ||
           std::ranges::find(program_.outputs, value) != program_.outputs.end();
  }

  // Whether the forward is a Sequential's, "input = module(input)", with the step's child in it.
  bool IsOfSequential(const ForwardRun& forward, const ForwardStep& step) const {
    const ModuleId module = At(forward.first).module;
    const std::string& own = program_.modules.NameAt(module, forward.level - 1);
    return IsListed(step.key) && ParentOf(step.key) == own.substr(0, own.find('@'));
  }

  bool IsScaled(const AtenCall& made, const ForwardStep* next) const {
    if (next == nullptr || next->key != "mul.Scalar") return false;
    return At(next->first).inputs[0] == made.outputs[0];
  }

  // pos = torch.arange(n)
  void BindPositions(const ForwardRun& forward, const std::vector<ForwardStep>& steps,
                     const ForwardStep& embedding) {
    const std::vector<NameId>& read = At(embedding.first).inputs;
    for (const ForwardStep& step : steps) {
      const bool is_made_here = !step.is_child && step.first < embedding.first;
      if (!is_made_here || At(step.first).op != "constant") continue;
      const NameId made = At(step.first).outputs[0];
      if (std::ranges::find(read, made) != read.end()) Bind(step, forward.last, "positions");
    }
  }

  void BindQuery(const ForwardStep& step, const ForwardRun& forward) {
    constexpr std::string_view kNames[] = {"query", "key", "value"};
    const int64_t until = EndOfAttention(program_, runs_, forward, step.last);
    for (size_t i = 0; i < std::size(kNames); ++i) {
      const NameId value = At(step.first).inputs[i];
      if (value != kNoName) names_.push_back({value, until, std::string(kNames[i])});
    }
  }

  // What several turns of a loop over layers read and one of them, or the forward, has made.
  void FindShared(const ForwardRun& forward, const std::vector<ForwardStep>& steps) {
    std::map<NameId, std::set<std::string_view>>
        readers;                      // layers that read what they did not make
    std::map<NameId, size_t> last;    // of them
    std::map<NameId, size_t> makers;  // the step
    for (size_t turn = 0; turn < steps.size(); ++turn) {
      const ForwardStep& step = steps[turn];
      std::set<NameId> own;
      for (int64_t i = step.first; i <= step.last; ++i) {
        const bool is_layer = step.is_child && IsListed(step.key);
        for (const NameId value : At(i).inputs) {
          if (!is_layer || !makers.contains(value) || own.contains(value)) continue;
          readers[value].insert(step.key);
          last[value] = turn;
        }
        if (IsUnshown(At(i))) own.insert(At(i).outputs.begin(), At(i).outputs.end());
      }
      for (const NameId value : own) makers[value] = turn;
    }
    for (const auto& [value, layers] : readers) {
      if (!AreTurns(layers) || IsKnown(value)) continue;
      const int64_t until = EndOfShared(forward, steps, makers[value], last[value]);
      names_.push_back({value, until, "what the layers share"});
    }
  }

  // "for i in range(n): x = self.ups[i](x); y = blocks[i][0](x) + blocks[i][1](x); x = y / 2": what
  // is not a sum behind the layers binds anew what a layer of another list has made, as the next
  // one, or, of the last, that layer itself, reads such a result.
  int64_t EndOfShared(const ForwardRun& forward, const std::vector<ForwardStep>& steps,
                      size_t maker, size_t last) const {
    const auto is_turn = [&](const ForwardStep& step) {
      return step.is_child && IsListed(step.key) &&
             ParentOf(step.key) == ParentOf(steps[maker].key);
    };
    if (!is_turn(steps[maker]) || is_turn(steps[last])) return forward.last;
    size_t next = last + 1;
    while (next < steps.size() && RuleNameOf(steps[next].key) == "add") ++next;
    if (next >= steps.size() || steps[next].is_child) return forward.last;
    const auto turn =
        std::find_if(steps.begin() + static_cast<std::ptrdiff_t>(next), steps.end(), is_turn);
    const ForwardStep& layer = turn == steps.end() ? steps[maker] : *turn;
    return ReadsResultOf(layer, steps, steps[next].key) ? steps[next].last : forward.last;
  }

  // Whether the step reads first what one of the forward's own calls of that operator has made, or
  // what another one, an activation, makes of that.
  bool ReadsResultOf(const ForwardStep& step, const std::vector<ForwardStep>& steps,
                     std::string_view key) const {
    constexpr int kMostBetween = 2;
    const ForwardStep* reader = &step;
    for (int between = 0; between < kMostBetween && reader != nullptr; ++between) {
      reader = OwnMakerOf(*reader, steps);
      if (reader != nullptr && reader->key == key) return true;
    }
    return false;
  }

  // The forward's own call that makes what the step reads first; null without one.
  const ForwardStep* OwnMakerOf(const ForwardStep& step,
                                const std::vector<ForwardStep>& steps) const {
    const std::vector<NameId>& read = At(step.first).inputs;
    if (read.empty()) return nullptr;
    const auto maker = own_makers_.find(read[0]);
    return maker == own_makers_.end() ? nullptr : &steps[maker->second];
  }

  void IndexOwnMakers(const std::vector<ForwardStep>& steps) {
    own_makers_.clear();
    for (size_t i = 0; i < steps.size(); ++i) {
      const std::vector<NameId>& made = At(steps[i].last).outputs;
      if (!steps[i].is_child && !made.empty()) own_makers_.emplace(made[0], i);
    }
  }

  // Whether no line tells what it binds: the file has none, or that of a graph that torch.export
  // made of a part, the rotary embedding under torch.no_grad().
  bool IsUnshown(const AtenCall& call) const {
    return !shows_lines_ || (!call.frames.empty() && call.frames.back() != kNoStatement &&
                             source_.At(call.frames.back()).is_generated);
  }

  // Whether a row says until when a name of the forward holds it.
  bool IsKnown(NameId value) const { return HoldsSince(names_, known_, value); }

  // x = self.forward_features(x); x = self.forward_head(x)
  void FindFeatures(const ForwardRun& forward, const std::vector<ForwardStep>& steps) {
    for (const ForwardStep& step : steps) {
      const bool has_parts = runs_.DepthAt(step.first) > forward.level + 1;
      if (!step.is_child || !has_parts || !BeginsHead(step.key)) continue;
      for (const NameId value : At(step.first).inputs) {
        if (value != kNoName) names_.push_back({value, forward.last, "features"});
      }
      return;
    }
  }

  // mask = torch.ones((n, h, w)) that a child reads.
  void FindFilled(const ForwardRun& forward, const std::vector<ForwardStep>& steps) {
    const auto is_constant = [](const ForwardStep& step) {
      return !step.is_child && step.key == "constant";
    };
    const std::set<NameId> read = ReadByChildren(steps, is_constant);
    for (const ForwardStep& step : steps) {
      if (is_constant(step) && read.contains(At(step.first).outputs[0]))
        Bind(step, forward.last, "mask");
    }
  }

  // Of what the steps that `is_asked` make: what later children read.
  template <typename IsAsked>
  std::set<NameId> ReadByChildren(const std::vector<ForwardStep>& steps, IsAsked is_asked) const {
    std::set<NameId> made, read;
    for (const ForwardStep& step : steps) {
      if (is_asked(step)) made.insert(At(step.first).outputs[0]);
      if (!step.is_child || made.empty()) continue;
      for (int64_t call = step.first; call <= step.last; ++call) {
        for (const NameId value : At(call).inputs) {
          if (made.contains(value)) read.insert(value);
        }
      }
    }
    return read;
  }

  // k, v = cache.update(k, v, layer), before it attends: torch.cat of what the cache has, nothing
  // in the first turn, and of each.  The forward that runs the layers has made the cache.
  void FindCached(const ForwardRun& forward, const std::vector<ForwardStep>& steps) {
    const auto is_alone = [&](const ForwardStep& step) {
      return !step.is_child && step.key == "cat" && At(step.first).inputs.size() == 1;
    };
    const auto attends = std::ranges::find_if(steps, Attends);
    const auto keys = std::adjacent_find(
        steps.begin(), attends,
        [&](const ForwardStep& k, const ForwardStep& v) { return is_alone(k) && is_alone(v); });
    if (attends == steps.end() || keys == attends) return;
    for (const ForwardStep& update : {*keys, *(keys + 1)}) {
      EndNames(At(update.first).inputs[0], steps, update.last);
      Bind(update, EndOfLayers(forward), "cache");
    }
  }

  // Names of what the forward's own views show as `value` hold another one behind call `last`.
  void EndNames(NameId value, const std::vector<ForwardStep>& steps, int64_t last) {
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      const bool is_view = !step->is_child && (step->key == "view" || step->key == "permute");
      if (is_view && At(step->first).outputs[0] == value) value = At(step->first).inputs[0];
    }
    for (size_t i = known_; i < names_.size(); ++i) {
      if (names_[i].value == value) names_[i].until = std::min(names_[i].until, last);
    }
  }

  // The end of the forward that has the outermost list of layers around it.
  int64_t EndOfLayers(const ForwardRun& forward) const {
    const ModuleId module = At(forward.first).module;
    for (size_t level = 0; level < forward.level; ++level) {
      if (!IsListed(program_.modules.NameAt(module, level))) continue;
      return level == 0 ? last_ : runs_.EndOf(forward.first, level - 1);
    }
    return last_;
  }

  // d = …; indices = torch.argmin(d, dim=1), of vector quantization, and min_encodings of these,
  // which a product reads.  Source: CompVis/taming-transformers
  // 049bd9154dd94d8672c4f4fc73a89e6e8d5ca568, taming/modules/vqvae/quantize.py.
  void FindQuantized(const ForwardRun& forward, const std::vector<ForwardStep>& steps) {
    for (const ForwardStep& step : steps) {
      const ForwardStep* maker = step.is_child ? nullptr : OwnMakerOf(step, steps);
      if (maker == nullptr) continue;
      if (step.key == "argmin" && maker->key == "sub") Bind(*maker, forward.last, "d");
      if (step.key != "mm" && step.key != "matmul") continue;
      const bool is_cast = maker->key == "to" || maker->key == "type_as";
      const ForwardStep* one_hot = is_cast ? OwnMakerOf(*maker, steps) : nullptr;
      if (one_hot != nullptr && one_hot->key == "one_hot")
        Bind(*maker, forward.last, "min_encodings");
    }
  }

  const Program& program_;
  const std::vector<AtenCall>& calls_;
  const SourceLines& source_;
  const ModuleRuns& runs_;
  std::vector<int64_t> last_reads_;  // by value: the call, kNoRead without one
  int64_t last_ = 0;                 // the model's last call
  bool shows_lines_ = false;
  std::vector<KnownName> names_;
  size_t known_ = 0;                     // where those of the forward at hand begin
  std::map<NameId, size_t> own_makers_;  // of the forward at hand: which own step made a value
};

}  // namespace

bool HoldsSince(const std::vector<KnownName>& names, size_t known, NameId value) {
  return std::any_of(names.begin() + static_cast<std::ptrdiff_t>(known), names.end(),
                     [=](const KnownName& name) { return name.value == value; });
}

std::vector<KnownName> FindKnownNames(const Program& program, const ModuleRuns& runs,
                                      int64_t last) {
  KnownNameFinder finder(program, runs);
  std::vector<KnownName> names = finder.Find(last);
  if (finder.shows_lines()) return names;
  std::ranges::move(FindAttentionNames(program, runs, last), std::back_inserter(names));
  return names;
}

}  // namespace onnxfit
