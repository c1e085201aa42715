// What a graph is made of, in a few bytes: whether another tool has changed it since.
#pragma once

#include <string>

#include "estimator/onnx/graph.h"

namespace onnxfit {

// The digest (base/text.h) of lines that say what the file has, in its order:
//   input NAME TYPE DIM,DIM          TYPE is ONNX's number, DIM a number or a name
//   initializer NAME TYPE DIM,DIM
//   node DOMAIN OP IN,IN OUT,OUT
//   output NAME
// Names of nodes, attributes, elements and metadata are not in it; python/onnxfit/onnx_metadata.py
// computes the same.  O(nodes + initializers).
std::string StructureDigest(const Graph& graph);

}  // namespace onnxfit
