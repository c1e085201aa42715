#include "estimator/transforms/linear_layers.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/base/text.h"
#include "estimator/program/module_runs.h"

namespace onnxfit {
namespace {

// Which operand of a product is the matrix.
struct ProductRow {
  std::string_view op;
  size_t input;
  size_t weight;
  size_t bias;
};

constexpr ProductRow kProducts[] = {
    {"linear", 0, 1, 2},      {"addmm", 1, 2, 0},      {"matmul", 0, 1, 2},     {"mm", 0, 1, 2},
    {"linear_4bit", 0, 1, 2}, {"addmm_4bit", 1, 2, 0}, {"linear_8bit", 0, 1, 5}};

// What such a layer does beside it: views, and the casts of a quantized one.
constexpr std::string_view kBeside[] = {"view",      "reshape",        "t",
                                        "transpose", "permute",        "to",
                                        "type_as",   "int8_row_stats", "int8_vectorwise_quant"};

constexpr std::string_view kWeight = ".weight";

// "blocks.ffn" of "blocks@1.ffn@2": a module that is called again is the same one.
std::string WithoutTurns(std::string_view path) {
  std::string name;
  while (!path.empty()) {
    const size_t turn = path.find('@');
    name += path.substr(0, turn);
    path.remove_prefix(std::min(turn, path.size()));
    path.remove_prefix(std::min(path.find('.'), path.size()));
  }
  return name;
}

const ProductRow* ProductOf(std::string_view op) {
  const auto* const row = std::ranges::find(kProducts, op, &ProductRow::op);
  return row == std::end(kProducts) ? nullptr : row;
}

class Finder {
 public:
  explicit Finder(const Program& program) : program_(program), runs_(program) {
    for (const auto* list : {&program.placement, &program.parameters, &program.frozen}) {
      for (const NameId name : *list) order_.emplace(name, order_.size());
    }
    for (const AtenCall& call : program.calls) {
      if (call.made_once && IsCast(call)) kept_casts_.emplace(call.outputs[0], call.inputs[0]);
    }
    for (const ModuleRun& run : runs_.all()) {
      if (run.caller >= 0) callers_.insert(run.caller);
    }
  }

  std::vector<LinearLayer> Find() && {
    FindTables();
    for (size_t i = 0; i < runs_.all().size(); ++i) {
      if (!callers_.contains(static_cast<int32_t>(i))) Look(runs_.all()[i]);
    }
    AddIdle();
    std::vector<LinearLayer> layers;
    for (auto& [path, layer] : found_) layers.push_back(std::move(layer));
    std::ranges::stable_sort(layers, {},
                             [this](const LinearLayer& layer) { return order_.at(layer.behind); });
    return layers;
  }

 private:
  bool IsTensorOfModule(NameId name) const { return order_.contains(name); }
  const std::string& NameTextOf(NameId name) const { return program_.values[Index(name)].name; }
  const Dims& DimsOf(NameId name) const { return program_.values[Index(name)].type.dims; }

  // Of embeddings: the vocabulary's is the one of most rows.
  void FindTables() {
    for (const AtenCall& call : program_.calls) {
      if (call.op != "embedding" || call.inputs[0] == kNoName) continue;
      tables_.insert(call.inputs[0]);
      const Dims& dims = DimsOf(call.inputs[0]);
      if (vocabulary_.empty() || dims[0] > vocabulary_[0]) vocabulary_ = dims;
    }
    for (const Tie& tie : program_.ties) {  // the first of its names may be read by nobody
      if (tables_.contains(tie.name)) tables_.insert(tie.first);
    }
    for (const Tie& tie : program_.ties) {
      if (tables_.contains(tie.first)) tables_.insert(tie.name);
    }
  }

  bool IsOutput(int64_t out_features, int64_t in_features) const {
    return vocabulary_ == Dims{out_features, in_features};
  }

  // The only product of a run, by a matrix of the module's, beside which it does nothing but look
  // at what it has otherwise, or cast it; -1 where there is none such: a router multiplies, and
  // goes on.
  int64_t ProductIn(const ModuleRun& run) const {
    int64_t found = -1;
    for (int64_t i = run.first; i <= run.last; ++i) {
      const AtenCall& call = program_.calls[Index(i)];
      const ProductRow* row = ProductOf(call.op);
      const bool is_beside = std::ranges::find(kBeside, call.op) != std::end(kBeside);
      if (row == nullptr && is_beside) continue;
      if (row == nullptr || row->weight >= call.inputs.size() || found >= 0) return -1;
      const NameId weight = CastOf(run, call.inputs[row->weight]);
      if (weight == kNoName || !IsTensorOfModule(weight) || DimsOf(weight).size() != 2) return -1;
      found = i;
    }
    return found;
  }

