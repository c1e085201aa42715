#include "estimator/fit/worlds.h"

#include <algorithm>

#include "estimator/base/error.h"
#include "estimator/fit/doubts.h"

namespace onnxfit {

std::vector<WorldOutcome> JudgeWorlds(const Study& study, const EstimateRequest& request,
                                      const Target& target) {
  if (request.settings.ranks.strategy == Strategy::kNone) {
    throw Error({.where = "--world",
                 .text = "expected a strategy by which ranks share the run, found single",
                 .hint = "--strategy fsdp"});
  }
  EstimateRequest own = request;
  own.settings.device = target.device;
  const int64_t batch = study.Prepared(own)->file->shapes.batch;
  ReadingPrograms programs(study, ReadingsOf(own, DoubtsAt(study, own)), batch);
  std::vector<WorldOutcome> worlds;
  for (int64_t world = 1; world <= kMostWorld; world *= 2) {
    ReadingLoops loops(programs, [&](EstimateRequest& r) { r.settings.ranks.world = world; });
    worlds.push_back({world, loops.JudgeOneAt(batch, target)});
    if (worlds.back().judgement.verdict == Verdict::kFits) break;
  }
  return worlds;
}

int64_t WorldToTake(const std::vector<WorldOutcome>& worlds) {
  for (const Verdict verdict : {Verdict::kFits, Verdict::kTight}) {
    const auto found = std::ranges::find(
        worlds, verdict, [](const WorldOutcome& outcome) { return outcome.judgement.verdict; });
    if (found != worlds.end()) return found->world;
  }
  return worlds.back().world;
}

}  // namespace onnxfit
