#include "estimator/workspaces/cudnn_workspaces.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/workspaces/measured_layers.h"
#include "estimator/workspaces/planned_layers.h"

namespace onnxfit {

int64_t FilledBytes(DType dtype, Dims dims, std::initializer_list<size_t> channels, int64_t width) {
  for (const size_t i : channels) dims[i] = RoundUp(dims[i], width);
  return BytesOf(TensorType{dtype, std::move(dims)});
}

namespace {

int64_t BytesOfValue(const Program& program, NameId name) {
  return name == kNoName ? 0 : BytesOf(program.values[Index(name)].type);
}

int64_t CopiedBytes(const Program& program, const AtenCall& call) {
  const int64_t read =
      CheckedAdd(BytesOfValue(program, call.inputs[0]), BytesOfValue(program, call.inputs[1]));
  return CheckedAdd(read, BytesOfValue(program, call.outputs[0]));
}

// What follows is the form.

constexpr int kHopper = 9;

bool IsPointwise(const Convolution& c) {
  const auto are = [](const std::vector<int64_t>& all, int64_t value) {
    return std::ranges::all_of(all, [&](int64_t each) { return each == value; });
  };
  return c.groups == 1 && are({c.weight.begin() + 2, c.weight.end()}, 1) && are(c.stride, 1) &&
         are(c.padding, 0);
}

int64_t AreaOfWindow(const Convolution& c) {
  return std::accumulate(c.weight.begin() + 2, c.weight.end(), int64_t{1}, std::multiplies<>());
}

// As a ResNet begins: a large window, some steps apart, which overlaps itself.
bool IsStem(const Convolution& c) {
  constexpr int64_t kLarge = 49;
  return AreaOfWindow(c) >= kLarge && c.stride.back() > 1 && c.stride.back() < c.weight.back();
}

// Those of pictures, for which kernels in the order NCHW are taken.
bool HasFewChannels(const Convolution& c) {
  const bool is_wide = c.dtype == DType::kFloat32 && c.pass == ConvolutionPass::kForward;
  return c.stride.size() == 2 && !IsStem(c) && c.input[1] < (is_wide ? 32 : 8);
}

constexpr int64_t kBesideCopies = 16;

// A window of one element lies the same in both orders.
int64_t CopiesInNhwc(const Convolution& c) {
  const int64_t width = c.dtype == DType::kFloat32 ? 1 : 8;  // in 16 bits channels are filled up
  const int64_t tensors = CheckedAdd(FilledBytes(c.dtype, c.input, {1}, width),
                                     FilledBytes(c.dtype, c.output, {1}, width));
  const bool has_window = AreaOfWindow(c) > 1;
  const bool is_grouped = c.groups > 1;
  const int64_t weight = !has_window  ? 0
                         : is_grouped ? BytesOf(TensorType{c.dtype, c.weight})
                                      : FilledBytes(c.dtype, c.weight, {0, 1}, width);
  return CheckedAdd(tensors, CheckedAdd(weight, kBesideCopies));
}

// Tensors that lie in the order NHWC are read where they are, but for channels that do not fill
// 16 bytes: such tensors are copied, with channels that do, and the weight with them.  Kernels of
// the forward pass take few channels of x as they are.  None of weights' gradients: what these sum
// up in parts follows no form (40 % ask for nothing, half of the others for less than 2.7 MB).
int64_t CopiesOfUnfilled(const Convolution& c) {
  constexpr int64_t kFewChannels = 8;
  constexpr int64_t kVectorBits = 128;
  const int64_t width = kVectorBits / BitsOf(c.dtype);
  const auto copied = [&](const Dims& dims) {
    return dims[1] % width == 0 ? 0 : FilledBytes(c.dtype, dims, {1}, width);
  };
  const bool is_read = c.pass == ConvolutionPass::kForward && c.input[1] < kFewChannels;
  const int64_t tensors = CheckedAdd(is_read ? 0 : copied(c.input), copied(c.output));
  if (tensors == 0) return 0;
  const int64_t weight = FilledBytes(c.dtype, c.weight, {0, 1}, width);
  return CheckedAdd(CheckedAdd(tensors, weight), kBesideCopies);
}

int64_t FormedInNhwc(const Convolution& c) {
  const bool is_plain = c.groups == 1 && !c.is_transposed && AreaOfWindow(c) > 1;
  return is_plain && c.pass != ConvolutionPass::kWeightGradient ? CopiesOfUnfilled(c) : 0;
}

// A product for each sample, whose results are summed up in fp32, unless copies are much smaller.
int64_t WeightGradientOfPoints(const Convolution& c) {
  const bool is_one =
      std::all_of(c.output.begin() + 2, c.output.end(), [](int64_t size) { return size == 1; });
  if (is_one) return 0;
  const int64_t samples = CheckedMul(c.input[0], BytesOf(TensorType{DType::kFloat32, c.weight}));
  const int64_t copies = CopiesInNhwc(c);
  const int64_t times = c.dtype == DType::kFloat32 ? 8 : 2;
  return samples / times > copies ? copies : samples;
}

}  // namespace

bool HasWorkspaceForm(const DeviceProfile& device) { return MajorOf(device) == kHopper; }

int64_t FormedWorkspaceBytes(const Convolution& c) {
  if (c.dtype == DType::kFloat64) return 0;
  if (c.is_channels_last) return FormedInNhwc(c);
  if (IsPointwise(c))
    return c.pass == ConvolutionPass::kWeightGradient ? WeightGradientOfPoints(c) : 0;
  if (c.pass != ConvolutionPass::kWeightGradient && HasFewChannels(c)) return 0;
  return CopiesInNhwc(c);
}

namespace {

// Of the cuDNN that was measured on a card (measured_layers.h).
constexpr int kMeasuredVersion = 91900;

// Whether plans of another version are nearer to the framework's than what was measured.
bool ArePlansNearer(const TrainingSettings& settings) {
  const int planned = PlansVersion(settings.device, settings.framework.cudnn);
  return settings.framework.cudnn <= planned && planned < kMeasuredVersion;
}

// What comes with the command of cards like that one; of a card that nobody named, nothing.
std::optional<KnownLayer> FindShipped(const Convolution& convolution,
                                      const TrainingSettings& settings) {
  if (settings.device.without_cudnn) return std::nullopt;
  const std::optional<KnownLayer> measured = FindLayer(convolution, settings.device);
  if (measured && !ArePlansNearer(settings)) return measured;
  const std::optional<KnownLayer> planned =
      FindPlanned(convolution, settings.device, settings.framework.cudnn);
  return planned ? planned : measured;
}

// Where it was not measured there.
KnownLayer Guessed(const Convolution& convolution, const TrainingSettings& settings) {
  if (settings.device.without_cudnn) return {};
  if (const auto shipped = FindShipped(convolution, settings)) return *shipped;
  return {.bytes = HasWorkspaceForm(settings.device) ? FormedWorkspaceBytes(convolution) : 0};
}

// Asked without a card, cuDNN has none of its plans by cublasLt, which run points in fp32, and on
// Hopper in 16 bits, too: of 4,434 forward ones there 86 % ask for nothing, of the answers without
// it a quarter say so.  On Ampere and Ada all 1,100 points in 16 bits that were asked both ways
// have the same answer (4,000 calls of benchmarks/convolutions, cuDNN 9.19.0).
bool IsAskedInVain(const Convolution& convolution, const DeviceProfile& device) {
  const bool runs_on_lt = convolution.dtype == DType::kFloat32 || MajorOf(device) >= kHopper;
  return device.calibration->basis != Basis::kMeasured && runs_on_lt && IsPointwise(convolution);
}

std::optional<int64_t> FindMeasured(const Convolution& convolution, const DeviceProfile& device) {
  if (device.calibration == nullptr) return std::nullopt;
  if (IsAskedInVain(convolution, device)) return std::nullopt;
  return FindWorkspace(*device.calibration, convolution);
}

void Count(const std::optional<Convolution>& convolution, const TrainingSettings& settings,
           MeasuredConvolutions& count) {
  ++count.all;
  if (!convolution) return;
  if (FindMeasured(*convolution, settings.device)) {
    ++count.measured;
  } else if (const std::optional<KnownLayer> shipped = FindShipped(*convolution, settings)) {
    ++(shipped->is_very ? count.shipped : count.scaled);
  }
}

}  // namespace

int64_t WorkspaceBytes(const Convolution& convolution, const TrainingSettings& settings) {
  const std::optional<int64_t> measured = FindMeasured(convolution, settings.device);
  return measured ? *measured : Guessed(convolution, settings).bytes;
}

namespace {

// Of the plans that the version tries.
std::optional<KnownLayer> FindTried(const Convolution& convolution,
                                    const TrainingSettings& settings) {
  if (settings.framework.cudnn_v7 || settings.device.without_cudnn) return std::nullopt;
  return FindBenchmarked(convolution, settings.device);
}

}  // namespace

BenchmarkedBytes BenchmarkedBytesOf(const Convolution& convolution,
                                    const TrainingSettings& settings) {
  const std::optional<KnownLayer> known = FindTried(convolution, settings);
  if (known) return {.kept = known->bytes, .tried = known->tried};
  return {.kept = WorkspaceBytes(convolution, settings)};
}

TriedCalls CountTried(const Program& program, const TrainingSettings& settings) {
  TriedCalls count;
  for (const Convolution& convolution : ConvolutionsOf(program)) {
    ++count.all;
    if (FindTried(convolution, settings)) ++count.known;
  }
  return count;
}

int64_t WorkspaceBytes(const Program& program, const AtenCall& call, ConvolutionPass pass,
                       const TrainingSettings& settings) {
  const std::optional<Convolution> convolution = ConvolutionOf(program, call, pass);
  return convolution ? WorkspaceBytes(*convolution, settings) : 0;
}

std::string ShippedPlansText(const TrainingSettings& settings) {
  const DeviceProfile& device = settings.device;
  if (device.without_cudnn) return "";
  const std::string_view card = MeasuredLayersCard(device);
  if (!card.empty() && !ArePlansNearer(settings)) return std::string(card);
  const int version = PlansVersion(device, settings.framework.cudnn);
  if (version == 0) return "";
  return fmt::format("cuDNN {} on such a card", CudnnVersionText(version));
}

int64_t MostCudnnWorkspaceBytes(const Program& program, const TrainingSettings& settings) {
  int64_t most = 0;
  const std::vector<std::vector<ConvolutionPass>> passes = PassesOf(program);
  for (size_t i = 0; i < passes.size(); ++i) {
    const AtenCall& call = program.calls[i];
    for (const ConvolutionPass pass : passes[i]) {
      const std::optional<Convolution> convolution = ConvolutionOf(program, call, pass);
      if (convolution && FindMeasured(*convolution, settings.device)) continue;
      const KnownLayer guessed = convolution ? Guessed(*convolution, settings) : KnownLayer{};
      if (!guessed.is_very) most = std::max(most, CopiedBytes(program, call) - guessed.bytes);
    }
  }
  return most;
}

MeasuredConvolutions CountMeasured(const Program& program, const TrainingSettings& settings) {
  MeasuredConvolutions count;
  std::set<Convolution> seen;
  const std::vector<std::vector<ConvolutionPass>> passes = PassesOf(program);
  for (size_t i = 0; i < passes.size(); ++i) {
    for (const ConvolutionPass pass : passes[i]) {
      const AtenCall& call = program.calls[i];
      const auto convolution = ConvolutionOf(program, call, pass);
      if (convolution && !seen.insert(*convolution).second) continue;
      Count(convolution, settings, count);
    }
  }
  return count;
}

}  // namespace onnxfit
