#include "cli/version_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "estimator/base/error.h"
#include "estimator/base/framework.h"

namespace onnxfit {
namespace {

bool Compiles(const TrainingSettings& s) { return s.compile != Compiling::kNone; }
bool SharesFully(const TrainingSettings& s) { return IsFullySharded(s.ranks.strategy); }
bool SetsCublas(const TrainingSettings& s) { return !s.cublas.text.empty(); }
bool HasStages(const TrainingSettings& s) { return s.ranks.strategy == Strategy::kPipeline; }

struct Feature {
  std::string_view flag;
  std::string_view what;
  std::string_view first;  // version that has it
  bool (*is_asked)(const TrainingSettings& settings);
};

// Release notes of PyTorch 2.0 and 2.4.
constexpr Feature kFeatures[] = {
    {"--compile", "torch.compile", "pytorch-2.0", Compiles},
    {"--cublas-conf", "cuBLAS's workspaces in PyTorch's memory", "pytorch-2.0", SetsCublas},
    {"--strategy", "fully_shard", "pytorch-2.4", SharesFully},
    {"--strategy", "torch.distributed.pipelining", "pytorch-2.4", HasStages},
};

// Frameworks() begins with the oldest.
auto PlaceOf(std::string_view version) {
  return std::ranges::find(Frameworks(), version, &FrameworkProfile::name);
}

}  // namespace

void CheckVersion(const TrainingSettings& settings) {
  for (const Feature& feature : kFeatures) {
    const std::string_view asked = settings.framework.name;
    if (!feature.is_asked(settings) || PlaceOf(asked) >= PlaceOf(feature.first)) continue;
    throw Error({.where = std::string(feature.flag),
                 .text = fmt::format("expected {} or later, which has {}, found --framework {}",
                                     feature.first, feature.what, asked)});
  }
}

}  // namespace onnxfit
