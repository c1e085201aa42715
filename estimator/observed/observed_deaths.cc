#include "estimator/observed/observed_deaths.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/base/warnings.h"

namespace onnxfit {
namespace {

class DeathFinder {
 public:
  DeathFinder(const Program& program, const ModuleRuns& runs, const ForwardMatches& matches)
      : program_(program), runs_(runs), matches_(matches) {
    deaths_.behind.resize(program.values.size());
    deaths_.is_known_until.resize(program.values.size());
    deaths_.all = matches.forwards().size();
    last_read_.assign(program.values.size(), -1);
    for (size_t i = 0; i < program.calls.size(); ++i) {
      for (const NameId name : program.calls[i].inputs) {
        if (name != kNoName) last_read_[Index(name)] = static_cast<int64_t>(i);
      }
    }
  }

  KnownDeaths Find() {
    for (const int32_t root : matches_.roots()) FollowRun(root, {});
    for (size_t i = 0; i < program_.calls.size(); ++i) {
      if (WritesOverFirst(program_.calls[i])) in_place_.insert(static_cast<int64_t>(i));
    }
    for (const int64_t at : in_place_) {  // the tensor goes on under another name
      const AtenCall& call = program_.calls[Index(at)];
      auto& behind = deaths_.behind[Index(call.inputs[0])];
      const bool is_new = !behind && deaths_.behind[Index(call.outputs[0])];
      if (is_new) behind = std::max(at, last_read_[Index(call.inputs[0])]);
    }
    return std::move(deaths_);
  }

 private:
  // What is around a run.
  struct Around {
    bool is_inside = false;            // of a library's module
    bool has_unknown = false;          // a library's module that was not watched
    std::optional<int64_t> last = {};  // call of the outermost that is known in that
  };

  // What the run leaves to its caller, in order.
  std::vector<NameId> FollowRun(int32_t run, Around around) {
    const ForwardOfRun& forward = matches_.forwards()[Index(run)];
    const ForwardMatch* const match = matches_.Of(Index(run));
    const bool is_of_library = matches_.IsOfLibrary(forward.class_name);
    const bool is_unwatched = match == nullptr && is_of_library;
    // The outermost one, such as a head, makes little itself.
    if (is_unwatched && around.is_inside) deaths_.unwatched.insert(std::string(forward.class_name));
    around.is_inside |= is_of_library;
    around.has_unknown |= is_unwatched;
    const bool is_outermost = around.has_unknown && match != nullptr && !around.last;
    if (is_outermost) around.last = runs_.all()[Index(run)].last;
    std::vector<std::vector<NameId>> made(forward.steps.size());
    for (size_t step = 0; step < forward.steps.size(); ++step) {
      const int32_t child = forward.children[step];
      made[step] =
          child < 0 ? program_.calls[Index(forward.calls[step])].outputs : FollowRun(child, around);
    }
    if (match == nullptr) return ReadBehind(run);
    ++deaths_.known;
    if (!matches_.is_as_written()) NoteInPlace(forward, *match);
    return Place(forward, *match, made, around);
  }

  std::vector<NameId> Place(const ForwardOfRun& forward, const ForwardMatch& match,
                            const std::vector<std::vector<NameId>>& made, const Around& around) {
    const std::vector<int32_t>& places = match.alignment.places;
    const std::vector<SkeletonValue>& values = match.skeleton.values;
    const std::set<uint32_t> changed = ChangedLines(forward, match);
    std::vector<NameId> left;
    for (size_t i = 0; i < values.size(); ++i) {
      if (DiesInOneOf(changed, match, values[i])) continue;
      const int32_t at = PlaceOf(forward, match, values[i].step);
      if (at < 0 && values[i].dies_behind == SkeletonValue::kLeft) left.push_back(kNoName);
      if (at < 0) continue;
      const std::vector<NameId>& names = made[Index(at)];
      const bool is_child = forward.children[Index(at)] >= 0;
      // Of a child that leaves less, without the keys and values of a cache, the last ones; what
      // one leaves beyond those goes the way of the last one.
      const auto count = Index(std::ranges::count(values, values[i].step, &SkeletonValue::step));
      const size_t missing = is_child && count > names.size() ? count - names.size() : 0;
      if (Index(values[i].result) < missing) {
        if (values[i].dies_behind == SkeletonValue::kLeft) left.push_back(kNoName);
        continue;
      }
      const size_t first = Index(values[i].result) - missing;
      const bool is_last = i + 1 == values.size() || values[i + 1].step != values[i].step;
      const size_t end = is_last && is_child ? names.size() : first + 1;
      for (size_t result = first; result < std::min(end, names.size()); ++result) {
        if (values[i].dies_behind == SkeletonValue::kLeft) {
          left.push_back(names[result]);
        } else if (names[result] != kNoName) {
          auto& behind = deaths_.behind[Index(names[result])];
          const bool is_moved = at != places[Index(values[i].step)];
          const std::optional<int64_t> end = EndOf(forward, match, values[i]);
          behind = is_moved && behind && end ? std::max(behind, end) : end;
          deaths_.is_known_until[Index(names[result])] = around.last;
        }
      }
    }
    return left;
  }

