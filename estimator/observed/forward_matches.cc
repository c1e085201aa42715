#include "estimator/observed/forward_matches.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "estimator/base/interned.h"

namespace onnxfit {
namespace {

// What part of two forwards has to be the same: below, steps are of other code.  Of transformers
// 4.38 and 5.17, forwards of one name that share less let go of other values.  Files without
// classes also move calls to other modules: a batch norm that was folded into a convolution is put
// back beside that.
constexpr double kLeastShare = 0.9;
// Where a file names no classes, that much of a forward tells which class it may be of; what is
// below it has to be the same, too.
constexpr double kLeastToTell = 0.6;
// The same where all that is below is of such classes, too, as they tell that it is the class: an
// exporter has left out what no result needs.
constexpr double kLeastOfModel = 0.8;
// And so many of the modules below do what was watched there: UMT5 makes as much as T5 does, and
// passes other parts of it on.
constexpr double kLeastThatFit = 0.95;

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

// Which steps do not count where one of both lacks them: of files that name classes, what they may
// lose and casts that may be put back too often; of others, which exporters rewrite, views as well.
class Uncounted {
 public:
  Uncounted(const ForwardOfRun& forward, bool counts_lines)
      : is_named_(!forward.class_name.empty()),
        counts_lines_(counts_lines),
        file_(forward.steps),
        in_file_(Index(std::ranges::count_if(
            file_, [this](const SkeletonStep& step) { return IsInFile(step); }))),
        weights_(WeightsOf(file_)) {}

  double ShareOf(const ForwardMatch& match) const {
    const std::vector<SkeletonStep>& known = match.skeleton.steps;
    const std::vector<int64_t> weights = WeightsOf(known);
    int64_t all = std::accumulate(weights_.begin(), weights_.end(), int64_t{0});
    int64_t same = 0;
    for (size_t step = 0; step < known.size(); ++step) {
      const int32_t place = match.alignment.places[step];
      if (place < 0 && IsInKnown(known[step])) continue;
      all += weights[step];
      if (place < 0) continue;
      same += weights[step] + weights_[Index(place)];
    }
    for (size_t step = 0; step < file_.size(); ++step) {
      if (match.alignment.known[step] < 0 && IsInFile(file_[step])) all -= weights_[step];
    }
    return all == 0 ? 1 : static_cast<double>(same) / static_cast<double>(all);
  }

  // The most that it can be: 1 where lines count as steps, as the numbers of those bound nothing.
  double MostShare(const Skeleton& skeleton) const {
    if (counts_lines_) return 1;
    const auto lost =
        std::ranges::count_if(skeleton.steps, [this](const auto& step) { return IsInKnown(step); });
    const size_t most = std::min(skeleton.steps.size(), file_.size());
    const size_t all = std::max(skeleton.steps.size() - Index(lost), most) +
                       std::max(file_.size() - in_file_, most);
    return all == 0 ? 1 : 2.0 * static_cast<double>(most) / static_cast<double>(all);
  }

 private:
  // Of a line that calls a function, such as one that makes a mask, all steps count as one.  Files
  // without classes show lines of calls alone that are put back.
  std::vector<int64_t> WeightsOf(const std::vector<SkeletonStep>& steps) const {
    constexpr int64_t kOne = 720720;  // which 1 to 16 divide
    if (!counts_lines_) return std::vector<int64_t>(steps.size(), kOne);
    std::map<uint32_t, int64_t> counts;
    for (const SkeletonStep& step : steps) counts[step.line] += step.is_child ? 0 : 1;
    std::vector<int64_t> weights;
    for (const SkeletonStep& step : steps) {
      const bool is_alone = step.is_child || step.line == 0;
      weights.push_back(is_alone ? kOne : kOne / counts[step.line]);
    }
    return weights;
  }
  bool IsInKnown(const SkeletonStep& step) const { return MayBeMissing(step, is_named_); }
  bool IsInFile(const SkeletonStep& step) const {
    return IsCast(step) || (!is_named_ && MayBeMoved(step));
  }

