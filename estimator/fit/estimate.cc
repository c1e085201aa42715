#include "estimator/fit/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/calibration.h"
#include "estimator/base/device.h"
#include "estimator/base/index.h"
#include "estimator/base/settings.h"
#include "estimator/base/warnings.h"
#include "estimator/fit/doubts.h"
#include "estimator/fit/judge_targets.h"
#include "estimator/fit/predict.h"
#include "estimator/fit/remarks.h"
#include "estimator/memory/plan_trials.h"
#include "estimator/workspaces/cudnn_workspaces.h"

namespace onnxfit {
namespace {

int64_t OpsetOf(const Graph& graph) {
  for (const OpsetImport& opset : graph.opsets) {
    if (opset.domain.empty() || opset.domain == "ai.onnx") return opset.version;
  }
  return 0;
}

ModelSummary Summarize(const Graph& graph, const Roles& roles) {
  return {.path = graph.path,
          .opset = OpsetOf(graph),
          .nodes = static_cast<int64_t>(graph.nodes.size()),
          .parameters = roles.ParameterCount(),
          .parameter_bytes = roles.ParameterBytes(),
          .buffer_bytes = roles.BufferBytes(),
          .digest = graph.digest};
}

// What is certain of each kind: module tensors and gradients follow from the graph, the
// rest from rules of the framework.
constexpr std::pair<Kind, Basis> kKindRows[] = {
    {Kind::kParameter, Basis::kExact},    {Kind::kBuffer, Basis::kExact},
    {Kind::kGradient, Basis::kExact},     {Kind::kOptimizerState, Basis::kExact},
    {Kind::kInput, Basis::kExact},        {Kind::kActivation, Basis::kModelled},
    {Kind::kTemporary, Basis::kModelled}, {Kind::kWorkspace, Basis::kModelled},
};

BreakdownRow ContextRow(const EstimateRequest& request) {
  if (request.overhead_bytes.has_value()) {
    return {.kind = "context", .bytes = *request.overhead_bytes, .basis = Basis::kAssumed};
  }
  const ContextBytes& context = request.settings.device.context;
  return {.kind = "context",
          .bytes = context.bytes,
          .basis = context.basis,
          .low = context.low,
          .high = context.high};
}

bool IsCudnnWorkspaceAtPeak(const Trace& trace, const Timeline& timeline) {
  return std::ranges::any_of(timeline.live_at_peak, [&](const LiveBuffer& live) {
    return live.kind == Kind::kWorkspace &&
           LabelText(trace, trace.buffers[Index(live.buffer)].label) == kCudnnWorkspace;
  });
}

Basis BasisOfWorkspaces(const DeviceProfile& device) {
  return device.calibration == nullptr ? Basis::kModelled : device.calibration->basis;
}

// Of the tensors of a module some may be another's, or lost: then none of their sums is certain.
Basis BasisOf(Kind kind, Basis basis, std::span<const Doubt> doubts) {
  const bool is_of_module = basis == Basis::kExact && kind != Kind::kInput;
  const bool is_open = std::ranges::any_of(
      doubts, [](Doubt doubt) { return doubt == Doubt::kTiedHead || doubt == Doubt::kBatchNorm; });
  return is_of_module && is_open ? Basis::kAssumed : basis;
}

// Kinds at the peak, then rounding, cached and context: they add up to device_bytes.
std::vector<BreakdownRow> BreakDown(const Trace& trace, const Timeline& timeline,
                                    const EstimateRequest& request, std::span<const Doubt> doubts) {
  std::vector<BreakdownRow> rows;
  const bool is_measured = IsCudnnWorkspaceAtPeak(trace, timeline);
  for (const auto& [kind, basis] : kKindRows) {
    rows.push_back({.kind = std::string(ToString(kind)),
                    .bytes = timeline.bytes_by_kind[static_cast<size_t>(kind)],
                    .basis = kind == Kind::kWorkspace && is_measured
                                 ? BasisOfWorkspaces(request.settings.device)
                                 : BasisOf(kind, basis, doubts)});
  }
  rows.push_back({.kind = "rounding",
                  .bytes = timeline.allocated_at_peak - timeline.exact_at_peak,
                  .basis = Basis::kModelled});
  rows.push_back({.kind = "cached",
                  .bytes = timeline.peak.reserved_bytes - timeline.allocated_at_peak,
                  .basis = Basis::kModelled});
  rows.push_back(ContextRow(request));
  return rows;
}

std::vector<LargeTensor> Largest(const Trace& trace, const Timeline& timeline) {
  std::vector<LargeTensor> tensors;
  for (const LiveBuffer& live : timeline.live_at_peak) {
    const Buffer& buffer = trace.buffers[Index(live.buffer)];
    tensors.push_back({.name = trace.labels[Index(buffer.label)],
                       .type = {buffer.dtype, buffer.dims},
                       .bytes = buffer.bytes,
                       .kind = live.kind,
                       .born = LabelText(trace, live.born),
                       .dies = LabelText(trace, live.dies),
                       .born_in = live.born_in,
                       .dies_in = live.dies_in,
                       .dies_later = live.dies_later});
  }
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const LargeTensor& a, const LargeTensor& b) { return a.bytes > b.bytes; });
  return tensors;
}

