#include "estimator/cuda/cudnn_library.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "estimator/base/calibration.h"
#include "estimator/base/error.h"
#include "estimator/cuda/cudnn_device.h"

namespace onnxfit {
namespace {

// PyTorch's blocks begin at multiples of 512 bytes, of which it tells cuDNN 32 (getAlignment).
constexpr int64_t kAlignment = 32;

// How cuDNN names the tensors of a plan: any numbers that differ.
constexpr int64_t kX = 'x';
constexpr int64_t kW = 'w';
constexpr int64_t kY = 'y';

// A plan and what it refers to, in that order.  Its device must live as long.
struct ConvolutionPlan {
  CudnnDescriptor x;
  CudnnDescriptor w;
  CudnnDescriptor y;
  CudnnDescriptor window;
  CudnnDescriptor operation;
  CudnnDescriptor graph;
  CudnnDescriptor engine;
  std::optional<CudnnDescriptor> plan;  // nullopt: its kernels are still to be compiled
};

// How cuDNN names what a call consists of.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, w, y, window, alpha, beta;
};

OperationNames NamesOf(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::kForward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvolutionPass::kDataGradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvolutionPass::kWeightGradient:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

cudnnDataType_t CudnnType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return CUDNN_DATA_FLOAT;
    case DType::kFloat16:
      return CUDNN_DATA_HALF;
    case DType::kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    case DType::kFloat64:
      return CUDNN_DATA_DOUBLE;
    default:
      break;
  }
  throw Error({.where = "cuDNN",
               .text = fmt::format("expected a convolution of float16, bfloat16, float32 or "
                                   "float64, found {}",
                                   Name(dtype))});
}

std::vector<int64_t> ContiguousStrides(const Dims& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

// Of dims in the order NCHW.
std::vector<int64_t> ChannelsLastStrides(const Dims& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  int64_t step = dims[1];
  for (size_t i = dims.size(); i-- > 2;) step = (strides[i] = step) * dims[i];
  strides[0] = step;
  return strides;
}

CudnnDescriptor Tensor(const CudnnCalls& calls, int64_t name, const Convolution& convolution,
                       const Dims& dims) {
  CudnnDescriptor tensor(calls, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, name);
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CudnnType(convolution.dtype));
  tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
  tensor.Set(CUDNN_ATTR_TENSOR_STRIDES,
             convolution.is_channels_last ? ChannelsLastStrides(dims) : ContiguousStrides(dims));
  tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  tensor.Finalize("a convolution's tensor");
  return tensor;
}

// Sums are of float32 for 16 bits, too.
CudnnDescriptor Window(const CudnnCalls& calls, const Convolution& convolution) {
  const bool is_double = convolution.dtype == DType::kFloat64;
  CudnnDescriptor window(calls, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  window.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, is_double ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
  window.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  window.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<int64_t>(convolution.stride.size()));
  window.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, convolution.stride);
  window.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, convolution.dilation);
  window.Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, convolution.padding);
  window.Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, convolution.padding);
  window.Finalize("a convolution's window");
  return window;
}

template <typename Scalar>
void Scale(CudnnDescriptor& operation, const OperationNames& names) {
  operation.Set(names.alpha, Scalar{1});
  operation.Set(names.beta, Scalar{0});
}

CudnnDescriptor Operation(const CudnnCalls& calls, const Convolution& convolution,
                          const CudnnDescriptor& x, const CudnnDescriptor& w,
                          const CudnnDescriptor& y, const CudnnDescriptor& window) {
  const OperationNames names = NamesOf(convolution.pass);
  CudnnDescriptor operation(calls, names.type);
  operation.Set(names.x, x);
  operation.Set(names.w, w);
  operation.Set(names.y, y);
  operation.Set(names.window, window);
  if (convolution.dtype == DType::kFloat64) {
    Scale<double>(operation, names);
  } else {
    Scale<float>(operation, names);
  }
  operation.Finalize("a convolution");
  return operation;
}

