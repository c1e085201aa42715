#include "estimator/fit/length_series.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/base/parallel.h"
#include "estimator/base/quote.h"
#include "estimator/fit/batch_runs.h"
#include "estimator/fit/doubts.h"
#include "estimator/fit/judge_targets.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit {
namespace {

constexpr int64_t kNeverFull = std::numeric_limits<int64_t>::max();
constexpr int64_t kNearbyBytes =
    8 * kMiB;  // totals of one card differ by a few MiB between drivers

// --- What is asked ------------------------------------------------------------------------------

std::string DimOf(const Graph& file, const LengthOptions& options) {
  const std::vector<std::string> dims = FreeDimsBesideBatch(file);
  const std::string all =
      dims.empty() ? "none but the batch" : fmt::format("{}", fmt::join(dims, ", "));
  const bool is_there = std::ranges::find(dims, options.dim) != dims.end();
  if (options.dim.empty() && dims.size() == 1) return dims[0];
  if (is_there) return options.dim;
  const std::string first =
      dims.empty() ? "" : fmt::format("--lengths {}=uniform:64..512", dims[0]);
  throw Error({.file = file.path,
               .where = "--lengths",
               .text = options.dim.empty()
                           ? fmt::format("expected one dimension that is free, found {}", all)
                           : fmt::format("expected a dimension that is free, found {}; free are {}",
                                         Quote(options.dim), all),
               .hint = first});
}

EstimateRequest AtLength(const EstimateRequest& request, const std::string& dim, int64_t length) {
  EstimateRequest own = request;
  own.binding.dims[dim] = length;
  own.details = false;
  own.why.clear();
  return own;
}

// --- The run at each length ---------------------------------------------------------------------

// What is kept of a prediction: equal loops are one.
struct Sized {
  std::shared_ptr<const Loop> loop;
  std::vector<int64_t> bytes;
  int64_t beside_bytes = 0;
};

class Lengths {
 public:
  Lengths(const Study& study, const EstimateRequest& request, std::string dim)
      : study_(study), request_(request), dim_(std::move(dim)) {}

  // Predicts those that are not there yet.
  void Add(const std::set<int64_t>& lengths, const std::function<void(size_t, size_t)>& progress) {
    std::vector<int64_t> missing;
    for (const int64_t length : lengths) {
      if (!place_.contains(length)) missing.push_back(length);
    }
    std::vector<Sized> sized(missing.size());
    std::atomic<size_t> done = 0;
    ForEachIndex(missing.size(), [&](size_t i) {
      sized[i] = Predicted(missing[i]);
      if (progress) progress(++done, missing.size());
    });
    for (size_t i = 0; i < missing.size(); ++i) Keep(missing[i], std::move(sized[i]));
    CheckAlike();
  }

  SeriesRun Play(const std::vector<int64_t>& lengths, const CardRoom& room,
                 const AllocatorConf& conf) const {
    std::vector<int32_t> order;
    for (const int64_t length : lengths) order.push_back(place_.at(length));
    return PlaySeries(Loops(), order, room, conf);
  }

  int64_t beside_bytes() const {
    return std::ranges::max_element(sized_, {}, &Sized::beside_bytes)->beside_bytes;
  }

 private:
  Sized Predicted(int64_t length) const {
    const LoopedPrediction looped = PredictLoop(study_, AtLength(request_, dim_, length));
    if (!looped.loop.repeats()) {
      throw Error({.file = study_.file().path,
                   .where = "--lengths",
                   .text = "expected steps that repeat, which these do not"});
    }
    const PlayableRun run = looped.playable();
    return {std::make_shared<const Loop>(looped.loop), run.bytes, run.beside_bytes()};
  }

  void Keep(int64_t length, Sized sized) {
    for (const Sized& other : sized_) {
      if (!SameCalls(*other.loop, *sized.loop)) continue;
      sized.loop = other.loop;
      break;
    }
    place_[length] = static_cast<int32_t>(sized_.size());
    sized_.push_back(std::move(sized));
  }

  void CheckAlike() const {
    if (CanFollow(Loops())) return;
    throw Error({.where = "--lengths",
                 .text = "expected steps that leave as much at each length, which these do not"});
  }

  std::vector<SeriesLoop> Loops() const {
    std::vector<SeriesLoop> loops;
    for (const Sized& sized : sized_) loops.push_back({sized.loop.get(), sized.bytes});
    return loops;
  }

