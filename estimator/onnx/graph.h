// What an ONNX file says, as plain values: nodes, values, initializers.  Nothing is
// interpreted here; names and numbers are the file's own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/tensor_type.h"

namespace onnxfit {

using ValueId = int32_t;                 // index into Graph::values
using NodeId = int32_t;                  // index into Graph::nodes
inline constexpr ValueId kNoValue = -1;  // an optional input or output left out
inline constexpr NodeId kNoNode = -1;

// A tensor-valued or graph-valued attribute is present with its name and no value.
using AttributeValue =
    std::variant<std::monostate, int64_t, double, std::string_view, std::vector<int64_t>,
                 std::vector<double>, std::vector<std::string_view>>;

struct Attribute {
  std::string_view name;
  AttributeValue value;
};

// Key and value of one metadata_props entry.
using Metadata = std::vector<std::pair<std::string_view, std::string_view>>;

struct Node {
  std::string_view name;         // may be "" or shared: the file decides
  std::string_view op_type;      // "Gelu" is ONNX's own, "com.microsoft.Gelu" another
  std::string_view domain;       // "" is ONNX's own
  std::vector<ValueId> inputs;   // kNoValue where one is left out
  std::vector<ValueId> outputs;  // kNoValue where one is left out
  std::vector<Attribute> attributes;
  Metadata metadata;
};

struct Value {
  std::string_view name;
  NodeId producer = kNoNode;  // kNoNode: a graph input or an initializer
  int32_t initializer = -1;   // index into Graph::initializers
  bool is_input = false;      // a graph input that has no initializer
  bool is_output = false;
};

struct Initializer {
  ValueId value = kNoValue;
  TensorType type;
  bool external = false;  // its bytes are in another file and were not read
};

// By the names of initializers: their first elements (i, i) as stored, one behind another.
using Diagonals = std::map<std::string, std::string, std::less<>>;

struct OpsetImport {
  std::string_view domain;
  int64_t version = 0;
};

// The parsed file behind a Graph; only the room onnx/ sees inside.
struct OnnxModel;

namespace pt2 {
struct ExportedProgram;
}

// A graph in topological order: a node comes after all that it reads.  Nodes of ONNX's own
// operators have the inputs that they need, and no more than they take (WrongSignature in
// schemas.h).  If and Loop bodies stay with their node.  Movable; the views stay valid as long as
// `model` lives.
struct Graph {
  std::string path;    // as typed; "<stdin>" for standard input, "<text>" for tests
  std::string digest;  // of the file's bytes without large weights (base/text.h)
  std::vector<OpsetImport> opsets;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;  // without initializers
  std::vector<ValueId> outputs;
  std::vector<Initializer> initializers;  // in the file's order
  Metadata metadata;                      // model's, then graph's
  Diagonals diagonals;                    // of matrices that may be one another (AreTransposes)
  std::vector<std::string> notes;         // what loading did, for -v
  Warnings warnings = {};                 // of loading, for every answer
  std::string torch = {};  // the PyTorch that wrote it: "2.11.0+cu130"; "" where it does not say
  std::shared_ptr<const OnnxModel> model;
  // What a .pt2 holds, of which this says the inputs alone (pt2/make_program.h); null otherwise.
  std::shared_ptr<const pt2::ExportedProgram> exported = {};
  // The same of a program that an ONNX file holds beside its nodes (pt2/embedded_program.h).
  std::shared_ptr<const Graph> embedded = {};
};

// False for a node that was put aside: all its results are left out.
bool HasResult(const Node& node);

// The attribute called `name`, or null.  O(attributes).
const Attribute* FindAttribute(const Node& node, std::string_view name);
int64_t IntAttribute(const Node& node, std::string_view name, int64_t absent);
double FloatAttribute(const Node& node, std::string_view name, double absent);

// The value under `key` in `metadata`, or "".
std::string_view FindMetadata(const Metadata& metadata, std::string_view key);

// How messages and reports call a node: its name, or "Conv #12" where it has none.
std::string DisplayName(const Graph& graph, NodeId node);

// How errors say where they are: "node 'conv1' (Conv)", "node 'Conv #12'" where it has no name.
std::string NodeText(const Graph& graph, NodeId node);

// A line for each input, initializer, node and output, in order, for tests and -v:
//   input x
//   initializer w float32[4, 8]
//   y = Gemm(x, w) <alpha=0.5, transB=1>
//   output y
std::string ToString(const Graph& graph);

// --- What a graph is made of ---------------------------------------------------

// What a graph is made of, in a few bytes, which tell whether another tool has changed it since:
// the digest (base/text.h) of lines that say what the file has, in its order:
//   input NAME TYPE DIM,DIM          TYPE is ONNX's number, DIM a number or a name
//   initializer NAME TYPE DIM,DIM
//   node DOMAIN OP IN,IN OUT,OUT
//   output NAME
// Names of nodes, attributes, elements and metadata are not in it; python/onnxfit/onnx_metadata.py
// computes the same.  O(nodes + initializers).
std::string StructureDigest(const Graph& graph);

// Whether the initializer `a` is the transpose of `b`, by Graph::diagonals; nullopt where these are
// not known, or are one number over and over.
std::optional<bool> AreTransposes(const Graph& graph, ValueId a, ValueId b);

// --- Graphs of models that are no ONNX files -----------------------------------

// One dimension of an input.
struct DeclaredDim {
  int64_t size = 0;
  std::string name = {};  // of a free dimension, as --dim takes it; "" where it is fixed
};

struct DeclaredTensor {
  std::string name;
  DType dtype = DType::kUndefined;
  std::vector<DeclaredDim> dims;
};

// A graph that says what a model's inputs are, and nothing of what it computes: their free
// dimensions are bound as a file's are (BindShapes).  Throws Error where there is no input.
Graph GraphOfInputs(const std::string& path, const std::vector<DeclaredTensor>& inputs);

}  // namespace onnxfit
