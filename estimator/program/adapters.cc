#include "estimator/program/adapters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/base/text.h"
#include "estimator/program/libraries.h"
#include "estimator/program/linear_layers.h"
#include "estimator/program/program_writer.h"

namespace onnxfit {
namespace {

constexpr std::string_view kFlag = "--lora";

// --- Which layers ---------------------------------------------------------------------------

std::vector<std::string> PathsOf(const std::vector<LinearLayer>& layers) {
  std::vector<std::string> paths;
  for (const LinearLayer& layer : layers) paths.push_back(layer.path);
  return paths;
}

// A name picks layers that are called so wherever they are.
std::vector<std::string> WithAnyParent(const std::vector<std::string>& targets,
                                       const std::vector<std::string>& paths) {
  std::vector<std::string> globs;
  for (const std::string& target : targets) {
    const std::string anywhere = "*." + target;
    const auto matches = [&](const std::string& path) { return MatchesGlob(path, anywhere); };
    const bool is_anywhere = std::ranges::any_of(paths, matches);
    if (is_anywhere) globs.push_back(anywhere);
    if (!is_anywhere || std::ranges::find(paths, target) != paths.end()) globs.push_back(target);
  }
  return globs;
}

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

// peft's own for models of that type.
std::vector<std::string> DefaultTargets(std::string_view model_type,
                                        const std::vector<std::string>& paths,
                                        const std::string& file) {
  const std::vector<std::string> targets = AdapterTargetsOf(model_type);
  if (!targets.empty()) return targets;
  throw Error(
      {.file = file,
       .where = std::string(kFlag),
       .text = model_type.empty()
                   ? "the file does not say of which type the model is, which decides "
                     "what peft's defaults are"
                   : fmt::format("peft has no defaults for models of the type {}", model_type),
       .hint = fmt::format("{} RANK:NAME with names of layers such as {}, or {}", kFlag,
                           CommonestName(paths), kAllLinear)});
}

std::vector<bool> PickLayers(const std::vector<LinearLayer>& layers, const LoraSettings& lora,
                             std::string_view model_type, const std::string& file) {
  const std::vector<std::string> paths = PathsOf(layers);
  std::vector<std::string> targets = lora.targets;
  if (targets.empty()) targets = DefaultTargets(model_type, paths, file);
  const bool takes_all = std::erase(targets, kAllLinear) > 0;
  std::vector<bool> picked =
      PickNames(paths, WithAnyParent(targets, paths), {kFlag, "linear layers", file});
  for (size_t i = 0; takes_all && i < layers.size(); ++i) {
    if (!layers[i].is_output) picked[i] = true;
  }
  if (std::ranges::find(picked, true) != picked.end()) return picked;
  throw Error({.file = file,
               .where = std::string(kFlag),
               .text = "expected linear layers to put adapters beside, found none"});
}

// --- What is put there ----------------------------------------------------------------------

struct Adapter {
  NameId a = kNoName;  // [rank, in]
  NameId b = kNoName;  // [out, rank]
};

class AdapterWriter {
 public:
  AdapterWriter(Program& program, const TrainingSettings& settings)
      : program_(program), settings_(settings), made_at_(program.values.size(), -1) {
    for (size_t i = 0; i < program.calls.size(); ++i) {
      for (const NameId name : program.calls[i].outputs) {
        if (name != kNoName) made_at_[Index(name)] = static_cast<int64_t>(i);
      }
    }
  }

  void Add(const LinearLayer& layer) {
    const int64_t rank = settings_.lora.rank;
    const Adapter adapter = {.a = NewWeight(layer, ".lora_A", {rank, layer.in_features}),
                             .b = NewWeight(layer, ".lora_B", {layer.out_features, rank})};
    for (const LinearRun& run : layer.runs) runs_.emplace(run.last, std::pair(run, adapter));
  }

  std::vector<ModuleTensor> Finish() && {
    std::vector<AtenCall> before = std::exchange(program_.calls, {});
    for (size_t i = 0; i < before.size(); ++i) {
      program_.calls.push_back(std::move(before[i]));
      const auto found = runs_.find(static_cast<int64_t>(i));
      if (found != runs_.end()) WriteForward(found->second.first, found->second.second);
    }
    for (auto* order : {&program_.placement, &program_.copy_order}) Insert(*order);
    return std::move(tensors_);
  }

 private:
  void Insert(std::vector<NameId>& order) const {
    std::vector<NameId> longer;
    for (const NameId name : order) {
      longer.push_back(name);
      const auto found = behind_.find(name);
      if (found == behind_.end()) continue;
      longer.insert(longer.end(), found->second.begin(), found->second.end());
    }
    order = std::move(longer);
  }

  // Behind the layer's own tensors, as the module that is in the layer's place has them.
  NameId NewWeight(const LinearLayer& layer, std::string_view name, Dims dims) {
    // peft casts adapters of 16 bits to fp32 (autocast_adapter_dtype).
    const DType type = settings_.precision == Precision::kFp64 ? DType::kFloat64 : DType::kFloat32;
    const std::string path = fmt::format("{}{}.default.weight", layer.path, name);
    const TensorType weight = {type, std::move(dims)};
    const NameId made = AddValue(program_, path, weight);
    program_.parameters.push_back(made);
    behind_[layer.behind].push_back(made);
    tensors_.push_back({.name = path, .type = weight});
    return made;
  }

  const TensorType& TypeOf(NameId name) const { return program_.values[Index(name)].type; }

