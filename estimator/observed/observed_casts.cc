#include "estimator/observed/observed_casts.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/observed/forward_matches.h"
#include "estimator/program/module_runs.h"

namespace onnxfit {
namespace {

// A cast that the file has not.
struct NewCast {
  int64_t before = 0;    // the call in front of which it runs
  bool is_last = false;  // of its forward, which the call is no more of
  AtenCall call = {};
};

// Once call i stands at places[i].
void MoveRebindings(Program& program, const std::vector<int64_t>& places) {
  for (Rebinding& rebinding : program.rebindings) {
    if (rebinding.behind >= 0) rebinding.behind = places[Index(rebinding.behind)];
  }
}

DType TypeOf(uint8_t cast_to, const TrainingSettings& settings) {
  if (cast_to == 64) return DType::kFloat64;
  return cast_to == 16 ? ComputeType(settings.precision) : DType::kFloat32;
}

std::span<const SkeletonFlow> FlowsOf(const Skeleton& skeleton, size_t step) {
  const auto at = static_cast<int32_t>(step);
  const auto first = std::ranges::lower_bound(skeleton.flows, at, {}, &SkeletonFlow::step);
  const auto end = std::ranges::upper_bound(skeleton.flows, at, {}, &SkeletonFlow::step);
  return {first, end};
}

class CastPlacer {
 public:
  CastPlacer(Program& program, const TrainingSettings& settings, const ModuleRuns& runs,
             const ForwardMatches& matches)
      : program_(program), settings_(settings), runs_(runs), matches_(matches) {}

  void Place() {
    for (const int32_t root : matches_.roots()) FollowRun(root);
    Insert();
  }

 private:
  // A forward, beside what its class was watched to do.
  struct Around {
    const ForwardOfRun& forward;
    const ForwardMatch& match;
    ModuleId module = kOutside;
    std::vector<std::vector<NameId>> made_of = {};  // by step of the skeleton, what the file makes
  };

  // What the run leaves to its caller, in order; nothing where that is not known.
  std::vector<NameId> FollowRun(int32_t run) {
    const ForwardOfRun& forward = matches_.forwards()[Index(run)];
    const ForwardMatch* const match = matches_.Of(Index(run));
    std::vector<std::vector<NameId>> made(forward.steps.size());
    for (size_t step = 0; step < forward.steps.size(); ++step) {
      const int32_t child = forward.children[step];
      made[step] =
          child < 0 ? program_.calls[Index(forward.calls[step])].outputs : FollowRun(child);
    }
    if (match == nullptr) return {};
    Around around = {.forward = forward, .match = *match};
    if (Index(run) < runs_.all().size()) around.module = runs_.all()[Index(run)].module;
    for (const int32_t place : match->alignment.places) {
      around.made_of.push_back(place < 0 ? std::vector<NameId>() : made[Index(place)]);
    }
    AddMissing(around);
    return LeftOf(around);
  }

  void AddMissing(Around& around) {
    const std::vector<SkeletonStep>& steps = around.match.skeleton.steps;
    for (size_t step = 0; step < steps.size(); ++step) {
      const bool is_missing = around.match.alignment.places[step] < 0 && IsCast(steps[step]) &&
                              steps[step].cast_to != 0;
      if (is_missing) AddCast(around, step);
    }
  }

  void AddCast(Around& around, size_t step) {
    const NameId operand = OperandOf(around, step);
    if (operand == kNoName || !IsFloat(program_.values[Index(operand)].type.dtype)) return;
    const int64_t before = PlaceOf(around, step, operand);
    const auto cast = static_cast<NameId>(program_.values.size());
    program_.values.push_back(program_.values[Index(operand)]);
    program_.values.back().name += ".cast";
    program_.values.back().type.dtype =
        TypeOf(around.match.skeleton.steps[step].cast_to, settings_);
    around.made_of[step] = {cast};
    operand_of_[cast] = operand;
    Rewire(around, step, before, cast);
    const bool is_last = before > around.forward.calls.back();
    AtenCall call = CallBeside(around, is_last ? before - 1 : before);
    call.inputs = {operand};
    call.outputs = {cast};
    new_.push_back({before, is_last, std::move(call)});
  }

