#include "estimator/program/quantized_layers.h"

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
#include "estimator/program/libraries.h"
#include "estimator/program/linear_layers.h"
#include "estimator/program/program_writer.h"

namespace onnxfit {
namespace {

constexpr std::string_view kQuantizeFlag = "--quantize";

// --- Which layers ---------------------------------------------------------------------------

// All but those that transformers leaves as they are.
std::vector<bool> TakenByTransformers(const Program& program,
                                      const std::vector<LinearLayer>& layers,
                                      std::string_view model_type) {
  std::set<NameId> tables;
  for (const AtenCall& call : program.calls) {
    if (call.op == "embedding") tables.insert(call.inputs[0]);
  }
  std::vector<bool> picked;
  for (const LinearLayer& layer : layers) {
    picked.push_back(!layer.is_output && !tables.contains(layer.weight) &&
                     !IsKeptIn32Bits(model_type, layer.path));
  }
  if (!picked.empty()) picked.back() = false;
  return picked;
}

std::vector<bool> PickQuantized(const Program& program, const std::vector<LinearLayer>& layers,
                                const QuantizeSettings& quantize, std::string_view model_type,
                                const std::string& file) {
  const std::vector<bool> picked = quantize.targets.empty()
                                       ? TakenByTransformers(program, layers, model_type)
                                       : PickLayers(layers, quantize.targets, kQuantizeFlag, file);
  if (std::ranges::find(picked, true) != picked.end()) return picked;
  throw Error({.file = file,
               .where = std::string(kQuantizeFlag),
               .text = "expected linear layers to quantize, found none but the last one",
               .hint = fmt::format("{} nf4:NAME with names of layers", kQuantizeFlag)});
}

// --- Their tensors --------------------------------------------------------------------------

int64_t BlocksOf(int64_t values, int64_t in_block) { return (values + in_block - 1) / in_block; }

class LayerPacker {
 public:
  LayerPacker(Program& program, const TrainingSettings& settings)
      : program_(program),
        compute_type_(QuantizedComputeType(settings.precision)),
        arguments_(program) {}

  void Pack(const LinearLayer& layer) {
    PackWeight(layer);
    if (layer.bias != kNoName) TypeOf(layer.bias).dtype = compute_type_;  // bias.data = …
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

  // Beside it stay its scales, as its state_dict() calls them.
  void PackWeight(const LinearLayer& layer) {
    const TensorType full = {compute_type_, TypeOf(layer.weight).dims};
    const int64_t values = Numel(full.dims);
    const int64_t scales = BlocksOf(values, kValuesInBlock);
    constexpr int64_t kCode = 16;
    constexpr int64_t kCodeOfScales = 256;
    QuantizedWeight weight = {.packed = layer.weight, .full = full};
    const auto add = [&](std::string_view name, const TensorType& type) {
      const std::string path = program_.values[Index(layer.weight)].name + std::string(name);
      return program_.buffers.emplace_back(AddValue(program_, path, type));
    };
    weight.scales.code = add(".quant_map", {DType::kFloat32, {kCode}});
    weight.scales.offset = add(".nested_offset", {DType::kFloat32, {}});
    weight.scales.scales_of_scales =
        add(".nested_absmax", {DType::kFloat32, {BlocksOf(scales, kScalesInBlock)}});
    weight.scales.scales = add(".absmax", {DType::kUint8, {scales}});
    weight.scales.code_of_scales = add(".nested_quant_map", {DType::kFloat32, {kCodeOfScales}});
    TypeOf(layer.weight) = {{DType::kUint8, {BlocksOf(values, 2), 1}}, {}};
    if (std::erase(program_.parameters, layer.weight) > 0) {
      program_.frozen.push_back(layer.weight);
    }
    program_.quantized.push_back(std::move(weight));
  }

  // x = x.to(compute_dtype); return matmul_4bit(x, weight, bias).to(the type that x had)
  void WriteForward(const LinearRun& run, const LinearLayer& layer, std::span<AtenCall> calls) {
    const std::vector<NameId> deaths = arguments_.TakeDeaths(run, calls);
    AtenCall place = calls.back();
    place.dies.clear();
    place.last_reads.clear();
    place.held.clear();
    const std::string name = program_.values[Index(run.result)].name;
    const NameId x = AddValue(program_, name + ".x", {compute_type_, TypeOf(run.input).dims});
    const NameId product =
        AddValue(program_, name + ".product", {compute_type_, TypeOf(run.result).dims});
    program_.calls.push_back(CallAt(place, "to", {run.input}, {x}));
    const std::vector<int64_t> sizes = {layer.out_features, layer.in_features};
    program_.calls.push_back(
        layer.bias == kNoName
            ? CallAt(place, "linear_4bit", {x, layer.weight}, {product}, sizes)
            : CallAt(place, "addmm_4bit", {layer.bias, x, layer.weight}, {product}, sizes));
    program_.calls.push_back(CallAt(place, "type_as", {product, run.input}, {run.result}));
    auto& dies = program_.calls.back().dies;
    dies = {product, x};
    dies.insert(dies.end(), deaths.begin(), deaths.end());
  }

  Program& program_;
  const DType compute_type_;
  const FrameArguments arguments_;
  std::map<int64_t, std::pair<LinearRun, const LinearLayer*>> runs_;  // by their first call
};

}  // namespace

void QuantizeLayers(Program& program, const TrainingSettings& settings, std::string_view model_type,
                    const std::string& path) {
  const std::vector<LinearLayer> layers = FindLinearLayers(program);
  const std::vector<bool> picked =
      PickQuantized(program, layers, settings.quantize, model_type, path);
  LayerPacker packer(program, settings);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (picked[i]) packer.Pack(layers[i]);
  }
  packer.WriteCalls();
  program.assumptions.insert(
      program.assumptions.begin(),
      fmt::format("{} of {} linear layers are frozen and packed ({}, scales quantized in turn), "
                  "computed in {}",
                  std::ranges::count(picked, true), layers.size(), ToString(settings.quantize.kind),
                  Name(QuantizedComputeType(settings.precision))));
}

}  // namespace onnxfit
