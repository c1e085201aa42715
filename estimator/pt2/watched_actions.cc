// What a watched step does between its calls: of targets that begin with "onnxfit.", which
// python/onnxfit/step_recorder.py writes.
#include "estimator/pt2/watched_actions.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "estimator/base/error.h"
#include "estimator/base/quote.h"
#include "estimator/pt2/call_writer.h"

namespace onnxfit::pt2 {
namespace {

constexpr std::string_view kActions = "onnxfit.";

struct ActionRow {
  std::string_view name;
  StepAction::Kind kind;
};
constexpr ActionRow kActionRows[] = {
    {"begin", StepAction::Kind::kNothing},
    {"autocast_end", StepAction::Kind::kNothing},
    {"backward", StepAction::Kind::kBackward},
    {"step", StepAction::Kind::kStep},
    {"norm", StepAction::Kind::kNorm},
    {"clip", StepAction::Kind::kClip},
    {"ask_gradients", StepAction::Kind::kAskGradients},
    {"ask_none", StepAction::Kind::kAskNone},
    {"set_data", StepAction::Kind::kSetData},
};

[[noreturn]] void Refuse(std::string_view what, std::string_view found) {
  throw Error({.where = "watched step",
               .text = fmt::format("expected {} that is known, found {}", what, Quote(found)),
               .hint = "the package and the command of one version"});
}

StepAction::Kind KindOf(std::string_view target) {
  const std::string_view name = target.substr(kActions.size());
  const auto* const row = std::ranges::find(kActionRows, name, &ActionRow::name);
  if (row == std::end(kActionRows)) Refuse("an action", name);
  return row->kind;
}

template <typename Enum, size_t kSize>
Enum ValueOf(const Spelling<Enum> (&table)[kSize], std::string_view name, std::string_view what) {
  const auto* const row = std::ranges::find(table, name, &Spelling<Enum>::name);
  if (row == std::end(table)) Refuse(what, name);
  return row->value;
}

StepOptimizer::Group GroupOf(const WatchedGroup& watched) {
  StepOptimizer::Group group = {.optimizer =
                                    ValueOf(kOptimizers, watched.optimizer, "an optimizer")};
  if (!watched.impl.empty())
    group.impl = ValueOf(kOptimizerImpls, watched.impl, "an implementation");
  for (const std::string_view arg : watched.args)
    group.args |= ValueOf(kOptimizerArgs, arg, "an argument of optimizers");
  return group;
}

std::vector<std::string_view> TextsAt(const Call& call, std::string_view name) {
  const Argument* const list = FindArgument(call, name);
  std::vector<std::string_view> texts;
  for (const Argument& item : list == nullptr ? std::vector<Argument>() : list->items)
    texts.push_back(item.text);
  return texts;
}

}  // namespace

bool IsAction(std::string_view target) { return target.starts_with(kActions); }

// Those that are there, each where it is first in its list.
std::vector<NameId> CallWriter::KnownNames(const std::vector<std::string_view>& texts) const {
  std::vector<NameId> names;
  for (const std::string_view text : texts) {
    if (const auto name = names_.find(text); name != names_.end()) names.push_back(name->second);
  }
  return names;
}

void CallWriter::WriteAction(const Call& call) {
  StepAction action = {.kind = KindOf(call.target),
                       .parameters = KnownNames(TextsAt(call, "parameters")),
                       .keeps_graph = IntAt(call, "keeps_graph", 0) != 0,
                       .optimizer = static_cast<size_t>(IntAt(call, "optimizer", 0))};
  std::vector<NameId> inputs;
  for (const char* const name : {"roots", "gradients"}) {
    const Argument* const list = FindArgument(call, name);
    for (const Argument& item : list == nullptr ? std::vector<Argument>() : list->items)
      inputs.push_back(item.kind == Argument::Kind::kTensor ? TensorOf(item) : kNoName);
  }
  if (action.optimizer >= program_.optimizers.size() && action.kind == StepAction::Kind::kStep)
    Refuse("an optimizer", call.name);
  program_.calls.push_back({.op = "action",
                            .where = std::string(call.name),
                            .inputs = std::move(inputs),
                            .outputs = Results(call),
                            .module = place_.module,
                            .leaves_autocast = place_.leaves_autocast,
                            .enters_autocast = place_.enters_autocast,
                            .frames = place_.frames,
                            .action = static_cast<int32_t>(program_.actions.size())});
  program_.actions.push_back(std::move(action));
}

// REQUIRES: the parameters are there.
void CallWriter::AddOptimizers() {
  if (!exported_.watching) return;
  for (const WatchedOptimizer& watched : exported_.watching->optimizers) {
    StepOptimizer& optimizer = program_.optimizers.emplace_back();
    for (const WatchedGroup& group : watched) {
      optimizer.groups.push_back(GroupOf(group));
      optimizer.groups.back().parameters = KnownNames(group.parameters);
    }
  }
}

}  // namespace onnxfit::pt2
