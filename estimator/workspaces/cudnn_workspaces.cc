#include "estimator/workspaces/cudnn_workspaces.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/workspaces/benchmarked_layers.h"
#include "estimator/workspaces/known_layers.h"
#include "estimator/workspaces/workspace_form.h"

namespace onnxfit {
namespace {

int64_t BytesOfValue(const Program& program, NameId name) {
  return name == kNoName ? 0 : BytesOf(program.values[Index(name)].type);
}

int64_t CopiedBytes(const Program& program, const AtenCall& call) {
  const int64_t read =
      CheckedAdd(BytesOfValue(program, call.inputs[0]), BytesOfValue(program, call.inputs[1]));
  return CheckedAdd(read, BytesOfValue(program, call.outputs[0]));
}

// Of what comes with the command for that card; nullopt where nothing does, or nobody named it.
std::optional<KnownCard> ShippedCard(const TrainingSettings& settings) {
  if (settings.device.without_cudnn) return std::nullopt;
  return KnownCardLike(settings.device, settings.framework.cudnn);
}

std::optional<KnownLayer> FindShipped(const Convolution& convolution,
                                      const TrainingSettings& settings) {
  if (settings.device.without_cudnn) return std::nullopt;
  return FindKnown(convolution, settings.device, settings.framework.cudnn);
}

// Where it was not measured there.
KnownLayer Guessed(const Convolution& convolution, const TrainingSettings& settings) {
  if (settings.device.without_cudnn) return {};
  if (const auto shipped = FindShipped(convolution, settings)) return *shipped;
  return {.bytes = FormedOn(settings.device, convolution).value_or(0)};
}

// Whether what comes with the command is rather taken than what cuDNN answered without the card: of
// a version nearer to the framework's, or measured in that very call.  What other versions plan is
// further off than what the right one plans for other batches: "Plans for other cards" in
// benchmarks/convolutions/README.md.
bool IsShippedNearer(const Convolution& convolution, const TrainingSettings& settings) {
  const std::optional<KnownLayer> known = FindShipped(convolution, settings);
  if (!known) return false;
  const int shipped = ShippedCard(settings)->cudnn;
  const int asked = CudnnVersionOf(settings.device.calibration->cudnn);
  if (IsNearerVersion(shipped, asked, settings.framework.cudnn)) return true;
  return known->is_very && known->is_measured && shipped == asked;
}

std::optional<int64_t> FindMeasured(const Convolution& convolution,
                                    const TrainingSettings& settings) {
  const DeviceProfile& device = settings.device;
  if (device.calibration == nullptr) return std::nullopt;
  const bool is_asked = device.calibration->basis != Basis::kMeasured;
  if (is_asked && RunsOnCublasLt(convolution, device)) return std::nullopt;
  if (is_asked && IsShippedNearer(convolution, settings)) return std::nullopt;
  return FindWorkspace(*device.calibration, convolution);
}

void Count(const std::optional<Convolution>& convolution, const TrainingSettings& settings,
           MeasuredConvolutions& count) {
  ++count.all;
  if (!convolution) return;
  if (FindMeasured(*convolution, settings)) {
    ++count.measured;
  } else if (const std::optional<KnownLayer> shipped = FindShipped(*convolution, settings)) {
    ++(shipped->is_very ? count.shipped : count.scaled);
  }
}

}  // namespace

int64_t WorkspaceBytes(const Convolution& convolution, const TrainingSettings& settings) {
  const std::optional<int64_t> measured = FindMeasured(convolution, settings);
  return measured ? *measured : Guessed(convolution, settings).bytes;
}

namespace {

// Of the plans that the version tries.
std::optional<BenchmarkedBatch> FindTried(const Convolution& convolution,
                                          const TrainingSettings& settings) {
  if (settings.framework.cudnn_v7 || settings.device.without_cudnn) return std::nullopt;
  return FindBenchmarked(convolution, settings.device);
}

}  // namespace

BenchmarkedBytes BenchmarkedBytesOf(const Convolution& convolution,
                                    const TrainingSettings& settings) {
  const std::optional<BenchmarkedBatch> known = FindTried(convolution, settings);
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
  const std::optional<KnownCard> card = ShippedCard(settings);
  if (!card) return "";
  const std::string version = CudnnVersionText(card->cudnn);
  return card->is_measured ? fmt::format("an H200 (cuDNN {})", version)
                           : fmt::format("cuDNN {} on such a card", version);
}

std::vector<AskedConvolution> AskedConvolutions(const Program& program) {
  std::vector<AskedConvolution> asked;
  std::set<Convolution> seen;
  const std::vector<std::vector<ConvolutionPass>> passes = PassesOf(program);
  for (size_t i = 0; i < passes.size(); ++i) {
    const AtenCall& call = program.calls[i];
    for (const ConvolutionPass pass : passes[i]) {
      std::optional<Convolution> convolution = ConvolutionOf(program, call, pass);
      if (convolution && !seen.insert(*convolution).second) continue;
      asked.push_back({std::move(convolution), CopiedBytes(program, call)});
    }
  }
  return asked;
}

int64_t MostCudnnWorkspaceBytes(std::span<const AskedConvolution> asked,
                                const TrainingSettings& settings) {
  int64_t most = 0;
  for (const auto& [convolution, copied_bytes] : asked) {
    if (convolution && FindMeasured(*convolution, settings)) continue;
    const KnownLayer guessed = convolution ? Guessed(*convolution, settings) : KnownLayer{};
    if (!guessed.is_very) most = std::max(most, copied_bytes - guessed.bytes);
  }
  return most;
}

int64_t MostCudnnWorkspaceBytes(const Program& program, const TrainingSettings& settings) {
  return MostCudnnWorkspaceBytes(AskedConvolutions(program), settings);
}

MeasuredConvolutions CountMeasured(const Program& program, const TrainingSettings& settings) {
  MeasuredConvolutions count;
  for (const AskedConvolution& asked : AskedConvolutions(program)) {
    Count(asked.convolution, settings, count);
  }
  return count;
}

}  // namespace onnxfit
