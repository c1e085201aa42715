#include "cli/targets.h"

#include <algorithm>
#include <optional>

#include "cli/exit_codes.h"

namespace onnxfit {

void SetTargets(Options& options) {
  const TargetOptions& asked = options.targets;
  std::vector<const Card*> cards;
  for (const Card* card : asked.cards) {
    if (std::find(cards.begin(), cards.end(), card) == cards.end()) cards.push_back(card);
  }
  std::vector<std::optional<int64_t>> sizes;
  for (const int64_t size : asked.sizes) {
    if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.emplace_back(size);
  }
  if (cards.empty() && !sizes.empty()) cards.push_back(nullptr);
  if (sizes.empty()) sizes.emplace_back();
  EstimateRequest& request = options.request;
  for (const Card* card : cards) {
    for (const std::optional<int64_t>& size : sizes) {
      request.targets.push_back(MakeTarget({.card = card,
                                            .memory_bytes = size,
                                            .overhead_bytes = request.overhead_bytes,
                                            .reserved_for_others = asked.reserved_bytes,
                                            .is_one_of_many = cards.size() * sizes.size() > 1}));
    }
  }
  if (!request.targets.empty()) request.settings.device = request.targets[0].device;
}

int ExitCodeOf(const std::vector<Judgement>& judgements, const Options& options) {
  const bool holds = std::all_of(judgements.begin(), judgements.end(), [&](const Judgement& j) {
    return j.verdict == Verdict::kFits || (j.verdict == Verdict::kTight && !options.is_strict);
  });
  return holds || options.exit_zero ? kExitDone : kExitTargetFails;
}

}  // namespace onnxfit
