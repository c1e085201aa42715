#include "estimator/memory/series_run.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/memory/allocator.h"

namespace onnxfit {
namespace {

// What is live before each traced step of a loop (0: setup) and behind the last one, in the order
// in which it was allocated.
using Live = std::vector<std::vector<BufferId>>;
Live LiveBefore(const Loop& loop) {
  Live live(1);
  std::vector<BufferId> now;
  for (size_t step = 0; step < loop.steps.size(); ++step) {
    for (const Loop::Call& call : loop.CallsOf(step)) {
      if (call.frees) {
        now.erase(std::ranges::find(now, call.buffer));
      } else {
        now.push_back(call.buffer);
      }
    }
    live.push_back(now);
  }
  return live;
}

// Of each loop once: those of many sizes are mostly one.
using LiveByLoop = std::map<const Loop*, Live>;
LiveByLoop LiveIn(std::span<const SeriesLoop> loops) {
  LiveByLoop live;
  for (const SeriesLoop& of : loops) {
    const auto [at, is_new] = live.try_emplace(of.loop);
    if (is_new) at->second = LiveBefore(*of.loop);
  }
  return live;
}

// A loop as its steps are played: which of the allocator's buffers each of its own is.
class Shape {
 public:
  Shape(const SeriesLoop& of, const Live& live)
      : loop_(*of.loop), bytes_(of.bytes), live_(live), ids_(of.bytes.size(), -1) {}

  const Loop& loop() const { return loop_; }
  int64_t bytes_of(BufferId buffer) const { return bytes_[Index(buffer)]; }
  BufferId& id_of(BufferId buffer) { return ids_[Index(buffer)]; }
  size_t traced(int32_t step) const { return Index(loop_.TracedStepOf(step)); }

  // What is live behind that step of the series, as the allocator calls it.
  std::vector<BufferId> Leave(int32_t step) const {
    std::vector<BufferId> left;
    for (const BufferId buffer : live_[traced(step) + 1]) left.push_back(ids_[Index(buffer)]);
    return left;
  }

  // The step finds that, which another left.
  void Take(int32_t step, const std::vector<BufferId>& left) {
    const std::vector<BufferId>& own = live_[traced(step)];
    for (size_t i = 0; i < own.size(); ++i) ids_[Index(own[i])] = left[i];
  }

 private:
  const Loop& loop_;
  const std::span<const int64_t> bytes_;
  const Live& live_;
  std::vector<BufferId> ids_;
};

class SeriesPlayer {
 public:
  SeriesPlayer(std::span<const SeriesLoop> loops, const CardRoom& room, const AllocatorConf& conf)
      : live_(LiveIn(loops)),
        source_(NewCountingSource(room.capacity_bytes, room.held_bytes)),
        allocator_(NewCachingAllocator(*source_, conf)) {
    for (const SeriesLoop& of : loops) shapes_.emplace_back(of, live_.at(of.loop));
  }

  SeriesRun Run(std::span<const int32_t> order) {
    Play(order[0], 0);
    std::vector<BufferId> left = shapes_[Index(order[0])].Leave(0);
    for (int32_t step = 1; step <= static_cast<int32_t>(order.size()) && run_.fits; ++step) {
      Shape& shape = shapes_[Index(order[Index(step - 1)])];
      shape.Take(step, left);
      step_peak_ = allocator_->stats().allocated_bytes;
      Play(order[Index(step - 1)], step);
      left = shape.Leave(step);
      run_.steps.push_back({allocator_->stats().reserved_bytes, step_peak_});
    }
    return run_;
  }

 private:
  void Play(int32_t which, int32_t step) {
    Shape& shape = shapes_[Index(which)];
    for (const Loop::Call& call : shape.loop().CallsOf(shape.traced(step))) {
      if (shape.loop().EmptiesCacheBefore(call)) allocator_->EmptyCache();
      if (call.frees) {
        Free(shape.id_of(call.buffer));
        continue;
      }
      BufferId& id = shape.id_of(call.buffer);
      id = NewId();
      if (Alloc(call.stream, id, shape.bytes_of(call.buffer), step)) continue;
      if (!call.may_fail) return Fail(which, step, call, shape.bytes_of(call.buffer));
      failed_ = id;
    }
  }

  BufferId NewId() {
    if (free_ids_.empty()) return next_id_++;
    const BufferId id = free_ids_.back();
    free_ids_.pop_back();
    return id;
  }

  void Free(BufferId id) {
    free_ids_.push_back(id);
    if (failed_ != id) return allocator_->Free(id);
    failed_.reset();
  }

  bool Alloc(StreamId stream, BufferId id, int64_t bytes, int32_t step) {
    const bool fits = allocator_->AllocOn(stream, id, bytes);
    const AllocatorStats stats = allocator_->stats();
    if (stats.retries > run_.retries && run_.retries == 0) run_.retried_at = step;
    run_.retries = stats.retries;
    step_peak_ = std::max(step_peak_, stats.allocated_bytes);
    run_.peak_allocated_bytes = std::max(run_.peak_allocated_bytes, stats.allocated_bytes);
    run_.peak_reserved_bytes = std::max(run_.peak_reserved_bytes, stats.reserved_bytes);
    return fits;
  }

  void Fail(int32_t which, int32_t step, const Loop::Call& call, int64_t asked_bytes) {
    run_.fits = false;
    run_.failed_step = step;
    run_.failed_loop = which;
    run_.failed_event = static_cast<size_t>(call.event);
    run_.asked_bytes = asked_bytes;
  }

  const LiveByLoop live_;
  std::vector<Shape> shapes_;
  const std::unique_ptr<SegmentSource> source_;
  const std::unique_ptr<Allocator> allocator_;
  std::vector<BufferId> free_ids_;
  BufferId next_id_ = 0;
  std::optional<BufferId> failed_;  // what its owner went on without, and frees next
  int64_t step_peak_ = 0;
  SeriesRun run_ = {.fits = true};
};

}  // namespace

bool CanFollow(std::span<const SeriesLoop> loops) {
  const LiveByLoop all = LiveIn(loops);
  const auto same_size = [](const auto& a, const auto& b) { return a.size() == b.size(); };
  return std::ranges::all_of(all, [&](const auto& of) {
    return std::ranges::equal(of.second, all.begin()->second, same_size);
  });
}

SeriesRun PlaySeries(std::span<const SeriesLoop> loops, std::span<const int32_t> order,
                     const CardRoom& room, const AllocatorConf& conf) {
  return SeriesPlayer(loops, room, conf).Run(order);
}

}  // namespace onnxfit
