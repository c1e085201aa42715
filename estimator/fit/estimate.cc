#include "estimator/fit/estimate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/calibration.h"
#include "estimator/base/device.h"
#include "estimator/base/doubt.h"
#include "estimator/base/index.h"
#include "estimator/base/warnings.h"
#include "estimator/eager/cudnn_convolutions.h"
#include "estimator/eager/cudnn_workspace.h"
#include "estimator/eager/in_place.h"
#include "estimator/fit/advice.h"
#include "estimator/fit/details.h"
#include "estimator/fit/doubts.h"
#include "estimator/fit/judge_targets.h"
#include "estimator/fit/predict.h"

namespace onnxfit {
namespace {

template <typename Item>
void Append(std::vector<Item>& to, const std::vector<Item>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

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
                                 ? request.settings.device.calibration->basis
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
                       .dies = LabelText(trace, live.dies)});
  }
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const LargeTensor& a, const LargeTensor& b) { return a.bytes > b.bytes; });
  return tensors;
}

// All that the optimizer has made: it stays until the end.
int64_t StateBytes(const Trace& trace) {
  int64_t bytes = 0;
  for (const Event& event : trace.events) {
    const bool made = event.type == Event::Type::kAlloc && event.kind == Kind::kOptimizerState;
    if (made) bytes = CheckedAdd(bytes, trace.buffers[Index(event.id)].bytes);
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

// "" where nothing could.
std::string_view InPlaceText(const Program& program, const TrainingSettings& settings) {
  const InPlaceUse use = settings.in_place;
  if (use == InPlaceUse::kNever) return "no activation or sum works in place";
  if (use == InPlaceUse::kAlways || LeavesInPlaceOpen(program, settings)) {
    return "activations and residual sums work in place wherever PyTorch allows it "
           "(--in-place never, if yours do not)";
  }
  return WritesInPlace(program)
             ? "activations and residual sums work in place as the file or its library says"
             : "";
}

std::vector<std::string> AllocConfNotes(const AllocConf& given) {
  std::vector<std::string> notes;
  for (const std::string& option : given.idle_options) {
    notes.push_back(fmt::format("{} changes no byte on the card", option));
  }
  const AllocatorConf& conf = given.conf;
  if (conf.garbage_collection_threshold > 0 && conf.memory_fraction >= 1) {
    notes.emplace_back("garbage_collection_threshold acts with per_process_memory_fraction alone");
  }
  return notes;
}

std::string_view WorkspaceText(const FrameworkProfile& framework) {
  return framework.cublas == WorkspaceLife::kKept ? "2 cuBLAS handles"
                                                  : "the size of cuBLAS workspaces";
}

// "its CUDA context, cuDNN's workspaces in 60 of 62 passes of convolutions, none in the others".
std::string MeasuredText(const MeasuredConvolutions& convolutions, const EstimateRequest& request) {
  std::vector<std::string> parts;
  const DeviceProfile& device = request.settings.device;
  const bool has_context = !request.overhead_bytes && !device.calibration->loaded.empty();
  if (has_context) parts.emplace_back("its CUDA context");
  if (convolutions.all == 0) return fmt::format("{}", fmt::join(parts, ", "));
  parts.push_back(fmt::format("cuDNN's workspaces in {} of {} passes of convolutions",
                              convolutions.measured, convolutions.all));
  if (convolutions.measured < convolutions.all) parts.emplace_back("none in the others");
  return fmt::format("{}", fmt::join(parts, ", "));
}

// "" where nothing was measured on the card.
std::string MeasuredAssumption(const Prediction& prediction, const EstimateRequest& request) {
  const SharedCalibration& calibration = request.settings.device.calibration;
  if (calibration == nullptr) return "";
  const std::string measured =
      MeasuredText(CountMeasured(prediction.program, request.settings.device), request);
  if (measured.empty()) return "";
  const std::string file = calibration->file.empty() ? "" : "; " + calibration->file;
  if (calibration->basis != Basis::kMeasured) {
    return fmt::format("as cuDNN {} chooses for {}, asked without it: {}{}", calibration->cudnn,
                       calibration->card, measured,
                       calibration->lacks_driver
                           ? "; for want of a libcuda.so.1 not from what it would compile"
                           : "");
  }
  return fmt::format("as measured on {} ({}{}): {}", calibration->card, VersionsText(*calibration),
                     file, measured);
}

// "" where nothing asks cuDNN for a convolution.
std::string CudnnAssumption(const Prediction& prediction, const EstimateRequest& request) {
  std::string measured = MeasuredAssumption(prediction, request);
  if (!measured.empty()) return measured;
  const auto passes = PassesOf(prediction.program);
  const bool asks = std::ranges::any_of(passes, [](const auto& call) { return !call.empty(); });
  return asks ? "convolutions ask cuDNN for no workspace" : "";
}

// Of a run of any file.
std::vector<std::string> RunAssumptions(const std::string& cudnn, std::string_view in_place,
                                        const EstimateRequest& request) {
  std::vector<std::string> assumptions;
  if (!request.overhead_bytes.has_value()) {
    const bool is_named = !request.targets.empty();
    assumptions.push_back(fmt::format("the card is {}{}: its CUDA context, and {}",
                                      is_named ? "" : "an ", request.settings.device.name,
                                      WorkspaceText(request.settings.framework)));
  }
  if (!cudnn.empty()) assumptions.push_back(cudnn);
  if (!in_place.empty()) assumptions.emplace_back(in_place);
  // A limit is met on a full card, and peaks are those of an endless one.
  if (request.alloc_conf.conf.memory_fraction < 1) {
    assumptions.emplace_back("the card is so large that its memory fraction is never reached");
  }
  if (request.settings.loss == Loss::kNone && request.settings.mode == Mode::kTrain) {
    assumptions.emplace_back("the model's output is the loss itself (--loss none)");
  }
  if (request.settings.ema && request.settings.mode == Mode::kTrain) {
    assumptions.emplace_back(
        "the average is made before the first step, of parameters and buffers (--ema)");
  }
  return assumptions;
}

// "" where the batch is where everybody expects it.
std::string BatchAssumption(const Shapes& shapes) {
  return shapes.batch_place.empty() ? "" : "the batch is " + shapes.batch_place;
}

// Of a prediction or a prepared run.
template <typename Run>
std::vector<std::string> FileAssumptions(const Run& run) {
  std::vector<std::string> assumptions;
  const std::string batch = BatchAssumption(run.shapes);
  if (!batch.empty()) assumptions.push_back(batch);
  Append(assumptions, run.roles.assumptions);
  Append(assumptions, run.program.assumptions);
  return assumptions;
}

std::vector<std::string> Assumptions(const Prediction& prediction, const EstimateRequest& request) {
  std::vector<std::string> assumptions =
      RunAssumptions(CudnnAssumption(prediction, request),
                     InPlaceText(prediction.program, request.settings), request);
  Append(assumptions, FileAssumptions(prediction));
  return assumptions;
}

std::vector<std::string> Notes(const Prediction& prediction, const EstimateRequest& request) {
  std::vector<std::string> notes = prediction.graph.notes;
  Append(notes, prediction.roles.notes);
  Append(notes, prediction.program.notes);
  Append(notes, AllocConfNotes(request.alloc_conf));
  Append(notes, request.notes);
  if (request.details) Append(notes, RunNotes(prediction));
  return notes;
}

}  // namespace

int64_t ContextBytesOf(const EstimateRequest& request) { return ContextRow(request).bytes; }

FileRemarks RemarksOnFile(const Graph& file, const EstimateRequest& request) {
  const PreparedRun run = PrepareRun(file, request);
  FileRemarks remarks;
  const std::string_view in_place = InPlaceText(run.program, request.settings);
  if (!in_place.empty()) remarks.assumptions.emplace_back(in_place);
  Append(remarks.assumptions, FileAssumptions(run));
  for (const Warnings& warnings :
       {run.warnings, run.shapes.warnings, run.roles.warnings, run.program.warnings}) {
    Append(remarks.warnings, warnings);
  }
  return remarks;
}

Estimate MakeEstimate(const Graph& file, const EstimateRequest& request) {
  Estimate estimate;
  const Prediction prediction = Predict(file, request);
  const Trace& trace = prediction.trace;
  const Timeline timeline = Replay(trace, prediction.alloc_conf);
  const std::vector<Doubt> doubts = DoubtsOf(prediction.program, request.settings);

  estimate.model = Summarize(file, prediction.roles);
  estimate.settings = request.settings;
  estimate.alloc_conf = request.alloc_conf.text;
  estimate.batch = prediction.shapes.batch;
  estimate.dims = WithoutMissing(file, request.binding).dims;
  estimate.optimizer_state_bytes = StateBytes(trace);
  SetPeak(estimate, trace, timeline, request, doubts);
  estimate.places = PlacesAtPeak(prediction, timeline);
  estimate.assumptions = Assumptions(prediction, request);
  estimate.warnings = prediction.warnings;
  Append(estimate.warnings, request.warnings);
  const bool asks = request.wants_range || !request.targets.empty();
  const std::optional<ReadRun> worse =
      asks ? PredictWorse(file, request, doubts, prediction) : std::optional<ReadRun>();
  if (request.wants_range && worse) {
    estimate.range = FindRange(file, request, doubts, *worse, prediction, estimate.device_bytes);
  }
  if (estimate.range.has_value()) {
    estimate.warnings.push_back(RangeWarning(*estimate.range, estimate.device_bytes));
  }
  estimate.notes = Notes(prediction, request);
  estimate.targets = JudgeTargets(file, request, prediction, worse);
  if (request.wants_advice && estimate.targets.size() == 1) {
    estimate.targets[0].advice = AdviseAtBatch(file, request, estimate.targets[0]);
  }
  for (const JudgedTarget& judged : estimate.targets) {
    Append(estimate.warnings, judged.target.warnings);
    const DeviceProfile& device = judged.target.device;
    if (SameKernels(device, request.settings.device)) continue;  // it has been said
    const std::string why = WhyUnsupported(request.settings.framework, device);
    if (!why.empty()) estimate.warnings.push_back({warning::kUnsupportedCard, why});
  }
  if (request.details) estimate.step_events = SummarizeSteps(prediction);
  if (!request.why.empty()) estimate.why = ExplainTensor(prediction, request.why);
  return estimate;
}

}  // namespace onnxfit