// What the optimizer has at the end.
int64_t StateBytes(const Trace& trace) {
  std::vector<bool> is_state(trace.buffers.size());
  for (const Event& event : trace.events) {
    const bool says_kind = event.type == Event::Type::kAlloc || event.type == Event::Type::kKind;
    if (says_kind) is_state[Index(event.id)] = event.kind == Kind::kOptimizerState;
    if (event.type == Event::Type::kFree) is_state[Index(event.id)] = false;
  }
  int64_t bytes = 0;
  for (size_t i = 0; i < is_state.size(); ++i) {
    if (is_state[i]) bytes = CheckedAdd(bytes, trace.buffers[i].bytes);
  }
  return bytes;
}

void SetPeak(Estimate& estimate, const Trace& trace, const Timeline& timeline,
             const EstimateRequest& request, std::span<const Doubt> doubts) {
  estimate.peak = timeline.peak;
  estimate.peak_step = timeline.peak_step;
  estimate.peak_phase = ToString(timeline.peak_phase);
  estimate.peak_node = LabelText(trace, timeline.peak_at);
  estimate.steps = timeline.steps;
  estimate.breakdown = BreakDown(trace, timeline, request, doubts);
  for (const BreakdownRow& row : estimate.breakdown) {
    estimate.device_bytes = CheckedAdd(estimate.device_bytes, row.bytes);
  }
  estimate.largest = Largest(trace, timeline);
}

NamedCurve CurveOf(const Prediction& prediction, const Timeline& timeline, size_t points) {
  NamedCurve named;
  const int32_t step = std::max(timeline.peak_step, 1);  // not of what setup takes
  named.curve = ReadCurve(prediction.trace, step, points, prediction.alloc_conf);
  for (const CurvePoint& point : named.curve.points) {
    named.nodes.push_back(LabelText(prediction.trace, point.at));
  }
  return named;
}

// How much of the peak they are; nullopt where none are made.
std::optional<PlanTrials> TrialsOf(const Prediction& prediction, const TrainingSettings& settings,
                                   const Peak& peak) {
  if (!settings.cudnn_benchmark) return std::nullopt;
  PlanTrials trials = {.calls = CountTried(prediction.program, settings)};
  if (trials.calls.all == 0) return std::nullopt;
  if (!HasTrials(prediction.trace)) return trials;
  const Peak other = Replay(WithoutTrials(prediction.trace), prediction.alloc_conf).peak;
  trials.allocated_bytes = peak.allocated_bytes - other.allocated_bytes;
  trials.reserved_bytes = peak.reserved_bytes - other.reserved_bytes;
  return trials;
}

