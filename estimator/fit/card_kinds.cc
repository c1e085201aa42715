#include "estimator/fit/card_kinds.h"

#include <algorithm>
#include <string>
#include <utility>

#include "estimator/base/calibration.h"
#include "estimator/base/error.h"
#include "estimator/base/parallel.h"
#include "estimator/eager/dispatch.h"
#include "estimator/eager/training.h"
#include "estimator/memory/loop.h"

namespace onnxfit {
namespace {

using Members = std::vector<size_t>;

constexpr int64_t kProbes[] = {3, 1000};  // batches

// What a run asks for: which buffer when, and how much.
struct AskedBytes {
  std::vector<Loop::Call> calls;
  std::vector<int64_t> bytes;

  bool operator==(const AskedBytes&) const = default;
};

template <typename Same>
std::vector<Members> GroupBy(size_t count, const Same& same) {
  std::vector<Members> groups;
  for (size_t i = 0; i < count; ++i) {
    const auto group = std::find_if(groups.begin(), groups.end(),
                                    [&](const Members& members) { return same(members[0], i); });
    if (group == groups.end()) {
      groups.push_back({i});
    } else {
      group->push_back(i);
    }
  }
  return groups;
}

AskedBytes RunOn(const DeviceProfile& device, const Program& program, TrainingSettings settings) {
  settings.device = device;
  const Trace trace = RunTraining(Dispatch(program, settings), settings);
  return {ReadLoop(trace).calls, BytesOf(trace)};
}

}  // namespace

std::vector<Members> GroupTargets(BatchPrograms& programs, const TrainingSettings& settings,
                                  std::span<const Target> targets) {
  const std::vector<Members> kinds = GroupBy(targets.size(), [&](size_t a, size_t b) {
    return SameKernels(targets[a].device, targets[b].device);
  });
  if (kinds.size() == 1) return kinds;
  std::vector<std::vector<AskedBytes>> asked(kinds.size());
  try {
    for (const int64_t batch : kProbes) {
      const Program program = programs.At(batch);
      ForEachIndex(kinds.size(), [&](size_t i) {
        asked[i].push_back(RunOn(targets[kinds[i][0]].device, program, settings));
      });
    }
  } catch (const Error&) {
    return kinds;  // of batches that nobody asked for
  }
  // What was measured is of few batches, and hardly of those.
  const auto calibration_of = [&](size_t kind) -> const SharedCalibration& {
    return targets[kinds[kind][0]].device.calibration;
  };
  const auto are_alike = [&](size_t a, size_t b) {
    return calibration_of(a) == calibration_of(b) && asked[a] == asked[b];
  };
  std::vector<Members> groups;
  for (const Members& alike : GroupBy(kinds.size(), are_alike)) {
    Members& group = groups.emplace_back();
    for (const size_t kind : alike)
      group.insert(group.end(), kinds[kind].begin(), kinds[kind].end());
  }
  return groups;
}

}  // namespace onnxfit
