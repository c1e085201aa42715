#include "estimator/onnx/diagonals.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/onnx/stored_contents.h"

namespace onnxfit {
namespace {

constexpr int64_t kMostElements = 16;

// The matrix of floats that input `place` of `node` is; else null.
const Initializer* StoredMatrix(const Graph& graph, const Node& node, size_t place) {
  if (place >= node.inputs.size() || node.inputs[place] == kNoValue) return nullptr;
  const int32_t stored = graph.values[Index(node.inputs[place])].initializer;
  if (stored < 0) return nullptr;
  const Initializer& initializer = graph.initializers[Index(stored)];
  const bool is_matrix = IsFloat(initializer.type.dtype) && initializer.type.dims.size() == 2 &&
                         BitsOf(initializer.type.dtype) % 8 == 0;
  return is_matrix ? &initializer : nullptr;
}

// Matrices by type and sizes.
using BySizes = std::map<std::tuple<DType, int64_t, int64_t>, std::set<const Initializer*>>;

BySizes MatricesOf(const Graph& graph, std::string_view op_type, size_t place, bool transposed) {
  BySizes found;
  for (const Node& node : graph.nodes) {
    const Initializer* matrix =
        node.op_type == op_type ? StoredMatrix(graph, node, place) : nullptr;
    if (matrix == nullptr) continue;
    const Dims& dims = matrix->type.dims;
    found[{matrix->type.dtype, dims[transposed ? 1 : 0], dims[transposed ? 0 : 1]}].insert(matrix);
  }
  return found;
}

std::set<const Initializer*> MatricesToCompare(const Graph& graph) {
  const BySizes tables = MatricesOf(graph, "Gather", 0, false);
  const BySizes factors = MatricesOf(graph, "MatMul", 1, true);
  std::set<const Initializer*> found;
  for (const auto& [sizes, of_tables] : tables) {
    const auto of_factors = factors.find(sizes);
    if (of_factors == factors.end()) continue;
    found.insert(of_tables.begin(), of_tables.end());
    found.insert(of_factors->second.begin(), of_factors->second.end());
  }
  return found;
}

// "" where an element is missing.
std::string DiagonalOf(const Initializer& matrix, std::string_view name,
                       const StoredContents& contents) {
  const int64_t element_bytes = BitsOf(matrix.type.dtype) / 8;
  const int64_t rows = std::min({matrix.type.dims[0], matrix.type.dims[1], kMostElements});
  std::string diagonal;
  for (int64_t i = 0; i < rows; ++i) {
    const std::string element = contents.Read(
        name, matrix.type, (i * matrix.type.dims[1] + i) * element_bytes, element_bytes);
    if (static_cast<int64_t>(element.size()) != element_bytes) return {};
    diagonal += element;
  }
  return diagonal;
}

// What is one number over and over, was filled rather than trained.
bool RepeatsItself(std::string_view diagonal, size_t element_bytes) {
  return diagonal.substr(element_bytes) == diagonal.substr(0, diagonal.size() - element_bytes);
}

const std::string* KnownDiagonal(const Graph& graph, ValueId value) {
  const auto found = graph.diagonals.find(graph.values[Index(value)].name);
  return found == graph.diagonals.end() ? nullptr : &found->second;
}

}  // namespace

Diagonals ReadDiagonals(const Graph& graph, const StoredContents& contents) {
  Diagonals diagonals;
  for (const Initializer* matrix : MatricesToCompare(graph)) {
    const std::string_view name = graph.values[Index(matrix->value)].name;
    std::string diagonal = DiagonalOf(*matrix, name, contents);
    const auto element_bytes = static_cast<size_t>(BitsOf(matrix->type.dtype) / 8);
    if (diagonal.empty() || RepeatsItself(diagonal, element_bytes)) continue;
    diagonals.emplace(name, std::move(diagonal));
  }
  return diagonals;
}

std::optional<bool> AreTransposes(const Graph& graph, ValueId a, ValueId b) {
  const std::string* of_a = KnownDiagonal(graph, a);
  const std::string* of_b = KnownDiagonal(graph, b);
  if (of_a == nullptr || of_b == nullptr) return std::nullopt;
  return *of_a == *of_b;
}

}  // namespace onnxfit