void WarnOfTrials(const PlanTrials& trials, std::optional<int64_t> room_bytes, Warnings& warnings) {
  const auto& [known, all] = trials.calls;
  if (known == all) return;
  const std::string most =
      room_bytes ? fmt::format(": for a moment {} may be reserved", FormatBytes(*room_bytes)) : "";
  warnings.push_back(
      {warning::kUnknownTrials,
       fmt::format("cudnn.benchmark tries plans in the first call of each convolution, in what the "
                   "card has free; what that takes is not known of {} of {} calls{} (no run fails "
                   "by it, and it goes back at once)",
                   all - known, all, most)});
}

Estimate EstimateOf(const Study& study, const EstimateRequest& request) {
  Estimate estimate;
  const SharedPrediction shared = study.Predicted(request);
  const Prediction& prediction = *shared;
  const Graph& file = study.file();
  const Trace& trace = prediction.trace;
  const Timeline timeline = Replay(trace, prediction.alloc_conf);
  const std::vector<Doubt> doubts = DoubtsOf(prediction.program, request.settings);

  estimate.model = Summarize(file, prediction.roles());
  estimate.settings = request.settings;
  estimate.alloc_conf = request.alloc_conf.text;
  estimate.batch = prediction.shapes().batch;
  estimate.dims = WithoutMissing(file, request.binding).dims;
  estimate.optimizer_state_bytes = StateBytes(trace);
  SetPeak(estimate, trace, timeline, request, doubts);
  estimate.trials = TrialsOf(prediction, request.settings, timeline.peak);
  estimate.places = PlacesAtPeak(prediction, timeline);
  estimate.assumptions = Assumptions(prediction, request);
  estimate.warnings = prediction.warnings;
  Append(estimate.warnings, request.warnings);
  if (estimate.trials)
    WarnOfTrials(*estimate.trials, request.settings.trial_room_bytes, estimate.warnings);
  const bool asks = request.wants_range || !request.targets.empty();
  const std::optional<ReadRun> worse =
      asks ? PredictWorse(study, request, doubts, shared) : std::optional<ReadRun>();
  if (request.wants_range && worse) {
    estimate.range = FindRange(study, request, doubts, *worse, shared, estimate.device_bytes);
  }
  if (estimate.range.has_value()) {
    estimate.warnings.push_back(RangeWarning(*estimate.range, estimate.device_bytes));
  }
  estimate.notes = Notes(prediction, request);
  estimate.targets = JudgeTargets(study, request, shared, worse);
  for (const JudgedTarget& judged : estimate.targets) {
    Append(estimate.warnings, judged.target.warnings);
    const DeviceProfile& device = judged.target.device;
    if (SameKernels(device, request.settings.device)) continue;  // it has been said
    const std::string why = WhyUnsupported(request.settings.framework, device);
    if (!why.empty()) estimate.warnings.push_back({warning::kUnsupportedCard, why});
  }
  if (request.details) estimate.step_events = SummarizeSteps(prediction);
  if (!request.why.empty()) estimate.why = ExplainTensor(prediction, request.why);
  if (request.curve_points > 0) {
    estimate.curve = CurveOf(prediction, timeline, request.curve_points);
  }
  if (request.modules) estimate.modules = SumModules(prediction, timeline);
  return estimate;
}

}  // namespace

int64_t ContextBytesOf(const EstimateRequest& request) { return ContextRow(request).bytes; }

// Peaks are of the first card that is asked about.
Estimate MakeEstimate(const Study& study, const EstimateRequest& request) {
  const bool has_room = request.settings.cudnn_benchmark && !request.targets.empty();
  if (!has_room) return EstimateOf(study, request);
  EstimateRequest own = request;
  own.settings.trial_room_bytes = request.targets[0].capacity_bytes();
  return EstimateOf(study, own);
}

}  // namespace onnxfit
