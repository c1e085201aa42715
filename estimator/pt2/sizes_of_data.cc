#include "estimator/pt2/sizes_of_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/expression.h"
#include "estimator/base/quote.h"
#include "estimator/onnx/named_sizes.h"

namespace onnxfit::pt2 {

std::vector<std::pair<std::string_view, const Tensor*>> InputsOf(const ExportedProgram& exported) {
  std::vector<std::pair<std::string_view, const Tensor*>> inputs;
  for (const InputSpec& spec : exported.inputs) {
    const auto tensor = exported.graph.tensors.find(spec.name);
    if (spec.kind != InputSpec::Kind::kUser || tensor == exported.graph.tensors.end()) continue;
    inputs.emplace_back(spec.name, &tensor->second);
  }
  return inputs;
}

namespace {

using Words = std::set<std::string_view>;

void AddSymbols(std::string_view expression, Words& symbols) {
  constexpr std::string_view kLetters =
      "_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  size_t end = 0;
  while ((end = expression.find_first_of(kLetters, end)) != expression.npos) {
    const size_t begin = end;
    end = std::min(expression.find_first_not_of(kLetters, begin), expression.size());
    const bool is_function = end < expression.size() && expression[end] == '(';
    const bool is_number = expression[begin] >= '0' && expression[begin] <= '9';
    if (!is_function && !is_number) symbols.insert(expression.substr(begin, end - begin));
  }
}

// In the graph, and in those that its calls take.
void AddSymbols(const Graph& graph, Words& symbols) {
  for (const auto& [name, tensor] : graph.tensors) {
    for (const Size& size : tensor.sizes) AddSymbols(size.expression, symbols);
  }
  for (const Call& call : graph.calls) {
    for (const Argument* body : BodiesOf(call)) AddSymbols(*body->graph, symbols);
  }
}

}  // namespace

std::set<std::string_view> SizesOfData(const ExportedProgram& exported) {
  Words all;
  Words of_inputs;
  AddSymbols(exported.graph, all);
  for (const auto& [name, tensor] : InputsOf(exported)) {
    for (const Size& size : tensor->sizes) AddSymbols(size.expression, of_inputs);
  }
  for (const std::string_view symbol : of_inputs) all.erase(symbol);
  return all;
}

namespace {

// What the symbol was at the export: that of a number that forward takes.
std::optional<int64_t> ExampleOf(const ExportedProgram& exported, std::string_view symbol) {
  for (const auto& [name, size] : exported.graph.symbols) {
    if (size.expression == symbol && size.hint.has_value()) return size.hint;
  }
  return std::nullopt;
}

// The first tensor that has it.
std::string_view FirstOfSize(const Graph& graph, std::string_view symbol) {
  for (const Call& call : graph.calls) {
    for (const Argument& result : ResultsOf(call)) {
      const auto tensor = graph.tensors.find(result.text);
      if (tensor == graph.tensors.end()) continue;
      Words symbols;
      for (const Size& size : tensor->second.sizes) AddSymbols(size.expression, symbols);
      if (symbols.contains(symbol)) return result.text;
    }
  }
  return "";
}

constexpr int64_t kNoLimit = int64_t{1} << 40;  // what PyTorch writes where there is none

// Elements of a tensor; nothing where that is not known.
std::optional<int64_t> ElementsOf(const Graph& graph, std::string_view name,
                                  const SymbolValues& symbols) {
  const auto tensor = graph.tensors.find(name);
  if (tensor == graph.tensors.end()) return std::nullopt;
  std::optional<int64_t> numel = 1;
  for (const Size& size : tensor->second.sizes) {
    const auto length =
        size.expression.empty() ? std::optional(size.number) : Evaluate(size.expression, symbols);
    if (!length.has_value()) return std::nullopt;
    numel = CheckedMul(*numel, *length);
  }
  return numel;
}

// Of nonzero(x), whose first size is the symbol: the elements of x.
std::optional<int64_t> MostOf(const Graph& graph, const Call& call, std::string_view symbol,
                              const SymbolValues& symbols) {
  const Argument* self = FindArgument(call, "self");
  const bool finds = call.target == "torch.ops.aten.nonzero.default" && call.results.size() == 1;
  if (!finds || self == nullptr) return std::nullopt;
  const auto made = graph.tensors.find(call.results[0].text);
  if (made == graph.tensors.end() || made->second.sizes.empty()) return std::nullopt;
  if (made->second.sizes[0].expression != symbol) return std::nullopt;
  return ElementsOf(graph, self->text, symbols);
}

int64_t BoundToType(const ExportedProgram& exported, std::string_view symbol, const Range& range,
                    const SymbolValues& symbols) {
  constexpr int64_t kExample = 100;
  const int64_t low = range.low.value_or(0);
  std::optional<int64_t> most = range.high;
  for (const Call& call : exported.graph.calls) {
    const auto found = MostOf(exported.graph, call, symbol, symbols);
    if (found.has_value()) most = std::min(most.value_or(*found), *found);
  }
  return std::max(most.value_or(kExample), low);
}

// What the export asserts of the symbol.
Range RangeOf(const ExportedProgram& exported, std::string_view symbol) {
  const auto written = exported.ranges.find(symbol);
  Range range = written == exported.ranges.end() ? Range() : written->second;
  if (range.high.value_or(kNoLimit) >= kNoLimit) range.high = std::nullopt;
  return range;
}

void CheckRange(const onnxfit::Graph& file, std::string_view symbol, const Range& range,
                int64_t size) {
  const bool is_below = range.low.has_value() && size < *range.low;
  if (!is_below && (!range.high.has_value() || size <= *range.high)) return;
  const int64_t nearest = is_below ? *range.low : *range.high;
  throw Error({.file = file.path,
               .where = fmt::format("--dim {}", symbol),
               .text = fmt::format("at {} {} was expected, which the export allows, found {}",
                                   is_below ? "least" : "most", nearest, size),
               .hint = fmt::format("--dim {}={}", symbol, nearest)});
}

}  // namespace

void BindSizesOfData(const onnxfit::Graph& file, const std::map<std::string, int64_t>& sizes,
                     SymbolValues& symbols) {
  const ExportedProgram& exported = *file.exported;
  std::vector<std::string> flags;
  std::string_view first;
  for (const auto& [key, symbol] : file.metadata) {
    if (key != kSizeOfData) continue;
    const auto given = sizes.find(std::string(symbol));
    const auto example = ExampleOf(exported, symbol);
    const Range range = RangeOf(exported, symbol);
    if (given != sizes.end()) {
      CheckRange(file, symbol, range, given->second);
      symbols.emplace(symbol, given->second);
    } else if (example.has_value()) {
      symbols.emplace(symbol, *example);
    } else {
      if (first.empty()) first = symbol;
      flags.push_back(
          fmt::format("--dim {}={}", symbol, BoundToType(exported, symbol, range, symbols)));
    }
  }
  if (flags.empty()) return;
  const std::string_view tensor = FirstOfSize(exported.graph, first);
  throw Error({.file = file.path,
               .where = fmt::format("size {}", first),
               .text = fmt::format("the data decide it{}: the most that it may be was expected, "
                                   "found nothing",
                                   tensor.empty() ? "" : fmt::format(", of {}", Quote(tensor))),
               .hint = fmt::format("{}", fmt::join(flags, " "))});
}

}  // namespace onnxfit::pt2