  static bool IsCast(const AtenCall& call) {
    return call.op == "to" || call.op == "type_as" || call.op == "permute";
  }

  // What `name` is a cast of, or a matrix that a layer of the model's own turns round ("x @
  // self.weight.T"); itself where neither the run makes it, nor an earlier one that keeps it.
  NameId CastOf(const ModuleRun& run, NameId name) const {
    for (int64_t i = run.first; i <= run.last; ++i) {
      const AtenCall& call = program_.calls[Index(i)];
      if (IsCast(call) && name != kNoName && call.outputs[0] == name) return call.inputs[0];
    }
    const auto kept = kept_casts_.find(name);
    return kept == kept_casts_.end() ? name : kept->second;
  }

  // What the run reads from outside, but for the tensors of the layer's own.
  NameId InputOf(const ModuleRun& run, const LinearLayer& layer) const {
    std::unordered_set<NameId> known = {kNoName, layer.weight, layer.bias};
    for (int64_t i = run.first; i <= run.last; ++i) {
      const AtenCall& call = program_.calls[Index(i)];
      for (const NameId name : call.inputs) {
        if (!known.contains(CastOf(run, name))) return name;
      }
      known.insert(call.outputs.begin(), call.outputs.end());
    }
    return kNoName;
  }

  void Look(const ModuleRun& run) {
    const int64_t product = ProductIn(run);
    if (product < 0) return;
    const AtenCall& call = program_.calls[Index(product)];
    const ProductRow& row = *ProductOf(call.op);
    LinearLayer layer = {.path = WithoutTurns(program_.modules.PathOf(run.module)),
                         .weight = CastOf(run, call.inputs[row.weight])};
    if (row.bias < call.inputs.size()) layer.bias = CastOf(run, call.inputs[row.bias]);
    const NameId input = InputOf(run, layer);
    const NameId result = program_.calls[Index(run.last)].outputs[0];
    if (input == kNoName || result == kNoName || DimsOf(input).empty() || DimsOf(result).empty()) {
      return;
    }
    layer.out_features = DimsOf(result).back();
    layer.in_features = InputsOf(call, layer);
    layer.is_output = IsOutput(layer.out_features, layer.in_features);
    layer.behind = BehindWhich(layer);
    const auto known = found_.try_emplace(layer.path, std::move(layer)).first;
    known->second.runs.push_back({run.first, run.last, product, input, result});
  }

  // Layers that never run: matrices that nobody reads, as of a vision tower in a run on text, and
  // those that another module reads ("self.rel_pos_bias.weight.t()[positions]").
  void AddIdle() {
    std::unordered_set<NameId> read;
    for (const AtenCall& call : program_.calls) read.insert(call.inputs.begin(), call.inputs.end());
    std::set<std::string> running;
    for (const ModuleRun& run : runs_.all())
      running.insert(WithoutTurns(program_.modules.PathOf(run.module)));
    std::unordered_map<std::string_view, NameId> by_name;
    for (const NameId name : program_.placement) by_name.emplace(NameTextOf(name), name);
    for (const NameId name : program_.placement) {
      const std::string& text = NameTextOf(name);
      const Dims dims = UnpackedDims(name);
      if (dims.size() != 2 || !text.ends_with(kWeight)) continue;
      LinearLayer layer = {.path = text.substr(0, text.size() - kWeight.size()), .weight = name};
      layer.is_read_alone = read.contains(name);
      if (layer.is_read_alone && running.contains(layer.path)) continue;
      const auto bias = by_name.find(layer.path + ".bias");
      if (bias != by_name.end()) layer.bias = bias->second;
      if (tables_.contains(name) || IsTable(layer)) continue;
      const std::string beside = std::string(ParentOf(layer.path)) + ".in_proj_weight";
      layer.is_of_attention = layer.path.ends_with(".out_proj") && by_name.contains(beside);
      AddIdle(std::move(layer), dims);
    }
  }

  void AddIdle(LinearLayer layer, const Dims& dims) {
    layer.out_features = dims[0];
    layer.in_features = dims[1];
    layer.is_output = IsOutput(dims[0], dims[1]);
    layer.behind = BehindWhich(layer);
    found_.try_emplace(layer.path, std::move(layer));
  }

  Dims UnpackedDims(NameId weight) const {
    const auto packed = std::ranges::find(program_.quantized, weight, &QuantizedWeight::packed);
    return packed == program_.quantized.end() ? DimsOf(weight) : packed->full.dims;
  }

  // "embed_tokens", "point_embed.0", "relative_attention_bias", "bias_values", "iou_token": of
  // nn.Embedding, which has no bias, by how they or their lists are called, or who reads them.
  bool IsTable(const LinearLayer& layer) const {
    if (layer.bias != kNoName) return false;
    std::string_view path = layer.path;
    while (IsNumbered(ChildOf(path)) && path.find('.') != path.npos) path = ParentOf(path);
    const std::string_view name = ChildOf(path);
    if (name.find("embed") != name.npos) return true;
    return layer.is_read_alone ? name.find("token") != name.npos : name.find("bias") != name.npos;
  }