  NameId Emit(std::string_view op, std::vector<NameId> inputs, std::string_view child, DType dtype,
              int64_t features) {
    const std::string& base = program_.values[Index(inputs[0])].name;
    TensorType type = {dtype, TypeOf(inputs[0]).dims};
    type.dims.back() = features;
    const NameId made = AddValue(program_, fmt::format("{}.{}", base, child), type);
    AtenCall call = CallAt(place_, op, std::move(inputs), {made});
    if (child.starts_with("lora_")) {
      call.module = program_.modules.Enter(place_.module, fmt::format("{}.default", child));
    }
    program_.calls.push_back(std::move(call));
    return made;
  }

  void Drop(NameId name) { program_.calls.back().dies.push_back(name); }

  // The frame of the adapted layer is that of the layer's caller's argument: what ends with the
  // layer ends with it.
  std::vector<NameId> TakeDeaths(const LinearRun& run) {
    std::vector<NameId> later;
    for (size_t i = program_.calls.size() - Index(run.last - run.first) - 1;
         i < program_.calls.size(); ++i) {
      AtenCall& call = program_.calls[i];
      std::erase(call.last_reads, run.input);
      std::erase_if(call.dies, [&](NameId name) {
        const bool is_argument = made_at_[Index(name)] < run.first;
        if (is_argument) later.push_back(name);
        return is_argument;
      });
    }
    return later;
  }

  // result = self.base_layer(x); x = x.to(lora_A.weight.dtype)
  // result = result + lora_B(lora_A(dropout(x))) * scaling; return result.to(its type before)
  void WriteForward(const LinearRun& run, const Adapter& adapter) {
    const std::vector<NameId> deaths = TakeDeaths(run);
    AtenCall& last = program_.calls.back();
    const TensorType result_type = TypeOf(run.result);
    const NameId base = AddValue(program_, TypeName(run.result) + ".base_layer", result_type);
    last.outputs[0] = base;
    place_ = last;
    place_.dies.clear();
    place_.last_reads.clear();
    place_.held.clear();
    place_.written_in_place = false;
    const DType type = TypeOf(adapter.a).dtype;
    const int64_t in = TypeOf(run.input).dims.back();
    const int64_t out = result_type.dims.back();
    const NameId x = Emit("to", {run.input}, "to", type, in);
    const NameId dropped = DropOut(x, type, in);
    const NameId down = Emit("linear", {dropped, adapter.a}, "lora_A", type, settings_.lora.rank);
    if (dropped != x) Drop(dropped);
    const NameId up = Emit("linear", {down, adapter.b}, "lora_B", type, out);
    Drop(down);
    const NameId scaled = Emit("mul.Scalar", {up}, "mul", type, out);
    Drop(up);
    const NameId sum = Emit("add", {base, scaled}, "add", type, out);
    Drop(scaled);
    Drop(base);
    program_.calls.push_back(CallAt(place_, "type_as", {sum, base}, {run.result}));
    Drop(sum);
    Drop(x);
    auto& dies = program_.calls.back().dies;
    dies.insert(dies.end(), deaths.begin(), deaths.end());
  }

  NameId DropOut(NameId x, DType type, int64_t features) {
    const bool drops = settings_.mode == Mode::kTrain && settings_.lora.dropout > 0;
    return drops ? Emit("dropout", {x}, "lora_dropout", type, features) : x;
  }

  const std::string& TypeName(NameId name) const { return program_.values[Index(name)].name; }

  Program& program_;
  const TrainingSettings& settings_;
  std::vector<int64_t> made_at_;                            // by name: the call; -1: none
  std::map<int64_t, std::pair<LinearRun, Adapter>> runs_;   // by their last call
  std::unordered_map<NameId, std::vector<NameId>> behind_;  // by the last tensor of a layer
  std::vector<ModuleTensor> tensors_;
  AtenCall place_;
};

// As the first thing that is decided.
void SayAdapted(Program& program, const std::vector<LinearLayer>& layers,
                const std::vector<bool>& picked, int64_t rank) {
  int64_t trained = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!picked[i]) continue;
    trained = CheckedAdd(
        trained, CheckedMul(rank, CheckedAdd(layers[i].in_features, layers[i].out_features)));
  }
  const auto first = Index(std::ranges::find(picked, true) - picked.begin());
  program.assumptions.insert(
      program.assumptions.begin(),
      fmt::format("adapters of rank {} are trained beside {} of {} linear layers, the first {}: {} "
                  "parameters; all others are frozen",
                  rank, std::ranges::count(picked, true), layers.size(), layers[first].path,
                  trained));
}

}  // namespace

std::string_view ModelTypeOf(std::string_view class_name) {
  constexpr std::string_view kModels = "transformers.models.";
  if (!class_name.starts_with(kModels)) return "";
  class_name.remove_prefix(kModels.size());
  return class_name.substr(0, class_name.find('.'));
}

std::vector<bool> FrozenBesideAdapters(const Program& program,
                                       const std::vector<NameId>& parameters) {
  std::vector<bool> is_frozen;
  for (const NameId name : parameters) {
    const std::string& path = program.values[Index(name)].name;
    const bool is_trained =
        path.find(".lora_") != path.npos || path.find(".modules_to_save.") != path.npos;
    is_frozen.push_back(!is_trained);
  }
  const bool has_adapters = std::ranges::find(is_frozen, false) != is_frozen.end();
  return has_adapters ? is_frozen : std::vector<bool>();
}

std::vector<ModuleTensor> AddAdapters(Program& program, const TrainingSettings& settings,
                                      std::string_view model_type, const std::string& path) {
  const std::vector<LinearLayer> layers = FindLinearLayers(program);
  const std::vector<bool> picked = PickLayers(layers, settings.lora, model_type, path);
  SayAdapted(program, layers, picked, settings.lora.rank);
  AdapterWriter writer(program, settings);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (picked[i]) writer.Add(layers[i]);
  }
  return std::move(writer).Finish();
}

}  // namespace onnxfit
