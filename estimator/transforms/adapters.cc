#include "estimator/transforms/adapters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/base/text.h"
#include "estimator/libraries/libraries.h"
#include "estimator/transforms/adapter_calls.h"
#include "estimator/transforms/linear_layers.h"
#include "estimator/writer/program_writer.h"

namespace onnxfit {
namespace {

constexpr std::string_view kLoraFlag = "--lora";

// --- Which layers ---------------------------------------------------------------------------

// That of most layers, the first where several are as common.
std::string_view CommonestName(const std::vector<std::string>& paths) {
  std::map<std::string_view, int> counts;
  for (const std::string& path : paths) ++counts[ChildOf(path)];
  std::string_view commonest = "q_proj";
  int most = 0;
  for (const std::string& path : paths) {
    if (counts[ChildOf(path)] <= most) continue;
    commonest = ChildOf(path);
    most = counts[commonest];
  }
  return commonest;
}

// peft's own for models of that type, or for those that have layers of such names.
std::vector<std::string> DefaultTargets(std::string_view model_type,
                                        const std::vector<std::string>& paths,
                                        const std::string& file) {
  std::set<std::string_view> names;
  for (const std::string& path : paths) names.insert(ChildOf(path));
  const std::vector<std::string> targets = AdapterTargetsOf(model_type, names);
  if (!targets.empty()) return targets;
  throw Error({.file = file,
               .where = std::string(kLoraFlag),
               .text =
                   "expected layers that peft puts adapters beside when it is not told (q_proj, "
                   "v_proj, query, value …), found none",
               .hint = fmt::format("{} RANK:NAME with names of layers such as {}, or {}", kLoraFlag,
                                   CommonestName(paths), kAllLinear)});
}

std::vector<bool> PickAdapted(const std::vector<LinearLayer>& layers, const LoraSettings& lora,
                              std::string_view model_type, const std::string& file) {
  const std::vector<std::string> paths = PathsOf(layers);
  std::vector<std::string> targets = lora.targets;
  if (targets.empty()) targets = DefaultTargets(model_type, paths, file);
  const bool takes_all = std::erase(targets, kAllLinear) > 0;
  std::vector<bool> picked = PickLayers(layers, targets, kLoraFlag, file);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (takes_all && !layers[i].is_output) picked[i] = true;
    // To call for all layers is to call for those that run, or that a module takes for its own.
    if (!takes_all && layers[i].is_of_attention && targets == std::vector<std::string>{"*"})
      picked[i] = false;
  }
  if (std::ranges::find(picked, true) != picked.end()) return picked;
  throw Error({.file = file,
               .where = std::string(kLoraFlag),
               .text = "expected linear layers to put adapters beside, found none"});
}

// --- What is put there ----------------------------------------------------------------------

// peft casts adapters of 16 bits to fp32 (autocast_adapter_dtype).
DType AdapterType(Precision precision) {
  return precision == Precision::kFp64 ? DType::kFloat64 : DType::kFloat32;
}

// The order of `order` with `more` behind some of its names.
void Insert(const std::map<NameId, std::vector<NameId>>& more, std::vector<NameId>& order) {
  std::vector<NameId> longer;
  for (const NameId name : order) {
    longer.push_back(name);
    const auto found = more.find(name);
    if (found == more.end()) continue;
    longer.insert(longer.end(), found->second.begin(), found->second.end());
  }
  order = std::move(longer);
}

class AdapterWriter {
 public:
  AdapterWriter(Program& program, const TrainingSettings& settings)
      : program_(program), settings_(settings), calls_(program, settings) {
    for (QuantizedWeight& weight : program.quantized) quantized_[weight.packed] = &weight;
  }

  void Add(const LinearLayer& layer) {
    const int64_t rank = settings_.lora.rank;
    Adapter adapter = {.a = NewWeight(layer, ".lora_A", {rank, layer.in_features}),
                       .b = NewWeight(layer, ".lora_B", {layer.out_features, rank}),
                       .weight = layer.weight,
                       .bias = layer.bias,
                       .packed = quantized_.contains(layer.weight) ? settings_.quantize.kind
                                                                   : Quantization::kNone};
    if (settings_.lora.dora) {
      adapter.magnitude = NewWeight(layer, ".lora_magnitude_vector", {layer.out_features});
    }
    for (const LinearRun& run : layer.runs) runs_.emplace(run.last, std::pair(run, adapter));
  }

  // The module that is in the layer's place has the adapter's tensors behind its own; a quantized
  // one has been on the device when they come.
  std::vector<ModuleTensor> Finish() && {
    WriteCalls();
    Insert(behind_, program_.copy_order);
    if (quantized_.empty()) {
      Insert(behind_, program_.placement);
    } else {
      auto& order = program_.placement;
      order.insert(order.end(), program_.adapters.begin(), program_.adapters.end());
    }
    return std::move(tensors_);
  }

