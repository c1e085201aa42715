#include "estimator/snapshot/recorded_run.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"

namespace onnxfit {
namespace {

using Action = SnapshotEvent::Action;

// From the blocks that live at the end back to the first event.
class Backwards {
 public:
  explicit Backwards(const MemorySnapshot& snapshot) : snapshot_(snapshot) {
    run_.events = static_cast<int64_t>(snapshot.events.size());
    for (const SnapshotBlock& block : snapshot.live) {
      Find(block.address,
           {.bytes = block.requested_bytes, .dies = run_.events, .stack = block.stack});
    }
  }

  RecordedRun Follow() {
    for (int64_t i = run_.events; i > 0; --i) {
      const SnapshotEvent& event = snapshot_.events[Index(i - 1)];
      if (event.action == Action::kAlloc) Bear(event, i - 1);
      if (event.action == Action::kFree) Find(event.address, {.bytes = event.bytes, .dies = i - 1});
    }
    std::stable_sort(run_.blocks.begin(), run_.blocks.end(),
                     [](const auto& a, const auto& b) { return a.born < b.born; });
    return std::move(run_);
  }

 private:
  // A block that lives before what was looked at.
  void Find(int64_t address, RecordedBlock block) {
    const auto [place, is_new] = live_.insert_or_assign(address, run_.blocks.size());
    if (!is_new) ++run_.contradictions;
    run_.blocks.push_back(block);
  }

  void Bear(const SnapshotEvent& event, int64_t place) {
    const auto living = live_.find(event.address);
    if (living == live_.end()) {
      ++run_.contradictions;
      return;
    }
    RecordedBlock& block = run_.blocks[living->second];
    block.bytes = event.bytes;
    block.born = place;
    if (event.stack != 0) block.stack = event.stack;
    live_.erase(living);
  }

  const MemorySnapshot& snapshot_;
  RecordedRun run_;
  std::unordered_map<int64_t, size_t> live_;  // by address: index of its block
};

// From the first event on: how much lives, and is reserved.
class Forwards {
 public:
  Forwards(const MemorySnapshot& snapshot, RecordedRun& run) : snapshot_(snapshot), run_(run) {
    now_.reserved_bytes = ReservedBefore(snapshot);
    born_.resize(snapshot.events.size());
    died_.resize(snapshot.events.size());
    for (const RecordedBlock& block : run.blocks) {
      int64_t& born = block.born < 0 ? now_.requested_bytes : born_[Index(block.born)];
      born = CheckedAdd(born, block.bytes);
      if (block.dies < run.events) died_[Index(block.dies)] += block.bytes;
    }
  }

  void Follow() {
    run_.peak = now_;
    run_.moment = now_;
    for (now_.event = 1; now_.event <= run_.events; ++now_.event) {
      Take(snapshot_.events[Index(now_.event - 1)]);
      if (now_.requested_bytes > run_.peak.requested_bytes) run_.peak = now_;
    }
    if (run_.events > 0) run_.peak.what = RecordedMoment::What::kPeak;
    if (run_.moment.what != RecordedMoment::What::kOom) run_.moment = run_.peak;
  }

 private:
  void Take(const SnapshotEvent& event) {
    const size_t place = Index(now_.event - 1);
    now_.requested_bytes = CheckedAdd(now_.requested_bytes, born_[place]) - died_[place];
    now_.reserved_bytes = ReservedAfter(event, now_.reserved_bytes);
    if (event.action == Action::kOom) NoteOom(event);
  }

  void NoteOom(const SnapshotEvent& event) {
    run_.moment = now_;
    run_.moment.what = RecordedMoment::What::kOom;
    run_.moment.asked_bytes = event.bytes;
    run_.moment.asked_by = event.stack;
  }

  const MemorySnapshot& snapshot_;
  RecordedRun& run_;
  RecordedMoment now_;
  std::vector<int64_t> born_;  // by event: bytes
  std::vector<int64_t> died_;
};

}  // namespace

int64_t ReservedBefore(const MemorySnapshot& snapshot) {
  int64_t reserved = snapshot.reserved_bytes;
  for (const SnapshotEvent& event : snapshot.events) {
    if (event.action == Action::kRelease) reserved = CheckedAdd(reserved, event.bytes);
  }
  for (const SnapshotEvent& event : snapshot.events) {
    if (event.action == Action::kReserve) reserved -= std::min(reserved, event.bytes);
  }
  return reserved;
}

int64_t ReservedAfter(const SnapshotEvent& event, int64_t reserved) {
  if (event.action == Action::kReserve) return CheckedAdd(reserved, event.bytes);
  if (event.action == Action::kRelease) return reserved - std::min(reserved, event.bytes);
  return reserved;
}

std::vector<size_t> RecordedRun::LiveAt(int64_t event) const {
  std::vector<size_t> live;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (LivesAt(blocks[i], event)) live.push_back(i);
  }
  return live;
}

RecordedRun FollowSnapshot(const MemorySnapshot& snapshot) {
  RecordedRun run = Backwards(snapshot).Follow();
  Forwards(snapshot, run).Follow();
  return run;
}

}  // namespace onnxfit
