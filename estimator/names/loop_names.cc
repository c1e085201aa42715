#include "estimator/names/loop_names.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/base/module_names.h"
#include "estimator/program/statements.h"

namespace onnxfit {
namespace {

class LoopNameFinder {
 public:
  LoopNameFinder(const std::vector<AtenCall>& calls, const ModuleRuns& runs,
                 const std::vector<int64_t>& last_reads, const ForwardRun& forward,
                 const std::vector<ForwardStep>& steps, size_t known, std::vector<KnownName>& names)
      : calls_(calls),
        runs_(runs),
        last_reads_(last_reads),
        forward_(forward),
        steps_(steps),
        known_(known),
        names_(names) {}

  void Find() {
    FindGathered();
    FindAppended();
    FindPairs();
    FindParts();
  }

 private:
  const AtenCall& At(int64_t call) const { return calls_[Index(call)]; }

  void Bind(const ForwardStep& step, int64_t until, std::string_view name) {
    for (const NameId value : At(step.last).outputs) {
      if (value != kNoName) names_.push_back({value, until, std::string(name)});
    }
  }

  // Whether a row says until when a name of the forward holds it.
  bool IsKnown(NameId value) const { return HoldsSince(names_, known_, value); }

  // xs = [conv(x) for conv in self.convs]; x = torch.cat(xs, dim=1)
  void FindGathered() {
    std::map<NameId, const ForwardStep*> makers;  // of what layers of lists make
    for (const ForwardStep& step : steps_) {
      if (step.is_child && IsListed(step.key)) {
        for (const NameId value : At(step.last).outputs) makers[value] = &step;
      }
      if (step.is_child || step.key != "cat") continue;
      std::set<std::string_view> layers;
      for (const NameId value : At(step.first).inputs) {
        if (makers.contains(value)) layers.insert(makers[value]->key);
      }
      const std::string_view list = layers.empty() ? "" : ParentOf(*layers.begin());
      const auto is_of_list = [&](std::string_view layer) { return ParentOf(layer) == list; };
      if (layers.size() < 2 || !std::ranges::all_of(layers, is_of_list)) continue;
      for (const NameId value : At(step.first).inputs) {
        if (makers.contains(value)) names_.push_back({value, forward_.last, "what a list gathers"});
      }
    }
  }

  // "for stage in self.stages: x = stage(x); xs.append(x)", of which the file shows that some are
  // read behind the loop and others are not, so that nothing takes them out of the list.
  void FindAppended() {
    for (const auto& [list, turns] : LoopsOf(steps_)) {
      if (turns.size() < 3 || turns.back()->key == turns.front()->key) continue;
      const int64_t end = turns.back()->last;
      const auto is_read_behind = [&](const ForwardStep* turn) {
        const std::vector<NameId>& made = At(turn->last).outputs;
        if (made.size() != 1 || made[0] == kNoName) return false;
        const int64_t read = last_reads_[Index(made[0])];
        return read > end && read <= forward_.last;
      };
      const auto behind = std::count_if(turns.begin(), turns.end() - 1, is_read_behind);
      const auto most = static_cast<std::ptrdiff_t>(turns.size()) - 1;
      if (behind < 1 || behind == most) continue;
      for (const ForwardStep* turn : turns) Bind(*turn, forward_.last, "what a list holds");
    }
  }

  // "residual, skip = block(x)" of a loop: what layers of a list return beside another value is
  // held until the next one has returned its own.
  void FindPairs() {
    for (const auto& [list, turns] : LoopsOf(steps_)) {
      std::set<int64_t> all;  // which calls of a turn make what is read behind it
      for (const ForwardStep* turn : turns) {
        const std::set<int64_t> returned = ReturnedBy(*turn);
        all.insert(returned.begin(), returned.end());
      }
      const bool are_alike = AreAlike(turns, all);
      for (size_t t = 0; t < turns.size(); ++t) {
        const int64_t until = t + 1 < turns.size() ? turns[t + 1]->last : forward_.last;
        const std::set<int64_t> returned = are_alike ? all : ReturnedBy(*turns[t]);
        for (const int64_t call : returned) {
          const int64_t maker = turns[t]->first + call;
          if (returned.size() > 1) Bind({{}, maker, maker}, until, "what layers return");
        }
      }
    }
  }

  // Which calls of a layer, counted from its first, make what is read behind it.
  std::set<int64_t> ReturnedBy(const ForwardStep& turn) const {
    std::set<int64_t> returned;
    for (int64_t i = turn.first; i <= turn.last; ++i) {
      for (const NameId value : At(i).outputs) {
        const bool leaves = value != kNoName && last_reads_[Index(value)] > turn.last;
        if (leaves && !IsKnown(value)) returned.insert(i - turn.first);
      }
    }
    return returned;
  }

  // "a, b = x.chunk(2)": parts have names, which the next turn of a loop binds anew.
  void FindParts() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      const ForwardStep& step = steps_[i];
      if (step.is_child || (step.key != "split" && step.key != "unbind")) continue;
      int64_t read = step.last;
      int parts = 0;  // that are read: "x.chunk(2)[0]" has no name for the other
      for (const NameId part : At(step.first).outputs) {
        if (part == kNoName || IsKnown(part) || last_reads_[Index(part)] <= step.last) continue;
        read = std::max(read, last_reads_[Index(part)]);
        ++parts;
      }
      if (parts < 2) continue;
      const auto is_next = [&](const ForwardStep& later) {
        return !later.is_child && later.first > read &&
               MakeSameCalls(calls_, {step.first, step.first}, {later.first, later.first});
      };
      const auto next = std::ranges::find_if(steps_, is_next);
      int64_t until = next == steps_.end() ? forward_.last : next->last;
      if (const int64_t context = ContextOf(i); context >= 0)
        until = std::min(until, EndOfAttention(calls_, runs_, forward_, context));
      Bind(step, until, "parts");
    }
  }

  // The next call that attends, to the parts mostly; -1 where none does.
  int64_t ContextOf(size_t parts) const {
    const auto begin = steps_.begin() + static_cast<std::ptrdiff_t>(parts);
    const auto attends = std::find_if(begin, steps_.end(), Attends);
    return attends == steps_.end() ? -1 : attends->last;
  }

  // Whether the calls that `returned` counts are the same ones in each turn.
  bool AreAlike(const std::vector<const ForwardStep*>& turns,
                const std::set<int64_t>& returned) const {
    return std::ranges::all_of(turns, [&](const ForwardStep* turn) {
      return std::ranges::all_of(returned, [&](int64_t call) {
        return turn->first + call <= turn->last &&
               At(turn->first + call).op == At(turns[0]->first + call).op;
      });
    });
  }

  const std::vector<AtenCall>& calls_;
  const ModuleRuns& runs_;
  const std::vector<int64_t>& last_reads_;
  const ForwardRun& forward_;
  const std::vector<ForwardStep>& steps_;
  size_t known_;
  std::vector<KnownName>& names_;
};

}  // namespace

void FindLoopNames(const std::vector<AtenCall>& calls, const ModuleRuns& runs,
                   const std::vector<int64_t>& last_reads, const ForwardRun& forward,
                   const std::vector<ForwardStep>& steps, size_t known,
                   std::vector<KnownName>& names) {
  LoopNameFinder(calls, runs, last_reads, forward, steps, known, names).Find();
}

}  // namespace onnxfit
