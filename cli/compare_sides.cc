#include "cli/compare_sides.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/targets.h"
#include "estimator/base/cards.h"
#include "estimator/report/snapshot_json.h"

namespace onnxfit {
namespace {

struct AskedAlike {
  EstimateRequest request;
  std::vector<std::string> flags = {};  // that were taken and are no defaults: "--batch 32"
};

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

// A model beside a report is asked what the report's model was asked: the request of `options` with
// the flags that `report` was made with, where nobody says otherwise.  What was measured on a card
// (--calibration) and shapes of inputs (--shape) are not taken.  Throws Error where a flag of the
// report is none of this version's.
AskedAlike AskAsReport(const Snapshot& report, const Options& options) {
  const auto values = FlagsOf(report);
  Options filled = options;
  AskedAlike alike;
  // In the order of the flags, some of which decide what later ones may say.
  for (const Flag& flag : Flags()) {
    if (!IsOfRun(flag) || !IsOf(flag, Command::kDiff) || !IsTaken(options, flag.name)) {
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

// A model beside a report is asked the same; two models what the flags say.
AskedAlike RequestFor(const Loaded& before, const Loaded& after, const Options& options) {
  AskedAlike alike = {.request = options.request};
  const Loaded* report = before.report && after.graph ? &before : nullptr;
  if (after.report && before.graph) report = &after;
  if (report != nullptr) alike = AskAsReport(*report->report, options);
  alike.request.wants_range = false;
  if (before.graph && after.graph) {
    alike.request.binding = BindingForBoth(alike.request.binding, {before.name, &*before.graph},
                                           {after.name, &*after.graph});
  }
  return alike;
}

}  // namespace

ComparedSides CompareSides(const Options& options, std::string& reading, size_t curve_points) {
  reading = options.old_model;
  const Loaded old_side = LoadSide(options.old_model);
  reading = options.model;
  const Loaded new_side = LoadSide(options.model);
  reading.clear();  // a name is of both
  AskedAlike alike = RequestFor(old_side, new_side, options);
  alike.request.curve_points = curve_points;
  ComparedSides sides;
  reading = options.old_model;
  sides.before = AnswerSide(old_side, alike.request);
  reading = options.model;
  sides.after = AnswerSide(new_side, alike.request);
  sides.diff = {.comparison = Compare(sides.before.snapshot, sides.after.snapshot),
                .fail_above = options.fail_above,
                .taken = alike.flags};
  if (sides.before.estimate && sides.after.estimate) {
    sides.diff.before = sides.before.estimate->targets;
    sides.diff.after = sides.after.estimate->targets;
  }
  return sides;
}

int ExitCodeOf(const Diff& diff, const Options& options) {
  const int code = ExitCodeOf(diff.after, options);
  return diff.grew_too_much() && !options.exit_zero ? kExitTargetFails : code;
}

}  // namespace onnxfit
