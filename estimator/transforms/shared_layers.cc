#include "estimator/transforms/shared_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

using ReadCounts = std::unordered_map<NameId, int64_t>;

ReadCounts CountReads(const Program& program) {
  ReadCounts reads;
  for (const AtenCall& call : program.calls) {
    for (const NameId name : ReadInputs(call)) ++reads[name];
  }
  return reads;
}

const Dims& DimsOf(const Program& program, NameId name) {
  return program.values[Index(name)].type.dims;
}

// Why parallelize_module, or we, cannot share it, whatever is around it; "" where nothing hinders.
std::string Hindrance(const Program& program, const LinearLayer& layer, const ReadCounts& reads,
                      ParallelStyle style, int64_t ranks) {
  if (layer.runs.empty()) return "which never runs by itself";
  for (const LinearRun& run : layer.runs) {
    const AtenCall& product = program.calls[Index(run.product)];
    // Of ONNX, where an nn.Linear without a bias is a product.
    const bool is_product = product.op == "linear" || product.op == "matmul";
    const bool is_linear = run.first == run.last && is_product && product.inputs[0] == run.input &&
                           product.inputs[1] == layer.weight;
    if (!is_linear) return "which is no nn.Linear";
  }
  const auto times = static_cast<int64_t>(layer.runs.size());
  if (reads.at(layer.weight) != times) return "whose matrix others read";
  if (layer.bias != kNoName && reads.at(layer.bias) != times) return "whose bias others read";
  const bool is_rows = style == ParallelStyle::kRows;
  const int64_t features = is_rows ? layer.in_features : layer.out_features;
  return features % ranks == 0
             ? ""
             : fmt::format("whose {} features {} ranks do not share evenly", features, ranks);
}

// Layers, joined where what they make, or are given, meets.
class Groups {
 public:
  explicit Groups(size_t count) : parents_(count), reasons_(count) {
    std::iota(parents_.begin(), parents_.end(), size_t{0});
  }

  size_t Of(size_t layer) const {
    while (parents_[layer] != layer) layer = parents_[layer];
    return layer;
  }
  void Join(size_t a, size_t b) {
    const size_t from = Of(b);
    const size_t to = Of(a);
    if (from == to) return;
    parents_[from] = to;
    if (reasons_[to].empty()) reasons_[to] = std::move(reasons_[from]);
  }
  void Fail(size_t layer, std::string reason) {
    std::string& known = reasons_[Of(layer)];
    if (known.empty()) known = std::move(reason);
  }
  const std::string& ReasonOf(size_t layer) const { return reasons_[Of(layer)]; }

 private:
  std::vector<size_t> parents_;
  std::vector<std::string> reasons_;  // by group: why none of it is shared
};

// What columns make, followed through the calls of the program, once.
class Follower {
 public:
  Follower(const Program& program, int64_t ranks, const std::vector<SharedLayer>& layers)
      : program_(program), ranks_(ranks), layers_(layers), groups_(layers.size()) {
    for (size_t i = 0; i < layers.size(); ++i) {
      if (!layers[i].whole_for.empty()) continue;
      for (const LinearRun& run : layers[i].layer.runs) products_[run.product] = i;
    }
    takes_.resize(layers.size());
  }

  void Follow() {
    for (size_t i = 0; i < program_.calls.size(); ++i) {
      const AtenCall& call = program_.calls[i];
      const auto product = products_.find(static_cast<int64_t>(i));
      if (product == products_.end()) {
        Pass(call);
      } else if (layers_[product->second].style == ParallelStyle::kRows) {
        EndAt(call, product->second);
      } else {
        BeginAt(call, product->second);
      }
    }
    for (const NameId output : program_.outputs) {
      if (shards_.contains(output)) Fail(output, "which the model returns");
    }
    FailWithoutEnds();
  }

  const std::string& ReasonOf(size_t layer) const { return groups_.ReasonOf(layer); }
  std::unordered_map<NameId, Shard> TakeShards() { return std::move(shards_); }

