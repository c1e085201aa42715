#include "estimator/eager/call_table.h"

#include <algorithm>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/workspaces/cudnn_workspaces.h"

namespace onnxfit {
namespace {

constexpr int64_t kAskedCublasBytes = int64_t{8} * 4096 * 1024;  // CUBLAS_WORKSPACE_CONFIG=:4096:8

constexpr std::string_view kWorkspaceLabels[] = {"cuBLAS workspace", "cublasLt workspace",
                                                 kCudnnWorkspace, "cuDNN attention workspace",
                                                 "cuDNN trials"};
constexpr size_t kCudnnLabel = 2;  // their indices there
constexpr size_t kAttentionLabel = 3;
constexpr size_t kTrialsLabel = 4;

}  // namespace

CallTable::CallTable(const Program& program, Machine& machine, const TrainingSettings& settings)
    : program_(program),
      machine_(machine),
      settings_(settings),
      gradient_labels_(program.values.size(), -1),
      workspaces_(std::make_shared<Held>()),
      tried_(std::make_shared<std::set<Convolution>>()) {
  for (const ProgramValue& value : program.values) {
    name_labels_.push_back(machine.AddLabel(value.name));
  }
  for (const AtenCall& call : program.calls) {
    rules_.push_back(&FindOpRule(call.op));
    labels_.push_back({.at = machine.AddLabel(call.where)});
  }
  for (auto& thread : *workspaces_) thread.fill(kNoTensor);
  workspace_labels_.fill(-1);
}

const StridedType& CallTable::TypeOf(NameId name) const {
  return program_.values[Index(name)].type;
}

LabelId CallTable::GradientLabel(NameId name) { return Derived(gradient_labels_, name, ".grad"); }

LabelId CallTable::Derived(std::vector<LabelId>& labels, NameId name, const char* suffix) {
  LabelId& label = labels[Index(name)];
  if (label < 0) label = machine_.AddLabel(program_.values[Index(name)].name + suffix);
  return label;
}

LabelId CallTable::AuxLabel(int32_t index, size_t aux) {
  LabelId& label = labels_[Index(index)].aux[aux];
  if (label < 0) {
    const std::string& output = program_.values[Index(call(index).outputs[0])].name;
    label = machine_.AddLabel(output + "." + std::string(rule(index).aux[aux].name));
  }
  return label;
}

LabelId CallTable::ScratchLabel(int32_t index) {
  LabelId& label = labels_[Index(index)].scratch;
  if (label < 0) label = machine_.AddLabel(call(index).where + ".scratch");
  return label;
}

void CallTable::TakeWorkspace(int32_t call, const Step& step, Thread thread) {
  switch (static_cast<Workspace>(step.index)) {
    case Workspace::kCublas:
      return TakeCublasWorkspace(thread);
    case Workspace::kCublasLt:
      return IsForLt(call) ? TakeCublasLtWorkspace(thread) : TakeCublasWorkspace(thread);
    case Workspace::kCudnnForward:
      return Convolve(call, ConvolutionPass::kForward);
    case Workspace::kCudnnDataGradient:
      return Convolve(call, ConvolutionPass::kDataGradient);
    case Workspace::kCudnnWeightGradient:
      return Convolve(call, ConvolutionPass::kWeightGradient);
    case Workspace::kCudnnAttention:
      return Pass(kAttentionLabel, BytesOf(step.scratch(TypesOf(call))));
  }
}

void CallTable::Convolve(int32_t index, ConvolutionPass pass) {
  if (settings_.cudnn_benchmark) {
    const std::optional<Convolution> convolution = ConvolutionOf(program_, call(index), pass);
    if (convolution) ConvolveBenchmarked(*convolution);
    return;
  }
  int32_t& convolved = labels_[Index(index)].convolved[static_cast<size_t>(pass)];
  if (convolved == kUnasked) convolved = FindConvolved(index, pass);
  if (convolved != kUntold) PassConvolved(convolved);
}

int32_t CallTable::FindConvolved(int32_t index, ConvolutionPass pass) {
  std::optional<Convolution> convolution = ConvolutionOf(program_, call(index), pass);
  if (!convolution) return kUntold;
  const auto next = static_cast<int32_t>(convolved_.size());
  const auto [at, is_new] = convolved_at_.try_emplace(*convolution, next);
  if (!is_new) return at->second;
  Convolved& made = convolved_.emplace_back();
  made.bytes = WorkspaceBytes(*convolution, settings_);
  ConvolvedLog* log = machine_.convolved();
  if (log == nullptr) return next;
  made.logged = static_cast<int32_t>(log->convolutions.size());
  log->convolutions.push_back(*std::move(convolution));
  return next;
}

void CallTable::PassConvolved(int32_t index) {
  const Convolved& convolved = convolved_[Index(index)];
  ConvolvedLog* log = machine_.convolved();
  if (log == nullptr) return Pass(kCudnnLabel, convolved.bytes);
  const BufferId buffer =
      machine_.PassWorkspace(convolved.bytes, WorkspaceLabel(kCudnnLabel), true);
  log->workspaces.push_back({buffer, convolved.logged});
}

// run_single_conv of aten/src/ATen/native/cudnn/Conv_v8.cpp: what get_plans_from_find took is given
// back to the card with all else that is cached, then the fastest plan runs.
void CallTable::ConvolveBenchmarked(const Convolution& convolution) {
  const BenchmarkedBytes bytes = BenchmarkedBytesOf(convolution, settings_);
  if (tried_->insert(convolution).second) {
    machine_.PassTrial(bytes.tried, WorkspaceLabel(kTrialsLabel));
    machine_.EmptyCache();
  }
  Pass(kCudnnLabel, bytes.kept);
}

void CallTable::Pass(size_t library, int64_t bytes) {
  if (bytes == 0) return;
  const bool may_fail = library == kCudnnLabel;
  machine_.PassWorkspace(bytes, WorkspaceLabel(library), may_fail);
}

// isInputCompliesAddmmCudaLt: aten/src/ATen/native/cuda/Blas.cpp, pytorch v2.6.0, and recorded
// events of every version that framework.cc has.
bool CallTable::IsForLt(int32_t index) const {
  const int64_t summed = TypeOf(call(index).inputs[1]).dims.back();
  const Dims& result = TypeOf(call(index).outputs[0]).dims;
  const size_t added = call(index).op == "zero3_addmm" ? 2 : 0;
  if (TypeOf(call(index).inputs[added]).dims.size() != 1) return false;  // what is added is no bias
  if (summed <= 1 || result.back() <= 1) return false;
  return Numel(result) / result.back() >= settings_.framework.lt_min_rows;
}

void CallTable::TakeCublasLtWorkspace(Thread thread) {
  const FrameworkProfile& framework = settings_.framework;
  if (framework.cublas_in_lt == CublasInLt::kInstead) return TakeCublasWorkspace(thread);
  if (framework.cublas_in_lt == CublasInLt::kFirst) TakeCublasWorkspace(thread);
  Hold(Workspace::kCublasLt, thread, CublasLtBytes());
  if (framework.cublas_in_lt == CublasInLt::kSecond) TakeCublasWorkspace(thread);
  if (framework.cublaslt == WorkspaceLife::kPerCall) LetGo(Workspace::kCublasLt, thread);
}

int64_t CallTable::CublasLtBytes() const {
  if (!settings_.framework.lt_within_cublas) return kCublasLtWorkspaceBytes;
  return std::min(kCublasLtWorkspaceBytes, CublasBytes());
}

void CallTable::TakeCublasWorkspace(Thread thread) {
  if (settings_.framework.cublas == WorkspaceLife::kOutside) return;
  Hold(Workspace::kCublas, thread, CublasBytes());
  if (settings_.framework.cublas == WorkspaceLife::kPerCall) LetGo(Workspace::kCublas, thread);
}

// What the user says goes before what a library sets.
int64_t CallTable::CublasBytes() const {
  if (!settings_.cublas.text.empty()) return settings_.cublas.bytes;
  if (DoesLoop(settings_.loop.library, LoopFact::kAsksForWorkspaces)) return kAskedCublasBytes;
  return CublasWorkspaceBytes(settings_.framework, settings_.device);
}

void CallTable::Hold(Workspace workspace, Thread thread, int64_t bytes) {
  const auto library = static_cast<size_t>(workspace);
  TensorId& held = (*workspaces_)[static_cast<size_t>(thread)][library];
  if (bytes == 0 || held != kNoTensor) return;
  held = machine_.New({DType::kUint8, {bytes}}, WorkspaceLabel(library), Kind::kWorkspace);
}

LabelId CallTable::WorkspaceLabel(size_t library) {
  LabelId& label = workspace_labels_[library];
  if (label < 0) label = machine_.AddLabel(std::string(kWorkspaceLabels[library]));
  return label;
}

void CallTable::LetGo(Workspace workspace, Thread thread) {
  auto& held = (*workspaces_)[static_cast<size_t>(thread)];
  const TensorId taken = std::exchange(held[static_cast<size_t>(workspace)], kNoTensor);
  if (taken != kNoTensor) machine_.Release(taken);
}

}  // namespace onnxfit
