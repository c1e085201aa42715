#include "estimator/locals/loop_names.h"

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
  LoopNameFinder(const Program& program, const ModuleRuns& runs,
                 const std::vector<int64_t>& last_reads, const ForwardRun& forward,
                 const std::vector<ForwardStep>& steps, size_t known, std::vector<KnownName>& names)
      : program_(program),
        calls_(program.calls),
        runs_(runs),
        last_reads_(last_reads),
        forward_(forward),
        steps_(steps),
        known_(known),
        names_(names) {}

  void Find() {
    FindGathered();
    FindAppended();
    FindBoth();
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
      const bool are_taken = behind == most && !AreMapped(turns);
      if (behind < 1 || are_taken) continue;
      for (const ForwardStep* turn : turns) Bind(*turn, forward_.last, "what a list holds");
    }
  }

  // "torch.cat([self.classify(x) for x in xs], dim=1)": what is made of each of them, apart from
  // the others, is joined once, where "x = torch.cat([x, xs.pop()], dim=1)" reads them by and by.
  bool AreMapped(const std::vector<const ForwardStep*>& turns) const {
    const size_t behind = IndexOf(*turns.back()) + 1;
    std::set<size_t> made;  // steps that make something of one of them
    std::set<size_t> joins;
    for (const ForwardStep* turn : turns) {
      bool calls_child = false;
      size_t next = ReaderOf(*turn, behind);
      while (next < steps_.size() && steps_[next].key != "cat") {
        if (!made.insert(next).second) return false;
        calls_child |= steps_[next].is_child;
        next = ReaderOf(steps_[next], next + 1);
      }
      if (!calls_child) return false;
      joins.insert(next);
    }
    return joins.size() == 1 && *joins.begin() < steps_.size();
  }

  // "a, b = self.pyramid(x), self.pyramid(y)": what the layers of one list, which run again, make
  // of two is read behind both.
  void FindBoth() {
    for (const auto& [list, turns] : LoopsOf(steps_)) {
      std::vector<const ForwardStep*> both = turns;
      for (const ForwardStep* turn : turns) {
        const auto is_again = [&](const ForwardStep& step) { return IsSecondRun(step, *turn); };
        const auto second = std::ranges::find_if(steps_, is_again);
        if (second != steps_.end()) both.push_back(&*second);
      }
      if (turns.size() < 3 || both.size() != 2 * turns.size()) continue;
      const size_t behind = IndexOf(*both.back()) + 1;
      const bool are_read = std::ranges::all_of(
          both, [&](const ForwardStep* turn) { return ReaderOf(*turn, behind) < steps_.size(); });
      if (!are_read) continue;
      for (const ForwardStep* turn : both) Bind(*turn, forward_.last, "what a list holds");
    }
  }

  // As TorchScript calls them: "s.0@1", and "s.0_1" of what has no module inside.
  static bool IsSecondRun(const ForwardStep& step, const ForwardStep& first) {
    const std::string_view key = step.key;
    return step.is_child && key.starts_with(first.key) &&
           (key.substr(first.key.size()) == "@1" || key.substr(first.key.size()) == "_1");
  }

  size_t IndexOf(const ForwardStep& step) const {
    return static_cast<size_t>(&step - steps_.data());
  }

  // The first step from `from` on that reads what `maker` makes; the number of steps where none
  // does.
  size_t ReaderOf(const ForwardStep& maker, size_t from) const {
    const std::vector<NameId>& made = At(maker.last).outputs;
    const auto reads = [&](const AtenCall& call) {
      return !made.empty() && made[0] != kNoName &&
             std::ranges::find(call.inputs, made[0]) != call.inputs.end();
    };
    while (from < steps_.size() && std::none_of(calls_.begin() + steps_[from].first,
                                                calls_.begin() + steps_[from].last + 1, reads)) {
      ++from;
    }
    return from;
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
      if (const size_t end = EndOfMap(i); end > i) {
        const NameId query = At(steps_[i + 1].first).inputs[0];
        names_.push_back({query, steps_[end].last, "q"});
        Bind(step, steps_[end].last, "parts");
        continue;
      }
      int64_t until = next == steps_.end() ? forward_.last : next->last;
      if (const int64_t context = ContextOf(i); context >= 0)
        until = std::min(until, EndOfAttention(program_, runs_, forward_, context));
      Bind(step, until, "parts");
    }
  }

  // The last step of "q, k, v = map(split_heads, (q, k, v))" of two parts and what a child has made
  // before, which binds their names anew: the steps behind step `parts` make the same of each.
  // `parts` of others.
  size_t EndOfMap(size_t parts) const {
    const std::vector<NameId>& made = At(steps_[parts].first).outputs;
    size_t size = 1;  // of what is made of one
    while (parts + size + 1 < steps_.size() && GoesOn(parts + size)) ++size;
    const size_t end = parts + 3 * size;
    if (made.size() != 2 || end >= steps_.size() || !ReadsChild(parts + 1)) return parts;
    for (size_t i = 0; i < size; ++i) {
      for (size_t part = 0; part < 2; ++part) {
        const ForwardStep& step = steps_[parts + 1 + i + (part + 1) * size];
        const std::vector<NameId>& read = At(step.first).inputs;
        const bool is_same =
            !step.is_child && step.key == steps_[parts + 1 + i].key && !read.empty();
        if (!is_same || (i == 0 && read[0] != made[part])) return parts;
      }
    }
    return end;
  }

  // Whether the step behind step `i`, both the forward's own, reads first what that makes.
  bool GoesOn(size_t i) const {
    const std::vector<NameId>& made = At(steps_[i].last).outputs;
    const std::vector<NameId>& read = At(steps_[i + 1].first).inputs;
    return !steps_[i].is_child && !steps_[i + 1].is_child && !made.empty() && !read.empty() &&
           read[0] == made[0];
  }

  // Whether step `i`, the forward's own, reads first what a child has made before.
  bool ReadsChild(size_t i) const {
    const std::vector<NameId>& read = At(steps_[i].first).inputs;
    const auto makes = [&](const ForwardStep& step) {
      return step.is_child && At(step.last).outputs == std::vector<NameId>{read[0]};
    };
    return !steps_[i].is_child && !read.empty() && read[0] != kNoName &&
           std::any_of(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(i), makes);
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

  const Program& program_;
  const std::vector<AtenCall>& calls_;
  const ModuleRuns& runs_;
  const std::vector<int64_t>& last_reads_;
  const ForwardRun& forward_;
  const std::vector<ForwardStep>& steps_;
  size_t known_;
  std::vector<KnownName>& names_;
};

}  // namespace

void FindLoopNames(const Program& program, const ModuleRuns& runs,
                   const std::vector<int64_t>& last_reads, const ForwardRun& forward,
                   const std::vector<ForwardStep>& steps, size_t known,
                   std::vector<KnownName>& names) {
  LoopNameFinder(program, runs, last_reads, forward, steps, known, names).Find();
}

}  // namespace onnxfit
