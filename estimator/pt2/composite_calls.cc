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

// lstm.input (x, states, parameters, has_biases, layers, p, train, bidirectional, batch_first), as
// native_functions.yaml of pytorch v2.11.0 has it; gru.input, rnn_tanh.input and rnn_relu.input
// with one state that is no list.
struct Stack {
  NameId x = kNoName;
  std::vector<NameId> states;
  std::vector<NameId> parameters;
  int64_t layers = 1;
  bool drops_out = false;
};

std::vector<NameId> TensorsAt(CallWriter& writer, const Call& call, std::string_view name) {
  std::vector<NameId> tensors;
  const Argument* argument = FindArgument(call, name);
  if (argument == nullptr) return tensors;
  if (argument->kind == Argument::Kind::kTensor) tensors.push_back(writer.TensorOf(*argument));
  for (const Argument& item : argument->items) tensors.push_back(writer.TensorOf(item));
  return tensors;
}

Stack StackOf(CallWriter& writer, const Call& call) {
  return {.x = writer.TensorAt(call, "input"),
          .states = TensorsAt(writer, call, "hx"),
          .parameters = TensorsAt(writer, call, "params"),
          .layers = writer.IntAt(call, "num_layers", 1),
          .drops_out = writer.trains() && writer.RealAt(call, "dropout", 0) > 0};
}

bool FitsLayers(const CallWriter& writer, const Stack& stack) {
  const auto count = static_cast<int64_t>(stack.parameters.size());
  return stack.x != kNoName && writer.DimsOf(stack.x).size() == 3 && stack.layers > 0 &&
         count > 0 && count % stack.layers == 0;
}

}  // namespace

void WriteRecurrent(CallWriter& writer, const Call& call, std::string_view op) {
  const Stack stack = StackOf(writer, call);
  if (!FitsLayers(writer, stack)) return writer.WriteUnknown(call);
  const TensorType result = writer.TypeOfResult(call);  // [T, N, D * H], or [N, T, D * H]
  const auto width = static_cast<int64_t>(stack.parameters.size()) / stack.layers;
  NameId x = stack.x;
  for (int64_t layer = 0; layer < stack.layers; ++layer) {
    const bool is_last = layer + 1 == stack.layers;
    std::vector<NameId> inputs = {x};
    inputs.insert(inputs.end(), stack.states.begin(), stack.states.end());
    const auto first = stack.parameters.begin() + layer * width;
    inputs.insert(inputs.end(), first, first + width);
    std::vector<NameId> outputs;
    if (is_last) {
      outputs = writer.Results(call);
    } else {
      x = writer.NewName(fmt::format("{}.layer{}", call.name, layer), result);
      outputs = {x};
    }
    writer.Emit(writer.trains() ? op : RecurrentInference(op), std::move(inputs),
                std::move(outputs),
                RecurrentInts(op, Numel(result.dims), stack.drops_out && !is_last));
  }
}

}  // namespace onnxfit::pt2
