// What lived on the card, and when: a snapshot's history, followed back from its end.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/snapshot/memory_snapshot.h"

namespace onnxfit {

// One allocation.
struct RecordedBlock {
  int64_t bytes = 0;  // as asked for
  int64_t born = -1;  // index into the snapshot's events, -1 before the first of them
  int64_t dies = 0;   // the same; the number of events where it lives on
  StackId stack = 0;  // who asked; of what was born before the history, where the end shows it
};

// The instant between two events.
struct RecordedMoment {
  enum class What : uint8_t {
    kOom,    // the last time that the card was full
    kPeak,   // the most bytes, the first of equals
    kTaken,  // the snapshot's: it has no history
  };
  What what = What::kTaken;
  int64_t event = 0;            // so many events have happened; of kOom, the failure is the last
  int64_t requested_bytes = 0;  // of all that lives
  int64_t reserved_bytes = 0;
  int64_t asked_bytes = 0;  // of kOom: what did not fit
  StackId asked_by = 0;
};

struct RecordedRun {
  std::vector<RecordedBlock> blocks = {};  // in order of birth
  int64_t events = 0;
  RecordedMoment peak;    // of kTaken where there is no history
  RecordedMoment moment;  // what this is about: kOom where there was one, else the peak
  // Events that contradict the others: what is freed twice, or given out while it lives.
  int64_t contradictions = 0;

  bool LivesAt(const RecordedBlock& block, int64_t event) const {
    return block.born < event && event <= block.dies;
  }
  // Indices into `blocks` of what lives at `event`, in order of birth.
  std::vector<size_t> LiveAt(int64_t event) const;
};

// What was reserved before the first event: what the end has, less what the history adds.  A
// history that is cut may lack what it takes.
int64_t ReservedBefore(const MemorySnapshot& snapshot);

// What is reserved after `event`, of what was before it.
int64_t ReservedAfter(const SnapshotEvent& event, int64_t reserved);

// Throws Error where sums need more than 63 bits.  O(events × log).
RecordedRun FollowSnapshot(const MemorySnapshot& snapshot);

}  // namespace onnxfit
