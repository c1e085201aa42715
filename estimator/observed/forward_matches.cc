#include "estimator/observed/forward_matches.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

// What part of two forwards has to be the same: below, steps are of other code.  Of transformers
// 4.38 and 5.17, forwards of one name that share less let go of other values.  Files without
// classes also move calls to other modules: a batch norm that was folded into a convolution is put
// back beside that.
constexpr double kLeastShare = 0.9;

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

// Steps that the file has not and may have lost.
size_t LostBy(const ForwardMatch& match) {
  size_t lost = 0;
  for (size_t step = 0; step < match.skeleton.steps.size(); ++step) {
    lost += match.alignment.places[step] < 0 && MayBeLost(match.skeleton.steps[step]) ? 1 : 0;
  }
  return lost;
}

// Casts that the file has and the class was not watched to make, which may be put back too often.
size_t ExtraCasts(const ForwardMatch& match, const std::vector<SkeletonStep>& file) {
  auto extra = Index(std::ranges::count_if(file, IsCast));
  for (const int32_t place : match.alignment.places) {
    extra -= place >= 0 && IsCast(file[Index(place)]) ? 1 : 0;
  }
  return extra;
}

// The most that the share can be.
double MostShare(const Skeleton& skeleton, const std::vector<SkeletonStep>& file) {
  const auto needed =
      skeleton.steps.size() - Index(std::ranges::count_if(skeleton.steps, MayBeLost));
  const size_t most = std::min(skeleton.steps.size(), file.size());
  const auto casts = Index(std::ranges::count_if(file, IsCast));
  const size_t all = std::max(needed, most) + std::max(file.size() - casts, most);
  return all == 0 ? 1 : 2.0 * static_cast<double>(most) / static_cast<double>(all);
}

// The run of the file that is the skeleton's step; -1 where there is none.
int32_t ChildAt(const ForwardMatch& match, const ForwardOfRun& forward, size_t step) {
  const int32_t place = match.alignment.places[step];
  return place < 0 ? -1 : forward.children[Index(place)];
}

}  // namespace

WantedRuns RunsLike(const TrainingSettings& settings, bool is_as_written) {
  const bool is_under_autocast = AutocastType(settings.precision) != DType::kUndefined;
  const bool is_half = BitsOf(ParameterType(settings.precision)) == 16;
  const auto [training, inference] = is_under_autocast
                                         ? std::pair(kTrainAutocastRun, kEvalAutocastRun)
                                     : is_half ? std::pair(kTrainHalfRun, kEvalHalfRun)
                                               : std::pair(kTrainRun, kEvalRun);
  return {.taken = static_cast<uint8_t>(training | inference),
          .preferred = settings.mode == Mode::kEval ? inference : training,
          .is_as_written = is_as_written};
}

ForwardMatches::ForwardMatches(const Program& program, const ModuleRuns& runs,
                               const KnownSkeletons& known, WantedRuns wanted)
    : known_(known), wanted_(wanted), forwards_(ForwardsOf(program, runs)) {
  matches_.resize(forwards_.size());
  fits_.resize(forwards_.size());
  classes_like_.resize(forwards_.size());
  const size_t count = runs.all().size();
  if (forwards_.size() > count) {
    roots_.push_back(static_cast<int32_t>(count));
  } else {
    for (size_t run = 0; run < count; ++run) {
      if (runs.all()[run].caller < 0) roots_.push_back(static_cast<int32_t>(run));
    }
  }
  for (size_t run = count; run-- > 0;) fits_[run] = FitsOf(forwards_[run]);  // the inner ones first
  for (const int32_t root : roots_) {
    Follow(root, {.is_model = true, .left = program.outputs.size()});
  }
}

