#include "estimator/snapshot/run_curve.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/snapshot/turns.h"

namespace onnxfit {
namespace {

constexpr int64_t kStays = 3;     // what lives for this part of the events stays
constexpr int64_t kMuchHeld = 4;  // a line with this part of all is told by what it calls,
constexpr size_t kInside = 4;     // by so many lines of packages

// --- Which lines have a layer -------------------------------------------------------------------

using PlaceInFile = std::pair<std::string_view, int64_t>;

PlaceInFile PlaceInFileOf(const MemorySnapshot& snapshot, FrameId frame) {
  if (frame < 0) return {};
  return {snapshot.frames[Index(frame)].file, snapshot.frames[Index(frame)].line};
}

// A line of the user's, the line of a package below it that is a layer of its own ({} for none),
// and whether it asked before the record.
using Holder = std::tuple<PlaceInFile, PlaceInFile, bool>;

struct HolderBytes {
  Holder holder;
  LineLayer layer;
  int64_t bytes = 0;
};

LineLayer LayerOf(const HeldLine& line) {
  if (line.is_early) return {.what = LineLayer::What::kEarly};
  if (line.frame < 0) return {.what = LineLayer::What::kBackward};
  return {.what = LineLayer::What::kLine, .frame = line.frame};
}

// A line that trains through packages holds nearly all: what they do in it tells more.
void AddHolders(const MemorySnapshot& snapshot, const HeldLine& line, int64_t all,
                std::vector<HolderBytes>& holders) {
  const PlaceInFile own = PlaceInFileOf(snapshot, line.frame);
  HolderBytes rest = {{own, {}, line.is_early}, LayerOf(line), line.bytes};
  const bool is_much = line.bytes >= all / kMuchHeld;
  for (size_t i = 0; is_much && i < std::min(kInside, line.within.size()); ++i) {
    const HeldLine& within = line.within[i];
    const PlaceInFile inner = PlaceInFileOf(snapshot, within.frame);
    holders.push_back({{own, inner, line.is_early}, LayerOf(within), within.bytes});
    rest.bytes -= within.bytes;
    rest.layer.is_rest = true;
  }
  if (rest.bytes > 0) holders.push_back(rest);
}

// The most bytes first.
std::vector<HolderBytes> HoldersOf(const MemorySnapshot& snapshot,
                                   const std::vector<HeldLine>& held) {
  int64_t all = 0;
  for (const HeldLine& line : held) all += line.bytes;
  std::vector<HolderBytes> holders;
  for (const HeldLine& line : held) AddHolders(snapshot, line, all, holders);
  std::ranges::stable_sort(holders, std::greater(), &HolderBytes::bytes);
  return holders;
}

// Which layer a block belongs to, by who asked.
class Layers {
 public:
  Layers(const MemorySnapshot& snapshot, const std::vector<HeldLine>& held,
         const CurveOptions& options)
      : snapshot_(snapshot), options_(options), by_stack_(snapshot.stacks.size(), -1) {
    for (HolderBytes& holder : HoldersOf(snapshot, held)) {
      if (layers.size() == options.layers) break;
      places_[holder.holder] = layers.size();
      layers.push_back(std::move(holder.layer));
    }
    layers.push_back({.what = LineLayer::What::kOthers});
  }

  size_t PlaceOf(const RecordedBlock& block) {
    if (block.born < 0 && block.stack == 0) return Find({{}, {}, true});
    int64_t& place = by_stack_[Index(block.stack)];
    if (place < 0) place = static_cast<int64_t>(FindStack(block.stack));
    return Index(place);
  }

  std::vector<LineLayer> layers;

 private:
  size_t Find(const Holder& holder) const {
    const auto found = places_.find(holder);
    return found == places_.end() ? layers.size() - 1 : found->second;
  }

  size_t FindStack(StackId stack) const {
    const auto place = [&](FrameId frame) { return PlaceInFileOf(snapshot_, frame); };
    const PlaceInFile own = place(OwnFrame(snapshot_, stack, options_.hidden));
    const PlaceInFile inner = place(InnerFrame(snapshot_, stack, options_.hidden));
    const auto within = places_.find({own, inner, false});
    return within != places_.end() ? within->second : Find({own, {}, false});
  }

