#include "estimator/names/evicted_results.h"

#include <cstddef>
#include <map>

#include "estimator/base/index.h"
#include "estimator/program/cached_functions.h"

namespace onnxfit {

std::vector<CachedResult> FollowEvictedResults(const Program& program, ValueLives& lives) {
  std::map<const CachedFunction*, std::vector<CachedRun>> runs_of;
  for (const CachedRun& run : FindCachedRuns(program)) {
    if (!run.is_kept) runs_of[run.function].push_back(run);
  }
  std::vector<CachedResult> beyond;
  for (const auto& [function, runs] : runs_of) {
    const auto room = static_cast<size_t>(function->results);
    for (size_t i = 0; i < runs.size(); ++i) {
      const NameId value = program.calls[Index(runs[i].last)].outputs[0];
      const size_t next = i + room;
      next < runs.size() ? lives.HoldBy("", value, runs[next].last)
                         : beyond.push_back({value, runs[next % runs.size()].last});
    }
  }
  return beyond;
}

}  // namespace onnxfit
