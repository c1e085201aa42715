#include "estimator/fit/details.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "estimator/base/index.h"
#include "estimator/memory/lives.h"

namespace onnxfit {
namespace {

StepSummary Summarize(const Trace& trace, const StepEvents& step) {
  StepSummary summary = {.allocations = step.allocations,
                         .frees = step.frees,
                         .peak_allocated_bytes = step.peak_allocated_bytes,
                         .peak = {step.peak.step, step.peak.phase, ""}};
  if (step.peak.at >= 0) summary.peak.node = trace.labels[Index(step.peak.at)];
  if (step.largest >= 0) {
    const Buffer& largest = trace.buffers[Index(step.largest)];
    summary.largest = trace.labels[Index(largest.label)];
    summary.largest_bytes = largest.bytes;
  }
  return summary;
}

std::string NodesNote(const Prediction& prediction) {
  const Graph& graph = prediction.graph;
  const auto on_host = std::ranges::count_if(graph.nodes, [&](const Node& node) {
    return std::ranges::all_of(node.outputs, [&](ValueId value) {
      return value == kNoValue || prediction.shapes.known[Index(value)].has_value();
    });
  });
  return fmt::format("{} nodes run as {} calls, the loss included; arithmetic on the host: {}",
                     graph.nodes.size(), prediction.program.calls.size(), on_host);
}

// Calls whose result took the storage of their input, in the first step.
std::vector<const AtenCall*> CallsInPlace(const Prediction& prediction) {
  std::vector<NameId> first(prediction.trace.buffers.size(), kNoName);  // by buffer: its name
  std::vector<bool> seen(prediction.program.values.size());             // by name
  std::vector<bool> took(prediction.program.values.size());             // the same
  for (const Holder& holder : prediction.holders) {
    if (holder.type != Holder::Type::kName || seen[Index(holder.id)]) continue;
    seen[Index(holder.id)] = true;
    NameId& name = first[Index(holder.buffer)];
    if (name == kNoName) {
      name = holder.id;
    } else {
      took[Index(holder.id)] = !holder.is_view;
    }
  }
  std::vector<const AtenCall*> calls;
  for (const AtenCall& call : prediction.program.calls) {
    const NameId result = call.outputs.empty() ? kNoName : call.outputs[0];
    if (result != kNoName && took[Index(result)]) calls.push_back(&call);
  }
  return calls;
}

}  // namespace

std::vector<StepSummary> SummarizeSteps(const Prediction& prediction) {
  std::vector<StepSummary> summaries;
  for (const StepEvents& step : ReadLives(prediction.trace, prediction.alloc_conf).steps) {
    summaries.push_back(Summarize(prediction.trace, step));
  }
  return summaries;
}

std::vector<std::string> RunNotes(const Prediction& prediction) {
  std::vector<std::string> notes = {NodesNote(prediction)};
  const std::vector<const AtenCall*> calls = CallsInPlace(prediction);
  if (calls.empty()) return notes;
  std::map<std::string_view, int> counts;
  for (const AtenCall* call : calls) ++counts[call->op];
  std::vector<std::string> texts;
  for (const auto& [op, count] : counts) texts.push_back(fmt::format("{} {}", count, op));
  notes.push_back(
      fmt::format("in place: {}, the first at {}", fmt::join(texts, ", "), calls[0]->where));
  return notes;
}

}  // namespace onnxfit