  // The lines of which the file has other steps, such as a mask that tracing makes otherwise.
  static std::set<uint32_t> ChangedLines(const ForwardOfRun& forward, const ForwardMatch& match) {
    std::set<uint32_t> changed;
    for (size_t step = 0; step < match.skeleton.steps.size(); ++step) {
      const SkeletonStep& known = match.skeleton.steps[step];
      const bool is_other = match.alignment.places[step] < 0 && !known.is_child;
      if (is_other && !MayBeLost(known)) changed.insert(known.line);
    }
    for (size_t step = 0; step < forward.steps.size(); ++step) {
      const SkeletonStep& own = forward.steps[step];
      const bool is_other = match.alignment.known[step] < 0 && !own.is_child;
      if (is_other && !IsCast(own)) changed.insert(own.line);
    }
    changed.erase(0);
    return changed;
  }

  // Whether such a line makes it and lets go of it.
  static bool DiesInOneOf(const std::set<uint32_t>& changed, const ForwardMatch& match,
                          const SkeletonValue& value) {
    if (changed.empty() || value.dies_behind == SkeletonValue::kLeft) return false;
    const uint32_t line = match.skeleton.steps[Index(value.step)].line;
    return match.skeleton.steps[Index(value.dies_behind)].line == line && changed.contains(line);
  }

  // Where the file has what the step makes; of a view that it has joined with another one, what
  // that is of, as a rule the step before.
  static int32_t PlaceOf(const ForwardOfRun& forward, const ForwardMatch& match, int32_t step) {
    const std::vector<int32_t>& places = match.alignment.places;
    const bool names_classes = !forward.class_name.empty();
    const auto is_view = [&](const SkeletonStep& it) {
      return MayBeMoved(it) && it.key != "contiguous";
    };
    while (!names_classes && step > 0 && places[Index(step)] < 0 &&
           is_view(match.skeleton.steps[Index(step)])) {
      --step;
    }
    return places[Index(step)];
  }

  // Calls that wrote in place where the forward was watched.
  void NoteInPlace(const ForwardOfRun& forward, const ForwardMatch& match) {
    for (size_t step = 0; step < match.skeleton.steps.size(); ++step) {
      const int32_t place = match.alignment.places[step];
      if (place < 0 || !match.skeleton.steps[step].in_place) continue;
      const AtenCall& call = program_.calls[Index(forward.calls[Index(place)])];
      const bool has_both = !call.inputs.empty() && call.inputs[0] != kNoName &&
                            !call.outputs.empty() && call.outputs[0] != kNoName;
      if (has_both) in_place_.insert(forward.calls[Index(place)]);
    }
  }

  // Whether a file that names no classes lacks the step and all behind it: no result needed them.
  static bool EndsBefore(const ForwardOfRun& forward, const ForwardMatch& match, int32_t step) {
    const auto& places = match.alignment.places;
    return forward.class_name.empty() && std::all_of(places.begin() + step, places.end(),
                                                     [](int32_t place) { return place < 0; });
  }

  // The call behind which the value dies: of a step that the file has lost, of the one before;
  // nullopt of one that it does not have because it is of other code.
  static std::optional<int64_t> EndOf(const ForwardOfRun& forward, const ForwardMatch& match,
                                      const SkeletonValue& value) {
    const std::vector<int32_t>& places = match.alignment.places;
    int32_t step = value.dies_behind;
    if (EndsBefore(forward, match, step)) return forward.calls.back();
    while (step > value.step && places[Index(step)] < 0) {
      const SkeletonStep& lost = match.skeleton.steps[Index(step)];
      if (!MayBeMissing(lost, !forward.class_name.empty())) return std::nullopt;
      --step;
    }
    const int32_t place = PlaceOf(forward, match, step);
    if (place < 0) return std::nullopt;
    return forward.calls[Index(place)];
  }

  std::vector<NameId> ReadBehind(int32_t run) const {
    std::vector<NameId> read;
    if (Index(run) == runs_.all().size()) return read;  // the model's
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
  const ForwardMatches& matches_;
  std::vector<int64_t> last_read_;
  std::set<int64_t> in_place_;
  KnownDeaths deaths_;
};

}  // namespace

KnownDeaths FindKnownDeaths(const Program& program, const ModuleRuns& runs,
                            const ForwardMatches& matches) {
  return DeathFinder(program, runs, matches).Find();
}

Warning WarnOfUnwatched(const KnownDeaths& known, const std::string& releases) {
  const size_t count = known.unwatched.size();
  const std::string classes = count == 1 ? "" : " and " + std::to_string(count - 1) + " more";
  return {warning::kUnwatched,
          *known.unwatched.begin() + classes +
              " of a library's classes: nobody watched their forwards (known are those of " +
              releases + "), so that source lines and habits say when what they bind ends"};
}

}  // namespace onnxfit
