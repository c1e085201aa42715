// What a watched step does between its calls: of targets that begin with "onnxfit.", which
// python/onnxfit/step_recorder.py writes.
#include "estimator/pt2/watched_actions.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
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

struct FunctionRow {
  std::string_view name;
  FunctionPart part;
};
constexpr FunctionRow kFunctionRows[] = {
    {"function", FunctionPart::kNode},          {"function_arrival", FunctionPart::kArrival},
    {"function_leaf", FunctionPart::kLeaf},     {"function_nested", FunctionPart::kNested},
    {"function_return", FunctionPart::kReturn},
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

// Whether what arrives in backward is what the node has: gradients of its results, what it saves.
bool AreOfOne(const AtenCall& node, const AtenCall& arrival) {
  if (node.ints.size() != 4) return false;
  const auto here = std::span(node.inputs).subspan(Index(node.ints[0]));
  const auto is_same = [](NameId a, NameId b) { return (a == kNoName) == (b == kNoName); };
  return std::ranges::equal(
             here.subspan(Index(node.ints[1])),
             std::span(arrival.outputs)
                 .last(std::min(arrival.outputs.size(), Index(node.ints[2] + node.ints[3]))),
             is_same) &&
         arrival.outputs.size() == here.size();
}

// Whether a leaf and a nested backward have what they take.
bool IsWhole(const AtenCall& call) {
  const auto is_there = [](NameId name) { return name != kNoName; };
  if (call.function == FunctionPart::kLeaf) return call.inputs.size() == 1;
  if (call.function != FunctionPart::kNested) return true;
  if (call.ints.size() != 5 || call.ints[1] != call.ints[2]) return false;
  return std::ranges::all_of(std::span(call.inputs).first(Index(call.ints[0] + call.ints[1])),
                             is_there) &&
         std::ssize(call.outputs) == call.ints[0] && std::ranges::all_of(call.outputs, is_there);
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

// Names that a function's backward binds anew mean what they did once it has returned.
void CallWriter::HoldOuterNames(const Call& call) {
  auto& outer = outer_names_.emplace_back();
  for (const Argument& result : call.results) {
    if (const auto found = names_.find(result.text); found != names_.end()) outer.insert(*found);
  }
}

void CallWriter::ReturnOuterNames() {
  if (outer_names_.empty()) return;
  for (const auto& [text, name] : outer_names_.back()) names_[text] = name;
  outer_names_.pop_back();
}

// Once.
void CallWriter::SayCompiledFunctions() {
  const std::string said =
      "functions with a backward of their own go backward as the operators of their forward do: "
      "the compiler's is not known";
  if (std::ranges::find(program_.assumptions, said) == program_.assumptions.end())
    program_.assumptions.push_back(said);
}

// Whether it is one: a torch.autograd.Function's, of python/onnxfit/own_functions.py.
bool CallWriter::WriteFunctionPart(const Call& call) {
  const auto* const row =
      std::ranges::find(kFunctionRows, call.target.substr(kActions.size()), &FunctionRow::name);
  if (row == std::end(kFunctionRows)) return false;
  AtenCall part = {.op = "action",
                   .where = std::string(call.name),
                   .module = place_.module,
                   .leaves_autocast = true,
                   .function = row->part,
                   .checkpoint = place_.checkpoint,
                   .frames = place_.frames};
  for (const auto& [_, list] : call.arguments) {
    if (list.kind != Argument::Kind::kList) continue;
    part.ints.push_back(std::ssize(list.items));
    for (const Argument& item : list.items)
      part.inputs.push_back(item.kind == Argument::Kind::kTensor ? TensorOf(item) : kNoName);
  }
  if (row->part == FunctionPart::kNested) {
    part.ints.push_back(IntAt(call, "keeps_graph", 0));
    part.ints.push_back(IntAt(call, "returns_all", 0));
  }
  // What something else than autograd holds until then goes on under its name.
  if (row->part == FunctionPart::kArrival) HoldOuterNames(call);
  if (row->part == FunctionPart::kReturn) ReturnOuterNames();
  if (row->part == FunctionPart::kNode && part.ints.size() == 4) {
    const auto results = ResultsOfFunction(part);
    tracked_.insert(results.begin(), results.end());
  }
  part.outputs = Results(call);
  if (HasFunctions()) program_.calls.push_back(std::move(part));
  if (trains() && !HasFunctions() && row->part == FunctionPart::kNode) SayCompiledFunctions();
  return true;
}

// Throws Error unless each function's parts are there, and go together.
void CallWriter::CheckFunctions() const {
  std::vector<const AtenCall*> open;
  const AtenCall* node = nullptr;
  for (const AtenCall& call : program_.calls) {
    const bool is_arrival = call.function == FunctionPart::kArrival;
    const bool is_return = call.function == FunctionPart::kReturn;
    if (is_arrival != (node != nullptr) || (is_arrival && !AreOfOne(*node, call)))
      Refuse("a function's backward", call.where);
    const bool is_within =
        is_return || call.function == FunctionPart::kLeaf || call.function == FunctionPart::kNested;
    if ((is_within && open.empty()) || !IsWhole(call)) Refuse("a function's backward", call.where);
    if (is_arrival) open.push_back(std::exchange(node, nullptr));
    if (call.function == FunctionPart::kNode) node = &call;
    if (!is_return) continue;
    if (std::ssize(call.inputs) != open.back()->ints[0])
      Refuse("a function's backward", call.where);
    open.pop_back();
  }
  if (node != nullptr || !open.empty()) Refuse("a function's backward", "none");
}

void CallWriter::WriteAction(const Call& call) {
  if (WriteFunctionPart(call)) return;
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
