#include "estimator/transforms/tensor_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/base/warnings.h"
#include "estimator/transforms/rank_exchanges.h"
#include "estimator/transforms/shared_layers.h"
#include "estimator/transforms/shared_tokens.h"

namespace onnxfit {
namespace {

constexpr std::string_view kTensorParallelFlag = "--tensor-parallel";

bool IsRows(const SharedLayer& shared) { return shared.style == ParallelStyle::kRows; }

// Which dimension of the layer's matrix is that of its features: those that it makes of columns,
// those that it takes of rows.
size_t SharedDim(const Program& program, const SharedLayer& shared) {
  const LinearLayer& layer = shared.layer;
  const Dims& dims = program.values[Index(layer.weight)].type.dims;
  const bool is_product = program.calls[Index(layer.runs[0].product)].op == "matmul";
  const bool makes_rows = !is_product && dims == Dims{layer.out_features, layer.in_features};
  return IsRows(shared) == makes_rows ? 1 : 0;
}

void Divide(Program& program, NameId name, size_t dim, int64_t ranks) {
  program.values[Index(name)].type.dims[dim] /= ranks;
}

void NarrowTensors(Program& program, const SharedLayers& found, const SharedTokens& tokens,
                   int64_t ranks) {
  for (const SharedLayer& shared : found.layers) {
    if (!shared.whole_for.empty()) continue;
    const LinearLayer& layer = shared.layer;
    program.shared.push_back(layer.weight);
    if (layer.bias != kNoName) program.shared.push_back(layer.bias);
    Divide(program, layer.weight, SharedDim(program, shared), ranks);
    if (!IsRows(shared) && layer.bias != kNoName) Divide(program, layer.bias, 0, ranks);
  }
  for (const auto& [name, shard] : found.shards) Divide(program, name, shard.dim, ranks);
  program.shared.insert(program.shared.end(), tokens.replicated.begin(), tokens.replicated.end());
  for (const auto& [name, shard] : tokens.shards) Divide(program, name, shard.dim, ranks);
}

void WarnOfWhole(Program& program, const SharedLayers& found) {
  const auto is_whole = [](const SharedLayer& shared) { return !shared.whole_for.empty(); };
  const auto first = std::ranges::find_if(found.layers, is_whole);
  if (first == found.layers.end()) return;
  program.warnings.push_back(
      {warning::kWholeLayers,
       fmt::format("{} of {} linear layers that plans of tensor parallelism name stay whole on "
                   "each rank, the first {}, {}",
                   std::ranges::count_if(found.layers, is_whole), found.layers.size(),
                   first->layer.path, first->whole_for)});
}

void SayShared(Program& program, const SharedLayers& found, const SharedTokens& tokens,
               int64_t ranks) {
  const auto is_shared = [](const SharedLayer& shared) { return shared.whole_for.empty(); };
  const auto first = std::ranges::find_if(found.layers, is_shared);
  std::vector<std::string> said = {fmt::format(
      "{} ranks share {} linear layers, the first {}, as ColwiseParallel and RowwiseParallel do; "
      "all other parameters are the same for each of them, and the model counts heads and features "
      "of its rank alone",
      ranks, std::ranges::count_if(found.layers, is_shared), first->layer.path)};
  if (!tokens.calls.empty()) {
    said.push_back(fmt::format(
        "between them a rank has 1/{} of the tokens in blocks from {} on, as SequenceParallel and "
        "PrepareModuleInput have it; embeddings and layers outside of blocks are of all tokens",
        ranks, program.modules.PathOf(tokens.calls[0].module)));
  }
  program.assumptions.insert(program.assumptions.begin(), said.begin(), said.end());
}

void CheckShared(const SharedLayers& found, const std::string& path) {
  const auto is_shared = [](const SharedLayer& shared) { return shared.whole_for.empty(); };
  if (std::ranges::any_of(found.layers, is_shared)) return;
  const std::string why = found.layers.empty() ? "none"
                                               : fmt::format("{}, {}", found.layers[0].layer.path,
                                                             found.layers[0].whole_for);
  throw Error({.file = path,
               .where = std::string(kTensorParallelFlag),
               .text = fmt::format("expected linear layers that ranks can share (q_proj … o_proj, "
                                   "up_proj … down_proj, fc1 … fc2), found {}",
                                   why),
               .hint = "--strategy fsdp --world N shares all parameters"});
}

void CheckHead(const SharedLayers& found, const std::string& path) {
  const auto is_head = [](const SharedLayer& shared) {
    return shared.style == ParallelStyle::kGathered;
  };
  if (std::ranges::any_of(found.layers, is_head)) return;
  throw Error({.file = path,
               .where = std::string(kTensorParallelFlag),
               .text = "head: expected an output embedding lm_head, found none",
               .hint = "without :head"});
}

// That were seen to step parts of parameters as they step whole ones: element by element.
constexpr Optimizer kElementwise[] = {
    Optimizer::kNone,  Optimizer::kSgd,     Optimizer::kSgdMomentum, Optimizer::kAdam,
    Optimizer::kAdamW, Optimizer::kRmsprop, Optimizer::kAdagrad,     Optimizer::kNAdam,
    Optimizer::kRAdam, Optimizer::kAdamax};

constexpr Optimizer kAveraging[] = {Optimizer::kNone, Optimizer::kAdam, Optimizer::kAdamW};

// The first flag that is not known beside it; "" where there is none.
std::string_view UnknownBeside(const TrainingSettings& settings) {
  const RankSettings& ranks = settings.ranks;
  if (ranks.strategy != Strategy::kNone && !IsFullySharded(ranks.strategy)) return "--strategy";
  if (ranks.fsdp_reshard > 0) return "--fsdp-reshard";  // NotImplementedError in FSDP2
  if (ranks.fsdp_offload) return "--fsdp-offload";
  if (settings.lora.rank > 0) return "--lora";
  if (settings.quantize.kind != Quantization::kNone) return "--quantize";
  if (settings.compile != Compiling::kNone) return "--compile";
  if (settings.loop.library != LoopLibrary::kPlain) return "--loop";
  if (settings.clip_grad) return "--clip-grad";
  if (settings.ema) return "--ema";
  if (settings.optimizer_in_backward) return "--optimizer-in-backward";
  if (settings.channels_last) return "--channels-last";
  return settings.evaluation.batch > 0 ? "--eval-batch" : "";
}

// Gradients of replicated norms are parts of a sum until the optimizer asks for it, unless FSDP2
// does: Adam's first and second averages do, one after the other, and let go of it before its step
// takes most.
void CheckPartialGradients(const TrainingSettings& settings) {
  if (!settings.ranks.shares_tokens || IsFullySharded(settings.ranks.strategy)) return;
  if (std::ranges::find(kAveraging, settings.optimizer) != std::end(kAveraging)) return;
  throw Error({.where = "--sequence-parallel",
               .text = fmt::format("expected adam or adamw, beside which it is known, found {}",
                                   ToString(settings.optimizer)),
               .hint = "-o adamw"});
}

}  // namespace

void CheckTensorParallel(const TrainingSettings& settings) {
  if (settings.ranks.tensor_parallel == 1) return;
  const std::string_view flag = UnknownBeside(settings);
  if (!flag.empty()) {
    throw Error(
        {.where = std::string(kTensorParallelFlag),
         .text = fmt::format("expected without {}, beside which it is not known here", flag)});
  }
  CheckPartialGradients(settings);
  if (std::ranges::find(kElementwise, settings.optimizer) != std::end(kElementwise)) return;
  throw Error({.where = std::string(kTensorParallelFlag),
               .text = fmt::format("expected an optimizer of PyTorch's that steps each element by "
                                   "itself, found {}",
                                   ToString(settings.optimizer)),
               .hint = "-o adamw"});
}

void ShareLayers(Program& program, const RankSettings& settings, const std::string& path) {
  const int64_t ranks = settings.tensor_parallel;
  const SharedLayers found = FindSharedLayers(program, settings);
  CheckShared(found, path);
  if (settings.shares_head) CheckHead(found, path);
  const SharedTokens tokens =
      settings.shares_tokens ? FindSharedTokens(program, found, ranks, path) : SharedTokens();
  SayShared(program, found, tokens, ranks);
  WarnOfWhole(program, found);
  NarrowTensors(program, found, tokens, ranks);
  WriteExchanges(program, found, tokens, ranks);
}

}  // namespace onnxfit