  const Study& study_;
  const EstimateRequest& request_;
  const std::string dim_;
  std::map<int64_t, int32_t> place_;  // in sized_, by length
  std::vector<Sized> sized_;
};

// --- The seeds' runs ----------------------------------------------------------------------------

struct Seeded {
  uint64_t seed = 0;
  std::vector<int64_t> lengths = {};
  SeriesRun endless = {};
};

// Of a list, one run: it is the same for each seed.
std::vector<Seeded> SeedsOf(const LengthOptions& options, int64_t batch) {
  const bool is_drawn = options.source.list.empty();
  std::vector<Seeded> runs;
  for (int64_t i = 0; i < (is_drawn ? options.seeds : 1); ++i) {
    const uint64_t seed = options.first_seed + static_cast<uint64_t>(i);
    runs.push_back({seed, DrawLengths(options, batch, seed)});
  }
  return runs;
}

std::set<int64_t> LengthsIn(const std::vector<Seeded>& runs) {
  std::set<int64_t> lengths;
  for (const Seeded& run : runs) lengths.insert(run.lengths.begin(), run.lengths.end());
  return lengths;
}

AllocatorConf OfEndless(AllocatorConf conf) {
  conf.memory_fraction = 1;  // of an endless card, no share is a limit
  return conf;
}

SeriesRun PlayEndless(const Lengths& at, const std::vector<int64_t>& lengths,
                      const AllocatorConf& conf) {
  return at.Play(lengths, {kNeverFull}, OfEndless(conf));
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

void AddConfs(const Lengths& at, const Seeded& run, const AllocatorConf& conf,
              std::vector<SeriesChange>& changes) {
  for (const ConfRow& row : kConfRows) {
    AllocatorConf changed = conf;
    row.apply(changed);
    if (changed == conf) continue;
    const int64_t reserved = PlayEndless(at, run.lengths, changed).peak_reserved_bytes;
    changes.push_back({row.flags, row.what, reserved});
  }
}

int64_t SumOf(const std::vector<int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

void AddLongestFirst(const Lengths& at, const Seeded& run, const AllocatorConf& conf,
                     std::vector<SeriesChange>& changes) {
  std::vector<int64_t> lengths = run.lengths;
  std::rotate(lengths.begin(), std::ranges::max_element(lengths), lengths.end());
  changes.push_back(
      {"", "the longest batch first", PlayEndless(at, lengths, conf).peak_reserved_bytes});
}

void AddPads(Lengths& at, const Seeded& run, const LengthOptions& options,
             const AllocatorConf& conf, std::vector<SeriesChange>& changes) {
  for (const int64_t pad : kPads) {
    if (pad <= options.pad_to || pad > std::ranges::max(run.lengths)) continue;
    std::vector<int64_t> lengths;
    for (const int64_t length : run.lengths) lengths.push_back(RoundUp(length, pad));
    at.Add({lengths.begin(), lengths.end()}, {});
    const double more =
        static_cast<double>(SumOf(lengths)) / static_cast<double>(SumOf(run.lengths)) - 1;
    changes.push_back({fmt::format("--pad-to {}", pad), "padded",
                       PlayEndless(at, lengths, conf).peak_reserved_bytes, more});
  }
}

std::vector<SeriesChange> ChangesOf(Lengths& at, const Seeded& run, const LengthOptions& options,
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

// What the card's own size makes of each seed.  A run that is never full is the endless one.
void PlaySeeds(const Lengths& at, const std::vector<Seeded>& runs, const AllocatorConf& conf,
               SeriesOnCard& card) {
  const Target& target = card.judged.target;
  const CardRoom room = {std::max<int64_t>(0, target.capacity_bytes()),
                         target.total_bytes - target.capacity_bytes()};
  Judgement& judgement = card.judged.judgement;
  for (const Seeded& run : runs) {
    const bool is_never_full =
        conf.memory_fraction >= 1 && ReservedBytes(run) <= room.capacity_bytes;
    if (is_never_full) continue;
    const SeriesRun played = at.Play(run.lengths, room, conf);
    judgement.retries = std::max(judgement.retries, played.retries);
    if (!played.fits) {
      ++card.dies;
      card.first_death = Sooner(card.first_death, std::max(played.failed_step, 1));
    } else if (played.retries > 0) {
      ++card.retries;
      card.first_retry = Sooner(card.first_retry, std::max(played.retried_at, 1));
    }
  }
}

std::string Of(int64_t some, size_t all) { return fmt::format("{} of {} seeds", some, all); }

void AddReasons(const SeriesOnCard& card, size_t seeds, int64_t worst_bytes, int64_t beside_bytes,
                Judgement& judgement) {
  const Target& target = card.judged.target;
  if (card.dies > 0) {
    judgement.reasons.push_back(fmt::format("in {} it runs out of memory, the soonest in step {}",
                                            Of(card.dies, seeds), card.first_death));
  }
  if (card.retries > 0) {
    judgement.reasons.push_back(
        fmt::format("in {} the card is full and cached memory goes back first, which takes time, "
                    "the soonest in step {}",
                    Of(card.retries, seeds), card.first_retry));
  }
  if (card.dies + card.retries > 0) return;
  const int64_t missing = std::max(worst_bytes + beside_bytes - target.least_capacity_bytes(),
                                   worst_bytes + kNearbyBytes - target.capacity_bytes());
  if (missing <= 0) return;
  judgement.reasons.push_back(fmt::format(
      "context, others and libraries may take more: then {} are missing", FormatBytes(missing)));
}

SeriesOnCard OnCard(const Lengths& at, const std::vector<Seeded>& runs, const Target& target,
                    const AllocatorConf& conf) {
  SeriesOnCard card;
  card.judged.target = target;
  PlaySeeds(at, runs, conf, card);
  Judgement& judgement = card.judged.judgement;
  const int64_t worst = ReservedBytes(*std::ranges::max_element(runs, {}, ReservedBytes));
  const ContextBytes& context = target.device.context;
  judgement.usable_bytes = target.usable_bytes();
  const int64_t held = card.dies > 0 ? worst : std::min(worst, target.capacity_bytes());
  judgement.used_bytes = CheckedAdd(held, context.bytes);
  judgement.low_bytes = CheckedAdd(held, context.low);
  judgement.high_bytes = CheckedAdd(CheckedAdd(held, context.high), at.beside_bytes());
  AddReasons(card, runs.size(), worst, at.beside_bytes(), judgement);
  judgement.verdict = card.dies > 0               ? Verdict::kOom
                      : judgement.reasons.empty() ? Verdict::kFits
                                                  : Verdict::kTight;
  return card;
}

// Predicts anew where kernels are not those of the card before.
void JudgeCards(const Study& study, EstimateRequest request, const std::vector<Target>& targets,
                Lengths& at, std::vector<Seeded> runs, LengthSeries& series) {
  std::optional<Lengths> later;
  for (const Target& target : targets) {
    if (!SameKernels(request.settings.device, target.device)) {
      request.settings.device = target.device;
      later.emplace(study, request, series.dim);
      later->Add(LengthsIn(runs), {});
      for (Seeded& run : runs)
        run.endless = PlayEndless(*later, run.lengths, request.alloc_conf.conf);
    }
    series.cards.push_back(OnCard(later ? *later : at, runs, target, request.alloc_conf.conf));
  }
}

}  // namespace

LengthSeries PlayLengths(const Study& study, const EstimateRequest& request,
                         const LengthOptions& options,
                         const std::function<void(size_t, size_t)>& progress) {
  LengthSeries series = {
      .model = study.file().path, .asked = options, .settings = request.settings};
  series.dim = DimOf(study.file(), options);
  const EstimateRequest longest = AtLength(request, series.dim, options.source.most);
  const std::shared_ptr<const PreparedRun> prepared = study.Prepared(longest);
  series.batch = prepared->file->shapes.batch;
  const std::vector<Reading> readings = ReadingsOf(longest, DoubtsAt(study, longest));
  series.reading = readings.front().flags;
  const EstimateRequest own = readings.front().request;
  std::vector<Seeded> runs = SeedsOf(options, series.batch);
  const std::set<int64_t> lengths = LengthsIn(runs);
  series.shortest = *lengths.begin();
  series.longest = *lengths.rbegin();
  series.different = static_cast<int64_t>(lengths.size());
  const AllocatorConf& conf = own.alloc_conf.conf;
  Lengths at(study, own, series.dim);
  at.Add(lengths, progress);
  ForEachIndex(runs.size(),
               [&](size_t i) { runs[i].endless = PlayEndless(at, runs[i].lengths, conf); });
  const auto [least, worst] = std::ranges::minmax_element(runs, {}, ReservedBytes);
  series.least_reserved_bytes = ReservedBytes(*least);
  series.worst_seed = worst->seed;
  series.lengths = worst->lengths;
  series.endless = worst->endless;
  series.alike_bytes = PlayEndless(at, std::vector<int64_t>(kVerdictSteps, series.longest), conf)
                           .peak_reserved_bytes;
  series.warnings = study.Predicted(AtLength(own, series.dim, series.longest))->warnings;
  const Seeded told = *worst;
  JudgeCards(study, own, request.targets, at, runs, series);
  series.changes = ChangesOf(at, told, options, conf);
  return series;
}

}  // namespace onnxfit
