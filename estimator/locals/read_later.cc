#include "estimator/locals/read_later.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <string>

#include "estimator/base/index.h"
#include "estimator/base/numbered_names.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

bool IsView(const ForwardStep& step) {
  constexpr std::string_view kViews[] = {"slice", "view", "permute", "select", "expand"};
  return !step.is_child && std::ranges::find(kViews, step.key) != std::end(kViews);
}

class ReadLaterFinder {
 public:
  // All must outlive it.
  ReadLaterFinder(const std::vector<AtenCall>& calls, const ModuleRuns& runs,
                  const ForwardRun& forward, const std::vector<ForwardStep>& steps, size_t known,
                  std::vector<KnownName>& names)
      : calls_(calls), runs_(runs), forward_(forward), steps_(steps), known_(known), names_(names) {
    for (size_t i = 0; i < steps_.size(); ++i) ReadStep(i);
  }

  // What is read after another child has run has a name of its own, unless a sum or product of it
  // takes the name, "x = x + y".  Names in loops are bound anew.
  void Find() {
    std::map<std::string, size_t> named;  // by what their makers have in common
    for (const auto& [value, reads] : reads_) {
      const size_t maker = makers_[value];
      const std::span between = std::span(steps_).subspan(maker + 1, reads.last - maker - 1);
      const bool is_later = std::ranges::any_of(between, &ForwardStep::is_child);
      if (!is_later || !HasName(maker, reads, value) || IsKnown(value)) continue;
      const size_t next = NextTurnOf(steps_, maker);
      const bool is_bound_anew = next < steps_.size() && next > reads.last;
      names_.push_back(
          {value, is_bound_anew ? steps_[next].last : forward_.last, "what is read later"});
      if (!is_bound_anew) ++named[NumberPattern(steps_[maker].key)];
    }
    FindLikeNamed(named);
  }

 private:
  struct Reads {
    size_t last = 0;                   // the step
    size_t steps = 0;                  // how many
    std::set<std::string_view> turns;  // layers of loops
  };

  const AtenCall& At(int64_t call) const { return calls_[Index(call)]; }

  void ReadStep(size_t i) {
    const ForwardStep& step = steps_[i];
    for (int64_t call = step.first; call <= step.last; ++call) {
      for (const NameId value : At(call).inputs) {
        if (!makers_.contains(value)) continue;
        Reads& reads = reads_[value];
        if (reads.steps == 0 || reads.last != i) ++reads.steps;
        reads.last = i;
        if (step.is_child && IsListed(step.key)) reads.turns.insert(step.key);
      }
    }
    if (IsListed(step.key) || !(step.is_child || IsViewOfPart(step))) return;
    for (const NameId value : At(step.last).outputs) {
      if (value != kNoName) makers_[value] = i;
    }
  }

  bool HasName(size_t maker, const Reads& reads, NameId value) const {
    const ForwardStep& last = steps_[reads.last];
    const bool is_of_loop = reads.turns.contains(last.key) && !AreTurns(reads.turns);
    return !is_of_loop && !TakesName(last, value) && !IsJoinedAtOnce(maker, reads) &&
           reads.last > RebindingOf(maker, value);
  }

  // x = x + y
  bool TakesName(const ForwardStep& step, NameId value) const {
    const std::vector<NameId>& inputs = At(step.first).inputs;
    const bool is_other = step.is_child || step.key == "cat" || IsView(step);
    return !is_other && inputs.size() <= 2 && inputs[0] == value;
  }

  // flat = self.encoder(x).flatten(1): in the outermost forward, a view of what a module with
  // modules of its own has made, which is a line; of a layer it may be a part of one.
  bool IsViewOfPart(const ForwardStep& step) const {
    const bool is_view = step.key == "view" || step.key == "permute";
    if (forward_.level > 0 || !is_view) return false;
    const auto base = makers_.find(At(step.first).inputs[0]);
    return base != makers_.end() && runs_.DepthAt(steps_[base->second].last) > 1;
  }

