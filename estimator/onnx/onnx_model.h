// What ONNX's own parser made of a file.  Internal to the room onnx/: the other rooms
// see Graph alone.
#pragma once

#include <onnx/onnx_pb.h>

#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/onnx/graph.h"

namespace onnxfit {

// Functions are inlined, big tensors have lost their contents.  Nodes keep the file's
// order in here; a NodeId is a place in Graph::nodes, which may be sorted differently.
struct OnnxModel {
  onnx::ModelProto proto;
  std::vector<const onnx::NodeProto*> nodes;        // by NodeId
  std::vector<const onnx::ValueInfoProto*> inputs;  // by place in Graph::inputs
  // Of initializers, where they were kept.  By value: initializers change places (RestoreTensors).
  std::unordered_map<ValueId, const onnx::TensorProto*> contents;
  std::set<std::string> op_types;  // of other domains than ONNX's own

  const onnx::NodeProto& NodeOf(NodeId node) const { return *nodes[Index(node)]; }

  // The tensor with its elements, or null where they were not kept: the weights are
  // left out of the file, too big, in another file, sparse, or the file never had it.
  const onnx::TensorProto* ContentsOf(ValueId initializer) const {
    const auto found = contents.find(initializer);
    return found == contents.end() ? nullptr : found->second;
  }
};

// True where all elements of `tensor` are in its raw_data or typed data, as many as its
// dimensions say.  False for what was skipped, is external, or does not add up; so it is
// to be asked before the elements of an attribute's tensor (Constant) are read.
bool HasContents(const onnx::TensorProto& tensor);

// Checks `proto` and turns it into a Graph.  `proto` may not call functions of its own.
// Throws Error.  O(nodes).
Graph BuildGraph(onnx::ModelProto proto, std::string path, std::vector<std::string> notes = {});

// The same for those who rewrite a model (control flow): `changed` is a copy of that of `graph`,
// of which the rest is kept.
Graph RebuildGraph(onnx::ModelProto changed, const Graph& graph);

}  // namespace onnxfit
