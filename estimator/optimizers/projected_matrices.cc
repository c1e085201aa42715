#include "estimator/optimizers/projected_matrices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/text.h"
#include "estimator/optimizers/hidden_matrices.h"
#include "estimator/transforms/adapters.h"
#include "estimator/transforms/linear_layers.h"

namespace onnxfit {
namespace {

constexpr std::string_view kGaLoreFlag = "--galore";

// Trained, and no table's.
std::vector<LinearLayer> LayersToProject(const Program& program, LoopLibrary loop) {
  const std::vector<bool> are_tables = AreEmbeddingTables(program);
  std::unordered_set<NameId> weights;
  for (size_t i = 0; i < are_tables.size(); ++i) {
    if (!are_tables[i]) weights.insert(program.parameters[i]);
  }
  std::vector<LinearLayer> layers = FindLinearLayers(program);
  std::erase_if(layers, [&](const LinearLayer& layer) {
    const bool is_left_out = loop == LoopLibrary::kTrainer && IsConv1d(program, layer);
    return is_left_out || !weights.contains(layer.weight);
  });
  return layers;
}

// "*attn*" of "attn".
std::string AnywhereInName(const std::string& target) {
  const bool is_glob = target.find_first_of("*?") != target.npos;
  return is_glob ? target : fmt::format("*{}*", target);
}

[[noreturn]] void RefuseToProject(const std::vector<LinearLayer>& layers, int64_t rank,
                                  const std::string& file) {
  if (layers.empty()) {
    throw Error({.file = file,
                 .where = "--optimizer",
                 .text = "expected linear layers (nn.Linear), whose gradients GaLore projects, "
                         "found none",
                 .hint = "-o adamw"});
  }
  throw Error({.file = file,
               .where = std::string(kGaLoreFlag),
               .text = fmt::format(
                   "expected linear layers with {} in their names, as GaLore's script takes "
                   "them, found none",
                   fmt::join(kGaLoreTargets, " or ")),
               .hint = fmt::format("{} {}:{}, or names such as {}", kGaLoreFlag, rank, kAllLinear,
                                   layers.front().path)});
}

std::vector<bool> PickDefault(const std::vector<LinearLayer>& layers, int64_t rank,
                              const std::string& file) {
  std::vector<bool> picked;
  for (const LinearLayer& layer : layers) {
    picked.push_back(std::ranges::any_of(kGaLoreTargets, [&](std::string_view target) {
      return layer.path.find(target) != layer.path.npos;
    }));
  }
  if (std::ranges::find(picked, true) == picked.end()) RefuseToProject(layers, rank, file);
  return picked;
}

std::vector<bool> PickProjected(const std::vector<LinearLayer>& layers,
                                const GaLoreSettings& galore, const std::string& file) {
  const bool is_told = !galore.targets.empty() && !layers.empty();
  if (!is_told) return PickDefault(layers, galore.rank, file);
  std::vector<std::string> globs;
  for (const std::string& target : galore.targets)
    globs.push_back(target == kAllLinear ? "*" : AnywhereInName(target));
  return PickNames(PathsOf(layers), globs, {kGaLoreFlag, "linear layers", file});
}

}  // namespace

std::vector<ProjectedMatrix> MatricesToProject(const Program& program,
                                               const TrainingSettings& settings,
                                               const std::string& file) {
  const std::vector<LinearLayer> layers = LayersToProject(program, settings.loop.library);
  const std::vector<bool> picked = PickProjected(layers, settings.galore, file);
  std::vector<ProjectedMatrix> matrices;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!picked[i]) continue;
    Dims dims = {layers[i].out_features, layers[i].in_features};
    if (IsConv1d(program, layers[i])) std::ranges::reverse(dims);
    matrices.push_back({layers[i].weight, std::move(dims)});
  }
  return matrices;
}

}  // namespace onnxfit
