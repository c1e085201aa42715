#include "estimator/program/recurrent_layers.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string_view>

namespace onnxfit {
namespace {

constexpr std::array<std::string_view, 3> kClasses = {
    "torch.nn.modules.rnn.GRU", "torch.nn.modules.rnn.LSTM", "torch.nn.modules.rnn.RNN"};
constexpr std::array<std::string_view, 3> kCalls = {"gru", "lstm", "rnn"};

template <typename Names>
bool Has(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

std::vector<int64_t> RecurrentInts(const RecurrentLayers& layers) {
  return {layers.gates,     layers.input,      layers.hidden,       layers.projected,
          layers.layers,    layers.directions, layers.has_biases,   layers.batch_first,
          layers.drops_out, layers.keeps,      layers.packed_steps, layers.packed_batch};
}

RecurrentLayers RecurrentLayersOf(const std::vector<int64_t>& ints) {
  size_t next = 0;
  const auto take = [&] { return ints[next++]; };
  RecurrentLayers layers;
  layers.gates = take();
  layers.input = take();
  layers.hidden = take();
  layers.projected = take();
  layers.layers = take();
  layers.directions = take();
  layers.has_biases = take() != 0;
  layers.batch_first = take() != 0;
  layers.drops_out = take() != 0;
  layers.keeps = take() != 0;
  layers.packed_steps = take();
  layers.packed_batch = take();
  return layers;
}

std::vector<std::string> UnrolledLayers(const Program& program) {
  std::vector<std::string> paths;
  std::map<std::string, bool> is_whole;
  for (const AtenCall& call : program.calls) {
    if (!Has(kClasses, program.modules.ClassOf(call.module))) continue;
    const std::string& path = program.modules.PathOf(call.module);
    const auto [found, is_new] = is_whole.emplace(path, false);
    if (is_new) paths.push_back(path);
    found->second |= Has(kCalls, call.op);
  }
  std::erase_if(paths, [&](const std::string& path) { return is_whole.at(path); });
  return paths;
}

}  // namespace onnxfit
