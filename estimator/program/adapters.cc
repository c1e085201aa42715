#include "estimator/program/adapters.h"

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
#include "estimator/program/libraries.h"
#include "estimator/program/linear_layers.h"
#include "estimator/program/program_writer.h"

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
  for (size_t i = 0; takes_all && i < layers.size(); ++i) {
    if (!layers[i].is_output) picked[i] = true;
  }
  if (std::ranges::find(picked, true) != picked.end()) return picked;
  throw Error({.file = file,
               .where = std::string(kLoraFlag),
               .text = "expected linear layers to put adapters beside, found none"});
}

// --- What is put there ----------------------------------------------------------------------

struct Adapter {
  NameId a = kNoName;  // [rank, in]
  NameId b = kNoName;  // [out, rank]
  bool is_quantized = false;
};

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
      : program_(program), settings_(settings), arguments_(program) {
    for (const QuantizedWeight& weight : program.quantized) quantized_.insert(weight.packed);
  }

  void Add(const LinearLayer& layer) {
    const int64_t rank = settings_.lora.rank;
    const Adapter adapter = {.a = NewWeight(layer, ".lora_A", {rank, layer.in_features}),
                             .b = NewWeight(layer, ".lora_B", {layer.out_features, rank}),
                             .is_quantized = quantized_.contains(layer.weight)};
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
    behind_[layer.behind].push_back(made);
    tensors_.push_back({.name = path, .type = weight});
    return made;
  }

  void WriteCalls() {
    std::vector<AtenCall> before = std::exchange(program_.calls, {});
    for (size_t i = 0; i < before.size(); ++i) {
      program_.calls.push_back(std::move(before[i]));
      const auto found = runs_.find(static_cast<int64_t>(i));
      if (found != runs_.end()) WriteForward(found->second.first, found->second.second);
    }
  }

  const TensorType& TypeOf(NameId name) const { return program_.values[Index(name)].type; }

  // `child`: the module's that makes the call, or what a result of the layer's own is called.
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
  // `name` is bound to `next`, and lets go of what it held.
  void Rebind(NameId& name, NameId next) {
    Drop(name);
    name = next;
  }

  // What the base layer returned, a name of the adapted layer's from now on.
  NameId TakeBase(const LinearRun& run) {
    AtenCall& last = program_.calls.back();
    const std::string name = program_.values[Index(run.result)].name + ".base_layer";
    const NameId base = AddValue(program_, name, TensorType(TypeOf(run.result)));
    last.outputs[0] = base;
    place_ = CallAt(last, "", {}, {});
    place_.dies.clear();
    place_.last_reads.clear();
    place_.held.clear();
    place_.written_in_place = false;
    return base;
  }

  void WriteForward(const LinearRun& run, const Adapter& adapter) {
    const size_t count = Index(run.last - run.first) + 1;
    const std::vector<NameId> deaths =
        arguments_.TakeDeaths(run, std::span(program_.calls).last(count));
    const NameId base = TakeBase(run);
    adapter.is_quantized ? WriteBesideQuantized(run, adapter, base)
                         : WriteBeside(run, adapter, base);
    auto& dies = program_.calls.back().dies;
    dies.insert(dies.end(), deaths.begin(), deaths.end());
  }

  // lora_B(lora_A(dropout(x))) * scaling
  NameId WriteAdapter(NameId x, const Adapter& adapter) {
    const DType type = TypeOf(adapter.a).dtype;
    const int64_t in = TypeOf(x).dims.back();
    const int64_t out = TypeOf(adapter.b).dims[0];
    const bool drops = settings_.mode == Mode::kTrain && settings_.lora.dropout > 0;
    const NameId dropped = drops ? Emit("dropout", {x}, "lora_dropout", type, in) : x;
    const NameId down = Emit("linear", {dropped, adapter.a}, "lora_A", type, settings_.lora.rank);
    if (dropped != x) Drop(dropped);
    const NameId up = Emit("linear", {down, adapter.b}, "lora_B", type, out);
    Drop(down);
    const NameId scaled = Emit("mul.Scalar", {up}, "mul", type, out);
    Drop(up);
    return scaled;
  }

  // x = x.to(lora_A.weight.dtype); result = result + adapter(x); return result.to(its type before)
  void WriteBeside(const LinearRun& run, const Adapter& adapter, NameId base) {
    const DType type = TypeOf(adapter.a).dtype;
    const NameId x = Emit("to", {run.input}, "to", type, TypeOf(run.input).dims.back());
    const NameId scaled = WriteAdapter(x, adapter);
    const NameId sum = Emit("add", {base, scaled}, "add", type, TypeOf(base).dims.back());
    Drop(scaled);
    Drop(base);
    program_.calls.push_back(CallAt(place_, "type_as", {sum, base}, {run.result}));
    Drop(sum);
    Drop(x);
  }

  // peft 0.21.2, tuners/lora/bnb.py, Linear4bit.forward: result = result.clone(); without autocast
  // x = x.to(lora_A.weight.dtype); output = adapter(x); without it output.to(result.dtype);
  // return result + output
  void WriteBesideQuantized(const LinearRun& run, const Adapter& adapter, NameId base) {
    const bool converts = AutocastType(settings_.precision) == DType::kUndefined;
    const DType type = TypeOf(base).dtype;
    const int64_t out = TypeOf(base).dims.back();
    NameId result = Emit("clone", {base}, "clone", type, out);
    Drop(base);
    NameId x = run.input;
    if (converts) {
      x = Emit("to", {x}, "to", TypeOf(adapter.a).dtype, TypeOf(x).dims.back());
    }
    NameId output = WriteAdapter(x, adapter);
    if (converts) Rebind(output, Emit("type_as", {output, result}, "to", type, out));
    program_.calls.push_back(CallAt(place_, "add", {result, output}, {run.result}));
    Drop(result);
    Drop(output);
    if (x != run.input) Drop(x);
  }

  Program& program_;
  const TrainingSettings& settings_;
  const FrameArguments arguments_;
  std::set<NameId> quantized_;                             // packed weights
  std::map<int64_t, std::pair<LinearRun, Adapter>> runs_;  // by their last call
  std::map<NameId, std::vector<NameId>> behind_;           // by the last tensor of a layer
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
  const std::vector<bool> picked = PickAdapted(layers, settings.lora, model_type, path);
  SayAdapted(program, layers, picked, settings.lora.rank);
  AdapterWriter writer(program, settings);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (picked[i]) writer.Add(layers[i]);
  }
  return std::move(writer).Finish();
}

}  // namespace onnxfit
