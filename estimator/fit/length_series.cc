#include "estimator/fit/length_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/base/parallel.h"
#include "estimator/fit/doubts.h"
#include "estimator/fit/judge_targets.h"
#include "estimator/fit/length_runs.h"

namespace onnxfit {
namespace {

constexpr int64_t kNeverFull = std::numeric_limits<int64_t>::max();
constexpr int64_t kNearbyBytes =
    8 * kMiB;  // totals of one card differ by a few MiB between drivers

// --- The seeds' runs ----------------------------------------------------------------------------

struct Seeded {
  uint64_t seed = 0;
  std::vector<StepShape> shapes = {};
  SeriesRun endless = {};  // without steps where the card's size alone was played
};

// Of a list, one run: it is the same for each seed.
std::vector<Seeded> SeedsOf(const LengthOptions& options, int64_t batch) {
  const bool is_drawn = options.source.list.empty();
  std::vector<Seeded> runs;
  for (int64_t i = 0; i < (is_drawn ? options.seeds : 1); ++i) {
    const uint64_t seed = options.first_seed + static_cast<uint64_t>(i);
    runs.push_back({seed, DrawSteps(options, batch, seed)});
  }
  return runs;
}

std::set<StepShape> ShapesIn(const std::vector<Seeded>& runs) {
  std::set<StepShape> shapes;
  for (const Seeded& run : runs) shapes.insert(run.shapes.begin(), run.shapes.end());
  return shapes;
}

// The one with most tokens, of several the longest.
StepShape LargestOf(const std::set<StepShape>& shapes) {
  return *std::ranges::max_element(
      shapes, {}, [](const StepShape& shape) { return std::pair(shape.tokens(), shape.length); });
}

AllocatorConf OfEndless(AllocatorConf conf) {
  conf.memory_fraction = 1;  // of an endless card, no share is a limit
  return conf;
}

SeriesRun PlayEndless(const LengthRuns& at, const std::vector<StepShape>& shapes,
                      const AllocatorConf& conf) {
  return at.Play(shapes, {kNeverFull}, OfEndless(conf));
}

int64_t ReservedBytes(const Seeded& run) { return run.endless.peak_reserved_bytes; }

// --- What would change it -----------------------------------------------------------------------

struct ConfRow {
  const char* flags;
  const char* what;
  void (*apply)(AllocatorConf&);
};
constexpr ConfRow kConfRows[] = {
    {"--alloc-conf expandable_segments:True", "segments that grow",
     [](AllocatorConf& conf) { conf.expandable_segments = true; }},
    {"--alloc-conf max_split_size_mb:128", "large blocks stay whole",
     [](AllocatorConf& conf) { conf.max_split_bytes = 128 * kMiB; }},
    {"--alloc-conf roundup_power2_divisions:4", "sizes are rounded up",
     [](AllocatorConf& conf) { conf.roundup_divisions.fill(4); }},
};

constexpr int64_t kPads[] = {64, 128};

void AddConfs(const LengthRuns& at, const Seeded& run, const AllocatorConf& conf,
              std::vector<SeriesChange>& changes) {
  for (const ConfRow& row : kConfRows) {
    AllocatorConf changed = conf;
    row.apply(changed);
    if (changed == conf) continue;
    const int64_t reserved = PlayEndless(at, run.shapes, changed).peak_reserved_bytes;
    changes.push_back({row.flags, row.what, reserved});
  }
}

double TokensPerSample(const std::vector<StepShape>& shapes) {
  int64_t tokens = 0;
  int64_t samples = 0;
  for (const StepShape& shape : shapes) {
    tokens += shape.tokens();
    samples += shape.batch;
  }
  return static_cast<double>(tokens) / static_cast<double>(samples);
}

void AddLongestFirst(const LengthRuns& at, const Seeded& run, const AllocatorConf& conf,
                     std::vector<SeriesChange>& changes) {
  std::vector<StepShape> shapes = run.shapes;
  const auto largest = std::ranges::max_element(shapes, {}, &StepShape::tokens);
  std::rotate(shapes.begin(), largest, shapes.end());
  changes.push_back(
      {"", "the largest batch first", PlayEndless(at, shapes, conf).peak_reserved_bytes});
}

// Of padded lengths, which the model may not take.
void AddPad(LengthRuns& at, const Seeded& run, const LengthOptions& padded,
            const AllocatorConf& conf, std::vector<SeriesChange>& changes) {
  const std::vector<StepShape> shapes = DrawSteps(padded, at.batch(), run.seed);
  try {
    at.Add({shapes.begin(), shapes.end()});
  } catch (const Error&) {  // nobody asked for it
    return;
  }
  const double more = TokensPerSample(shapes) / TokensPerSample(run.shapes) - 1;
  changes.push_back({fmt::format("--pad-to {}", padded.pad_to), "padded",
                     PlayEndless(at, shapes, conf).peak_reserved_bytes, more});
}

void AddPads(LengthRuns& at, const Seeded& run, const LengthOptions& options,
             const AllocatorConf& conf, std::vector<SeriesChange>& changes) {
  const int64_t longest = std::ranges::max(run.shapes, {}, &StepShape::length).length;
  for (const int64_t pad : kPads) {
    if (pad <= options.pad_to || pad > longest) continue;
    LengthOptions padded = options;
    padded.pad_to = pad;
    AddPad(at, run, padded, conf, changes);
  }
}

std::vector<SeriesChange> ChangesOf(LengthRuns& at, const Seeded& run, const LengthOptions& options,
                                    const AllocatorConf& conf) {
  std::vector<SeriesChange> changes;
  AddConfs(at, run, conf, changes);
  AddLongestFirst(at, run, conf, changes);
  AddPads(at, run, options, conf, changes);
  std::ranges::stable_sort(changes, {}, &SeriesChange::reserved_bytes);
  return changes;
}

// --- On a card ----------------------------------------------------------------------------------

// The soonest of what was seen; 0 is never.
int32_t Sooner(int32_t a, int32_t b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

CardRoom RoomOn(const Target& target) {
  return {std::max<int64_t>(0, target.capacity_bytes()),
          target.total_bytes - target.capacity_bytes()};
}

// What the card's own size makes of a seed.
void Note(const SeriesRun& played, SeriesOnCard& card) {
  int64_t& retries = card.judged.judgement.retries;
  retries = std::max(retries, played.retries);
  if (!played.fits) {
    ++card.dies;
    card.first_death = Sooner(card.first_death, std::max(played.failed_step, 1));
  } else if (played.retries > 0) {
    ++card.retries;
    card.first_retry = Sooner(card.first_retry, std::max(played.retried_at, 1));
  }
}

// Of each seed.  A run that is never full is the endless one.
void PlaySeeds(const LengthRuns& at, const std::vector<Seeded>& runs, const AllocatorConf& conf,
               SeriesOnCard& card) {
  const CardRoom room = RoomOn(card.judged.target);
  std::vector<std::optional<SeriesRun>> full(runs.size());
  ForEachIndex(runs.size(), [&](size_t i) {
    const bool is_never_full =
        conf.memory_fraction >= 1 && ReservedBytes(runs[i]) <= room.capacity_bytes;
    if (!is_never_full) full[i] = at.Play(runs[i].shapes, room, conf);
  });
  for (const std::optional<SeriesRun>& played : full) {
    if (played) Note(*played, card);
  }
}

// The same where nobody played the endless card: a run that needs no retry is what it would have
// there, another one takes all of this card.  Ends with the first that dies.
void PlaySeedsAlone(const LengthRuns& at, std::vector<Seeded>& runs, const AllocatorConf& conf,
                    SeriesOnCard& card) {
  const CardRoom room = RoomOn(card.judged.target);
  std::atomic<bool> dies = false;
  std::vector<std::optional<SeriesRun>> played(runs.size());
  ForEachIndex(runs.size(), [&](size_t i) {
    if (dies) return;
    played[i] = at.Play(runs[i].shapes, room, conf);
    if (!played[i]->fits) dies = true;
  });
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!played[i]) continue;
    Note(*played[i], card);
    const bool is_full = !played[i]->fits || played[i]->retries > 0;
    runs[i].endless.peak_reserved_bytes =
        is_full ? room.capacity_bytes : played[i]->peak_reserved_bytes;
  }
}

std::string Of(int64_t some, size_t all) { return fmt::format("{} of {} seeds", some, all); }

void AddReasons(const SeriesOnCard& card, size_t seeds, int64_t worst_bytes,
                const PlayableRun& beside, Judgement& judgement) {
  const Target& target = card.judged.target;
  std::vector<std::string>& reasons = judgement.reasons;
  if (card.dies > 0) {
    reasons.push_back(fmt::format("in {} it runs out of memory, the soonest in step {}",
                                  Of(card.dies, seeds), card.first_death));
  }
  if (card.retries > 0) {
    reasons.push_back(
        fmt::format("in {} the card is full and cached memory goes back first, which takes time, "
                    "the soonest in step {}",
                    Of(card.retries, seeds), card.first_retry));
  }
  if (card.dies + card.retries > 0) return;
  if (const int64_t missing = worst_bytes + kNearbyBytes - target.capacity_bytes(); missing > 0) {
    reasons.push_back(
        fmt::format("cards of a kind differ by some MiB: {} may be missing", FormatBytes(missing)));
  }
  for (std::string& reason : OpenReasons(beside, target, worst_bytes)) {
    reasons.push_back(std::move(reason));
  }
}

void JudgeCard(const LengthRuns& at, const std::vector<Seeded>& runs, SeriesOnCard& card) {
  const Target& target = card.judged.target;
  Judgement& judgement = card.judged.judgement;
  const int64_t worst = ReservedBytes(*std::ranges::max_element(runs, {}, ReservedBytes));
  const ContextBytes& context = target.device.context;
  judgement.usable_bytes = target.usable_bytes();
  const int64_t held = card.dies > 0 ? worst : std::min(worst, target.capacity_bytes());
  judgement.used_bytes = CheckedAdd(held, context.bytes);
  judgement.low_bytes = CheckedAdd(held, context.low);
  judgement.high_bytes = CheckedAdd(CheckedAdd(held, context.high), at.beside().beside_bytes());
  AddReasons(card, runs.size(), worst, at.beside(), judgement);
  judgement.verdict = card.dies > 0               ? Verdict::kOom
                      : judgement.reasons.empty() ? Verdict::kFits
                                                  : Verdict::kTight;
}

// Predicts anew where kernels are not those of the card before.
void JudgeCards(const Study& study, EstimateRequest request, const std::vector<Target>& targets,
                LengthRuns& at, std::vector<Seeded> runs, LengthSeries& series) {
  std::optional<LengthRuns> later;
  for (const Target& target : targets) {
    if (!SameKernels(request.settings.device, target.device)) {
      request.settings.device = target.device;
      later.emplace(study, request, series.dim, at.batch());
      later->Add(ShapesIn(runs));
      for (Seeded& run : runs)
        run.endless = PlayEndless(*later, run.shapes, request.alloc_conf.conf);
    }
    SeriesOnCard& card = series.cards.emplace_back();
    card.judged.target = target;
    PlaySeeds(later ? *later : at, runs, request.alloc_conf.conf, card);
    JudgeCard(later ? *later : at, runs, card);
  }
}

// What is said of all seeds' steps.
void DescribeShapes(const std::set<StepShape>& shapes, LengthSeries& series) {
  const auto [shortest, longest] = std::ranges::minmax(shapes, {}, &StepShape::length);
  const auto [smallest, largest] = std::ranges::minmax(shapes, {}, &StepShape::batch);
  series.shortest = shortest.length;
  series.longest = longest.length;
  series.smallest_batch = smallest.batch;
  series.batch = largest.batch;
  std::set<int64_t> lengths;
  for (const StepShape& shape : shapes) lengths.insert(shape.length);
  series.different = static_cast<int64_t>(lengths.size());
}

// What is asked, with the run at each shape.
struct AskedSeries {
  std::string dim;
  std::string reading;
  EstimateRequest request;  // by that reading
  std::vector<Seeded> runs = {};
  std::set<StepShape> shapes = {};
  std::unique_ptr<LengthRuns> at = {};  // of `request`
};

std::unique_ptr<AskedSeries> AskedOver(const Study& study, const EstimateRequest& request,
                                       const LengthOptions& options,
                                       const std::function<void(size_t, size_t)>& progress) {
  auto asked = std::make_unique<AskedSeries>();
  asked->dim = DimOf(study.file(), options);
  const EstimateRequest longest = AtShape(request, asked->dim, {0, options.source.most});
  const int64_t batch = study.Prepared(longest)->file->shapes.batch;
  const std::vector<Reading> readings = ReadingsOf(longest, DoubtsAt(study, longest));
  asked->reading = readings.front().flags;
  asked->request = readings.front().request;
  asked->runs = SeedsOf(options, batch);
  asked->shapes = ShapesIn(asked->runs);
  asked->at = std::make_unique<LengthRuns>(study, asked->request, asked->dim, batch);
  asked->at->Add(asked->shapes, progress);
  return asked;
}

LengthSeries Played(const Study& study, const EstimateRequest& request,
                    const LengthOptions& options,
                    const std::function<void(size_t, size_t)>& progress, bool with_changes) {
  const std::unique_ptr<AskedSeries> asked = AskedOver(study, request, options, progress);
  LengthRuns& at = *asked->at;
  std::vector<Seeded>& runs = asked->runs;
  LengthSeries series = {.model = study.file().path,
                         .dim = asked->dim,
                         .asked = options,
                         .settings = request.settings,
                         .reading = asked->reading};
  DescribeShapes(asked->shapes, series);
  const AllocatorConf& conf = asked->request.alloc_conf.conf;
  ForEachIndex(runs.size(),
               [&](size_t i) { runs[i].endless = PlayEndless(at, runs[i].shapes, conf); });
  const auto [least, worst] = std::ranges::minmax_element(runs, {}, ReservedBytes);
  series.least_reserved_bytes = ReservedBytes(*least);
  series.worst_seed = worst->seed;
  series.shapes = worst->shapes;
  series.endless = worst->endless;
  const StepShape largest = LargestOf(asked->shapes);
  const std::vector<StepShape> alike(kVerdictSteps, largest);
  series.alike_bytes = PlayEndless(at, alike, conf).peak_reserved_bytes;
  series.warnings = study.Predicted(at.Asked(largest))->warnings;
  const Seeded told = *worst;
  JudgeCards(study, asked->request, request.targets, at, runs, series);
  if (with_changes) series.changes = ChangesOf(at, told, options, conf);
  return series;
}

}  // namespace

LengthSeries PlayLengths(const Study& study, const EstimateRequest& request,
                         const LengthOptions& options,
                         const std::function<void(size_t, size_t)>& progress) {
  return Played(study, request, options, progress, /*with_changes=*/false);
}

LengthSeries PlayChangedLengths(const Study& study, const EstimateRequest& request,
                                const LengthOptions& options,
                                const std::function<void(size_t, size_t)>& progress) {
  return Played(study, request, options, progress, /*with_changes=*/true);
}

JudgedTarget JudgeLengths(const Study& study, const EstimateRequest& request,
                          const LengthOptions& options) {
  const std::unique_ptr<AskedSeries> asked = AskedOver(study, request, options, {});
  SeriesOnCard card;
  card.judged.target = request.targets.at(0);
  PlaySeedsAlone(*asked->at, asked->runs, asked->request.alloc_conf.conf, card);
  JudgeCard(*asked->at, asked->runs, card);
  return card.judged;
}

}  // namespace onnxfit
