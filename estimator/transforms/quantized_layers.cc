#include "estimator/transforms/quantized_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/transforms/linear_layers.h"
#include "estimator/writer/program_writer.h"

namespace onnxfit {
namespace {

constexpr std::string_view kQuantizeFlag = "--quantize";

// --- Which layers ---------------------------------------------------------------------------

// All but those that transformers leaves as they are: it takes `type(module) is nn.Linear`, which
// nn.MultiheadAttention's out_proj is not (replace_with_bnb_linear of integrations/bitsandbytes.py,
// transformers 5.17.0).
std::vector<bool> TakenByTransformers(const Program& program,
                                      const std::vector<LinearLayer>& layers,
                                      std::string_view model_type) {
  std::set<NameId> tables;
  for (const AtenCall& call : program.calls) {
    if (call.op == "embedding") tables.insert(call.inputs[0]);
  }
  std::vector<bool> picked;
  for (const LinearLayer& layer : layers) {
    picked.push_back(!layer.is_output && !layer.is_of_attention && !tables.contains(layer.weight) &&
                     !IsKeptIn32Bits(model_type, layer.path));
  }
  if (!picked.empty()) picked.back() = false;
  return picked;
}

std::vector<bool> PickQuantized(const Program& program, const std::vector<LinearLayer>& layers,
                                const QuantizeSettings& quantize, std::string_view model_type,
                                const std::string& file) {
  std::vector<bool> picked = quantize.targets.empty()
                                 ? TakenByTransformers(program, layers, model_type)
                                 : PickLayers(layers, quantize.targets, kQuantizeFlag, file);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].is_read_alone) picked[i] = false;  // nobody can read what is packed
  }
  if (std::ranges::find(picked, true) != picked.end()) return picked;
  throw Error({.file = file,
               .where = std::string(kQuantizeFlag),
               .text = "expected linear layers to quantize, found none but the last one",
               .hint = fmt::format("{} {}:NAME with names of layers", kQuantizeFlag,
                                   ToString(quantize.kind))});
}

// bitsandbytes 0.50.2, backends/cuda/ops.py, _int8_linear_matmul_impl.
void CheckInputs(const Program& program, const LinearLayer& layer, const std::string& file) {
  for (const LinearRun& run : layer.runs) {
    const TensorType& given = program.values[Index(run.input)].type;
    const size_t rank = given.dims.size();
    if (rank == 2 || rank == 3 || given.dims.back() != layer.in_features) continue;
    throw Error({.file = file,
                 .where = std::string(kQuantizeFlag),
                 .text = fmt::format("expected inputs of two or three dimensions, as bitsandbytes "
                                     "takes in 8 bits, found {} of '{}'",
                                     rank, layer.path),
                 .hint = fmt::format("{} nf4", kQuantizeFlag)});
  }
}

// --- Their tensors --------------------------------------------------------------------------

int64_t BlocksOf(int64_t values, int64_t in_block) { return (values + in_block - 1) / in_block; }

class LayerPacker {
 public:
  LayerPacker(Program& program, const TrainingSettings& settings)
      : program_(program),
        is_in_8_bits_(settings.quantize.kind == Quantization::kInt8),
        compute_type_(QuantizedComputeType(settings.precision)),
        arguments_(program) {}

  void Pack(const LinearLayer& layer) {
    is_in_8_bits_ ? PackRows(layer) : PackBlocks(layer);
    if (std::erase(program_.parameters, layer.weight) > 0) {
      program_.frozen.push_back(layer.weight);
    }
    for (const LinearRun& run : layer.runs) runs_.emplace(run.first, std::pair(run, &layer));
  }

  void WriteCalls() {
    std::vector<AtenCall> before = std::exchange(program_.calls, {});
    for (size_t i = 0; i < before.size(); ++i) {
      const auto found = runs_.find(static_cast<int64_t>(i));
      if (found == runs_.end()) {
        program_.calls.push_back(std::move(before[i]));
        continue;
      }
      const auto& [run, layer] = found->second;
      const size_t count = Index(run.last - run.first) + 1;
      WriteForward(run, *layer, std::span(before).subspan(i, count));
      i += count - 1;
    }
  }