 private:
  bool IsShared(NameId name) const { return name != kNoName && shards_.contains(name); }
  std::optional<Shard> ShardOf(NameId name) const {
    const auto found = shards_.find(name);
    return found == shards_.end() ? std::nullopt : std::optional(found->second);
  }
  void Put(NameId name, const Shard& shard, size_t layer) {
    if (name == kNoName) return;
    shards_[name] = shard;
    layer_of_[name] = layer;
  }
  void Fail(NameId name, std::string reason) {
    groups_.Fail(layer_of_.at(name), std::move(reason));
  }

  void BeginAt(const AtenCall& call, size_t layer) {
    if (IsShared(call.inputs[0])) {
      Fail(call.inputs[0],
           fmt::format("whose features {} takes from all ranks", layers_[layer].layer.path));
    }
    takes_[layer] = layers_[layer].style == ParallelStyle::kGathered;
    if (*takes_[layer]) return;
    const NameId output = call.outputs[0];
    Put(output, {DimsOf(program_, output).size() - 1, 1}, layer);
  }

  void EndAt(const AtenCall& call, size_t layer) {
    const NameId input = call.inputs[0];
    const bool is_shared = IsShared(input);
    if (takes_[layer].value_or(is_shared) != is_shared) {
      groups_.Fail(layer, "which is given parts and, another time, all of its features");
    }
    takes_[layer] = is_shared;
    if (!is_shared) return groups_.Fail(layer, "which is given all of its features");
    groups_.Join(layer, layer_of_.at(input));
    const size_t last = DimsOf(program_, input).size() - 1;
    if (shards_.at(input) != Shard{last, 1})
      groups_.Fail(layer, "which is given parts of something else than its features");
  }

  void Pass(const AtenCall& call) {
    const std::span<const NameId> read = ReadInputs(call);
    const auto first = std::ranges::find_if(read, [&](NameId name) { return IsShared(name); });
    if (first == read.end()) return;
    const size_t layer = layer_of_.at(*first);
    for (const NameId name : read) {
      if (IsShared(name)) groups_.Join(layer, layer_of_.at(name));
    }
    const std::optional<Shard> passed = ShardBehind(
        program_, call, [&](NameId name) { return ShardOf(name); }, ranks_);
    if (!passed) {
      return groups_.Fail(layer, fmt::format("whose features {} at {} does not leave to ranks",
                                             call.op, call.where));
    }
    for (const NameId output : call.outputs) Put(output, *passed, layer);
  }

  // Columns whose features no rows take.
  void FailWithoutEnds() {
    std::vector<bool> has_end(layers_.size());
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (takes_[i].value_or(false)) has_end[groups_.Of(i)] = true;
    }
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (!has_end[groups_.Of(i)]) groups_.Fail(i, "beside which no layer takes parts of features");
    }
  }

  const Program& program_;
  const int64_t ranks_;
  const std::vector<SharedLayer>& layers_;
  Groups groups_;
  std::unordered_map<int64_t, size_t> products_;  // call -> layer
  // By layer: whether parts of features end there, come in as rows or are gathered.
  std::vector<std::optional<bool>> takes_;
  std::unordered_map<NameId, Shard> shards_;
  std::unordered_map<NameId, size_t> layer_of_;  // of those: one of the group
};

}  // namespace

SharedLayers FindSharedLayers(const Program& program, const RankSettings& settings) {
  const int64_t ranks = settings.tensor_parallel;
  SharedLayers found;
  const ReadCounts reads = CountReads(program);
  for (LinearLayer& layer : FindLinearLayers(program)) {
    const ParallelStyle style = ParallelStyleOf(layer.path);
    const bool is_left = style == ParallelStyle::kGathered && !settings.shares_head;
    if (style == ParallelStyle::kNone || is_left) continue;
    std::string hindrance = Hindrance(program, layer, reads, style, ranks);
    found.layers.push_back({std::move(layer), style, std::move(hindrance)});
  }
  // What stays whole changes what others are given.
  for (bool changes = true; changes;) {
    Follower follower(program, ranks, found.layers);
    follower.Follow();
    changes = false;
    for (size_t i = 0; i < found.layers.size(); ++i) {
      std::string& whole_for = found.layers[i].whole_for;
      if (!whole_for.empty() || follower.ReasonOf(i).empty()) continue;
      whole_for = follower.ReasonOf(i);
      changes = true;
    }
    found.shards = follower.TakeShards();
  }
  return found;
}

}  // namespace onnxfit
