// Layers of torch.nn.LSTM, GRU and RNN: the calls "lstm", "gru" and "rnn", which run all layers of
// such a module in all their directions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "estimator/program/program.h"

namespace onnxfit {

// Inputs of such a call: x, the first hidden and cell state (kNoName where there is none), then for
// each layer and direction the weights of x and of the state, two biases, and what projects the
// state.  Results: y, the last hidden and cell state.
inline constexpr size_t kRecurrentParameters = 3;  // inputs from there on

struct RecurrentLayers {
  int64_t gates = 1;  // of LSTM 4, of GRU 3, of RNN 1
  int64_t input = 0;
  int64_t hidden = 0;
  int64_t projected = 0;  // of LSTM's states; 0: not
  int64_t layers = 1;
  int64_t directions = 1;
  bool has_biases = true;
  bool batch_first = false;
  bool drops_out = false;    // between layers
  bool keeps = false;        // a reserve for backward: module.training, which Dispatch sets
  int64_t packed_steps = 0;  // of a PackedSequence; 0: it is none
  int64_t packed_batch = 0;  // samples of its first step

  bool is_lstm() const { return gates == 4; }
  // What a step gives for each sample and direction.
  int64_t state() const { return projected == 0 ? hidden : projected; }

  bool operator==(const RecurrentLayers&) const = default;
};

// As ints of the call.
std::vector<int64_t> RecurrentInts(const RecurrentLayers& layers);
// REQUIRES: RecurrentInts made them.
RecurrentLayers RecurrentLayersOf(const std::vector<int64_t>& ints);

// Paths of torch.nn.LSTM, GRU and RNN in which steps run one by one and no such call, as a file
// has them whose exporter knows no node for them (torch.onnx's by torch.export: nn.RNN, and LSTM
// with projections; torch 2.11).  Each once, in the order of calls.  O(calls × log modules).
std::vector<std::string> UnrolledLayers(const Program& program);

}  // namespace onnxfit
