#include "estimator/observed/observed_deaths.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/observed/alignment.h"
#include "estimator/observed/observe.h"

namespace onnxfit {
namespace {

// What part of two forwards has to be the same: below, most steps are of other code.
constexpr double kLeastShare = 0.5;
// The same in files that name no classes, which also move calls to other modules: a batch norm that
// was folded into a convolution is put back beside that.
constexpr double kLeastShareWithoutClasses = 0.9;

struct Match {
  Skeleton skeleton;
  Alignment alignment;
  double share = 0;
};

// What a forward around a run tells of it.
struct Expected {
  bool is_known = false;  // that one
  bool is_root = false;   // all calls are in it
  std::string_view class_name = {};
  size_t left = 0;  // how many values it leaves; 0: not known
};

size_t LeftBy(const Skeleton& skeleton) {
  return Index(
      std::ranges::count(skeleton.values, SkeletonValue::kLeft, &SkeletonValue::dies_behind));
}

// Steps that values live, all together.
int64_t LifeIn(const Skeleton& skeleton) {
  int64_t steps = 0;
  for (const SkeletonValue& value : skeleton.values) {
    const auto end = value.dies_behind == SkeletonValue::kLeft
                         ? static_cast<int32_t>(skeleton.steps.size())
                         : value.dies_behind;
    steps += end - value.step;
  }
  return steps;
}

class Matcher {
 public:
  Matcher(const Program& program, const ModuleRuns& runs, const KnownSkeletons& known)
      : program_(program), runs_(runs), known_(known), forwards_(ForwardsOf(program, runs)) {
    deaths_.behind.resize(program.values.size());
    deaths_.all = forwards_.size();
    last_read_.assign(program.values.size(), -1);
    for (size_t i = 0; i < program.calls.size(); ++i) {
      for (const NameId name : program.calls[i].inputs) {
        if (name != kNoName) last_read_[Index(name)] = static_cast<int64_t>(i);
      }
    }
  }

  KnownDeaths Find() {
    const bool has_root = std::ranges::count(runs_.all(), -1, &ModuleRun::caller) == 1;
    for (size_t run = 0; run < forwards_.size(); ++run) {
      if (runs_.all()[run].caller >= 0) continue;
      FollowRun(static_cast<int32_t>(run), {.is_root = has_root, .left = program_.outputs.size()});
    }
    for (size_t i = 0; i < program_.calls.size(); ++i) {
      if (WritesOverFirst(program_.calls[i])) in_place_.insert(static_cast<int64_t>(i));
    }
    for (const int64_t at : in_place_) {  // the tensor goes on under another name
      const AtenCall& call = program_.calls[Index(at)];
      auto& behind = deaths_.behind[Index(call.inputs[0])];
      if (behind || deaths_.behind[Index(call.outputs[0])]) behind = at;
    }
    return std::move(deaths_);
  }

 private:
  // What the run leaves to its caller, in order.
  std::vector<NameId> FollowRun(int32_t run, const Expected& expected) {
    const ForwardOfRun& forward = forwards_[Index(run)];
    const std::optional<Match>& match = MatchOf(forward, expected);
    std::vector<std::vector<NameId>> made(forward.steps.size());
    for (size_t step = 0; step < forward.steps.size(); ++step) {
      const int32_t child = forward.children[step];
      made[step] = child < 0 ? program_.calls[Index(forward.calls[step])].outputs
                             : FollowRun(child, match ? ExpectedAt(*match, step) : Expected());
    }
    if (!match) return ReadBehind(run);
    ++deaths_.known;
    NoteInPlace(forward, *match);
    return Place(forward, *match, made);
  }

  static Expected ExpectedAt(const Match& match, size_t file_step) {
    const auto& places = match.alignment.places;
    const auto known = std::ranges::find(places, static_cast<int32_t>(file_step));
    if (known == places.end()) return {};
    const auto step = static_cast<int32_t>(known - places.begin());
    return {.is_known = true,
            .class_name = match.skeleton.steps[Index(step)].class_name,
            .left = Index(std::ranges::count(match.skeleton.values, step, &SkeletonValue::step))};
  }

  // Containers of torch.nn do what the modules around them are made for: of those that nobody has
  // watched, nothing is known of them either.
  std::vector<const Skeleton*> CandidatesFor(const ForwardOfRun& forward,
                                             std::string_view class_name,
                                             const Expected& expected) const {
    if (class_name.empty()) {
      return expected.is_root ? known_.OfChildren(forward.steps) : std::vector<const Skeleton*>();
    }
    const bool is_torch = class_name.starts_with("torch.");
    return is_torch && !expected.is_known ? std::vector<const Skeleton*>()
                                          : known_.OfClass(class_name);
  }

  // Layers of a list are told apart by nothing: what is found of one is kept.
  const std::optional<Match>& MatchOf(const ForwardOfRun& forward, const Expected& expected) {
    std::string key = ToText(
        {.class_name = forward.class_name, .steps = forward.steps, .values = {}});
    key += std::string(expected.class_name) + (expected.is_known  ? "!"
                                               : expected.is_root ? "^"
                                                                  : "");
    key += std::to_string(expected.left);
    const auto [found, is_new] = matches_.try_emplace(std::move(key));
    if (is_new) found->second = BestOf(forward, expected);
    return found->second;
  }

