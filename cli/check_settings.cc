#include "cli/check_settings.h"

#include <algorithm>

#include "cli/budgets.h"
#include "cli/calibration_file.h"
#include "cli/check_keys.h"
#include "cli/flags.h"
#include "cli/values.h"
#include "estimator/base/error.h"

namespace onnxfit {
namespace {

using Calibrations = std::span<const SharedCalibration>;

// What a check has beside its model's run.
struct OwnKey {
  std::string_view key;
  void (*set)(const TomlNode& node, const Options& options, Calibrations calibrations,
              CheckSettings& settings);
};

void SetBudgets(const TomlNode& node, const Options& options, Calibrations calibrations,
                CheckSettings& settings) {
  const std::vector<Typed> items = ItemsOf(node, node.key, "a size, a card or a list of them");
  const TargetRequest common = {.overhead_bytes = options.request.overhead_bytes,
                                .reserved_for_others = options.targets.reserved_bytes,
                                .calibrations = calibrations,
                                .is_one_of_many = items.size() > 1};
  for (const Typed& typed : items) {
    const auto is_same = [&](const Budget& other) { return other.text == typed.text; };
    if (std::any_of(settings.budgets.begin(), settings.budgets.end(), is_same)) {
      RefuseTwice(typed, typed.text);
    }
    settings.budgets.push_back(ParseBudget(typed, common));
  }
}

constexpr OwnKey kOwnKeys[] = {
    {"name", nullptr},
    {"model", nullptr},
    {"budget", SetBudgets},
    {"max-increase",
     [](const TomlNode& node, const Options&, Calibrations, CheckSettings& settings) {
       settings.max_increase = ParseAllowance(ValueOf(node, node.key, "a size or a share"));
     }},
    {"level",
     [](const TomlNode& node, const Options&, Calibrations, CheckSettings& settings) {
       settings.level = ParseChoice(ValueOf(node, node.key, "one value"), kLevels);
     }},
    {"message",
     [](const TomlNode& node, const Options&, Calibrations, CheckSettings& settings) {
       settings.message = ValueOf(node, node.key, "a string").text;
     }},
};

Options ReadRun(const TomlNode& table, int64_t& line) {
  Options options;
  for (const Flag& flag : Flags()) {
    const TomlNode* node = KeyOf(flag).empty() ? nullptr : table.Find(KeyOf(flag));
    if (node == nullptr) continue;
    line = node->line;
    for (const Typed& typed : ValuesOf(flag, *node, node->key)) flag.set(typed, options);
  }
  return options;
}

std::vector<SharedCalibration> TakeCalibrations(const TomlNode& table, const Options& options,
                                                const LoadCalibrations& load, int64_t& line) {
  const TomlNode* node = table.Find("calibration");
  if (node == nullptr || options.calibration == kNoCalibration) return {};
  line = node->line;
  try {
    return load(options.calibration);
  } catch (const Error& error) {
    throw Error({.where = "calibration", .text = error.what()});
  }
}

void SetTargets(CheckSettings& settings) {
  EstimateRequest& request = settings.request;
  for (const Budget& budget : settings.budgets) {
    if (budget.target) request.targets.push_back(*budget.target);
  }
  if (!request.targets.empty()) request.settings.device = request.targets[0].device;
}

}  // namespace

std::vector<std::string_view> CheckKeys() {
  std::vector<std::string_view> keys;
  for (const OwnKey& own : kOwnKeys) keys.push_back(own.key);
  for (const Flag& flag : Flags()) {
    if (!KeyOf(flag).empty()) keys.push_back(KeyOf(flag));
  }
  return keys;
}

CheckSettings ReadCheckSettings(const TomlNode& table, const LoadCalibrations& load,
                                int64_t& line) {
  CheckSettings settings;
  const Options options = ReadRun(table, line);
  const std::vector<SharedCalibration> calibrations = TakeCalibrations(table, options, load, line);
  settings.request = options.request;
  settings.sweep = options.sweep;
  settings.is_strict = options.is_strict;
  for (const OwnKey& own : kOwnKeys) {
    const TomlNode* node = own.set == nullptr ? nullptr : table.Find(own.key);
    if (node == nullptr) continue;
    line = node->line;
    own.set(*node, options, calibrations, settings);
  }
  SetTargets(settings);
  return settings;
}

}  // namespace onnxfit
