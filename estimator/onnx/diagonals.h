// The first elements on the diagonals of matrices.  They say whether one is the transpose of
// another, as a head may be that of an embedding, at the price of a few pages of the file.
#pragma once

#include <optional>

#include "estimator/onnx/graph.h"

namespace onnxfit {

class StoredContents;

// Of those alone of which one is gathered from, and another, with the sizes of its transpose, is
// what a product multiplies with: 16 elements of each.  O(nodes × log nodes).
Diagonals ReadDiagonals(const Graph& graph, const StoredContents& contents);

// Whether the initializer `a` is the transpose of `b`, by their diagonals; nullopt where these are
// not known, or are one number over and over.
std::optional<bool> AreTransposes(const Graph& graph, ValueId a, ValueId b);

}  // namespace onnxfit