  // torch.cat([self.users(user), self.items(item)], dim=-1) of the outermost forward, which may
  // give no names to what is embedded.
  bool IsJoinedAtOnce(size_t maker, const Reads& reads) const {
    const ForwardStep& step = steps_[maker];
    const bool embeds = step.first == step.last && At(step.last).op == "embedding";
    return forward_.level == 0 && embeds && reads.steps == 1 && steps_[reads.last].key == "cat";
  }

  // "for layer in self.layers: y = layer(x); x = torch.cat([x, y], dim=-1)": the step that binds
  // anew the name by which a layer of a list reads `value`, as the next layer reads its result; 0
  // where none does.
  size_t RebindingOf(size_t maker, NameId value) const {
    size_t turn = maker + 1;
    while (turn < steps_.size() && !IsLayerOf(steps_[turn], value)) ++turn;
    for (size_t i = turn + 1; i + 1 < steps_.size(); ++i) {
      if (steps_[i].is_child || At(steps_[i].last).outputs.empty()) continue;
      const bool is_next = IsLayerOf(steps_[i + 1], At(steps_[i].last).outputs[0]);
      if (is_next && ParentOf(steps_[i + 1].key) == ParentOf(steps_[turn].key)) return i;
    }
    return 0;
  }

  // Whether the step is a layer of a list that reads `value`.
  bool IsLayerOf(const ForwardStep& step, NameId value) const {
    const auto reads = [=](const AtenCall& call) {
      return std::ranges::find(call.inputs, value) != call.inputs.end();
    };
    return value != kNoName && step.is_child && IsListed(step.key) &&
           std::any_of(calls_.begin() + step.first, calls_.begin() + step.last + 1, reads);
  }

  // "x1 = self.down1(x); x2 = self.down2(x1); …" where most are read later: each has a name, or all
  // are in a list.
  void FindLikeNamed(const std::map<std::string, size_t>& named) {
    std::map<std::string, size_t> alike;
    for (const ForwardStep& step : steps_) {
      if (step.is_child && !IsListed(step.key)) ++alike[NumberPattern(step.key)];
    }
    for (const ForwardStep& step : steps_) {
      if (!step.is_child || IsListed(step.key)) continue;
      const std::string pattern = NumberPattern(step.key);
      const auto known = named.find(pattern);
      if (known == named.end() || 2 * known->second <= alike[pattern]) continue;
      for (const NameId value : At(step.last).outputs) {
        if (value != kNoName && !IsKnown(value))
          names_.push_back({value, forward_.last, "its like"});
      }
    }
  }

  // Whether a row says until when a name of the forward holds it.
  bool IsKnown(NameId value) const { return HoldsSince(names_, known_, value); }

  const std::vector<AtenCall>& calls_;
  const ModuleRuns& runs_;
  const ForwardRun& forward_;
  const std::vector<ForwardStep>& steps_;
  size_t known_;  // where those of the forward at hand begin
  std::vector<KnownName>& names_;
  std::map<NameId, size_t> makers_;  // of what children make: the step
  std::map<NameId, Reads> reads_;
};

}  // namespace

// Of "for block, res in zip(self.blocks, self.res)" those of one turn have one number.
bool AreTurns(const std::set<std::string_view>& layers) {
  const auto number = [](std::string_view layer) { return layer.substr(layer.rfind('.') + 1); };
  return std::ranges::any_of(
      layers, [&](std::string_view layer) { return number(layer) != number(*layers.begin()); });
}

void FindReadLater(const Program& program, const ModuleRuns& runs, const ForwardRun& forward,
                   const std::vector<ForwardStep>& steps, size_t known,
                   std::vector<KnownName>& names) {
  ReadLaterFinder(program.calls, runs, forward, steps, known, names).Find();
}

}  // namespace onnxfit