std::vector<uint32_t> ForwardMatches::FitsOf(const ForwardOfRun& forward) {
  std::vector<uint32_t> fits;
  if (forward.class_name.empty()) return fits;
  size_t most = 0;
  for (const ForwardMatch& option : OptionsOf(forward, forward.class_name)) {
    const size_t agreeing = ChildrenThatFit(option, forward);
    if (agreeing > most) fits.clear();
    if (agreeing >= most) fits.push_back(option.id);
    most = std::max(most, agreeing);
  }
  return fits;
}

size_t ForwardMatches::ChildrenThatFit(const ForwardMatch& match,
                                       const ForwardOfRun& forward) const {
  size_t count = 0;
  for (size_t step = 0; step < match.skeleton.steps.size(); ++step) {
    const int32_t child = ChildAt(match, forward, step);
    if (child < 0) continue;
    const std::vector<uint32_t>& fits = fits_[Index(child)];
    count += std::ranges::find(fits, match.skeleton.steps[step].id) != fits.end() ? 1 : 0;
  }
  return count;
}

void ForwardMatches::Follow(int32_t run, const Expected& expected) {
  const ForwardOfRun& forward = forwards_[Index(run)];
  const ForwardMatch* const match = BestOf(forward, expected);
  matches_[Index(run)] = match;
  for (size_t step = 0; step < forward.steps.size(); ++step) {
    const int32_t child = forward.children[step];
    if (child >= 0) Follow(child, match != nullptr ? ExpectedAt(*match, step) : Expected());
  }
}

ForwardMatches::Expected ForwardMatches::ExpectedAt(const ForwardMatch& match, size_t file_step) {
  const auto& places = match.alignment.places;
  const auto known = std::ranges::find(places, static_cast<int32_t>(file_step));
  if (known == places.end()) return {};
  const auto step = static_cast<int32_t>(known - places.begin());
  const SkeletonStep& child = match.skeleton.steps[Index(step)];
  return {.is_known = true,
          .class_name = child.class_name,
          .left = Index(std::ranges::count(match.skeleton.values, step, &SkeletonValue::step)),
          .id = child.id};
}

// Those of the class that have most in common with the forward: steps first, then lines.
const std::vector<ForwardMatch>& ForwardMatches::OptionsOf(const ForwardOfRun& forward,
                                                           std::string_view class_name) {
  std::string key =
      ToText({.class_name = std::string(class_name), .steps = forward.steps, .values = {}});
  const auto [found, is_new] = options_.try_emplace(std::move(key));
  std::vector<ForwardMatch>& best = found->second;
  if (!is_new) return best;
  const std::vector<const Skeleton*> candidates =
      class_name.empty() ? known_.OfChildren(forward.steps) : known_.OfClass(class_name);
  const std::vector<LoopTurns> turns = LoopsOf(forward.steps);
  for (const Skeleton* const candidate : candidates) {
    if ((candidate->runs & wanted_.taken) == 0) continue;
    ForwardMatch match = {.skeleton = WithTurns(*candidate, turns), .alignment = {}};
    const double bound = MostShare(match.skeleton, forward.steps);
    if (bound < (best.empty() ? kLeastShare : best[0].share)) continue;
    match.alignment = Align(match.skeleton.steps, forward.steps);
    const size_t extra = forward.class_name.empty() ? 0 : ExtraCasts(match, forward.steps);
    match.share = match.alignment.Share(match.skeleton.steps.size() - LostBy(match),
                                        forward.steps.size() - extra);
    if (match.share < kLeastShare) continue;
    match.id = IdOf(*candidate);
    const auto common = [](const ForwardMatch& it) {
      return std::pair(it.share, it.alignment.alike);
    };
    if (!best.empty() && common(match) < common(best[0])) continue;
    if (!best.empty() && common(match) > common(best[0])) best.clear();
    best.push_back(std::move(match));
  }
  return best;
}

