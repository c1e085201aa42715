#include "estimator/graph/signature.h"

#include <fmt/format.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "estimator/graph/schemas.h"

namespace onnxfit {
namespace {

using Parameters = std::vector<onnx::OpSchema::FormalParameter>;

constexpr size_t kAnyNumber = std::numeric_limits<size_t>::max();

bool IsVariadic(const onnx::OpSchema::FormalParameter& parameter) {
  return parameter.GetOption() == onnx::OpSchema::Variadic;
}

// How many there have to be of it.
size_t LeastOf(const onnx::OpSchema::FormalParameter& parameter) {
  if (IsVariadic(parameter)) return static_cast<size_t>(std::max(parameter.GetMinArity(), 0));
  return parameter.GetOption() == onnx::OpSchema::Single ? 1 : 0;
}

size_t LeastOf(const Parameters& parameters) {
  size_t least = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (LeastOf(parameters[i]) > 0) least = i + LeastOf(parameters[i]);
  }
  return least;
}

size_t MostOf(const Parameters& parameters) {
  const bool is_open = !parameters.empty() && IsVariadic(parameters.back());
  return is_open ? kAnyNumber : parameters.size();
}

// The first that has to be there and is not, else kAnyNumber.
size_t FindMissing(const Node& node, const Parameters& parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    for (size_t k = i; k < i + LeastOf(parameters[i]); ++k) {
      if (k >= node.inputs.size() || node.inputs[k] == kNoValue) return k;
    }
  }
  return kAnyNumber;
}

// An input more than at its opset, axes of a reduction, is what later ones take.
std::string WrongInputs(const Node& node, const Parameters& parameters) {
  const size_t missing = FindMissing(node, parameters);
  if (missing != kAnyNumber) {
    return fmt::format("expected {} inputs at least, input {} is missing", LeastOf(parameters),
                       missing);
  }
  constexpr int64_t kNewest = std::numeric_limits<int64_t>::max();
  const size_t most =
      std::max(MostOf(parameters), MostOf(NearestSchema(node.op_type, kNewest)->inputs()));
  if (node.inputs.size() <= most) return "";
  return fmt::format("expected {} inputs at most, found {}", most, node.inputs.size());
}

std::string WrongOutputs(const Node& node, const Parameters& parameters) {
  const size_t least = std::min<size_t>(LeastOf(parameters), 1);  // further ones may be left out
  const size_t most = MostOf(parameters);
  if (node.outputs.size() < least) return "expected an output, found none";
  if (node.outputs.size() <= most) return "";
  return fmt::format("expected {} outputs at most, found {}", most, node.outputs.size());
}

}  // namespace

std::string WrongSignature(const Node& node, int64_t opset) {
  const onnx::OpSchema* schema = node.domain.empty() ? NearestSchema(node.op_type, opset) : nullptr;
  if (schema == nullptr || schema->Deprecated()) return "";
  const std::string wrong = WrongInputs(node, schema->inputs());
  return wrong.empty() ? WrongOutputs(node, schema->outputs()) : wrong;
}

}  // namespace onnxfit