 private:
  NameId NewWeight(const LinearLayer& layer, std::string_view name, Dims dims) {
    const std::string path = fmt::format("{}{}.default.weight", layer.path, name);
    const TensorType weight = {AdapterType(settings_.precision), std::move(dims)};
    const NameId made = AddValue(program_, path, weight);
    program_.parameters.push_back(made);
    program_.adapters.push_back(made);
    const auto packed = quantized_.find(layer.weight);
    if (packed != quantized_.end()) packed->second->adapters.push_back(made);
    behind_[layer.behind].push_back(made);
    tensors_.push_back({.name = path, .type = weight});
    return made;
  }

  void WriteCalls() {
    std::vector<AtenCall> before = std::exchange(program_.calls, {});
    for (size_t i = 0; i < before.size(); ++i) {
      program_.calls.push_back(std::move(before[i]));
      const auto found = runs_.find(static_cast<int64_t>(i));
      if (found != runs_.end()) calls_.Write(found->second.first, found->second.second);
    }
  }

  Program& program_;
  const TrainingSettings& settings_;
  AdapterCalls calls_;
  std::map<NameId, QuantizedWeight*> quantized_;           // by the packed weight
  std::map<int64_t, std::pair<LinearRun, Adapter>> runs_;  // by their last call
  std::map<NameId, std::vector<NameId>> behind_;           // by the last tensor of a layer
  std::vector<ModuleTensor> tensors_;
};

// Magnitudes beside packed weights dequantize these.
void CheckAdapted(const Program& program, const LoraSettings& lora, const std::string& path) {
  if (!lora.dora || program.quantized.empty()) return;
  throw Error({.file = path,
               .where = "--dora",
               .text = "expected layers that are not packed, found --quantize"});
}

int64_t TrainedBeside(const LinearLayer& layer, const LoraSettings& lora) {
  const int64_t matrices = CheckedMul(lora.rank, CheckedAdd(layer.in_features, layer.out_features));
  return lora.dora ? CheckedAdd(matrices, layer.out_features) : matrices;
}

// As the first thing that is decided.
void SayAdapted(Program& program, const std::vector<LinearLayer>& layers,
                const std::vector<bool>& picked, const LoraSettings& lora) {
  int64_t trained = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (picked[i]) trained = CheckedAdd(trained, TrainedBeside(layers[i], lora));
  }
  const auto first = Index(std::ranges::find(picked, true) - picked.begin());
  program.assumptions.insert(
      program.assumptions.begin(),
      fmt::format("adapters of rank {}{} are trained beside {} of {} linear layers, the first {}: "
                  "{} parameters; all others are frozen",
                  lora.rank, lora.dora ? " and magnitudes" : "", std::ranges::count(picked, true),
                  layers.size(), layers[first].path, trained));
}

// Behind a dropout, DoRA multiplies by nn.Parameter(weight.T), which asks for a gradient, as nobody
// meant it to (peft 0.21.2, utils/other.py, transpose).
void SayUncounted(Program& program, const std::vector<LinearLayer>& layers,
                  const std::vector<bool>& picked, const TrainingSettings& settings) {
  const LoraSettings& lora = settings.lora;
  if (!lora.dora || lora.dropout == 0 || settings.mode == Mode::kEval) return;
  int64_t count = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (picked[i] && IsConv1d(program, layers[i])) ++count;
  }
  if (count == 0) return;
  program.assumptions.push_back(fmt::format(
      "gradients that peft makes of the transposed weights of {} adapted layers behind a "
      "dropout (transformers' Conv1D), and nobody reads, are not counted",
      count));
}

}  // namespace

std::string_view ModelTypeOf(std::string_view class_name) {
  constexpr std::string_view kModels = "transformers.models.";
  if (!class_name.starts_with(kModels)) return "";
  class_name.remove_prefix(kModels.size());
  return class_name.substr(0, class_name.find('.'));
}

std::vector<ModuleTensor> AddAdapters(Program& program, const TrainingSettings& settings,
                                      std::string_view model_type, const std::string& path) {
  CheckAdapted(program, settings.lora, path);
  const std::vector<LinearLayer> layers = FindLinearLayers(program);
  const std::vector<bool> picked = PickAdapted(layers, settings.lora, model_type, path);
  SayAdapted(program, layers, picked, settings.lora);
  SayUncounted(program, layers, picked, settings);
  AdapterWriter writer(program, settings);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (picked[i]) writer.Add(layers[i]);
  }
  return std::move(writer).Finish();
}

}  // namespace onnxfit