  // What it reads: what the step that it was watched to read makes, or of what its caller gave it
  // what the first call reads that reads its result.
  NameId OperandOf(const Around& around, size_t step) const {
    for (const SkeletonFlow& flow : FlowsOf(around.match.skeleton, step)) {
      const size_t other = Index(flow.step + flow.other);
      const std::vector<NameId>* names = &around.made_of[other];
      if (flow.other > 0) {
        const int32_t place = around.match.alignment.places[other];
        if (place < 0 || around.forward.children[Index(place)] >= 0) continue;
        names = &program_.calls[Index(around.forward.calls[Index(place)])].inputs;
      }
      const bool is_there = Index(flow.result) < names->size();
      if (is_there && (*names)[Index(flow.result)] != kNoName) return (*names)[Index(flow.result)];
    }
    return kNoName;
  }

  // The first call of the next step that the file has, or of one between, which the class was not
  // watched to make, that reads the operand.
  int64_t PlaceOf(const Around& around, size_t step, NameId operand) const {
    const std::vector<int32_t>& places = around.match.alignment.places;
    size_t before = 0;
    for (size_t i = step; i-- > 0 && before == 0;) before = Index(places[i] + 1);
    size_t next = step + 1;
    while (next < places.size() && places[next] < 0) ++next;
    const bool is_last = next == places.size();
    const size_t end = is_last ? around.forward.steps.size() : Index(places[next]);
    for (size_t between = before; between < end; ++between) {
      const int64_t call = around.forward.calls[between];
      if (Reads(program_.calls[Index(call)], operand)) return FirstOf(around.forward, between);
    }
    return is_last ? around.forward.calls.back() + 1 : FirstOf(around.forward, end);
  }

  static bool Reads(const AtenCall& call, NameId name) {
    return std::ranges::find(call.inputs, name) != call.inputs.end();
  }

  int64_t FirstOf(const ForwardOfRun& forward, size_t step) const {
    const int32_t child = forward.children[step];
    return child < 0 ? forward.calls[step] : runs_.all()[Index(child)].first;
  }

  // A cast in the forward, under what call `at` runs under.
  AtenCall CallBeside(const Around& around, int64_t at) const {
    const AtenCall& beside = program_.calls[Index(at)];
    AtenCall call = {.op = "to", .where = beside.where};
    call.module = around.module;
    call.leaves_autocast = beside.leaves_autocast;
    call.enters_autocast = beside.enters_autocast;
    call.behind_autocast = beside.behind_autocast;
    call.leaves_autograd = beside.leaves_autograd;
    call.checkpoint = beside.checkpoint;
    call.frames = beside.frames;
    call.frames.resize(std::min(call.frames.size(), program_.modules.DepthOf(around.module)));
    return call;
  }

  // Those that were watched to read the cast do, and calls in between that were not watched; where
  // a step that the file has not read it, all of the forward.
  void Rewire(const Around& around, size_t step, int64_t before, NameId cast) {
    for (const SkeletonFlow& flow : FlowsOf(around.match.skeleton, step)) {
      if (flow.other < 0) continue;
      const size_t reader = Index(flow.step + flow.other);
      const int32_t place = around.match.alignment.places[reader];
      const bool is_other = place < 0 && !MayBeLost(around.match.skeleton.steps[reader]);
      const int64_t first = place < 0 ? before : FirstOf(around.forward, Index(place));
      if (place >= 0) Replace(first, around.forward.calls[Index(place)], cast);
      if (is_other) Replace(before, around.forward.calls.back(), cast);
      if (first > before) Replace(before, before, cast);
    }
    const SkeletonValue left = {static_cast<int32_t>(step), 0, SkeletonValue::kLeft};
    if (std::ranges::find(around.match.skeleton.values, left) == around.match.skeleton.values.end())
      return;
    Replace(around.forward.calls.back() + 1, std::ssize(program_.calls), cast);
    const std::set<NameId> made_of = MadeOf(cast);
    for (NameId& output : program_.outputs) output = made_of.contains(output) ? cast : output;
  }

  // Its operand, and where that is a new cast, too, that one's.
  std::set<NameId> MadeOf(NameId cast) const {
    std::set<NameId> made_of;
    auto it = operand_of_.find(cast);
    for (; it != operand_of_.end(); it = operand_of_.find(it->second)) made_of.insert(it->second);
    return made_of;
  }