  const MemorySnapshot& snapshot_;
  const CurveOptions& options_;
  std::vector<int64_t> by_stack_;  // -1: not looked up yet
  std::map<Holder, size_t> places_;
};

// --- From event to event ------------------------------------------------------------------------

// Which block each event bears and lets die, -1 for none.
struct BlockEvents {
  std::vector<int64_t> born;
  std::vector<int64_t> dies;
};

BlockEvents BlockEventsOf(const RecordedRun& run) {
  BlockEvents lives = {std::vector<int64_t>(Index(run.events), -1),
                       std::vector<int64_t>(Index(run.events), -1)};
  for (size_t i = 0; i < run.blocks.size(); ++i) {
    const RecordedBlock& block = run.blocks[i];
    if (block.born >= 0) lives.born[Index(block.born)] = static_cast<int64_t>(i);
    if (block.dies < run.events) lives.dies[Index(block.dies)] = static_cast<int64_t>(i);
  }
  return lives;
}

// All that is counted at one moment.
struct Sums {
  std::vector<int64_t> layers;
  int64_t requested = 0;
  int64_t staying = 0;
  int64_t reserved = 0;
  StackId asked_by = 0;
};

class CurveDrawing {
 public:
  CurveDrawing(const MemorySnapshot& snapshot, const RecordedRun& run,
               const std::vector<HeldLine>& held, const CurveOptions& options)
      : snapshot_(snapshot),
        run_(run),
        options_(options),
        layers_(snapshot, held, options),
        lives_(BlockEventsOf(run)),
        moments_(Index(run.events) + 1),
        points_(std::min(std::max<size_t>(options.points, 1), moments_)) {
    now_.layers.resize(layers_.layers.size());
    now_.reserved = ReservedBefore(snapshot);
  }

  RecordedCurve Draw() {
    curve_.is_cut = now_.reserved > 0;
    for (const RecordedBlock& block : run_.blocks) {
      if (block.born >= 0) continue;
      curve_.is_cut = true;
      Add(block, 1);
    }
    Note(0);
    for (size_t event = 0; event + 1 < moments_; ++event) {
      Take(event);
      Note(event + 1);
    }
    for (const StackId stack : asked_by_) {
      curve_.asked_by.push_back(OwnFrame(snapshot_, stack, options_.hidden));
    }
    curve_.layers = std::move(layers_.layers);
    curve_.events = run_.events;
    curve_.peak = PointOf(run_.peak.event);
    if (run_.moment.what == RecordedMoment::What::kOom) curve_.full = PointOf(run_.moment.event);
    AddTurns();
    return std::move(curve_);
  }

 private:
  size_t PointOf(int64_t moment) const { return Index(moment) * points_ / moments_; }

  void Add(const RecordedBlock& block, int64_t sign) {
    now_.requested += sign * block.bytes;
    now_.layers[layers_.PlaceOf(block)] += sign * block.bytes;
    const bool stays = block.dies - block.born >= std::max<int64_t>(run_.events / kStays, 1);
    if (stays) now_.staying += sign * block.bytes;
  }

  void Take(size_t place) {
    const SnapshotEvent& event = snapshot_.events[place];
    if (lives_.dies[place] >= 0) Add(run_.blocks[Index(lives_.dies[place])], -1);
    if (lives_.born[place] >= 0) Add(run_.blocks[Index(lives_.born[place])], 1);
    now_.reserved = ReservedAfter(event, now_.reserved);
    now_.asked_by = event.stack;
  }

  // Of a point the moment with the most, the first of equals.
  void Note(size_t moment) {
    const size_t point = PointOf(static_cast<int64_t>(moment));
    const bool is_new = point == curve_.requested_bytes.size();
    if (!is_new && now_.requested <= curve_.requested_bytes.back()) return;
    const auto put = [&](auto& values, auto value) {
      if (is_new) values.emplace_back();
      values.back() = value;
    };
    put(curve_.requested_bytes, now_.requested);
    put(curve_.staying_bytes, now_.staying);
    put(curve_.reserved_bytes, now_.reserved);
    put(asked_by_, now_.asked_by);
    for (size_t i = 0; i < now_.layers.size(); ++i) {
      put(layers_.layers[i].bytes, now_.layers[i]);
    }
  }

  // Of a loop that runs through most of the time, not of one among others.
  void AddTurns() {
    const Turns turns = FindTurns(snapshot_, run_);
    if (turns.count() == 0 || turns.begins.front() >= run_.events / 2) return;
    for (const int64_t begin : turns.begins) curve_.turns.push_back(PointOf(begin));
  }

  const MemorySnapshot& snapshot_;
  const RecordedRun& run_;
  const CurveOptions& options_;
  Layers layers_;
  const BlockEvents lives_;
  const size_t moments_;  // between events, before the first and behind the last
  const size_t points_;
  Sums now_;
  std::vector<StackId> asked_by_;  // by point
  RecordedCurve curve_;
};

}  // namespace

RecordedCurve CurveOf(const MemorySnapshot& snapshot, const RecordedRun& run,
                      const std::vector<HeldLine>& held, const CurveOptions& options) {
  if (run.events == 0) return {};
  return CurveDrawing(snapshot, run, held, options).Draw();
}

}  // namespace onnxfit
