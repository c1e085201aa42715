#include "estimator/fit/places.h"

#include <string_view>
#include <unordered_map>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/fit/owners.h"

namespace onnxfit {

std::vector<Place> PlacesAtPeak(const Prediction& prediction, const Timeline& timeline) {
  const Owners owners(prediction);
  std::vector<Place> places;
  std::unordered_map<std::string, size_t> index_of;
  for (const LiveBuffer& live : timeline.live_at_peak) {
    auto [name, op, module] = owners.Of(live);
    const auto [at, is_first] = index_of.try_emplace(name, places.size());
    if (is_first) places.push_back({.name = std::move(name), .op = std::string(op)});
    places[at->second].bytes += prediction.trace.buffers[Index(live.buffer)].bytes;
  }
  return places;
}

}  // namespace onnxfit