 private:
  StridedType& TypeOf(NameId name) { return program_.values[Index(name)].type; }

  NameId AddScales(const std::string& name, const TensorType& type) {
    return program_.buffers.emplace_back(AddValue(program_, name, type));
  }

  // In 8 bits: a scale for each of the rows, which are outputs.
  void PackRows(const LinearLayer& layer) {
    const Dims dims = {layer.out_features, layer.in_features};
    QuantizedWeight weight = {.packed = layer.weight, .full = {DType::kFloat16, dims}};
    weight.scales.scales = AddScales(layer.path + ".SCB", {DType::kFloat32, {layer.out_features}});
    TypeOf(layer.weight) = {{DType::kInt8, dims}, {}};
    program_.quantized.push_back(std::move(weight));
  }

  // In 4 bits.  Beside it stay its scales, as its state_dict() calls them.
  void PackBlocks(const LinearLayer& layer) {
    const TensorType full = {compute_type_, TypeOf(layer.weight).dims};
    const int64_t values = Numel(full.dims);
    const int64_t scales = BlocksOf(values, kValuesInBlock);
    constexpr int64_t kCode = 16;
    constexpr int64_t kCodeOfScales = 256;
    QuantizedWeight weight = {.packed = layer.weight, .full = full};
    const auto add = [&](std::string_view name, const TensorType& type) {
      return AddScales(program_.values[Index(layer.weight)].name + std::string(name), type);
    };
    weight.scales.code = add(".quant_map", {DType::kFloat32, {kCode}});
    weight.scales.offset = add(".nested_offset", {DType::kFloat32, {}});
    weight.scales.scales_of_scales =
        add(".nested_absmax", {DType::kFloat32, {BlocksOf(scales, kScalesInBlock)}});
    weight.scales.scales = add(".absmax", {DType::kUint8, {scales}});
    weight.scales.code_of_scales = add(".nested_quant_map", {DType::kFloat32, {kCodeOfScales}});
    TypeOf(layer.weight) = {{DType::kUint8, {BlocksOf(values, 2), 1}}, {}};
    // One that is trained keeps its place.
    if (layer.bias != kNoName && !IsFrozen(layer.bias)) TypeOf(layer.bias).dtype = compute_type_;
    program_.quantized.push_back(std::move(weight));
  }

  // x = x.to(compute_dtype); bias.data = bias.data.to(x.dtype)
  // return matmul_4bit(x, weight, bias).to(the type that x had)
  void WriteIn4Bits(const AtenCall& place, const LinearRun& run, const LinearLayer& layer) {
    const std::string name = program_.values[Index(run.result)].name;
    const NameId x = AddValue(program_, name + ".x", {compute_type_, TypeOf(run.input).dims});
    const NameId product =
        AddValue(program_, name + ".product", {compute_type_, TypeOf(run.result).dims});
    program_.calls.push_back(CallAt(place, "to", {run.input}, {x}));
    const NameId bias = CastBias(place, layer, x);
    const std::vector<int64_t> sizes = {layer.out_features, layer.in_features};
    program_.calls.push_back(
        bias == kNoName ? CallAt(place, "linear_4bit", {x, layer.weight}, {product}, sizes)
                        : CallAt(place, "addmm_4bit", {bias, x, layer.weight}, {product}, sizes));
    program_.calls.push_back(CallAt(place, "type_as", {product, run.input}, {run.result}));
    program_.calls.back().dies = {product, x};
  }

