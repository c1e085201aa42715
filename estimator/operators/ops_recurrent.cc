// Recurrent layers as cuDNN runs them.  Sources: pytorch v2.11.0,
// aten/src/ATen/native/cudnn/RNN.cpp, native/RNN.cpp, native/cudnn/../../autocast_mode.cpp
// (_cudnn_rnn_cast_reflatten is in aten/src/ATen/cudnn/AutocastRNN.cpp), torch/nn/modules/rnn.py;
// the order from recorded events.
#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/operators/cudnn_recurrent.h"
#include "estimator/operators/dispatcher.h"
#include "estimator/operators/op_rule.h"
#include "estimator/operators/strides.h"

namespace onnxfit {
namespace {

constexpr int kX = 0;
constexpr int kState = 1;  // the first hidden one, and the cell's behind it
constexpr int kCell = 2;
constexpr int kWeights = static_cast<int>(kRecurrentParameters);  // from there on

// --- What runs it -------------------------------------------------------------

// x is [steps, samples, numbers], or [rows, numbers] of packed steps.
RecurrentRun RunOf(const CallTypes& call) {
  RecurrentRun run = {.layers = RecurrentLayersOf(call.ints()), .dtype = call.in(kX).dtype};
  const Dims& x = call.in(kX).dims;
  const bool is_packed = run.layers.packed_steps > 0;
  run.steps = is_packed ? run.layers.packed_steps : x[0];
  run.batch = is_packed ? run.layers.packed_batch : x[1];
  run.rows = is_packed ? x[0] : CheckedMul(x[0], x[1]);
  return run;
}

TensorType WorkspaceOf(const CallTypes& call, bool is_forward, bool in_training) {
  const RecurrentRun run = RunOf(call);
  const RecurrentAlgorithm algorithm = ChooseRecurrentAlgorithm(run, call.device(), is_forward);
  return {DType::kUint8, {RecurrentWorkspaceBytes(run, call.device(), algorithm, in_training)}};
}

TensorType WorkspaceOfForward(const CallTypes& call) {
  return WorkspaceOf(call, true, RunOf(call).layers.keeps);
}

TensorType Reserve(const CallTypes& call) {
  const RecurrentRun run = RunOf(call);
  if (!run.layers.keeps) return {};
  return {DType::kUint8, {ReserveBytes(run)}};
}

// Parameters of bfloat16 stay apart, for torch.backends.cudnn.is_acceptable does not know that
// type: each call copies them into a new space, which is kept for backward.
bool AreApart(DType dtype) { return dtype == DType::kBFloat16; }

TensorType WeightsOfCall(const CallTypes& call) {
  if (!AreApart(call.in(kWeights).dtype)) return {};
  return {DType::kBFloat16, {WeightSpaceNumel(RecurrentLayersOf(call.ints()))}};
}

// x.contiguous(), where x is not.
TensorType DenseX(const CallTypes& call) {
  return IsContiguous(call.in(kX)) ? TensorType() : TensorType(call.in(kX));
}

// What nobody has a gradient of has one of zeros (_cudnn_rnn_backward).
std::vector<int> MakeZeros(Kernel& kernel) {
  const CallTypes& call = kernel.types();
  std::vector<int> zeros;
  for (int i = 0; i < (call.has_input(kCell) ? 3 : 2); ++i) {
    if (!kernel.HasIncoming(i)) zeros.push_back(kernel.Take(call.out(static_cast<size_t>(i))));
  }
  return zeros;
}

// Whether the gradient of y lies in memory step by step; zeros lie as y is shown.
bool IsDenseBySteps(const Kernel& kernel) {
  if (kernel.HasIncoming(0)) return IsContiguous(kernel.types().incoming_gradient());
  const RecurrentRun run = RunOf(kernel.types());
  const bool is_turned = run.layers.batch_first && run.layers.packed_steps == 0;
  return !is_turned || run.steps == 1 || run.batch == 1;
}

// _cudnn_rnn_backward_input, which is always run: what it makes of the reserve is read later.
void MakeGradsOfInputs(Kernel& kernel) {
  const CallTypes& call = kernel.types();
  const int x = kernel.Take(DenseX(call));
  const int y = kernel.Take(IsDenseBySteps(kernel) ? TensorType() : TensorType(call.out(0)));
  kernel.MakeGradAnyway(kX);
  kernel.MakeGradAnyway(kState);
  kernel.MakeGradAnyway(kCell);
  kernel.Free(kernel.Take(WorkspaceOf(call, false, true)));
  kernel.Free(y);
  kernel.Free(x);
}

bool WantsWeights(const Kernel& kernel) {
  for (size_t i = kWeights; i < kernel.types().input_count(); ++i) {
    if (kernel.IsWanted(static_cast<int>(i))) return true;
  }
  return false;
}

// _cudnn_rnn_backward_weight.  Without biases the parameters are fewer than the parts of cuDNN's
// space, so that their gradients are copies.
void MakeGradsOfWeights(Kernel& kernel) {
  if (!WantsWeights(kernel)) return;
  const CallTypes& call = kernel.types();
  const RecurrentLayers layers = RecurrentLayersOf(call.ints());
  const TensorType space = {call.in(kWeights).dtype, {WeightSpaceNumel(layers)}};
  const int x = kernel.Take(DenseX(call));
  if (layers.has_biases) {
    kernel.MakeGradsInOne(kWeights, space.dims);
    kernel.Free(kernel.Take(WorkspaceOf(call, false, true)));
  } else {
    const int apart = kernel.Take(space);
    const int workspace = kernel.Take(WorkspaceOf(call, false, true));
    for (size_t i = kWeights; i < call.input_count(); ++i) kernel.MakeGrad(static_cast<int>(i));
    kernel.Free(workspace);
    kernel.Free(apart);
  }
  kernel.Free(x);
}

void BackwardThroughTime(Kernel& kernel) {
  std::vector<int> zeros = MakeZeros(kernel);
  MakeGradsOfInputs(kernel);
  MakeGradsOfWeights(kernel);
  for (; !zeros.empty(); zeros.pop_back()) kernel.Free(zeros.back());
}

// The weights are parts of one tensor: who holds the first holds all.
constexpr Gradient kThroughTime =
    Reads(In(kX) | In(kState) | In(kCell) | In(kWeights) | Out(0) | Aux(0) | Aux(1));

// --- What is around it ----------------------------------------------------------

constexpr std::string_view kDropoutStates = "cudnn_dropout_states";
constexpr std::string_view kFlatSpace = "flat_weights";
constexpr std::string_view kIntoFlatSpace = "copy_into_flat_weights";

TensorType Seed(const CallTypes&) { return {DType::kInt64, {}}; }

Dims ContiguousResult(const CallTypes& call) { return ContiguousStrides(call.out(0).dims); }

// cuDNN's layers run in fp16 under any autocast (_cudnn_rnn_cast_reflatten): weights are copied
// into a new flat space each time.
void CastForCudnn(Dispatcher& dispatcher, const RecurrentLayers& layers,
                  std::vector<NameId>& inputs) {
  constexpr DType kHalf = DType::kFloat16;
  const bool is_wide = dispatcher.TypeOf(inputs[kWeights]).dtype == DType::kFloat32;
  if (is_wide) {
    const NameId space = dispatcher.Make(kFlatSpace, {}, {kHalf, {WeightSpaceNumel(layers)}});
    for (size_t i = kWeights; i < inputs.size(); ++i) {
      inputs[i] = dispatcher.Make(kIntoFlatSpace, {space, inputs[i]},
                                  {kHalf, dispatcher.TypeOf(inputs[i]).dims});
    }
  }
  for (const int i : {kCell, kState, kX}) {
    NameId& input = inputs[static_cast<size_t>(i)];
    if (input != kNoName) input = dispatcher.CastArgument(input, kHalf);
  }
}

TensorType StateOf(const RecurrentLayers& layers, DType dtype, int64_t batch, int64_t width) {
  return {dtype, {layers.layers * layers.directions, batch, width}};
}

void SayWhoElseRuns(Dispatcher& dispatcher, DType dtype) {
  const int capability = dispatcher.device().compute_capability;
  const bool has_kernels = dtype != DType::kBFloat16 || capability >= 80;
  if (capability > 0 && has_kernels) return;
  dispatcher.Assume(
      "recurrent layers take what cuDNN would: on this card PyTorch runs them without it");
}

void TakeRecurrentApart(Dispatcher& dispatcher, const AtenCall& call) {
  RecurrentLayers layers = RecurrentLayersOf(call.ints);
  layers.keeps = dispatcher.trains();
  layers.drops_out = layers.drops_out && dispatcher.trains();
  std::vector<NameId> inputs = call.inputs;
  const DType lower = dispatcher.autocast_type();
  if (!AreApart(dispatcher.TypeOf(inputs[kWeights]).dtype)) {
    dispatcher.KeepFlat({inputs.begin() + kWeights, inputs.end()}, WeightSpaceNumel(layers));
  }
  const Dims& dims = dispatcher.TypeOf(inputs[kX]).dims;
  const bool is_packed = layers.packed_steps > 0;
  const int64_t batch = is_packed ? layers.packed_batch : dims[layers.batch_first ? 0 : 1];
  const TensorType h = StateOf(layers, dispatcher.TypeOf(inputs[kX]).dtype, batch, layers.state());
  const TensorType c = StateOf(layers, h.dtype, batch, layers.hidden);
  if (inputs[kState] == kNoName) inputs[kState] = dispatcher.Make("constant", {}, h);
  if (inputs[kCell] == kNoName && layers.is_lstm()) {
    inputs[kCell] = dispatcher.Make("constant", {}, c);
  }
  for (const int i : {kState, kCell}) {
    const NameId state = inputs[static_cast<size_t>(i)];
    if (state != kNoName) dispatcher.TypeOwnConstant(state, h.dtype);
  }
  if (layers.drops_out) {
    const int64_t bytes = DropoutStatesBytes(dispatcher.device());
    dispatcher.MakeOnce(kDropoutStates, {DType::kUint8, {bytes}});
  }
  if (lower != DType::kUndefined) CastForCudnn(dispatcher, layers, inputs);
  SayWhoElseRuns(dispatcher, dispatcher.TypeOf(inputs[kX]).dtype);
  const bool is_turned = layers.batch_first && !is_packed;
  if (is_turned) inputs[kX] = dispatcher.Permute(inputs[kX], {1, 0, 2});
  TensorType y = {h.dtype, dispatcher.TypeOf(inputs[kX]).dims};
  y.dims.back() = layers.directions * layers.state();
  std::vector<TensorType> types = {y, h};
  if (layers.is_lstm()) types.push_back(c);
  const NameId made =
      dispatcher.MakeResults("cudnn_rnn", inputs, types, RecurrentInts(layers), is_turned);
  const bool is_read = !call.outputs.empty() && call.outputs[0] != kNoName;
  if (is_turned && is_read) dispatcher.MakeResult("permute", {made}, {1, 0, 2});
}

constexpr OpRule LayersRow(std::string_view name) {
  return {
      .name = name, .take_apart = TakeRecurrentApart, .variadic = true, .gradients = {Reads({})}};
}

constexpr OpRule kRecurrentRules[] = {
    LayersRow("lstm"),
    LayersRow("gru"),
    LayersRow("rnn"),
    {.name = "cudnn_rnn",
     .variadic = true,
     .gradients = {kThroughTime},
     .aux = {{{"reserve", Reserve}, {"weights", WeightsOfCall}}},
     .forward = {Scratch(DenseX), MakeOut(0), MakeOut(1), MakeOut(2), MakeAux(1),
                 Scratch(WorkspaceOfForward), MakeAux(0), DropScratch(1, 1), DropScratch(0, 1)},
     .run_backward = BackwardThroughTime},
    // A generator's states for each device, made when first needed.
    {.name = kDropoutStates, .forward = {Passing(Seed), MakeOut(0)}},
    {.name = kFlatSpace},
    {.name = kIntoFlatSpace,
     .strides = ContiguousResult,
     .alias = Alias::kNarrow,
     .gradients = {kNoGradient, CastsBack()}},
};

}  // namespace

std::span<const OpRule> RecurrentRules() { return kRecurrentRules; }

}  // namespace onnxfit