  // Calls `first` to `last` read the cast where they read what it is made of.
  void Replace(int64_t first, int64_t last, NameId cast) {
    const std::set<NameId> made_of = MadeOf(cast);
    const auto replace = [&](AtenCall& call) {
      for (NameId& name : call.inputs) name = made_of.contains(name) ? cast : name;
    };
    last = std::min(last, std::ssize(program_.calls) - 1);
    for (int64_t i = first; i <= last; ++i) replace(program_.calls[Index(i)]);
    for (NewCast& other : new_) {
      const bool is_between = other.before >= first && other.before <= last;
      if (is_between && !made_of.contains(other.call.outputs[0])) replace(other.call);
    }
  }

  // What a forward leaves to its caller, in order.
  static std::vector<NameId> LeftOf(const Around& around) {
    std::vector<NameId> left;
    for (const SkeletonValue& value : around.match.skeleton.values) {
      if (value.dies_behind != SkeletonValue::kLeft) continue;
      const std::vector<NameId>& names = around.made_of[Index(value.step)];
      left.push_back(Index(value.result) < names.size() ? names[Index(value.result)] : kNoName);
    }
    return left;
  }

  // What a forward returns is cast before what other ones are given, which is cast before they run.
  void Insert() {
    std::ranges::stable_sort(new_, {}, [&](const NewCast& made) {
      const auto depth = static_cast<int64_t>(program_.modules.DepthOf(made.call.module));
      return std::tuple(made.before, !made.is_last, made.is_last ? -depth : depth);
    });
    std::vector<AtenCall> calls;
    std::vector<int64_t> places;
    auto next = new_.begin();
    const int64_t count = std::ssize(program_.calls);
    for (int64_t i = 0; i <= count; ++i) {
      for (; next != new_.end() && next->before <= i; ++next)
        calls.push_back(std::move(next->call));
      places.push_back(std::ssize(calls));
      if (i < count) calls.push_back(std::move(program_.calls[Index(i)]));
    }
    program_.calls = std::move(calls);
    MoveRebindings(program_, places);
  }