  const bool is_named_;
  const bool counts_lines_;
  const std::vector<SkeletonStep>& file_;
  const size_t in_file_;
  const std::vector<int64_t> weights_;
};

// How many of the file's steps may be alike with some of the skeleton's, at most: those of a class
// that it has, too, and those without one.
class MostAlike {
 public:
  explicit MostAlike(const std::vector<SkeletonStep>& file) {
    for (const SkeletonStep& step : file) ++counts_[step.class_name];
  }
  size_t In(const Skeleton& skeleton) const {
    size_t most = 0;
    for (const auto& row : counts_) {
      const auto may_be = [&](const SkeletonStep& step) {
        return step.class_name == row.first || (step.is_child && step.class_name.empty());
      };
      if (row.first.empty() || std::ranges::any_of(skeleton.steps, may_be)) most += row.second;
    }
    return most;
  }

 private:
  std::map<std::string_view, size_t> counts_;  // by class
};

// Whether the module around one of that class made its children, of which there are thousands.
bool IsContainer(std::string_view class_name) {
  return class_name.starts_with("torch.nn.modules.container.");
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
  shapes_.resize(forwards_.size());
  const size_t count = runs.all().size();
  if (forwards_.size() > count) {
    roots_.push_back(static_cast<int32_t>(count));
  } else {
    for (size_t run = 0; run < count; ++run) {
      if (runs.all()[run].caller < 0) roots_.push_back(static_cast<int32_t>(run));
    }
  }
  for (size_t run = count; run-- > 0;) {  // the inner ones first
    MeasureShape(run);
    fits_[run] = FitsOf(forwards_[run]);
  }
  if (forwards_.size() > count) MeasureShape(count);
  for (const int32_t root : roots_) {
    Follow(root, {.is_model = true, .left = program.outputs.size()});
  }
}

void ForwardMatches::MeasureShape(size_t run) {
  const ForwardOfRun& forward = forwards_[run];
  std::string text = ToText({.class_name = "", .steps = forward.steps, .values = {}});
  shapes_[run].own = NumberOf(text);
  shapes_[run].steps = forward.steps.size();
  for (const int32_t child : forward.children) {
    if (child < 0) continue;
    text += ' ' + std::to_string(shapes_[Index(child)].all);
    shapes_[run].steps += shapes_[Index(child)].steps;
    shapes_[run].children += 1 + shapes_[Index(child)].children;
  }
  shapes_[run].all = NumberOf(text);
}

// The same for the same text.
uint32_t ForwardMatches::NumberOf(const std::string& text) {
  return numbers_.try_emplace(text, static_cast<uint32_t>(numbers_.size())).first->second;
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
  if (match != nullptr && match->share >= LeastOf(forward, *match)) matches_[Index(run)] = match;
  for (size_t step = 0; step < forward.steps.size(); ++step) {
    const int32_t child = forward.children[step];
    if (child >= 0) Follow(child, match != nullptr ? ExpectedAt(*match, step) : Expected());
  }
}

double ForwardMatches::LeastOf(const ForwardOfRun& forward, const ForwardMatch& match) {
  const bool is_model = forward.class_name.empty() && (match.skeleton.runs & kAsModel) != 0;
  return is_model && IsAlike(match, forward) ? kLeastOfModel : kLeastShare;
}

// Whether it does the same, with all that is below.
bool ForwardMatches::IsAlike(const ForwardMatch& match, const ForwardOfRun& forward) {
  const Shape& all = ShapeOf(forward);
  const Likeness likeness = LikenessOf(match, forward);
  return static_cast<double>(likeness.steps) >= kLeastShare * static_cast<double>(all.steps) &&
         static_cast<double>(likeness.fits) >= kLeastThatFit * static_cast<double>(all.children);
}

ForwardMatches::Expected ForwardMatches::ExpectedAt(const ForwardMatch& match, size_t file_step) {
  const int32_t step = match.alignment.known[file_step];
  if (step < 0) return {};
  const SkeletonStep& child = match.skeleton.steps[Index(step)];
  return {.is_known = true,
          .class_name = child.class_name,
          .left = Index(std::ranges::count(match.skeleton.values, step, &SkeletonValue::step)),
          .id = child.id};
}

// The one that the module around says, if it was watched in such a run.
std::vector<KnownSkeleton> ForwardMatches::WithId(std::string_view class_name, uint32_t id) const {
  const KnownSkeleton found = known_.OfId(class_name, id);
  if (found.skeleton == nullptr || (found.skeleton->runs & wanted_.taken) == 0) return {};
  return {found};
}

// Those of the class that have most in common with the forward: steps first, then lines.  Where no
// lines tell, of those that may be it the run that is asked goes before what is more alike.
const std::vector<ForwardMatch>& ForwardMatches::OptionsOf(const ForwardOfRun& forward,
                                                           std::string_view class_name,
                                                           uint32_t id) {
  const bool is_named = !forward.class_name.empty();
  const bool is_told = !is_named && IsContainer(class_name);
  const auto [found, is_new] =
      options_.try_emplace({ShapeOf(forward).own, Interned(class_name), is_told ? id : 0});
  std::vector<ForwardMatch>& best = found->second;
  if (!is_new) return best;
  const std::vector<LoopTurns> turns = LoopsOf(forward.steps);
  const Uncounted uncounted(forward, wanted_.counts_lines || !is_named);
  const double least = is_named ? kLeastShare : kLeastToTell;
  const auto worth = [&](const ForwardMatch& it) {
    const bool is_preferred = is_named || (it.skeleton.runs & wanted_.preferred) != 0;
    return std::tuple(is_named || it.share >= kLeastShare, is_preferred, it.share,
                      it.alignment.alike);
  };
  std::vector<Candidate> candidates = CandidatesOf(
      forward, is_told ? WithId(class_name, id) : known_.OfClass(class_name, wanted_.taken));
  std::vector<size_t> places;  // of those in `best`
  for (const Candidate& candidate : candidates) {
    const bool is_whole = is_named && !best.empty() && best[0].share >= 1;
    if (is_whole && candidate.most_alike < best[0].alignment.alike) continue;
    ForwardMatch match = {.skeleton = WithTurns(*candidate.known.skeleton, turns), .alignment = {}};
    const double needed = best.empty() ? least : best[0].share;
    if (uncounted.MostShare(match.skeleton) < needed) continue;
    match.alignment = alignments_.Of(match.skeleton.steps, forward.steps, ShapeOf(forward).own);
    match.share = uncounted.ShareOf(match);
    if (match.share < least || (!best.empty() && worth(match) < worth(best[0]))) continue;
    match.id = candidate.known.id;
    if (!best.empty() && worth(match) > worth(best[0])) best.clear(), places.clear();
    const auto place = std::ranges::upper_bound(places, candidate.place);
    best.insert(best.begin() + (place - places.begin()), std::move(match));
    places.insert(place, candidate.place);
  }
  return best;
}

// As they are known; where the file names classes, those first that it may have most steps of.
std::vector<ForwardMatches::Candidate> ForwardMatches::CandidatesOf(
    const ForwardOfRun& forward, const std::vector<KnownSkeleton>& known) {
  const MostAlike most(forward.steps);
  std::vector<Candidate> candidates;
  for (const KnownSkeleton& skeleton : known) {
    candidates.push_back(
        {.known = skeleton,
         .most_alike = forward.class_name.empty() ? 0 : most.In(*skeleton.skeleton),
         .place = candidates.size()});
  }
  std::ranges::stable_sort(candidates, std::greater(), &Candidate::most_alike);
  return candidates;
}

// The one whose children do what the file's do, then that which the module around was watched to
// run, or that was watched as a model where nothing is known of that; then the one that leaves as
// many values as are expected, or in which they live longest.
const ForwardMatch* ForwardMatches::BestAmong(const std::vector<const ForwardMatch*>& options,
                                              const ForwardOfRun& forward,
                                              const Expected& expected) {
  const auto worth = [&](const ForwardMatch* it) {
    const bool leaves_so = expected.left == 0 || LeftBy(it->skeleton) == expected.left;
    const Likeness likeness = LikenessOf(*it, forward);
    return std::tuple(ChildrenThatFit(*it, forward), likeness.steps, likeness.fits,
                      (it->skeleton.runs & wanted_.preferred) != 0, it->id == expected.id,
                      !expected.is_known && (it->skeleton.runs & kAsModel) != 0,
                      InPlaceAlike(*it, forward), leaves_so, likeness.life, LifeIn(it->skeleton));
  };
  const auto best = std::ranges::max_element(options, {}, worth);
  return best == options.end() ? nullptr : *best;
}

// Containers of torch.nn do what the modules around them are made for: of those that nobody has
// watched, nothing is known of them either.
const ForwardMatch* ForwardMatches::BestOf(const ForwardOfRun& forward, const Expected& expected) {
  const bool is_named = !forward.class_name.empty();
  if (is_named && forward.class_name.starts_with("torch.") && !expected.is_known) return nullptr;
  const std::string_view class_name = is_named ? forward.class_name : expected.class_name;
  std::vector<const ForwardMatch*> options;
  if (!class_name.empty()) {
    for (const ForwardMatch& option : OptionsOf(forward, class_name, expected.id))
      options.push_back(&option);
  }
  if (options.empty() && !is_named) return BestByChildren(forward, expected);
  return BestAmong(options, forward, expected);
}

// Of all classes those that do the same, with all that is below; inside of others those that are
// models of their own, as blocks of several libraries have children of the same names.
const ForwardMatch* ForwardMatches::BestByChildren(const ForwardOfRun& forward,
                                                   const Expected& expected) {
  std::vector<const ForwardMatch*> options;
  for (const std::string_view class_name : known_.ClassesOfChildren(forward.steps)) {
    for (const ForwardMatch& option : OptionsOf(forward, class_name)) {
      const bool may_be = expected.is_model || (option.skeleton.runs & kAsModel) != 0;
      if (may_be && IsAlike(option, forward)) options.push_back(&option);
    }
  }
  return BestAmong(options, forward, expected);
}

// Of a file that names no class, how many steps, with those below, are of the classes that it runs,
// and how long what they make lives.
ForwardMatches::Likeness ForwardMatches::LikenessOf(const ForwardMatch& match,
                                                    const ForwardOfRun& forward) {
  if (!forward.class_name.empty()) return {};
  Likeness all = {.steps = match.alignment.same, .life = LifeIn(match.skeleton)};
  for (size_t step = 0; step < match.skeleton.steps.size(); ++step) {
    const int32_t child = ChildAt(match, forward, step);
    if (child < 0) continue;
    const SkeletonStep& of = match.skeleton.steps[step];
    const auto& [below, ids] = LikenessTo(child, of.class_name, of.id);
    all.steps += below.steps;
    const bool fits = of.id == 0 ? !ids.empty() : ids.contains(of.id);
    all.fits += below.fits + (fits ? 1 : 0);
    all.life += below.life;
  }
  return all;
}

// The same of the run, beside the forward of that class that is the most like it.
const ForwardMatches::ClassLikeness& ForwardMatches::LikenessTo(int32_t run,
                                                                std::string_view class_name,
                                                                uint32_t id) {
  const uint32_t told = IsContainer(class_name) ? id : 0;
  const auto [known, is_new] = likenesses_.try_emplace({shapes_[Index(run)].all, class_name, told});
  if (!is_new) return known->second;
  ClassLikeness& made = known->second;
  for (const ForwardMatch& option : OptionsOf(forwards_[Index(run)], class_name, id)) {
    const Likeness likeness = LikenessOf(option, forwards_[Index(run)]);
    const auto worth = [](const Likeness& it) { return std::pair(it.steps, it.fits); };
    if (worth(likeness) > worth(made.most)) made.ids.clear();
    if (worth(likeness) >= worth(made.most)) made.ids.insert(option.id);
    made.most = std::max(made.most, likeness);
  }
  return made;
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

}  // namespace onnxfit
