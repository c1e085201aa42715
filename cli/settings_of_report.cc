#include "cli/settings_of_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cli/flags.h"
#include "estimator/base/cards.h"
#include "estimator/report/snapshot_json.h"

namespace onnxfit {
namespace {

bool IsGiven(const Options& options, std::string_view flag) {
  return std::find(options.given.begin(), options.given.end(), flag) != options.given.end();
}

// Sizes that --shape says whole are not said again.
bool IsTaken(const Options& options, std::string_view flag) {
  const bool is_size = flag == "--batch" || flag == "--dim";
  return !IsGiven(options, flag) && !(is_size && IsGiven(options, "--shape"));
}

// Whose kernels ran: no target is made of it.
void TakeCard(const std::string& name, AskedAlike& alike) {
  const Card* card = FindCard(name);
  if (card == nullptr || !alike.request.targets.empty()) return;
  alike.request.settings.device = card->device;
  alike.flags.push_back(fmt::format("--gpu {}", card->alias));
}

}  // namespace

AskedAlike AskAsReport(const Snapshot& report, const Options& options) {
  const auto values = FlagsOf(report);
  Options filled = options;
  AskedAlike alike;
  // In the order of the flags, some of which decide what later ones may say.
  for (const Flag& flag : Flags()) {
    if (flag.group != kRunGroup || !IsOf(flag, Command::kDiff) || !IsTaken(options, flag.name)) {
      continue;
    }
    for (const auto& [name, value] : values) {
      if (name != flag.name) continue;
      flag.set({name, value}, filled);
      if (value != flag.standard) alike.flags.push_back(fmt::format("{} {}", name, value));
    }
  }
  alike.request = filled.request;
  for (const auto& [name, value] : values) {
    if (name == "--gpu") TakeCard(value, alike);
  }
  return alike;
}

}  // namespace onnxfit