// The one whose children do what the file's do, then that which the module around was watched to
// run, or that was watched as a model where nothing is known of that; then the one that leaves as
// many values as are expected, or in which they live longest.
const ForwardMatch* ForwardMatches::BestAmong(const std::vector<const ForwardMatch*>& options,
                                              const ForwardOfRun& forward,
                                              const Expected& expected) const {
  const auto worth = [&](const ForwardMatch* it) {
    const bool leaves_so = expected.left == 0 || LeftBy(it->skeleton) == expected.left;
    return std::tuple(
        ChildrenThatFit(*it, forward), (it->skeleton.runs & wanted_.preferred) != 0,
        it->id == expected.id, !expected.is_known && (it->skeleton.runs & kAsModel) != 0,
        InPlaceAlike(*it, forward), ChildrenAlike(*it, forward), leaves_so, LifeIn(it->skeleton));
  };
  const auto best = std::ranges::max_element(options, {}, worth);
  return best == options.end() ? nullptr : *best;
}

// Containers of torch.nn do what the modules around them are made for: of those that nobody has
// watched, nothing is known of them either.
const ForwardMatch* ForwardMatches::BestOf(const ForwardOfRun& forward, const Expected& expected) {
  const bool is_named = !forward.class_name.empty();
  if (expected.is_model && !is_named) return BestByChildren(forward, expected);
  if (forward.class_name.starts_with("torch.") && !expected.is_known) return nullptr;
  const std::string_view class_name = is_named ? forward.class_name : expected.class_name;
  if (class_name.empty()) return nullptr;
  std::vector<const ForwardMatch*> options;
  for (const ForwardMatch& option : OptionsOf(forward, class_name)) options.push_back(&option);
  return BestAmong(options, forward, expected);
}

// Of all classes, where most children that have children of their own are of those, too.
const ForwardMatch* ForwardMatches::BestByChildren(const ForwardOfRun& forward,
                                                   const Expected& expected) {
  const auto has_children = [&](int32_t child) {
    return child >= 0 && std::ranges::any_of(forwards_[Index(child)].children,
                                             [](int32_t inner) { return inner >= 0; });
  };
  const auto inner = Index(std::ranges::count_if(forward.children, has_children));
  std::vector<const ForwardMatch*> options;
  for (const ForwardMatch& option : OptionsOf(forward, "")) {
    if (2 * ChildrenAlike(option, forward) >= inner) options.push_back(&option);
  }
  return BestAmong(options, forward, expected);
}

// How many steps write in place, or do not, as a file says that tells.
size_t ForwardMatches::InPlaceAlike(const ForwardMatch& match, const ForwardOfRun& forward) const {
  if (!wanted_.is_as_written) return 0;
  size_t alike = 0;
  for (size_t step = 0; step < match.skeleton.steps.size(); ++step) {
    const int32_t place = match.alignment.places[step];
    const bool is_alike =
        place >= 0 && match.skeleton.steps[step].in_place == forward.steps[Index(place)].in_place;
    alike += is_alike ? 1 : 0;
  }
  return alike;
}

// Of how many children that have children the class runs what the file's child does, which names no
// class.
size_t ForwardMatches::ChildrenAlike(const ForwardMatch& match, const ForwardOfRun& forward) const {
  size_t alike = 0;
  if (!forward.class_name.empty()) return alike;
  for (size_t step = 0; step < match.skeleton.steps.size(); ++step) {
    const int32_t child = ChildAt(match, forward, step);
    if (child < 0) continue;
    alike += ClassesLike(Index(child)).contains(match.skeleton.steps[step].class_name) ? 1 : 0;
  }
  return alike;
}

const std::set<std::string>& ForwardMatches::ClassesLike(size_t forward) const {
  std::optional<std::set<std::string>>& classes = classes_like_[forward];
  if (!classes) {
    classes.emplace();
    for (const Skeleton* skeleton : known_.OfChildren(forwards_[forward].steps)) {
      classes->insert(skeleton->class_name);
    }
  }
  return *classes;
}

}  // namespace onnxfit
