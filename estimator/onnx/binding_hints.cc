#include "estimator/onnx/binding_hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "estimator/base/quote.h"
#include "estimator/base/text.h"

namespace onnxfit {
namespace {

// The name that `typed` is meant to be, where more of its letters are right than wrong: "seq" is
// no "s10".
std::string Misspelt(const std::string& typed, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string nearest(Nearest(typed, views));
  return 2 * EditDistance(typed, nearest) < typed.size() ? nearest : "";
}

// "did you mean", or else the first of those there are.
std::string NearestOrFirst(const std::string& typed, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view nearest = Nearest(typed, views);
  return nearest.empty() ? names.front() : std::string(nearest);
}

// The shape that the file gives an input, 1 for what it leaves free.
Dims ExampleOf(const DeclaredInputs& declared, const std::string& name) {
  Dims dims;
  for (const DeclaredInput& input : declared.inputs) {
    if (input.name != name || !input.HasShape()) continue;
    for (const auto& dim : input.Shape().dim()) {
      dims.push_back(dim.has_dim_value() ? dim.dim_value() : 1);
    }
  }
  return dims;
}

// That of the first input that has one, and of the others that are alike.
std::vector<ChangedDim> DimsToFree(const DeclaredInputs& declared, const std::string& name) {
  std::vector<ChangedDim> dims;
  for (const DeclaredInput& input : declared.inputs) {
    if (!input.HasShape() || input.Shape().dim_size() < 2) continue;
    const int axis = input.Shape().dim_size() > 3 ? 2 : 1;
    const int64_t size = input.Shape().dim(axis).dim_value();
    if (!dims.empty() && (dims[0].axis != axis || dims[0].from != size)) continue;
    dims.push_back({.input = input.name, .axis = axis, .from = size, .to = 0, .name = name});
  }
  return dims;
}

}  // namespace

std::vector<BindingHint> InsteadOfDim(const DeclaredInputs& declared, const DimBinding& binding,
                                      const std::string& name, int64_t size) {
  DimBinding without = binding;
  without.dims.erase(name);
  std::vector<BindingHint> hints;
  const auto add = [&](const std::string& other) {
    if (other.empty() || binding.dims.contains(other)) return;
    DimBinding changed = without;
    changed.dims[other] = size;
    hints.push_back({DimFlag(other, size), std::move(changed)});
  };
  const std::vector<std::string> names = declared.FreeNames();
  add(Misspelt(name, names));
  if (IsBatchName(name) && !binding.batch) {
    DimBinding changed = without;
    changed.batch = size;
    hints.push_back({fmt::format("--batch {}", size), std::move(changed)});
  }
  const size_t first = declared.batch_is_written ? 0 : 1;  // the one before it is the batch
  for (size_t i = first; i < names.size(); ++i) add(names[i]);
  return hints;
}

std::vector<BindingHint> InsteadOfShape(const DeclaredInputs& declared, const DimBinding& binding,
                                        const std::string& name, const Dims& dims) {
  std::vector<std::string> names;
  for (const DeclaredInput& input : declared.inputs) names.push_back(input.name);
  const std::string meant = NearestOrFirst(name, names);
  std::vector<BindingHint> hints;
  for (const Dims& shape : {dims, ExampleOf(declared, meant)}) {
    DimBinding changed = binding;
    changed.inputs.erase(name);
    changed.inputs[meant] = shape;
    const std::string flag = fmt::format("{}={}", meant, TimesJoined(shape));
    hints.push_back({"--shape " + ShellWord(flag), std::move(changed)});
  }
  return hints;
}

std::string DimFlag(const std::string& name, int64_t size) {
  return "--dim " + ShellWord(fmt::format("{}={}", name, size));
}

std::string TimesJoined(const Dims& dims) { return fmt::format("{}", fmt::join(dims, "x")); }

std::string FixedText(const DeclaredInputs& declared) {
  constexpr size_t kShown = 3;
  std::vector<std::string> texts;
  for (const DeclaredInput& input : declared.inputs) {
    if (!input.HasShape()) continue;
    texts.push_back(fmt::format("{} is {}", Quote(input.name), DeclaredShape(input.Shape())));
  }
  const size_t left_out = texts.size() - std::min(texts.size(), kShown);
  texts.resize(texts.size() - left_out);
  return fmt::format("{}{}", fmt::join(texts, ", "),
                     left_out > 0 ? fmt::format(" and {} more", left_out) : "");
}

std::string ExportHint(const Graph& graph, const DeclaredInputs& declared,
                       const std::string& name) {
  const std::vector<ChangedDim> dims = DimsToFree(declared, name);
  if (dims.empty()) return "an export whose sizes are free";
  return fmt::format("an export with {}, for TorchScript {}", DynamicShapes(graph, dims),
                     DynamicAxes(graph, dims));
}

}  // namespace onnxfit
