#include "estimator/locals/handed_on.h"

#include <algorithm>
#include <map>

#include "estimator/base/index.h"
#include "estimator/base/module_names.h"
#include "estimator/program/like.h"

namespace onnxfit {
namespace {

class HandedOnFinder {
 public:
  // All must outlive it.
  HandedOnFinder(const std::vector<AtenCall>& calls, const ForwardRun& forward,
                 const std::vector<ForwardStep>& steps, size_t known, std::vector<KnownName>& names)
      : calls_(calls), forward_(forward), steps_(steps), known_(known), names_(names) {
    for (const ForwardStep& step : steps_) {
      for (const NameId value : MadeBy(step)) makers_[value] = &step;
      for (int64_t i = step.first; i <= step.last; ++i) {
        for (const NameId value : calls_[Index(i)].inputs) readers_[value].push_back(&step);
      }
    }
    makers_.erase(kNoName);
  }

  void Find() {
    for (const LoopOfLayers& loop : LoopsOf(steps_)) FindCarried(loop);
    for (const ForwardStep& step : steps_) FindSide(step);
  }

 private:
  const std::vector<NameId>& MadeBy(const ForwardStep& step) const {
    return calls_[Index(step.last)].outputs;
  }

  void Bind(NameId value, int64_t until) {
    if (!HoldsSince(names_, known_, value)) names_.push_back({value, until, "what a turn reads"});
  }

  // What layers of a list read first.
  void FindCarried(const LoopOfLayers& loop) {
    for (size_t t = 0; t + 1 < loop.turns.size(); ++t) {
      const ForwardStep& turn = *loop.turns[t];
      const ForwardStep& next = *loop.turns[t + 1];
      const NameId read = ReadFirst(turn);
      const NameId anew = ReadFirst(next);
      const ForwardStep* maker = OwnMaker(anew);
      if (maker == nullptr || maker < &turn || !IsReadBetween(read, turn, next)) continue;
      const std::vector<NameId>& operands = calls_[Index(maker->first)].inputs;
      const bool takes_name = std::ranges::find(operands, read) != operands.end();
      if (takes_name) continue;
      Bind(read, maker->last);
      const bool is_last = t + 2 == loop.turns.size() && readers_[anew].back() == &next;
      if (is_last) Bind(anew, forward_.last);
    }
  }

  // The second operand of a sum whose first one the forward has made behind it.
  void FindSide(const ForwardStep& sum) {
    const std::vector<NameId>& read = calls_[Index(sum.first)].inputs;
    if (sum.is_child || RuleNameOf(sum.key) != "add" || read.size() != 2) return;
    const ForwardStep* first = OwnMaker(read[0]);
    const auto side = makers_.find(read[1]);
    if (first == nullptr || side == makers_.end() || !side->second->is_child) return;
    if (side->second < first) Bind(read[1], EndOfTurn(*side->second));
  }

  NameId ReadFirst(const ForwardStep& step) const {
    const std::vector<NameId>& read = calls_[Index(step.first)].inputs;
    return read.empty() ? kNoName : read[0];
  }

  // The call of the forward's own that makes it; null where none does.
  const ForwardStep* OwnMaker(NameId value) const {
    const auto maker = makers_.find(value);
    return maker == makers_.end() || maker->second->is_child ? nullptr : maker->second;
  }

  bool IsReadBetween(NameId value, const ForwardStep& from, const ForwardStep& to) const {
    const auto readers = readers_.find(value);
    return value != kNoName && makers_.contains(value) &&
           std::ranges::any_of(readers->second, [&](const ForwardStep* reader) {
             return !reader->is_child && &from < reader && reader < &to;
           });
  }

  // Until when a name holds what the child makes: the next layer of its list, or the next turn.
  int64_t EndOfTurn(const ForwardStep& child) const {
    const auto at = static_cast<size_t>(&child - steps_.data());
    if (!IsListed(child.key)) {
      const size_t next = NextTurnOf(steps_, at);
      return next < steps_.size() ? steps_[next].last : forward_.last;
    }
    const auto is_next = [&](const ForwardStep& step) {
      return step.is_child && IsListed(step.key) && ParentOf(step.key) == ParentOf(child.key);
    };
    const auto next =
        std::find_if(steps_.begin() + static_cast<std::ptrdiff_t>(at) + 1, steps_.end(), is_next);
    return next == steps_.end() ? forward_.last : next->last;
  }

  const std::vector<AtenCall>& calls_;
  const ForwardRun& forward_;
  const std::vector<ForwardStep>& steps_;
  size_t known_;
  std::vector<KnownName>& names_;
  std::map<NameId, const ForwardStep*> makers_;
  std::map<NameId, std::vector<const ForwardStep*>> readers_;  // in order
};

}  // namespace

void FindHandedOn(const std::vector<AtenCall>& calls, const ForwardRun& forward,
                  const std::vector<ForwardStep>& steps, size_t known,
                  std::vector<KnownName>& names) {
  HandedOnFinder(calls, forward, steps, known, names).Find();
}

}  // namespace onnxfit
