#include "estimator/program/recurrent_layers.h"

#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/base/warnings.h"

namespace onnxfit {
namespace {

// What one step of one direction keeps for each hidden number of each sample, and how many gates
// its backward makes.  PyTorch's own kernels, derivatives.yaml and native/cuda/RNN.cu, pytorch
// v2.11.0: _thnn_fused_lstm_cell makes hy, cy and a workspace of 4 gates, and saves both products
// that it reads, 4 gates each, for a backward of its backward; _thnn_fused_gru_cell makes hy and a
// workspace of 5, and saves products of 3 each.  A simple cell (native/RNN.cpp) saves its result.
// Checked against that version's own allocations.  How much cuDNN's reserve holds is not written
// down: gates, cells and hidden states, so that a simple cell has one number more here.
struct RecurrentLayerRow {
  std::string_view aten;
  std::string_view aten_in_eval;
  int64_t kept;
  int64_t gates;
};

constexpr RecurrentLayerRow kRecurrentLayers[] = {
    {"lstm", "lstm_inference", 14, 4},
    {"gru", "gru_inference", 12, 3},
    {"rnn", "rnn_inference", 2, 1},
};

// Between the layers of a stack that drops out: a result, and its mask of bytes.
constexpr int64_t kKeptByDropout = 2;

// REQUIRES: one of the rows has it.
const RecurrentLayerRow& LayerRowOf(std::string_view aten) {
  return *std::ranges::find(kRecurrentLayers, aten, &RecurrentLayerRow::aten);
}

}  // namespace

std::vector<int64_t> RecurrentInts(std::string_view aten, int64_t numel, bool drops_out) {
  const RecurrentLayerRow& row = LayerRowOf(aten);
  const int64_t kept = row.kept + (drops_out ? kKeptByDropout : 0);
  return {CheckedMul(numel, kept), CheckedMul(numel, row.gates)};
}

std::string_view RecurrentInference(std::string_view aten) { return LayerRowOf(aten).aten_in_eval; }

void WarnOfRecurrent(Program& program) {
  const auto count = std::ranges::count_if(program.calls, [](const AtenCall& call) {
    return std::ranges::any_of(kRecurrentLayers, [&](const RecurrentLayerRow& row) {
      return call.op == row.aten || call.op == row.aten_in_eval;
    });
  });
  if (count == 0) return;
  program.warnings.push_back(
      {warning::kUpperBound,
       fmt::format("{} recurrent layer{} (LSTM, GRU, RNN): what {} an upper bound, of what "
                   "cuDNN and PyTorch's own kernels keep of gates and states of each step",
                   count, count == 1 ? "" : "s", count == 1 ? "it takes is" : "they take is")});
}

}  // namespace onnxfit
