#include "estimator/fit/file_places.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/fit/owners.h"
#include "estimator/fit/predict.h"
#include "estimator/memory/endless_card.h"
#include "estimator/memory/timeline.h"

namespace onnxfit {
namespace {

class FilePlaces {
 public:
  FilePlace& At(const std::string& name, bool is_tensor) {
    const auto [found, is_new] = index_.try_emplace({name, is_tensor}, places_.size());
    if (is_new) places_.push_back({.name = name, .is_tensor = is_tensor});
    return places_[found->second];
  }

  std::vector<FilePlace> Take() { return std::move(places_); }

 private:
  std::vector<FilePlace> places_;
  std::map<std::pair<std::string, bool>, size_t> index_;
};

bool IsMadeByNode(Kind kind) { return kind == Kind::kActivation || kind == Kind::kTemporary; }

void AddPeak(const Prediction& prediction, const Timeline& timeline, FilePlaces& places) {
  const Owners owners(prediction);
  for (const LiveBuffer& live : timeline.live_at_peak) {
    const bool is_of_node = IsMadeByNode(live.kind);
    if (live.kind == Kind::kWorkspace || (is_of_node && live.born < 0)) continue;
    const std::string name =
        is_of_node ? prediction.trace.labels[Index(live.born)] : owners.Of(live).name;
    places.At(name, !is_of_node).at_peak[Index(static_cast<int32_t>(live.kind))] +=
        prediction.trace.buffers[Index(live.buffer)].bytes;
  }
}

// Follows what is allocated through the forward pass of the peak's step.
void AddForward(const Prediction& prediction, int32_t step, FilePlaces& places) {
  EndlessCard card(prediction.alloc_conf);
  FilePlace* running = nullptr;
  bool is_forward = false;
  for (const Event& event : prediction.trace.events) {
    if (event.type == Event::Type::kAlloc) {
      card.Alloc(event.id, prediction.trace.buffers[Index(event.id)]);
    } else if (event.type == Event::Type::kFree) {
      card.Free(event.id);
    } else if (event.type == Event::Type::kPhase) {
      is_forward = event.id == step && event.phase == Phase::kForward;
      running = nullptr;
    } else if (event.type == Event::Type::kAt && is_forward) {
      running = &places.At(prediction.trace.labels[Index(event.id)], false);
    }
    if (running == nullptr) continue;
    running->allocated_bytes = std::max(running->allocated_bytes, card.stats().allocated_bytes);
  }
}

}  // namespace

int64_t FilePlace::bytes() const {
  return std::accumulate(at_peak.begin(), at_peak.end(), int64_t{0});
}

std::vector<FilePlace> PlacesInFile(const Prediction& prediction, const Timeline& timeline) {
  FilePlaces places;
  AddPeak(prediction, timeline, places);
  AddForward(prediction, timeline.peak_step, places);
  return places.Take();
}

}  // namespace onnxfit