  // Of several that have as much in common, the one that leaves as many values as are expected,
  // then the one in which they live longest.
  std::optional<Match> BestOf(const ForwardOfRun& forward, const Expected& expected) const {
    const std::string_view class_name =
        forward.class_name.empty() ? expected.class_name : forward.class_name;
    const std::vector<const Skeleton*> candidates = CandidatesFor(forward, class_name, expected);
    const bool is_named = !class_name.empty() || expected.is_known;
    const double least = forward.class_name.empty() ? kLeastShareWithoutClasses : kLeastShare;
    std::optional<Match> best;
    const std::vector<LoopTurns> turns = LoopsOf(forward.steps);
    for (const Skeleton* const candidate : candidates) {
      Match match = {.skeleton = WithTurns(*candidate, turns), .alignment = {}};
      const size_t most = 2 * std::min(match.skeleton.steps.size(), forward.steps.size());
      const double bound = static_cast<double>(most) /
                           static_cast<double>(match.skeleton.steps.size() + forward.steps.size());
      if (bound < (best ? best->share : least)) continue;
      match.alignment = Align(match.skeleton.steps, forward.steps);
      match.share = match.alignment.Share(match.skeleton.steps.size(), forward.steps.size());
      const auto worth = [&](const Match& it) {
        return std::tuple(it.share, it.alignment.alike, is_named ? 0 : ChildrenAlike(it, forward),
                          LeftBy(it.skeleton) == expected.left, LifeIn(it.skeleton));
      };
      if (match.share >= least && (!best || worth(match) > worth(*best))) best = std::move(match);
    }
    return best;
  }

  // Of how many children the class runs what the file's child does.
  size_t ChildrenAlike(const Match& match, const ForwardOfRun& forward) const {
    size_t alike = 0;
    for (size_t step = 0; step < match.skeleton.steps.size(); ++step) {
      const int32_t place = match.alignment.places[step];
      const int32_t child = place < 0 ? -1 : forward.children[Index(place)];
      if (child < 0) continue;
      const std::string& class_name = match.skeleton.steps[step].class_name;
      const auto is_it = [&](const Skeleton* other) { return other->class_name == class_name; };
      alike += std::ranges::any_of(known_.OfChildren(forwards_[Index(child)].steps), is_it) ? 1 : 0;
    }
    return alike;
  }

  std::vector<NameId> Place(const ForwardOfRun& forward, const Match& match,
                            const std::vector<std::vector<NameId>>& made) {
    const std::vector<int32_t>& places = match.alignment.places;
    const std::vector<SkeletonValue>& values = match.skeleton.values;
    std::vector<NameId> left;
    for (size_t i = 0; i < values.size(); ++i) {
      const int32_t at = places[Index(values[i].step)];
      if (at < 0) continue;
      const std::vector<NameId>& names = made[Index(at)];
      // What a child leaves beyond those goes the way of the last one.
      const bool is_last = i + 1 == values.size() || values[i + 1].step != values[i].step;
      const size_t end =
          is_last && forward.children[Index(at)] >= 0 ? names.size() : Index(values[i].result) + 1;
      for (size_t result = Index(values[i].result); result < std::min(end, names.size());
           ++result) {
        if (values[i].dies_behind == SkeletonValue::kLeft) {
          left.push_back(names[result]);
        } else if (names[result] != kNoName) {
          deaths_.behind[Index(names[result])] = EndOf(forward, places, values[i]);
        }
      }
    }
    return left;
  }

  // Calls that wrote in place where the forward was watched.
  void NoteInPlace(const ForwardOfRun& forward, const Match& match) {
    for (size_t step = 0; step < match.skeleton.steps.size(); ++step) {
      const int32_t place = match.alignment.places[step];
      if (place < 0 || !match.skeleton.steps[step].in_place) continue;
      const AtenCall& call = program_.calls[Index(forward.calls[Index(place)])];
      const bool has_both = !call.inputs.empty() && call.inputs[0] != kNoName &&
                            !call.outputs.empty() && call.outputs[0] != kNoName;
      if (has_both) in_place_.insert(forward.calls[Index(place)]);
    }
  }

  // The call behind which the value dies: of a step that the file has not, of the one before.
  static int64_t EndOf(const ForwardOfRun& forward, const std::vector<int32_t>& places,
                       const SkeletonValue& value) {
    int32_t step = value.dies_behind;
    while (step > value.step && places[Index(step)] < 0) --step;
    return forward.calls[Index(places[Index(step)])];
  }

  std::vector<NameId> ReadBehind(int32_t run) const {
    std::vector<NameId> read;
    const auto& [module, first, last, level, caller] = runs_.all()[Index(run)];
    for (int64_t i = first; i <= last; ++i) {
      for (const NameId name : program_.calls[Index(i)].outputs) {
        if (name != kNoName && last_read_[Index(name)] > last) read.push_back(name);
      }
    }
    return read;
  }

  const Program& program_;
  const ModuleRuns& runs_;
  const KnownSkeletons& known_;
  const std::vector<ForwardOfRun> forwards_;
  std::vector<int64_t> last_read_;
  std::map<std::string, std::optional<Match>> matches_;
  std::set<int64_t> in_place_;
  KnownDeaths deaths_;
};

}  // namespace

KnownDeaths FindKnownDeaths(const Program& program, const ModuleRuns& runs,
                            const KnownSkeletons& known) {
  return Matcher(program, runs, known).Find();
}

}  // namespace onnxfit