  Program& program_;
  const TrainingSettings& settings_;
  const ModuleRuns& runs_;
  const ForwardMatches& matches_;
  std::vector<NewCast> new_;
  std::map<NameId, NameId> operand_of_;  // by what those make
};

// By step of a file's forward: whether the class did what stands around it, and in between nothing
// but what files may lack.
std::vector<char> AreKnownAround(const ForwardOfRun& forward, const ForwardMatch& match) {
  const auto end = static_cast<int32_t>(match.skeleton.steps.size());
  const std::vector<int32_t>& known = match.alignment.known;
  std::vector<char> made(forward.steps.size());
  int32_t before = -1;  // the last step that is no cast, in the class's forward
  bool is_before_known = true;
  for (size_t step = 0; step < forward.steps.size(); ++step) {
    if (!IsCast(forward.steps[step])) {
      is_before_known = known[step] >= 0;
      before = known[step];
      continue;
    }
    size_t next = step;
    while (next < forward.steps.size() && IsCast(forward.steps[next])) ++next;
    const int32_t behind = next == forward.steps.size() ? end : known[next];
    bool is_known = is_before_known && behind > before;
    for (int32_t at = before + 1; is_known && at < behind; ++at) {
      is_known = MayBeLost(match.skeleton.steps[Index(at)]);
    }
    made[step] = is_known ? 1 : 0;
  }
  return made;
}

// Whether the file has a step that the cast was watched to read from, or to be read by: without one
// nobody could tell where it goes.
bool IsBesideKnown(const ForwardOfRun& forward, const ForwardMatch& match, size_t step) {
  return std::ranges::any_of(FlowsOf(match.skeleton, step), [&](const SkeletonFlow& flow) {
    const int32_t place = match.alignment.places[Index(flow.step + flow.other)];
    return place >= 0 && (flow.other < 0 || forward.children[Index(place)] < 0);
  });
}

// Whether the file has all casts that were seen, to those types; what follows a type that another
// value has is taken to be right.
bool HasAll(const Program& program, const TrainingSettings& settings, const ForwardOfRun& forward,
            const ForwardMatch& match) {
  for (size_t step = 0; step < match.skeleton.steps.size(); ++step) {
    const SkeletonStep& seen = match.skeleton.steps[step];
    if (seen.cast_to == 0 || seen.is_idle) continue;
    const int32_t place = match.alignment.places[step];
    if (place < 0) return false;
    const AtenCall& call = program.calls[Index(forward.calls[Index(place)])];
    const DType made = program.values[Index(call.outputs[0])].type.dtype;
    const bool is_right = made == TypeOf(seen.cast_to, settings) || call.op == "type_as";
    if (!is_right) return false;
  }
  return true;
}

// The calls of casts of floats that are told by what the class did: those that both have, and in
// a file that does not have each cast as such, all where it did the same around them.  A file that
// names classes and is right keeps those that were seen, with their lines.
std::vector<int64_t> CastsOf(const Program& program, const TrainingSettings& settings,
                             const ForwardMatches& matches, size_t run) {
  std::vector<int64_t> calls;
  const ForwardMatch* const match = matches.Of(run);
  if (match == nullptr) return calls;
  const ForwardOfRun& forward = matches.forwards()[run];
  const bool has_all = !forward.class_name.empty() && HasAll(program, settings, forward, *match);
  std::vector<char> is_known = matches.is_as_written() ? std::vector<char>(forward.steps.size())
                                                       : AreKnownAround(forward, *match);
  for (size_t step = 0; step < match->skeleton.steps.size(); ++step) {
    const int32_t place = match->alignment.places[step];
    if (place < 0 || match->skeleton.steps[step].cast_to == 0) continue;
    if (!IsBesideKnown(forward, *match, step)) return {};  // of another release: all stay
    is_known[Index(place)] = has_all ? 0 : 1;
  }
  const auto is_float = [&](NameId name) {
    return name != kNoName && IsFloat(program.values[Index(name)].type.dtype);
  };
  for (size_t step = 0; step < forward.steps.size(); ++step) {
    const AtenCall& call = program.calls[Index(forward.calls[step])];
    if (is_known[step] == 0 || !IsCast(forward.steps[step]) || call.inputs.empty()) continue;
    if (is_float(call.inputs[0]) && is_float(call.outputs[0])) calls.push_back(forward.calls[step]);
  }
  return calls;
}

// Takes the casts out of forwards that are known: what reads them reads their operands.
void TakeOutCasts(Program& program, const TrainingSettings& settings,
                  const ForwardMatches& matches) {
  std::map<NameId, NameId> same;
  std::vector<char> is_out(program.calls.size());
  for (size_t run = 0; run < matches.forwards().size(); ++run) {
    for (const int64_t at : CastsOf(program, settings, matches, run)) {
      is_out[Index(at)] = 1;
      same[program.calls[Index(at)].outputs[0]] = program.calls[Index(at)].inputs[0];
    }
  }
  const auto rename = [&](NameId& name) {
    for (auto it = same.find(name); it != same.end(); it = same.find(name)) name = it->second;
  };
  std::vector<AtenCall> calls;
  std::vector<int64_t> places;
  for (size_t i = 0; i < program.calls.size(); ++i) {
    if (is_out[i] == 0) {
      std::ranges::for_each(program.calls[i].inputs, rename);
      rename(program.calls[i].typed_like);
      calls.push_back(std::move(program.calls[i]));
    }
    places.push_back(std::ssize(calls) - 1);
  }
  program.calls = std::move(calls);
  std::ranges::for_each(program.outputs, rename);
  MoveRebindings(program, places);
}

}  // namespace

void PlaceObservedCasts(Program& program, const TrainingSettings& settings,
                        const KnownSkeletons& known, bool is_as_written) {
  if (BitsOf(ComputeType(settings.precision)) != 16) return;
  const WantedRuns wanted = RunsLike(settings, is_as_written);
  {
    const ModuleRuns runs(program);
    TakeOutCasts(program, settings, ForwardMatches(program, runs, known, wanted));
  }
  const ModuleRuns runs(program);
  const ForwardMatches matches(program, runs, known, wanted);
  CastPlacer(program, settings, runs, matches).Place();
}

}  // namespace onnxfit
