// Calls that run as several: torch.einsum, and recurrent layers.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/program/einsum.h"
#include "estimator/program/recurrent_layers.h"
#include "estimator/pt2/call_rows.h"

namespace onnxfit::pt2 {

// --- torch.einsum --------------------------------------------------------------

void WriteEinsum(CallWriter& writer, const Call& call, std::string_view) {
  const std::vector<NameId> tensors = writer.Tensors(call);
  std::vector<Dims> dims;
  for (const NameId tensor : tensors) dims.push_back(writer.DimsOf(tensor));
  const auto steps = PlanEinsum(writer.TextAt(call, "equation"), dims);
  if (!steps) return writer.WriteUnknown(call);
  const DType dtype = writer.TypeOfResult(call).dtype;
  WriteSteps(*steps, tensors, dims, [&](const EinsumStep& step, std::vector<NameId> inputs) {
    const bool is_last = &step == &steps->back();
    const NameId made =
        is_last ? writer.Result(call)
                : writer.NewName(fmt::format("{}.{}", call.name, step.op), {dtype, step.dims});
    writer.Emit(step.op, std::move(inputs), {made}, step.ints);
    return made;
  });
}

// --- torch.nn.LSTM, GRU and RNN ------------------------------------------------

namespace {

std::vector<NameId> TensorsAt(CallWriter& writer, const Call& call, std::string_view name) {
  std::vector<NameId> tensors;
  const Argument* argument = FindArgument(call, name);
  if (argument == nullptr) return tensors;
  if (argument->kind == Argument::Kind::kTensor) tensors.push_back(writer.TensorOf(*argument));
  for (const Argument& item : argument->items) tensors.push_back(writer.TensorOf(item));
  return tensors;
}

// The call's operands: x, two states, the second of LSTM alone, then the parameters.
struct Operands {
  std::vector<NameId> all;
  std::vector<NameId> parameters;
  bool is_packed = false;
};

// lstm.input (input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
// batch_first) and lstm.data (data, batch_sizes, hx, …), as native_functions.yaml of pytorch
// v2.11.0 has them; gru, rnn_tanh and rnn_relu with one state that is no list.
Operands OperandsOf(CallWriter& writer, const Call& call) {
  Operands operands;
  operands.is_packed = FindArgument(call, "batch_sizes") != nullptr;
  std::vector<NameId> states = TensorsAt(writer, call, "hx");
  states.resize(2, kNoName);
  operands.parameters = TensorsAt(writer, call, "params");
  operands.all = {writer.TensorAt(call, operands.is_packed ? "data" : "input"), states[0],
                  states[1]};
  operands.all.insert(operands.all.end(), operands.parameters.begin(), operands.parameters.end());
  return operands;
}

// The first two parameters are [gates * hidden, input] and [gates * hidden, state].
std::optional<RecurrentLayers> LayersOf(CallWriter& writer, const Call& call,
                                        const Operands& operands, int64_t gates) {
  const auto count = static_cast<int64_t>(operands.parameters.size());
  const NameId x = operands.all[0];
  const NameId state = operands.all[1];
  if (count < 2 || x == kNoName || state == kNoName) return std::nullopt;
  const Dims& weight = writer.DimsOf(operands.parameters[0]);
  const Dims& recurrent = writer.DimsOf(operands.parameters[1]);
  const Dims& first = writer.DimsOf(state);
  const bool has_ranks = weight.size() == 2 && recurrent.size() == 2 && first.size() == 3;
  if (!has_ranks || writer.DimsOf(x).size() != (operands.is_packed ? 2 : 3)) return std::nullopt;
  RecurrentLayers layers = {
      .gates = gates,
      .input = weight[1],
      .hidden = weight[0] / gates,
      .layers = writer.IntAt(call, "num_layers", 1),
      .directions = writer.IntAt(call, "bidirectional", 0) != 0 ? 2 : 1,
      .has_biases = writer.IntAt(call, "has_biases", 1) != 0,
      .batch_first = writer.IntAt(call, "batch_first", 0) != 0,
      .drops_out = writer.RealAt(call, "dropout", 0) > 0,
  };
  if (recurrent[1] != layers.hidden) layers.projected = recurrent[1];
  if (operands.is_packed) {
    const Argument* sizes = FindArgument(call, "batch_sizes");
    layers.packed_steps = std::max<int64_t>(writer.NumelOf(*sizes), 1);
    layers.packed_batch = first[1];
  }
  return layers.layers > 0 ? std::optional(layers) : std::nullopt;
}

constexpr std::pair<std::string_view, int64_t> kGates[] = {{"lstm", 4}, {"gru", 3}, {"rnn", 1}};

}  // namespace

void WriteRecurrent(CallWriter& writer, const Call& call, std::string_view op) {
  const auto* gates = std::ranges::find(kGates, op, &std::pair<std::string_view, int64_t>::first);
  const Operands operands = OperandsOf(writer, call);
  const auto layers = LayersOf(writer, call, operands, gates->second);
  if (!layers) return writer.WriteUnknown(call);
  writer.Emit(op, operands.all, writer.Results(call), RecurrentInts(*layers));
}

}  // namespace onnxfit::pt2