  // What is given may lie otherwise: modules make rows of it.
  int64_t InputsOf(const AtenCall& product, const LinearLayer& layer) const {
    if (product.ints.size() == 2) return product.ints[1];  // of a packed matrix
    return Numel(DimsOf(layer.weight)) / std::max<int64_t>(layer.out_features, 1);
  }

  // A layer that has its matrix from another one, tied, has none in its place: it is taken to be
  // the last of its parent's modules, which stand before the parent's own tensors.
  NameId BehindWhich(const LinearLayer& layer) const {
    if (layer.bias != kNoName) return layer.bias;
    const std::string& weight = NameTextOf(layer.weight);
    const bool has_parent = layer.path.find('.') != layer.path.npos;
    const std::string parent = has_parent ? std::string(ParentOf(layer.path)) + "." : "";
    const bool is_tied = ParentOf(weight) != layer.path && weight.find('.') != weight.npos;
    NameId behind = layer.weight;
    for (const NameId name : program_.placement) {
      const std::string& tensor = NameTextOf(name);
      const bool is_in_child = tensor.find('.', parent.size()) != tensor.npos;
      if (is_tied && is_in_child && tensor.starts_with(parent)) behind = name;
    }
    return behind;
  }

  const Program& program_;
  const ModuleRuns runs_;
  std::unordered_map<NameId, size_t> order_;       // of the module's tensors
  std::unordered_map<NameId, NameId> kept_casts_;  // made once -> what they are of
  std::set<int32_t> callers_;                      // runs that have others in them
  std::set<NameId> tables_;
  Dims vocabulary_;
  std::map<std::string, LinearLayer> found_;  // by path
};

}  // namespace

std::vector<LinearLayer> FindLinearLayers(const Program& program) { return Finder(program).Find(); }

bool IsConv1d(const Program& program, const LinearLayer& layer) {
  if (layer.runs.empty()) return false;
  const AtenCall& product = program.calls[Index(layer.runs.front().product)];
  const Dims& dims = program.values[Index(layer.weight)].type.dims;
  return product.op == "addmm" && dims == Dims{layer.in_features, layer.out_features};
}

// --- Which of them --------------------------------------------------------------------------

namespace {

// A name picks layers that are called so wherever they are.
std::vector<std::string> WithAnyParent(const std::vector<std::string>& targets,
                                       const std::vector<std::string>& paths) {
  std::vector<std::string> globs;
  for (const std::string& target : targets) {
    const auto matches_any = [&](std::string_view glob) {
      return std::ranges::any_of(paths,
                                 [&](const std::string& path) { return MatchesGlob(path, glob); });
    };
    const std::string anywhere = "*." + target;
    const bool is_anywhere = matches_any(anywhere);
    if (is_anywhere) globs.push_back(anywhere);
    if (!is_anywhere || matches_any(target)) globs.push_back(target);
  }
  return globs;
}

}  // namespace

std::vector<std::string> PathsOf(const std::vector<LinearLayer>& layers) {
  std::vector<std::string> paths;
  for (const LinearLayer& layer : layers) paths.push_back(layer.path);
  return paths;
}

std::vector<bool> PickLayers(const std::vector<LinearLayer>& layers,
                             const std::vector<std::string>& targets, std::string_view flag,
                             const std::string& file) {
  const std::vector<std::string> paths = PathsOf(layers);
  return PickNames(paths, WithAnyParent(targets, paths), {flag, "linear layers", file});
}

// --- Their frames ---------------------------------------------------------------------------

namespace {

constexpr int64_t kOfModule = std::numeric_limits<int64_t>::max();  // a tensor of the module's own

}  // namespace

FrameArguments::FrameArguments(const Program& program) : made_at_(program.values.size(), -1) {
  for (size_t i = 0; i < program.calls.size(); ++i) {
    for (const NameId name : program.calls[i].outputs) {
      if (name != kNoName) made_at_[Index(name)] = static_cast<int64_t>(i);
    }
  }
  for (const NameId name : program.placement) made_at_[Index(name)] = kOfModule;
}

std::vector<NameId> FrameArguments::TakeDeaths(const LinearRun& run,
                                               std::span<AtenCall> calls) const {
  std::vector<NameId> taken;
  for (AtenCall& call : calls) {
    std::erase(call.last_reads, run.input);
    std::erase_if(call.dies, [&](NameId name) {
      const bool is_argument = made_at_[Index(name)] < run.first;
      if (is_argument) taken.push_back(name);
      return is_argument;
    });
  }
  return taken;
}

}  // namespace onnxfit
