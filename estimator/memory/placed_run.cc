#include "estimator/memory/placed_run.h"

#include <algorithm>
#include <map>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/memory/allocator.h"
#include "estimator/memory/endless_card.h"

namespace onnxfit {
namespace {

// Where CUDA's first addresses are, as snapshots show them: any number would do.
constexpr int64_t kFirstAddress = int64_t{0x7f} << 40;

class PlacedReplay {
 public:
  PlacedReplay(const Trace& trace, const AllocatorConf& conf)
      : trace_(trace), conf_(conf), card_(conf), blocks_(trace.buffers.size()) {}

  PlacedRun Run() {
    for (size_t i = 0; i < trace_.events.size(); ++i) {
      if (trace_.EmptiesCacheAt(i)) card_.EmptyCache();
      Follow(trace_.events[i]);
    }
    return std::move(run_);
  }

 private:
  struct Block {
    int64_t address = 0;
    int64_t bytes = 0;
  };

  void Follow(const Event& event) {
    switch (event.type) {
      case Event::Type::kAlloc:
        return Alloc(event.id);
      case Event::Type::kFree:
        return Free(event.id);
      case Event::Type::kPhase:
        now_ = {.step = event.id, .phase = event.phase, .operators = now_.operators};
        return;
      case Event::Type::kAt:
        now_.at = event.id;
        ++now_.operators;
        return;
      case Event::Type::kKind:
        return;
    }
  }

  void Alloc(BufferId buffer) {
    const Buffer& asked = trace_.buffers[Index(buffer)];
    const int64_t reserved = card_.stats().reserved_bytes;
    card_.Alloc(buffer, asked);
    const std::optional<Layout::Place> place = card_.PlaceOf(buffer);
    if (!place) return;
    const int64_t grown = card_.stats().reserved_bytes - reserved;
    if (grown > 0) Grow(place->segment, grown, asked);
    const int64_t address = AddressOf(place->segment) + place->offset;
    blocks_[Index(buffer)] = {address, place->bytes};
    Add(PlacedEvent::Action::kAlloc, OfBlock(buffer));
  }

  void Free(BufferId buffer) {
    card_.Free(buffer);
    if (blocks_[Index(buffer)].bytes > 0) Add(PlacedEvent::Action::kFree, OfBlock(buffer));
  }

  // A new segment, or another part of one, which follows at its end.
  void Grow(int32_t number, int64_t bytes, const Buffer& asked) {
    const auto [found, is_new] = segments_.try_emplace(number, run_.segments.size());
    if (is_new) {
      run_.segments.push_back({.address = AddressOf(number),
                               .is_small = IsOfSmallPool(asked.bytes, conf_),
                               .is_expandable = conf_.expandable_segments,
                               .stream = asked.stream});
    }
    PlacedSegment& segment = run_.segments[found->second];
    Add(conf_.expandable_segments ? PlacedEvent::Action::kMap : PlacedEvent::Action::kSegment,
        {.address = segment.address + segment.bytes, .bytes = bytes, .stream = segment.stream});
    segment.bytes += bytes;
  }

  // Segments are as far apart as no card is large.
  static int64_t AddressOf(int32_t number) {
    constexpr int64_t kRoom = int64_t{1} << 40;
    return kFirstAddress + kRoom * number;
  }

  PlacedEvent OfBlock(BufferId buffer) const {
    const Block& block = blocks_[Index(buffer)];
    return {.address = block.address,
            .bytes = block.bytes,
            .buffer = buffer,
            .stream = trace_.buffers[Index(buffer)].stream};
  }

  void Add(PlacedEvent::Action action, PlacedEvent event) {
    event.action = action;
    event.moment = now_;
    run_.events.push_back(event);
  }

  const Trace& trace_;
  const AllocatorConf conf_;
  EndlessCard card_;
  std::vector<Block> blocks_;           // by BufferId
  std::map<int32_t, size_t> segments_;  // where run_ has each, by its number
  PlacedRun run_;
  Moment now_;
};

}  // namespace

PlacedRun ReplayPlaced(const Trace& trace, const AllocatorConf& conf) {
  PlacedRun run = PlacedReplay(trace, conf).Run();
  std::ranges::sort(run.segments, {}, &PlacedSegment::address);
  return run;
}

}  // namespace onnxfit
