#include "estimator/memory/gpu_replay.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

// Of each event, the phase that it belongs to.
std::vector<Phase> PhasesOf(const Trace& trace) {
  std::vector<Phase> phases;
  Phase phase = Phase::kSetup;
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kPhase) phase = event.phase;
    phases.push_back(phase);
  }
  return phases;
}

// What a buffer's block is filled with: neighbours differ, and 0, which new memory may hold, is
// nobody's.
uint8_t StampOf(BufferId buffer) { return static_cast<uint8_t>(1 + buffer % 251); }

class Replayer {
 public:
  Replayer(const Trace& trace, const Loop& loop, std::span<const int64_t> bytes, Gpu& gpu,
           const AllocatorConf& conf, const ReplayWatch& watch)
      : loop_(loop),
        bytes_(bytes),
        gpu_(gpu),
        watch_(watch),
        phase_of_event_(PhasesOf(trace)),
        allocator_(NewCachingAllocator(gpu, conf)),
        is_live_(bytes.size()) {}

  GpuReplay Run(int steps) {
    const auto begin = std::chrono::steady_clock::now();
    replay_.before = gpu_.Read();
    for (int step = 0; step <= steps && IsRunning(); ++step) Play(step);
    GiveAllBack();
    replay_.wrong_bytes = gpu_.WrongBytes();
    replay_.after = gpu_.Read();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    replay_.seconds = taken.count();
    return std::move(replay_);
  }

 private:
  bool IsRunning() const { return !replay_.failure && !replay_.was_stopped; }

  void Play(int step) {
    for (const Loop::Call& call : loop_.CallsOf(Index(loop_.TracedStepOf(step)))) {
      Enter(step, phase_of_event_[Index(call.event)]);
      const BufferId buffer = loop_.BufferIn(step, call);
      if (loop_.EmptiesCacheBefore(call)) allocator_->EmptyCache();
      if (watch_.is_stopped && watch_.is_stopped()) {
        replay_.was_stopped = true;
      } else if (call.frees) {
        Free(buffer);
      } else if (!Alloc(call.stream, buffer)) {
        Fail(step, call, bytes_[Index(buffer)]);
      }
      if (!IsRunning()) break;
    }
    if (is_in_phase_) Close();
  }

  void Enter(int step, Phase phase) {
    if (is_in_phase_ && now_.step == step && now_.phase == phase) return;
    if (is_in_phase_) Close();
    is_in_phase_ = true;
    now_ = {.step = step, .phase = phase};
    now_.peak.Raise(allocator_->stats());
    now_.peak_device_bytes = LostBytes(gpu_.Read());
    if (watch_.begins) watch_.begins(step, phase);
  }

  void Close() {
    const MemoryReading reading = gpu_.Read();
    now_.stats = allocator_->stats();
    now_.device_bytes = LostBytes(reading);
    now_.others_bytes = replay_.before.free_bytes - reading.free_bytes - now_.device_bytes;
    now_.peak_device_bytes = std::max(now_.peak_device_bytes, now_.device_bytes);
    replay_.phases.push_back(now_);
    is_in_phase_ = false;
  }

  // To this process, where the driver tells; else to all.
  int64_t LostBytes(const MemoryReading& reading) const {
    const MemoryReading& before = replay_.before;
    if (reading.process_bytes && before.process_bytes) {
      return *reading.process_bytes - *before.process_bytes;
    }
    return before.free_bytes - reading.free_bytes;
  }

  bool Alloc(StreamId stream, BufferId buffer) {
    const int64_t reserved_bytes = allocator_->stats().reserved_bytes;
    const bool fits = allocator_->AllocOn(stream, buffer, bytes_[Index(buffer)]);
    replay_.retries = allocator_->stats().retries;
    if (!fits) return false;
    is_live_[Index(buffer)] = true;
    now_.peak.Raise(allocator_->stats());
    if (allocator_->stats().reserved_bytes != reserved_bytes) {
      now_.peak_device_bytes = std::max(now_.peak_device_bytes, LostBytes(gpu_.Read()));
    }
    if (const auto place = allocator_->PlaceOf(buffer)) {
      gpu_.Write(place->segment, place->offset, place->bytes, StampOf(buffer));
      ++replay_.blocks;
      replay_.written_bytes += place->bytes;
    }
    return true;
  }

  void Free(BufferId buffer) {
    if (const auto place = allocator_->PlaceOf(buffer)) {
      gpu_.Check(place->segment, place->offset, place->bytes, StampOf(buffer));
    }
    allocator_->Free(buffer);
    is_live_[Index(buffer)] = false;
  }

  void Fail(int step, const Loop::Call& call, int64_t asked_bytes) {
    replay_.failure = {.step = step,
                       .event = Index(call.event),
                       .asked_bytes = asked_bytes,
                       .free_bytes = gpu_.free_bytes(),
                       .stats = allocator_->stats()};
  }

  void GiveAllBack() {
    for (size_t i = 0; i < is_live_.size(); ++i) {
      if (is_live_[i]) Free(static_cast<BufferId>(i));
    }
    allocator_->EmptyCache();
  }

  const Loop& loop_;
  const std::span<const int64_t> bytes_;
  Gpu& gpu_;
  const ReplayWatch& watch_;
  const std::vector<Phase> phase_of_event_;
  const std::unique_ptr<Allocator> allocator_;
  std::vector<bool> is_live_;
  bool is_in_phase_ = false;
  PhaseFigures now_;
  GpuReplay replay_;
};

}  // namespace

GpuReplay ReplayOnGpu(const Trace& trace, const Loop& loop, std::span<const int64_t> bytes,
                      int steps, Gpu& gpu, const AllocatorConf& conf, const ReplayWatch& watch) {
  return Replayer(trace, loop, bytes, gpu, conf, watch).Run(steps);
}

}  // namespace onnxfit