  // MatMul8bitLt.forward, of inputs without outliers (autograd/_functions.py;
  // backends/cuda/ops.py).
  void WriteIn8Bits(const AtenCall& place, const LinearRun& run, const LinearLayer& layer) {
    const NameId bias = CastBias(place, layer, run.input);
    const std::string name = program_.values[Index(run.result)].name;
    const TensorType given = TypeOf(run.input);
    const Dims rows = {Numel(given.dims) / layer.in_features, layer.in_features};
    const auto make = [&](std::string_view op, std::vector<NameId> inputs, std::string_view what,
                          const TensorType& type) {
      const NameId made = AddValue(program_, fmt::format("{}.{}", name, what), type);
      program_.calls.push_back(CallAt(place, op, std::move(inputs), {made}));
      program_.calls.back().leaves_autograd = true;
      return made;
    };
    const NameId x = make("view", {run.input}, "A", {given.dtype, rows});
    const NameId half = make("to", {x}, "half", {DType::kFloat16, rows});
    const NameId scales = make("int8_row_stats", {}, "SCA", {DType::kFloat32, {rows[0]}});
    const NameId packed = make("int8_vectorwise_quant", {half}, "CA", {DType::kInt8, rows});
    program_.calls.back().dies = {half};
    program_.calls.push_back(CallAt(place, "linear_8bit",
                                    {run.input, layer.weight, x, packed, scales, bias},
                                    {run.result}, {layer.out_features, layer.in_features}));
    program_.calls.back().dies = {x, packed, scales};
  }

  // self.bias.data = self.bias.data.to(x.dtype), which the module keeps, when it first runs.
  NameId CastBias(const AtenCall& place, const LinearLayer& layer, NameId x) {
    if (layer.bias == kNoName || !IsFrozen(layer.bias)) return layer.bias;
    const auto [found, is_first] = cast_biases_.try_emplace(layer.bias, kNoName);
    if (!is_first) return found->second;
    const TensorType type = TypeOf(layer.bias);
    const NameId cast = AddValue(program_, layer.path + ".bias.data", type);
    program_.calls.push_back(CallAt(place, "type_as", {layer.bias, x}, {cast}));
    program_.calls.back().made_once = true;
    program_.calls.back().dies = {layer.bias};
    return found->second = cast;
  }

  bool IsFrozen(NameId name) const {
    return std::ranges::find(program_.frozen, name) != program_.frozen.end();
  }

  void WriteForward(const LinearRun& run, const LinearLayer& layer, std::span<AtenCall> calls) {
    const std::vector<NameId> deaths = arguments_.TakeDeaths(run, calls);
    AtenCall place = calls.back();
    place.dies.clear();
    place.last_reads.clear();
    place.held.clear();
    is_in_8_bits_ ? WriteIn8Bits(place, run, layer) : WriteIn4Bits(place, run, layer);
    auto& dies = program_.calls.back().dies;
    dies.insert(dies.end(), deaths.begin(), deaths.end());
  }

  Program& program_;
  const bool is_in_8_bits_;
  const DType compute_type_;
  const FrameArguments arguments_;
  std::map<int64_t, std::pair<LinearRun, const LinearLayer*>> runs_;  // by their first call
  std::map<NameId, NameId> cast_biases_;
};

// With what their inputs decide, of 8 bits.
std::string HowPacked(const TrainingSettings& settings) {
  if (settings.quantize.kind == Quantization::kInt8) {
    return "int8, a scale for each row; no input reaches the threshold 6, so none is computed in "
           "16 bits beside";
  }
  return fmt::format("nf4, scales quantized in turn; computed in {}",
                     Name(QuantizedComputeType(settings.precision)));
}

}  // namespace

void QuantizeLayers(Program& program, const TrainingSettings& settings, std::string_view model_type,
                    const std::string& path) {
  const std::vector<LinearLayer> layers = FindLinearLayers(program);
  const std::vector<bool> picked =
      PickQuantized(program, layers, settings.quantize, model_type, path);
  LayerPacker packer(program, settings);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!picked[i]) continue;
    if (settings.quantize.kind == Quantization::kInt8) CheckInputs(program, layers[i], path);
    packer.Pack(layers[i]);
  }
  packer.WriteCalls();
  program.assumptions.insert(
      program.assumptions.begin(),
      fmt::format("{} of {} linear layers are frozen and packed ({})",
                  std::ranges::count(picked, true), layers.size(), HowPacked(settings)));
}

}  // namespace onnxfit
