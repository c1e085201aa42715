// while_loop, scan and map: their bodies once for each step.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/base/quote.h"
#include "estimator/base/warnings.h"
#include "estimator/pt2/call_writer.h"

namespace onnxfit::pt2 {

void CallWriter::RefuseLoops(const Call& call) const {
  throw Error({.file = path(),
               .where = fmt::format("call {}", Quote(call.name)),
               .text = fmt::format("loops of at most {} calls in all were expected, found more",
                                   kMostCalls),
               .hint = "a shorter sequence by --dim"});
}

// Of a counter that the condition compares with a number, and the body adds a number to.
std::optional<int64_t> CallWriter::TripsOf(const Graph& condition, const Graph& body,
                                           const std::vector<Argument>& carried) {
  if (condition.calls.size() != 1) return std::nullopt;
  const Call& compares = condition.calls[0];
  const std::string_view target = compares.target;
  const bool is_less = target == "torch.ops.aten.lt.Scalar";
  if (!is_less && target != "torch.ops.aten.le.Scalar") return std::nullopt;
  const Argument* counter = FindArgument(compares, "self");
  const Argument* limit = FindArgument(compares, "other");
  if (counter == nullptr || limit == nullptr || limit->kind != Argument::Kind::kNumber)
    return std::nullopt;
  const auto place = std::ranges::find(condition.inputs, counter->text, &Argument::text);
  const auto index = static_cast<size_t>(place - condition.inputs.begin());
  if (index >= std::min({carried.size(), body.inputs.size(), body.outputs.size()}))
    return std::nullopt;
  const auto step = std::ranges::find_if(body.calls, [&](const Call& call) {
    return call.target == "torch.ops.aten.add.Tensor" && call.results.size() == 1 &&
           call.results[0].text == body.outputs[index].text;
  });
  if (step == body.calls.end()) return std::nullopt;
  const Argument* self = FindArgument(*step, "self");
  const Argument* by = FindArgument(*step, "other");
  const bool counts = self != nullptr && self->text == body.inputs[index].text && by != nullptr &&
                      by->kind == Argument::Kind::kNumber && by->number > 0;
  const Known* start = graphs_.size() == 1 ? known_.Find(carried[index].text) : nullptr;
  if (!counts || start == nullptr || start->elements.size() != 1) return std::nullopt;
  const int64_t first = start->elements[0];
  int64_t way = 0;
  if (__builtin_sub_overflow(limit->number, first, &way) || way > INT64_MAX - by->number)
    return std::nullopt;
  if (!is_less) ++way;
  return way <= 0 ? 0 : (way + by->number - 1) / by->number;
}

// Of (condition, body, carried, others).
void CallWriter::WriteWhile(const Call& call) {
  const std::vector<const Argument*> graphs = BodiesOf(call);
  const auto lists = ListsOf(call);
  if (graphs.size() != 2 || lists.empty()) return WriteUnknown(call);
  WarnOfCopies(call);
  std::vector<NameId> carried;
  std::vector<NameId> others;
  for (size_t i = 0; i < lists.size(); ++i) {
    for (const Argument& operand : *lists[i]) {
      if (operand.kind == Argument::Kind::kTensor)
        (i == 0 ? carried : others).push_back(TensorOf(operand));
    }
  }
  const auto trips = TripsOf(*graphs[0]->graph, *graphs[1]->graph, *lists[0]);
  if (!trips.has_value()) {
    program_.warnings.push_back(
        {warning::kCountedOnce,
         fmt::format("how often the body of while_loop at {} runs depends on data: it is counted "
                     "once, which is too little where it runs more often{}",
                     call.name, trains() ? " and keeps anything until backward" : "")});
  }
  const auto with_others = [&] {
    std::vector<NameId> operands = carried;
    operands.insert(operands.end(), others.begin(), others.end());
    return operands;
  };
  for (int64_t trip = 0; trip < trips.value_or(1); ++trip) {
    if (--calls_left_ < 0) RefuseLoops(call);
    RunApart(*graphs[0]->graph, with_others());
    carried = RunApart(*graphs[1]->graph, with_others());
  }
  Bind(call, carried);
}

std::vector<std::vector<NameId>> CallWriter::PartsOf(const std::vector<NameId>& wholes) {
  std::vector<std::vector<NameId>> parts;  // by step
  for (const NameId whole : wholes) {
    const TensorType type = program_.values[Index(whole)].type;
    if (type.dims.empty()) continue;
    const TensorType part = {type.dtype, Dims(type.dims.begin() + 1, type.dims.end())};
    calls_left_ -= type.dims[0];
    if (calls_left_ < 0) RefuseLoops(*running_);
    std::vector<NameId> views;
    for (int64_t i = 0; i < type.dims[0]; ++i) {
      views.push_back(NewName(program_.values[Index(whole)].name + ".part", part));
    }
    Emit("unbind", {whole}, views, {0});
    parts.resize(std::max(parts.size(), views.size()));
    for (size_t i = 0; i < views.size(); ++i) parts[i].push_back(views[i]);
  }
  return parts;
}

void CallWriter::StackResults(const Call& call, size_t first,
                              const std::vector<std::vector<NameId>>& parts) {
  const std::vector<Argument> results = ResultsOf(call);
  for (size_t i = 0; first + i < results.size() && i < parts.size(); ++i) {
    const Tensor* const tensor = FindTensor(results[first + i].text);
    if (tensor == nullptr) continue;
    const TensorType whole = WithPrecision(TypeOf(*tensor));
    TensorType part = whole;
    if (!part.dims.empty()) part.dims[0] = 1;
    std::vector<NameId> views;
    for (const NameId name : parts[i]) {
      if (name == kNoName) continue;
      views.push_back(NewName(std::string(results[first + i].text) + ".unsqueezed", part));
      Emit("view", {name}, {views.back()});
    }
    const NameId stacked = NewName(std::string(results[first + i].text), whole);
    views.empty() ? Emit("constant", {}, {stacked}) : Emit("cat", std::move(views), {stacked});
    names_[results[first + i].text] = stacked;
  }
}

// Of (body, first carried, what is scanned, others): the body once for each step.
void CallWriter::WriteScan(const Call& call) { WriteSteps(call, 0, 1); }

// Of (body, what is mapped, others).
void CallWriter::WriteMap(const Call& call) { WriteSteps(call, -1, 0); }

void CallWriter::WriteSteps(const Call& call, int carried_list, int scanned_list) {
  const std::vector<const Argument*> bodies = BodiesOf(call);
  const auto lists = ListsOf(call);
  if (bodies.size() != 1 || std::ssize(lists) <= scanned_list) return WriteUnknown(call);
  WarnOfCopies(call);
  std::vector<std::vector<NameId>> operands(lists.size());
  for (size_t i = 0; i < lists.size(); ++i) {
    for (const Argument& operand : *lists[i]) {
      if (operand.kind == Argument::Kind::kTensor) operands[i].push_back(TensorOf(operand));
    }
  }
  std::vector<NameId> carried;
  if (carried_list >= 0) carried = operands[Index(carried_list)];
  const size_t first = Index(std::ssize(carried));
  std::vector<std::vector<NameId>> made;  // by result that is stacked
  for (const std::vector<NameId>& parts : PartsOf(operands[Index(scanned_list)])) {
    if (--calls_left_ < 0) RefuseLoops(call);
    std::vector<NameId> given = carried;
    given.insert(given.end(), parts.begin(), parts.end());
    for (size_t i = Index(scanned_list) + 1; i < operands.size(); ++i) {
      given.insert(given.end(), operands[i].begin(), operands[i].end());
    }
    const std::vector<NameId> results = RunApart(*bodies[0]->graph, given);
    made.resize(results.size() - std::min(first, results.size()));
    for (size_t i = 0; i < results.size(); ++i) {
      if (i < first) {
        carried[i] = results[i];
      } else {
        made[i - first].push_back(results[i]);
      }
    }
  }
  Bind(call, carried);
  StackResults(call, first, made);
}

}  // namespace onnxfit::pt2
