// What an exporter says of the nodes that it wrote, read once: the ATen calls, modules and source
// lines that they came from, and the module's tensors.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/onnx/graph.h"
#include "estimator/program/modules.h"
#include "estimator/program/source_statement.h"

namespace onnxfit {

// --- Calls (fx_node.cc) ---------------------------------------------------------------------

// The call that a node came from, as torch.export's exporter writes it into the node's
// metadata (torch 2.5 to 2.11):
//   %linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default](
//       args = (%view, %p_fc_weight, %p_fc_bias), kwargs = {})
struct FxArgument {
  enum class Kind : uint8_t {
    kReference,  // %name: `text` is the name
    kNumber,     // 3, 0.1, -inf: `text`; whole numbers also in `number`
    kWord,       // None, True, torch.float32, 'none': `text` without quotes
    kList,       // [a, b] or (a, b): `items`
  };
  Kind kind = Kind::kWord;
  std::string_view text = {};
  int64_t number = 0;
  std::vector<FxArgument> items = {};
};

struct FxNode {
  std::string_view name;    // "linear", the key of a group of nodes
  std::string_view target;  // "aten.linear.default"
  std::vector<FxArgument> arguments;
  std::vector<std::pair<std::string_view, FxArgument>> named;
};

// The call in `text`, whose views stay views of it; nothing where it is not one.
// O(length); lists are nested 32 deep at most.
std::optional<FxNode> ParseFxNode(std::string_view text);

// Whether a call makes a tensor of one number: torch.zeros, ones, full and their like.
bool FillsTensor(std::string_view target);

// The names that a call refers to, in order, those in lists included.
std::vector<std::string_view> References(const FxNode& node);

// --- All that is said of a file's nodes -----------------------------------------------------

// A row of the graph_signature that torch.export's exporter writes into the file (torch 2.11):
//   p_fc_weight: PARAMETER target='fc.weight'
struct SignatureEntry {
  enum class Kind : uint8_t { kParameter, kBuffer };
  Kind kind = Kind::kParameter;
  std::string_view name;    // "p_layer1_0_conv1_weight": how calls refer to it
  std::string_view target;  // "layer1.0.conv1.weight": also the initializer's name
};

// The nodes that one call of PyTorch's became.
struct FxGroup {
  FxNode call;
  std::vector<NodeId> nodes;  // in the graph's order
};

struct FileLine {
  std::string_view file;  // "transformers/models/bert/modeling_bert.py"
  std::string_view text;  // "" where the file does not show it
};

// Lines of the model's source on the way to a node.
struct NodeLines {
  std::string_view text = {};            // as the exporter writes them all; "" where it does not
  std::vector<FileLine> lines = {};      // one by one, the innermost last
  std::vector<StatementId> frames = {};  // of the forwards around its call, the innermost last
  std::string_view innermost = {};       // the line that the call was made in; "" if unknown
};

// Where a node came from: indices into what the file says.
struct NodeOrigin {
  ModuleId module = kOutside;
  int32_t group = -1;  // -1: none
  int32_t classes = 0;
  int32_t lines = 0;
};

struct ExporterMetadata {
  // In its order, which is that of named_parameters(remove_duplicate=False) and named_buffers();
  // empty where the file has none.
  std::vector<SignatureEntry> signature;
  // Tensors of the signature that are no buffers, "CONSTANT_TENSOR": plain attributes, which
  // model.to(device) leaves where they are, and numbers of the code.
  std::vector<std::string_view> constants = {};
  std::vector<FxGroup> groups;  // in the order of their first nodes
  ModuleTree modules;
  SourceLines source;
  std::vector<std::vector<std::string>> classes = {{}};  // of modules; the first: none
  std::vector<NodeLines> lines = {{}};                   // the first: none
  std::vector<NodeOrigin> origins;                       // by NodeId
  // Of `lines`, those that the file has without blanks around "=" (line_spacing.h).
  std::shared_ptr<std::deque<std::string>> spaced = std::make_shared<std::deque<std::string>>();

  // The group of nodes that `node` is in, -1: the file says nothing.
  int32_t GroupOf(NodeId node) const { return At(node).group; }
  // The call that `node` came from, or null.
  const FxNode* CallOf(NodeId node) const;
  // The same as torch.export names it, "aten.clone.default"; "" where it says nothing.
  std::string_view TargetOf(NodeId node) const;

  // The module call around `node`; kOutside where the file does not say it, or has one of more than
  // 64 modules.  From the outermost in, and without the operator itself:
  //   node "/model/layer1/layer1.0/conv1/Conv"       model, layer1, layer1.0, conv1
  //   name_scopes "['layer1', 'layer1.0', 'conv2d']" layer1, layer1.0
  // The first is how TorchScript names nodes, the second what torch.export writes into their
  // metadata.
  ModuleId ModuleOf(NodeId node) const { return At(node).module; }
  const std::string& PathOf(NodeId node) const { return modules.PathOf(ModuleOf(node)); }

  // Classes of these modules, of which torch.export alone tells: "torch.nn.modules.linear.Linear".
  const std::vector<std::string>& ClassesOf(NodeId node) const;

  const NodeLines& LinesOf(NodeId node) const;
  const NodeOrigin& At(NodeId node) const { return origins[static_cast<size_t>(node)]; }
};

// Its views stay valid as long as the graph's file.  O(nodes + length of their metadata).
ExporterMetadata ReadExporterMetadata(const Graph& graph);

// A name that TorchScript's exporter gives to what it computed, "onnx::MatMul_12" or
// "/fc/Transpose_output_0", and not one of the module's.
bool IsComputedName(std::string_view name);

// TorchScript's exporter begins the names of nodes with the modules around them: "/fc/MatMul".
bool IsNamedByTorchScript(const Node& node);

// The name that torch.export gives to a number that the model's code makes: torch.tensor(2.0).
bool IsLifted(std::string_view name);

// The name that a writer gives to what an attribute of the model's operator says: a scale, a bound.
bool IsOfAttribute(std::string_view name);

}  // namespace onnxfit
