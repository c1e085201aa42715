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
#include "estimator/program/recurrent_layers.h"
#include "estimator/pt2/call_rows.h"

namespace onnxfit::pt2 {

// --- torch.einsum --------------------------------------------------------------

namespace {

// A letter a dimension.
struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

bool AreOnce(const std::string& letters) {
  std::string sorted = letters;
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) == sorted.end();
}

// "bhqd,bhkd->bhqk"; nullopt for what is not written so.
std::optional<Equation> ParseEquation(std::string_view text) {
  std::string plain;
  std::ranges::copy_if(text, std::back_inserter(plain), [](char c) { return c != ' '; });
  const size_t arrow = plain.find("->");
  if (arrow == plain.npos || plain.find('.') != plain.npos) return std::nullopt;
  Equation equation = {{""}, plain.substr(arrow + 2)};
  for (const char c : plain.substr(0, arrow)) {
    if (c == ',') {
      equation.operands.emplace_back();
    } else {
      equation.operands.back().push_back(c);
    }
  }
  const bool fits = std::ranges::all_of(equation.operands, AreOnce) && AreOnce(equation.result);
  return fits ? std::optional(equation) : std::nullopt;
}

class EinsumWriter {
 public:
  EinsumWriter(CallWriter& writer, const Call& call) : writer_(writer), call_(call) {}

  // False where the operands are not of these sizes.
  bool WritePermutation(NameId x, const std::string& letters, const std::string& result) {
    if (!Fits(x, letters) || !std::ranges::is_permutation(letters, result)) return false;
    writer_.Emit("permute", {x}, {writer_.Result(call_)}, OrderOf(letters, result));
    return true;
  }

  bool WriteProduct(NameId a, NameId b, const Equation& equation) {
    const std::string& left = equation.operands[0];
    const std::string& right = equation.operands[1];
    if (!Fits(a, left) || !Fits(b, right)) return false;
    const auto has = [](const std::string& letters, char c) {
      return letters.find(c) != letters.npos;
    };
    std::string batch;
    std::string rows;
    std::string columns;
    std::string summed;
    for (const char c : left) {
      const bool is_shared = has(right, c);
      const bool stays = has(equation.result, c);
      if (!stays && !is_shared) return false;
      std::string& kept = is_shared ? batch : rows;
      (stays ? kept : summed).push_back(c);
    }
    for (const char c : right) {
      if (has(left, c)) continue;
      if (!has(equation.result, c)) return false;
      columns.push_back(c);
    }
    if (!std::ranges::is_permutation(batch + rows + columns, equation.result)) return false;
    sizes_ = SizesOf(a, left);
    for (const auto& [letter, size] : SizesOf(b, right)) {
      const int64_t other = SizeOf(letter);
      if (other >= 0 && other != size) return false;
      sizes_.emplace_back(letter, size);
    }
    const NameId first = AsMatrices(a, left, {batch, rows, summed});
    const NameId second = AsMatrices(b, right, {batch, summed, columns});
    const NameId product =
        Make("bmm", {first, second}, {Product(batch), Product(rows), Product(columns)});
    const std::string made = batch + rows + columns;
    const NameId unfolded = Make("view", {product}, Each(made));
    writer_.Emit("permute", {unfolded}, {writer_.Result(call_)}, OrderOf(made, equation.result));
    return true;
  }

 private:
  using Sizes = std::vector<std::pair<char, int64_t>>;

  bool Fits(NameId name, const std::string& letters) const {
    return name != kNoName && writer_.DimsOf(name).size() == letters.size();
  }

  Sizes SizesOf(NameId name, const std::string& letters) const {
    Sizes sizes;
    const Dims& dims = writer_.DimsOf(name);
    for (size_t i = 0; i < letters.size(); ++i) sizes.emplace_back(letters[i], dims[i]);
    return sizes;
  }

  // -1 for a letter that is not there.
  int64_t SizeOf(char letter) const {
    const auto found = std::ranges::find(sizes_, letter, &Sizes::value_type::first);
    return found == sizes_.end() ? -1 : found->second;
  }

  Dims Each(const std::string& letters) const {
    Dims dims;
    for (const char c : letters) dims.push_back(SizeOf(c));
    return dims;
  }

  int64_t Product(const std::string& letters) const {
    int64_t product = 1;
    for (const char c : letters) product = CheckedMul(product, SizeOf(c));
    return product;
  }

  static std::vector<int64_t> OrderOf(const std::string& from, const std::string& to) {
    std::vector<int64_t> order;
    for (const char c : to) order.push_back(static_cast<int64_t>(from.find(c)));
    return order;
  }

  NameId Make(std::string_view op, std::vector<NameId> inputs, Dims dims,
              std::vector<int64_t> ints = {}) {
    const DType dtype = writer_.TypeOfResult(call_).dtype;
    const NameId made =
        writer_.NewName(std::string(call_.name) + "." + std::string(op), {dtype, std::move(dims)});
    writer_.Emit(op, std::move(inputs), {made}, std::move(ints));
    return made;
  }

  NameId AsMatrices(NameId name, const std::string& letters,
                    const std::vector<std::string>& groups) {
    std::string order;
    Dims dims;
    for (const std::string& group : groups) {
      order += group;
      dims.push_back(Product(group));
    }
    const NameId turned = Make("permute", {name}, Each(order), OrderOf(letters, order));
    return Make("view", {turned}, std::move(dims));
  }

  CallWriter& writer_;
  const Call& call_;
  Sizes sizes_;
};

}  // namespace

void WriteEinsum(CallWriter& writer, const Call& call, std::string_view) {
  const std::optional<Equation> equation = ParseEquation(writer.TextAt(call, "equation"));
  const std::vector<NameId> tensors = writer.Tensors(call);
  const bool fits = equation && equation->operands.size() == tensors.size();
  EinsumWriter einsum(writer, call);
  if (fits && tensors.size() == 1 &&
      einsum.WritePermutation(tensors[0], equation->operands[0], equation->result)) {
    return;
  }
  if (fits && tensors.size() == 2 && einsum.WriteProduct(tensors[0], tensors[1], *equation)) return;
  writer.WriteUnknown(call);
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
