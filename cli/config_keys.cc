#include "cli/config_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/calibration_file.h"
#include "cli/flags.h"
#include "cli/values.h"
#include "estimator/base/error.h"

namespace onnxfit {
namespace {

// How a flag's values are written where it is not one value, or a list for a repeatable flag.
struct KeyForm {
  std::string_view flag;
  std::string_view key;
  std::string_view list;         // what joins a list to one value; "" where it may be none
  bool is_table = false;         // NAME = VALUE for NAME=VALUE
  std::string_view nested = {};  // what joins a list in such a table
};

constexpr KeyForm kForms[] = {
    {"--batch", "batch", ","},
    {"--precision", "precision", ","},
    {"--optimizer", "optimizer", ","},
    {"--dim", "dims", "", true, ","},
    {"--shape", "shapes", "", true, "x"},
    {"--assume", "assume", "", true},
    {"--dropout", "dropout", "", true},
};

KeyForm FormOf(const Flag& flag) {
  const auto found = std::find_if(std::begin(kForms), std::end(kForms),
                                  [&](const KeyForm& form) { return form.flag == flag.name; });
  return found == std::end(kForms) ? KeyForm{flag.name, flag.name.substr(2), ""} : *found;
}

constexpr std::string_view kOneValue = "one value";
constexpr std::string_view kValues = "a value or a list of them";

Typed Joined(const TomlNode& node, const std::string& place, std::string_view separator) {
  if (separator.empty()) return ValueOf(node, place, kOneValue);
  std::vector<std::string> texts;
  for (const Typed& item : ItemsOf(node, place, kValues)) texts.push_back(item.text);
  if (texts.empty()) {
    throw Error({.where = place, .text = fmt::format("expected {}, found an empty list", kValues)});
  }
  return {place, fmt::format("{}", fmt::join(texts, separator))};
}

// "seq=512" for seq = 512; flags write switches as yes and no.
Typed Assigned(const TomlNode& node, const std::string& place, const KeyForm& form) {
  const Typed value = Joined(node, place + " " + node.key, form.nested);
  const bool is_switch = node.kind == TomlKind::kBool;
  const std::string text = is_switch ? (value.text == "true" ? "yes" : "no") : value.text;
  return {place, node.key + "=" + text};
}

std::vector<Typed> AssignedAll(const TomlNode& table, const std::string& place,
                               const KeyForm& form) {
  std::vector<Typed> values;
  for (const TomlNode& child : table.children) values.push_back(Assigned(child, place, form));
  return values;
}

}  // namespace

std::string_view KeyOf(const Flag& flag) {
  const bool has = IsOfRun(flag) || flag.name == "--reserve" || flag.name == "--strict";
  return has ? FormOf(flag).key : "";
}

void RefuseKind(const TomlNode& node, const std::string& place, std::string_view expected) {
  throw Error({.where = place,
               .text = fmt::format("expected {}, found {}", expected, ToString(node.kind))});
}

Typed ValueOf(const TomlNode& node, const std::string& place, std::string_view expected) {
  if (node.is_list() || node.is_table()) RefuseKind(node, place, expected);
  return {place, node.text};
}

std::vector<Typed> ItemsOf(const TomlNode& node, const std::string& place,
                           std::string_view expected) {
  if (!node.is_list()) return {ValueOf(node, place, expected)};
  std::vector<Typed> items;
  for (const TomlNode& child : node.children) items.push_back(ValueOf(child, place, expected));
  return items;
}

std::vector<Typed> ValuesOf(const Flag& flag, const TomlNode& node, const std::string& place) {
  const KeyForm form = FormOf(flag);
  if (form.is_table && node.is_table()) return AssignedAll(node, place, form);
  if (flag.repeatable) return ItemsOf(node, place, kValues);
  const Typed value = Joined(node, place, form.list);
  // A bare flag switches on; a key that says nothing does not.
  if (flag.value.empty() && value.text.empty()) Refuse(value, "yes or no");
  return {value};
}

// What follows reads what a [[check]] has.
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

void SetInputs(const TomlNode& node, const Options&, Calibrations, CheckSettings& settings) {
  constexpr std::string_view kExpected = "NAME[:DTYPE]=DIM,DIM,… or a list of them";
  for (const Typed& typed : ItemsOf(node, node.key, kExpected)) {
    if (typed.text.find('=') == std::string::npos) Refuse(typed, kExpected);
    settings.inputs.push_back(typed.text);
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
    {"lock",
     [](const TomlNode& node, const Options&, Calibrations, CheckSettings& settings) {
       settings.lock = ParseChoice(ValueOf(node, node.key, "one value"), kLockUses);
     }},
    {"message",
     [](const TomlNode& node, const Options&, Calibrations, CheckSettings& settings) {
       settings.message = ValueOf(node, node.key, "a string").text;
     }},
    {"input", SetInputs},
    {"python",
     [](const TomlNode& node, const Options&, Calibrations, CheckSettings& settings) {
       settings.python = ValueOf(node, node.key, "the path of a Python").text;
       if (settings.python.empty()) Refuse({node.key, ""}, "the path of a Python");
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
