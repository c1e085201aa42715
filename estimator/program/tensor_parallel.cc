#include "estimator/program/tensor_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/base/warnings.h"
#include "estimator/program/program_writer.h"
#include "estimator/program/shared_layers.h"

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

void NarrowTensors(Program& program, const SharedLayers& found, int64_t ranks) {
  for (const SharedLayer& shared : found.layers) {
    if (!shared.whole_for.empty()) continue;
    const LinearLayer& layer = shared.layer;
    Divide(program, layer.weight, SharedDim(program, shared), ranks);
    if (!IsRows(shared) && layer.bias != kNoName) Divide(program, layer.bias, 0, ranks);
  }
  for (const auto& [name, shard] : found.shards) Divide(program, name, shard.dim, ranks);
}

// Writes what ranks send each other beside their products.
class ExchangeWriter {
 public:
  ExchangeWriter(Program& program, const SharedLayers& found, int64_t ranks)
      : program_(program), ranks_(ranks) {
    for (const SharedLayer& shared : found.layers) {
      if (!shared.whole_for.empty()) continue;
      for (const LinearRun& run : shared.layer.runs) layers_[run.product] = &shared;
    }
  }

  void Write() && {
    std::vector<AtenCall> before = std::exchange(program_.calls, {});
    std::vector<int64_t> now_at;  // by call before: the last one in its place
    for (size_t i = 0; i < before.size(); ++i) {
      const auto found = layers_.find(static_cast<int64_t>(i));
      const ParallelStyle style =
          found == layers_.end() ? ParallelStyle::kNone : found->second->style;
      if (style == ParallelStyle::kNone) program_.calls.push_back(std::move(before[i]));
      if (style == ParallelStyle::kColumns) WriteColumns(std::move(before[i]));
      if (style == ParallelStyle::kRows) WriteRows(before[i]);
      if (style == ParallelStyle::kGathered) WriteGathered(before[i]);
      now_at.push_back(std::ssize(program_.calls) - 1);
    }
    for (Rebinding& rebinding : program_.rebindings) {
      if (rebinding.behind >= 0) rebinding.behind = now_at[Index(rebinding.behind)];
    }
  }

 private:
  NameId Like(NameId name, std::string_view what) {
    const ProgramValue& value = program_.values[Index(name)];
    return AddValue(program_, fmt::format("{}.{}", value.name, what), TensorType(value.type));
  }

  // A call in the place of `at`, which no name's life ends with.
  static AtenCall Beside(const AtenCall& at, std::string_view op, std::vector<NameId> inputs,
                         NameId output) {
    AtenCall call = CallAt(at, op, std::move(inputs), {output});
    call.held.clear();
    call.last_reads.clear();
    call.dies.clear();
    return call;
  }

  void WriteColumns(AtenCall product) {
    const NameId given = Like(product.inputs[0], "replicated");
    program_.calls.push_back(Beside(product, "from_local", {product.inputs[0]}, given));
    if (product.op == "linear") product.op = "linear_of_columns";
    product.inputs[0] = given;
    product.dies.push_back(given);
    program_.calls.push_back(std::move(product));
  }

  void WriteRows(const AtenCall& product) {
    const NameId partial = Like(product.outputs[0], "partial");
    const std::string_view op = product.op == "linear" ? "linear_of_rows" : product.op;
    program_.calls.push_back(Beside(product, op, product.inputs, partial));
    WriteEnd(product, "all_reduce", partial);
  }

  void WriteGathered(const AtenCall& product) {
    const NameId part = Like(product.outputs[0], "part");
    program_.values[Index(part)].type.dims.back() /= ranks_;
    WriteColumns(Beside(product, product.op, product.inputs, part));
    WriteEnd(product, "all_gather", part);
  }

  // What the module is given, and names that hold its result, live until it returns.
  void WriteEnd(const AtenCall& product, std::string_view op, NameId own) {
    AtenCall end = CallAt(product, op, {own}, product.outputs);
    end.last_reads.push_back(own);
    end.dies.push_back(own);
    program_.calls.push_back(std::move(end));
  }

  Program& program_;
  const int64_t ranks_;
  std::unordered_map<int64_t, const SharedLayer*> layers_;  // by the call of their products
};

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

void SayShared(Program& program, const SharedLayers& found, int64_t ranks) {
  const auto is_shared = [](const SharedLayer& shared) { return shared.whole_for.empty(); };
  const auto first = std::ranges::find_if(found.layers, is_shared);
  program.assumptions.insert(
      program.assumptions.begin(),
      fmt::format("{} ranks share {} linear layers, the first {}, as ColwiseParallel and "
                  "RowwiseParallel do; all other parameters are on each rank, and the model counts "
                  "heads and features of its rank alone",
                  ranks, std::ranges::count_if(found.layers, is_shared), first->layer.path));
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

// The first flag that is not known beside it; "" where there is none.
std::string_view UnknownBeside(const TrainingSettings& settings) {
  if (settings.ranks.strategy != Strategy::kNone) return "--strategy";
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

}  // namespace

void CheckTensorParallel(const TrainingSettings& settings) {
  if (settings.ranks.tensor_parallel == 1) return;
  const std::string_view flag = UnknownBeside(settings);
  if (!flag.empty()) {
    throw Error(
        {.where = std::string(kTensorParallelFlag),
         .text = fmt::format("expected without {}, beside which it is not known here", flag)});
  }
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
  SayShared(program, found, ranks);
  WarnOfWhole(program, found);
  NarrowTensors(program, found, ranks);
  ExchangeWriter(program, found, ranks).Write();
}

}  // namespace onnxfit
