#include "estimator/program/recurrent_layers.h"

#include <cstddef>

namespace onnxfit {

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

}  // namespace onnxfit
