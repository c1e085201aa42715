// What `python -m onnxfit export FILE.onnx` writes into the file's metadata: the calls as PyTorch
// makes them, of which the nodes have lost a part.
//
//   onnxfit.metadata   "1": the version of these keys
//   onnxfit.graph      the digest of the graph that they belong to (onnx/graph.h)
//   onnxfit.program    the JSON that torch.export.save writes, free dimensions named as in the
//                      file: deflated by zlib, in base64
//   onnxfit.ties       JSON, {"lm_head.weight": "wte.weight"}: names of one tensor; may be absent
//   onnxfit.notes      JSON, as of a .pt2's onnxfit/notes.json (schema.h); may be absent
//
// python/onnxfit/onnx_metadata.py writes them.
#pragma once

#include "estimator/base/error.h"
#include "estimator/onnx/graph.h"

namespace onnxfit::pt2 {

// `file` with the program that it holds, as `embedded`.  Where the keys are of another version,
// damaged, or of a graph that was changed since, `file` gets a warning that says so instead; where
// there are none, nothing.  O(length of the JSON).
onnxfit::Graph WithEmbeddedProgram(onnxfit::Graph file);

// That the program is not used, and why.
Warning UnusedProgram(const Error& error);

}  // namespace onnxfit::pt2