CudnnDescriptor Graph(const CudnnDevice& device, const CudnnDescriptor& operation) {
  CudnnDescriptor graph(device.calls(), CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  device.OwnGraph(graph);
  graph.Finalize("a graph of one convolution");
  return graph;
}

// Whether cuDNN says so of the engine of that configuration.
template <typename Note>
bool HasNote(const CudnnDescriptor& engine_config, cudnnBackendAttributeName_t notes, size_t most,
             Note note) {
  const std::vector<CudnnDescriptor> engine =
      engine_config.GetDescriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  const std::vector<Note> all = engine.at(0).Get<Note>(notes, most);
  return std::count(all.begin(), all.end(), note) > 0;
}

// PyTorch takes none that rounds its inputs to fewer bits (filterEngineConfigs).
bool RoundsInputs(const CudnnDescriptor& engine_config) {
  return HasNote(engine_config, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                 CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
}

// Its kernels are compiled when a plan is made, then loaded.
bool CompilesKernels(const CudnnDescriptor& engine_config) {
  return HasNote(engine_config, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT,
                 CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
}

std::vector<CudnnDescriptor> Engines(const CudnnDevice& device, const CudnnDescriptor& graph,
                                     cudnnBackendHeurMode_t mode) {
  CudnnDescriptor heuristics(device.calls(), CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.Set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  device.OwnHeuristics(heuristics);
  if (!heuristics.TryFinalize()) return {};
  return heuristics.GetDescriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
}

struct EnginePlan {
  CudnnDescriptor engine;
  std::optional<CudnnDescriptor> plan;
};

// Nullopt where cuDNN cannot make the plan.
std::optional<EnginePlan> MakePlan(const CudnnDevice& device, CudnnDescriptor engine) {
  if (!device.compiles() && CompilesKernels(engine) &&
      engine.TryGetNumber(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE)) {
    return EnginePlan{std::move(engine), std::nullopt};
  }
  CudnnDescriptor plan(device.calls(), CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine);
  device.OwnPlan(plan);
  if (!plan.TryFinalize()) return std::nullopt;
  return EnginePlan{std::move(engine), std::move(plan)};
}

std::optional<EnginePlan> FirstPlan(const CudnnDevice& device, const CudnnDescriptor& graph) {
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_INSTANT, CUDNN_HEUR_MODE_FALLBACK}) {
    for (CudnnDescriptor& engine : Engines(device, graph, mode)) {
      if (RoundsInputs(engine)) continue;
      if (auto chosen = MakePlan(device, std::move(engine))) return chosen;
    }
  }
  return std::nullopt;
}

Convolution WithHeight(Convolution convolution) {
  for (Dims* dims : {&convolution.input, &convolution.weight, &convolution.output}) {
    dims->insert(dims->begin() + 2, 1);
  }
  convolution.stride.insert(convolution.stride.begin(), 1);
  convolution.padding.insert(convolution.padding.begin(), 0);
  convolution.dilation.insert(convolution.dilation.begin(), 1);
  return convolution;
}

// A convolution as cuDNN sees it: a transposed one is the other's gradient by its data, a
// one-dimensional one has a height of 1 (PyTorch's view1d_as_2d).
Convolution AsCudnnSees(Convolution convolution) {
  if (convolution.is_transposed) {
    std::swap(convolution.input, convolution.output);
    if (convolution.pass == ConvolutionPass::kForward) {
      convolution.pass = ConvolutionPass::kDataGradient;
    } else if (convolution.pass == ConvolutionPass::kDataGradient) {
      convolution.pass = ConvolutionPass::kForward;
    }
    convolution.is_transposed = false;
  }
  return convolution.stride.size() == 1 ? WithHeight(std::move(convolution)) : convolution;
}

// The plan that PyTorch takes.  Nullopt where cuDNN has none for this card; throws Error where it
// refuses the convolution itself.
std::optional<ConvolutionPlan> PlanConvolution(const CudnnDevice& device,
                                               const Convolution& convolution) {
  const CudnnCalls& calls = device.calls();
  const Convolution call = AsCudnnSees(convolution);
  CudnnDescriptor x = Tensor(calls, kX, call, call.input);
  CudnnDescriptor w = Tensor(calls, kW, call, call.weight);
  CudnnDescriptor y = Tensor(calls, kY, call, call.output);
  CudnnDescriptor window = Window(calls, call);
  CudnnDescriptor operation = Operation(calls, call, x, w, y, window);
  CudnnDescriptor graph = Graph(device, operation);
  std::optional<EnginePlan> chosen = FirstPlan(device, graph);
  if (!chosen) return std::nullopt;
  return ConvolutionPlan{.x = std::move(x),
                         .w = std::move(w),
                         .y = std::move(y),
                         .window = std::move(window),
                         .operation = std::move(operation),
                         .graph = std::move(graph),
                         .engine = std::move(chosen->engine),
                         .plan = std::move(chosen->plan)};
}

int64_t WorkspaceBytes(const ConvolutionPlan& plan) {
  return plan.plan ? plan.plan->GetNumber(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
                   : plan.engine.GetNumber(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE);
}

// Runs a plan of the current device on its default stream; does not wait.  REQUIRES: it has
// one; pointers to its memory, 32-byte aligned.
void Run(const ConvolutionPlan& plan, const CudnnDevice& device, void* x, void* w, void* y,
         void* workspace) {
  CudnnDescriptor pointers(device.calls(), CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pointers.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::vector<int64_t>{kX, kW, kY});
  pointers.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::vector<void*>{x, w, y});
  pointers.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  pointers.Finalize("a convolution's pointers");
  plan.plan->Execute(device.handle(), pointers);
}

struct Precision {
  const char* name;
  DType dtype;
};
constexpr Precision kPrecisions[] = {
    {.name = "fp32", .dtype = DType::kFloat32},
    {.name = "fp16", .dtype = DType::kFloat16},
    {.name = "bf16", .dtype = DType::kBFloat16},
};

// One of resnet's.
Convolution Small(DType dtype) {
  return {.pass = ConvolutionPass::kForward,
          .dtype = dtype,
          .input = {8, 64, 56, 56},
          .weight = {64, 64, 3, 3},
          .output = {8, 64, 56, 56},
          .stride = {1, 1},
          .padding = {1, 1},
          .dilation = {1, 1}};
}

constexpr int64_t kTensorBytes = int64_t{8} * 64 * 56 * 56 * 4;
constexpr int64_t kWeightBytes = int64_t{64} * 64 * 3 * 3 * 4;

void MeasureConvolution(const CudnnDevice& device, const Precision& precision, MemoryMeter& meter) {
  const std::string what = fmt::format("kernels of {} convolutions", precision.name);
  const DeviceBuffer x(kTensorBytes);
  const DeviceBuffer w(kWeightBytes);
  const DeviceBuffer y(kTensorBytes);
  meter.Restart();
  const std::optional<ConvolutionPlan> plan = PlanConvolution(device, Small(precision.dtype));
  if (!plan) return;  // bfloat16 before Ampere
  meter.Read(what);
  const DeviceBuffer workspace(WorkspaceBytes(*plan));
  meter.Restart();
  Run(*plan, device, x.get(), w.get(), y.get(), workspace.get());
  meter.Read(what);
}

// "forward of bfloat16[32, 3, 224, 224] by [64, 3, 7, 7]".
std::string TextOf(const Convolution& convolution) {
  constexpr const char* kPasses[] = {"forward", "data gradient", "weight gradient"};
  return fmt::format("{} of {} by {}", kPasses[static_cast<size_t>(convolution.pass)],
                     ToString(TensorType{convolution.dtype, convolution.input}),
                     ToString(convolution.weight));
}

class OpenCudnn : public CudnnLibrary {
 public:
  OpenCudnn(const SharedLibrary& cudnn, bool has_driver)
      : calls_(LoadCudnnCalls(cudnn)), has_driver_(has_driver) {}

  void Measure(MemoryMeter& meter) override {
    meter.Restart();
    const CudnnDevice device(calls_, /*compiles=*/true);
    meter.Read("cudnn handle");
    for (const Precision& precision : kPrecisions) MeasureConvolution(device, precision, meter);
  }

  PlannedWorkspaces Workspaces(const std::vector<Convolution>& convolutions,
                               const DescribedCard* card) override {
    return card == nullptr ? Plan(CudnnDevice(calls_, /*compiles=*/false), convolutions)
                           : Plan(CudnnDevice(calls_, *card, has_driver_), convolutions);
  }

 private:
  static PlannedWorkspaces Plan(const CudnnDevice& device,
                                const std::vector<Convolution>& convolutions) {
    PlannedWorkspaces answers;
    for (const Convolution& convolution : convolutions) Answer(device, convolution, answers);
    return answers;
  }

  static void Answer(const CudnnDevice& device, const Convolution& convolution,
                     PlannedWorkspaces& answers) {
    try {
      if (const auto plan = PlanConvolution(device, convolution)) {
        answers.found.push_back({.convolution = convolution, .bytes = WorkspaceBytes(*plan)});
      } else {
        answers.missing.push_back(TextOf(convolution) + ": cuDNN has no plan for this card");
      }
    } catch (const Error& error) {
      answers.missing.push_back(fmt::format("{}: {}", TextOf(convolution), error.what()));
    }
  }

  const CudnnCalls calls_;
  const bool has_driver_;
};

}  // namespace

std::unique_ptr<CudnnLibrary> NewCudnnLibrary(const SharedLibrary& cudnn, bool has_driver) {
  return std::make_unique<OpenCudnn>(cudnn, has_driver);
}

}  // namespace onnxfit
