// What ONNX Runtime's optimizer made its operators of.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/onnx/constants.h"
#include "estimator/onnx/contrib_operators.h"
#include "estimator/onnx/inferrer.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

constexpr std::string_view kContrib = "com.microsoft";
constexpr std::string_view kResult = "_output_0";  // how TorchScript's exporter calls results
constexpr std::string_view kFusedName = "fused ";  // how the optimizer calls a fused node
constexpr std::string_view kBody[] = {"MatMul", "Gemm", "Conv"};  // of layers with a bias

std::string Without(std::string_view text, std::string_view prefix, std::string_view suffix) {
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  if (text.ends_with(suffix)) text.remove_suffix(suffix.size());
  return std::string(text);
}

// "/layer/dense" of "/layer/dense/MatMul"; "" where it is no path.
std::string ParentPath(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(path.substr(0, slash == std::string_view::npos ? 0 : slash));
}

// The nodes that take one node's place.
class FusedNode {
 public:
  FusedNode(onnx::GraphProto& graph, std::unordered_set<std::string>& taken,
            const onnx::NodeProto& node, std::vector<std::optional<TensorType>> types,
            bool is_attention)
      : graph_(graph),
        taken_(taken),
        node_(node),
        types_(std::move(types)),
        is_attention_(is_attention) {}

  const onnx::NodeProto& node() const { return node_; }
  bool Has(int i) const { return i < node_.input_size() && !node_.input(i).empty(); }
  std::string In(int i) const { return Has(i) ? node_.input(i) : ""; }
  std::string Out(int i) const { return i < node_.output_size() ? node_.output(i) : ""; }
  const Dims& DimsIn(size_t i) const { return types_[i]->dims; }
  DType TypeIn(size_t i) const { return types_[i]->dtype; }
  int64_t Int(std::string_view name, int64_t absent) const {
    return IntAttribute(node_, name, absent);
  }
  float Float(std::string_view name, float absent) const {
    const onnx::AttributeProto* written = FindAttribute(node_, name);
    return written == nullptr ? absent : written->f();
  }

  // True where the result becomes the weights of scaled_dot_product_attention.
  bool is_attention() const { return is_attention_; }

  // The path of the module that makes the first result, or that made input `i`.
  std::string ResultPath() const { return ParentPath(Without(Out(0), "", kResult)); }
  std::string PathOf(int i) const {
    const std::string name = Without(In(i), "", kResult);
    const std::string op = name.substr(std::min(name.rfind('/') + 1, name.size()));
    const bool is_layer = std::ranges::find(kBody, op) != std::end(kBody);
    return is_layer ? ParentPath(name) : ResultPath();
  }

  // A node of module `path`; its result is `output` where that is given.  The reference is good
  // until the next.
  onnx::NodeProto& Add(const std::string& path, const std::string& op,
                       const std::vector<std::string>& inputs, const std::string& output = "") {
    onnx::NodeProto& made = *graph_.add_node();
    made.set_op_type(op);
    for (const std::string& input : inputs) made.add_input(input);
    if (output.empty()) {
      made.set_name(Unique(path + "/" + op));
      made.add_output(Unique(made.name() + std::string(kResult)));
    } else {
      made.set_name(NameFor(output));
      made.add_output(output);
    }
    return made;
  }

  std::string Number(double value, DType dtype) {
    onnx::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(Unique(Without(Out(0), "", kResult) + "/Constant"));
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.add_float_data(static_cast<float>(value));
    if (dtype == DType::kFloat32) return tensor.name();
    onnx::NodeProto& cast = Add(ResultPath(), "Cast", {tensor.name()});
    SetInt(cast, "to", static_cast<int64_t>(dtype));
    return cast.output(0);
  }

  // [1, count]: 0, 1, 2 …
  std::string Positions(int64_t count) {
    onnx::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(Unique(Without(Out(0), "", kResult) + "/Constant"));
    tensor.set_data_type(onnx::TensorProto::INT64);
    tensor.add_dims(1);
    count = std::min(count, kMaxIntegers);
    tensor.add_dims(count);
    for (int64_t i = 0; i < count; ++i) tensor.add_int64_data(i);
    return tensor.name();
  }

  static void SetInt(onnx::NodeProto& node, const std::string& name, int64_t value) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(value);
  }
  static void SetInts(onnx::NodeProto& node, const std::string& name, const Dims& values) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::INTS);
    for (const int64_t value : values) attribute.add_ints(value);
  }
  // The attribute of the fused node that has this name, where it has.
  void Copy(const std::string& name, onnx::NodeProto& to) const {
    const onnx::AttributeProto* written = FindAttribute(node_, name);
    if (written != nullptr) *to.add_attribute() = *written;
  }

 private:
  std::string NameFor(const std::string& output) {
    if (output.ends_with(kResult)) return Unique(Without(output, "", kResult));
    return node_.name().empty() ? "" : Unique(Without(node_.name(), kFusedName, ""));
  }

  std::string Unique(const std::string& name) {
    std::string unique = name;
    for (int i = 1; !taken_.insert(unique).second; ++i) unique = name + "_" + std::to_string(i);
    return unique;
  }

  onnx::GraphProto& graph_;
  std::unordered_set<std::string>& taken_;
  const onnx::NodeProto& node_;
  std::vector<std::optional<TensorType>> types_;  // by input
  bool is_attention_;
};

// x + bias as a layer writes it, or x.
std::string WithBias(FusedNode& fused, const std::string& x, const std::string& path, int bias) {
  return fused.Has(bias) ? fused.Add(path, "Add", {x, fused.In(bias)}).output(0) : x;
}

// --- Products and convolutions ------------------------------------------------------

// [B, M, K] with its last two, or the batch and the next to last, exchanged.
std::string Turned(FusedNode& fused, int i, bool batch, bool last) {
  Dims perm(fused.DimsIn(static_cast<size_t>(i)).size());
  if (perm.size() < 2 || (!batch && !last)) return fused.In(i);
  std::iota(perm.begin(), perm.end(), 0);
  if (batch) std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
  if (last) std::swap(perm[perm.size() - 2], perm.back());
  onnx::NodeProto& node = fused.Add(fused.ResultPath(), "Transpose", {fused.In(i)});
  FusedNode::SetInts(node, "perm", perm);
  return node.output(0);
}

std::string MakeScaled(FusedNode& fused, const std::string& x, double by,
                       const std::string& output) {
  const std::string number = fused.Number(by, fused.TypeIn(0));
  return fused.Add(fused.ResultPath(), "Mul", {x, number}, output).output(0);
}

// Attention as PyTorch exports it scales both operands, everything else the product.
void TakeMatMul(FusedNode& fused) {
  std::string a = Turned(fused, 0, fused.Int("transBatchA", 0) != 0, fused.Int("transA", 0) != 0);
  std::string b = Turned(fused, 1, fused.Int("transBatchB", 0) != 0, fused.Int("transB", 0) != 0);
  const float alpha = fused.Float("alpha", 1);
  const bool scales_both = fused.is_attention() && alpha > 0.0F;
  if (scales_both && alpha != 1.0F) {
    a = MakeScaled(fused, a, std::sqrt(alpha), "");
    b = MakeScaled(fused, b, std::sqrt(alpha), "");
  }
  if (scales_both || alpha == 1.0F) {
    fused.Add(fused.ResultPath(), "MatMul", {a, b}, fused.Out(0));
    return;
  }
  const std::string product = fused.Add(fused.ResultPath(), "MatMul", {a, b}).output(0);
  MakeScaled(fused, product, alpha, fused.Out(0));
}

std::string ActivationOf(const FusedNode& fused) {
  const onnx::AttributeProto* written = FindAttribute(fused.node(), "activation");
  return written == nullptr ? "" : written->s();
}

// What the layer makes goes through the activation where there is one.
void Activate(FusedNode& fused, const std::string& activation, const std::string& x) {
  onnx::NodeProto& node = fused.Add(fused.ResultPath(), activation, {x}, fused.Out(0));
  const onnx::AttributeProto* slope = FindAttribute(fused.node(), "activation_alpha");
  if (slope == nullptr || activation != "LeakyRelu") return;
  onnx::AttributeProto& alpha = *node.add_attribute();
  alpha = *slope;
  alpha.set_name("alpha");
}

std::string LayerPath(const FusedNode& fused) {
  const std::string name = Without(fused.node().name(), kFusedName, "");
  return name.starts_with('/') ? ParentPath(name) : fused.ResultPath();
}

void TakeGemm(FusedNode& fused) {
  const std::string activation = ActivationOf(fused);
  std::vector<std::string> inputs = {fused.In(0), fused.In(1)};
  if (fused.Has(2)) inputs.push_back(fused.In(2));
  onnx::NodeProto& gemm = activation.empty()
                              ? fused.Add(LayerPath(fused), "Gemm", inputs, fused.Out(0))
                              : fused.Add(LayerPath(fused), "Gemm", inputs);
  for (const char* name : {"alpha", "beta", "transA", "transB"}) fused.Copy(name, gemm);
  if (!activation.empty()) Activate(fused, activation, std::string(gemm.output(0)));
}

std::string AddConv(FusedNode& fused, const std::string& x, const std::string& output) {
  std::vector<std::string> inputs = {x, fused.In(1)};
  if (fused.Has(2)) inputs.push_back(fused.In(2));
  onnx::NodeProto& conv = fused.Add(LayerPath(fused), "Conv", inputs, output);
  for (const char* name : {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}) {
    fused.Copy(name, conv);
  }
  return conv.output(0);
}

// act (conv (x, w, b) + z).
void TakeConv(FusedNode& fused) {
  const std::string activation = ActivationOf(fused);
  const bool ends = activation.empty() && !fused.Has(3);
  std::string made = AddConv(fused, fused.In(0), ends ? fused.Out(0) : "");
  if (fused.Has(3)) {
    const std::vector<std::string> inputs = {made, fused.In(3)};
    const std::string output = activation.empty() ? fused.Out(0) : "";
    made = fused.Add(fused.ResultPath(), "Add", inputs, output).output(0);
  }
  if (!activation.empty()) Activate(fused, activation, made);
}

// --- Biases ---------------------------------------------------------------------------

void TakeGelu(FusedNode& fused) {
  const std::string x = WithBias(fused, fused.In(0), fused.PathOf(0), 1);
  const std::string op = fused.node().op_type() == "FastGelu" ? "FastGelu" : "Gelu";
  fused.Add(fused.ResultPath(), op, {x}, fused.Out(0)).set_domain(std::string(kContrib));
}

void TakeSoftmax(FusedNode& fused) {
  const std::string x = WithBias(fused, fused.In(0), fused.ResultPath(), 1);
  onnx::NodeProto& softmax = fused.Add(fused.ResultPath(), "Softmax", {x}, fused.Out(0));
  FusedNode::SetInt(softmax, "axis", -1);
}

// dropout (x + bias) + residual: data, bias, residual, ratio, training_mode.
void TakeDropout(FusedNode& fused) {
  const std::string x = WithBias(fused, fused.In(0), fused.PathOf(0), 1);
  std::vector<std::string> inputs = {x};
  if (fused.Has(3)) inputs.push_back(fused.In(3));
  if (fused.Has(3) && fused.Has(4)) inputs.push_back(fused.In(4));
  onnx::NodeProto& dropout =
      fused.Add(fused.ResultPath(), "Dropout", inputs, fused.Has(2) ? "" : fused.Out(0));
  if (!fused.Out(1).empty()) dropout.add_output(fused.Out(1));
  const std::string dropped = dropout.output(0);
  if (fused.Has(2)) fused.Add(fused.ResultPath(), "Add", {dropped, fused.In(2)}, fused.Out(0));
}

// --- Norms -----------------------------------------------------------------------------

void AddNorm(FusedNode& fused, const std::string& x, const std::string& gamma,
             const std::string& beta) {
  std::vector<std::string> inputs = {x, gamma};
  if (!beta.empty()) inputs.push_back(beta);
  onnx::NodeProto& norm = fused.Add(fused.ResultPath(), "LayerNormalization", inputs, fused.Out(0));
  FusedNode::SetInt(norm, "axis", -1);
  fused.Copy("epsilon", norm);
}

// norm (x + bias + skip): input, skip, gamma, beta, bias; the sum is output 3.
void TakeSkipNorm(FusedNode& fused) {
  const std::string x = WithBias(fused, fused.In(0), fused.PathOf(0), 4);
  const std::string block = ParentPath(fused.ResultPath());
  const std::string sum = fused.Add(block, "Add", {x, fused.In(1)}, fused.Out(3)).output(0);
  AddNorm(fused, sum, fused.In(2), fused.In(3));
}

// Ids, segments, tables of words, positions and segments, gamma, beta, mask, position ids.
void TakeEmbedding(FusedNode& fused) {
  const std::string path = ParentPath(fused.ResultPath());
  const auto gather = [&](const std::string& module, int table, const std::string& ids) {
    return fused.Add(path + "/" + module, "Gather", {fused.In(table), ids}).output(0);
  };
  std::string sum = gather("word_embeddings", 2, fused.In(0));
  if (fused.Has(1) && fused.Has(4)) {
    const std::string segments = gather("token_type_embeddings", 4, fused.In(1));
    sum = fused.Add(path, "Add", {sum, segments}).output(0);
  }
  const Dims& ids = fused.DimsIn(0);
  const std::string positions =
      fused.Has(8) ? fused.In(8) : fused.Positions(ids.empty() ? 1 : ids.back());
  const std::string placed = gather("position_embeddings", 3, positions);
  sum = fused.Add(path, "Add", {sum, placed}, fused.Out(2)).output(0);
  AddNorm(fused, sum, fused.In(5), fused.In(6));
}

// Inputs and outputs as ONNX Runtime's docs/ContribOperators.md (1.23) has them.
struct PartsRow {
  std::string_view op_type;
  int required = 1;  // inputs
  int results = 1;   // outputs that the parts make: more are no parts of ours
  void (*take)(FusedNode&) = nullptr;
};

constexpr PartsRow kParts[] = {
    {"FusedMatMul", 2, 1, TakeMatMul},
    {"TransposeMatMul", 2, 1, TakeMatMul},
    {"FusedGemm", 2, 1, TakeGemm},
    {"FusedConv", 2, 1, TakeConv},
    {"BiasGelu", 2, 1, TakeGelu},
    {"BiasSoftmax", 2, 1, TakeSoftmax},
    {"BiasDropout", 2, 2, TakeDropout},
    {"SkipLayerNormalization", 3, 4, TakeSkipNorm},
    {"EmbedLayerNormalization", 7, 3, TakeEmbedding},
};

// FastGelu has parts only with a bias.
const PartsRow* FindParts(const onnx::NodeProto& node) {
  static constexpr PartsRow kFastGelu = {"FastGelu", 2, 1, TakeGelu};
  if (node.domain() != kContrib || node.output_size() == 0 || node.output(0).empty()) {
    return nullptr;
  }
  const bool with_bias = node.op_type() == kFastGelu.op_type && node.input_size() > 1;
  const auto* const found = std::ranges::find(kParts, node.op_type(), &PartsRow::op_type);
  const PartsRow* row = with_bias ? &kFastGelu : found == std::end(kParts) ? nullptr : found;
  if (row == nullptr || node.input_size() < row->required) return nullptr;
  return node.output_size() <= row->results ? row : nullptr;
}

bool HasParts(const Graph& graph) {
  const auto& nodes = graph.model->proto.graph().node();
  return std::ranges::any_of(nodes, [](const auto& node) { return FindParts(node) != nullptr; });
}

// Types of the inputs of fused nodes; nullopt where they do not resolve.
class FusedTypes {
 public:
  FusedTypes(const Graph& graph, const DimBinding& binding) : graph_(graph) {
    Inferrer inferrer(graph, binding);
    for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
      const onnx::NodeProto& node = graph.model->NodeOf(id);
      if (FindParts(node) != nullptr) types_.emplace(&node, TypesOf(inferrer, id));
      try {
        inferrer.Infer(id);
      } catch (const Error&) {
        return;  // BindShapes will say it
      }
    }
  }

  // Null where an input did not resolve.
  const std::vector<std::optional<TensorType>>* Of(const onnx::NodeProto& node) const {
    const auto found = types_.find(&node);
    if (found == types_.end()) return nullptr;
    for (int i = 0; i < node.input_size(); ++i) {
      if (!node.input(i).empty() && !found->second[static_cast<size_t>(i)]) return nullptr;
    }
    return &found->second;
  }

 private:
  std::vector<std::optional<TensorType>> TypesOf(const Inferrer& inferrer, NodeId id) const {
    std::vector<std::optional<TensorType>> types;
    for (const ValueId value : graph_.nodes[Index(id)].inputs) {
      const bool known = value != kNoValue && inferrer.Resolved(value);
      types.push_back(known ? std::optional(inferrer.TypeOf(value).tensor) : std::nullopt);
    }
    return types;
  }

  const Graph& graph_;
  std::unordered_map<const onnx::NodeProto*, std::vector<std::optional<TensorType>>> types_;
};

// What reads the first result of `node`.
class Readers {
 public:
  explicit Readers(const onnx::GraphProto& graph) {
    for (const onnx::NodeProto& node : graph.node()) {
      for (const std::string& input : node.input()) readers_.emplace(input, &node);
    }
  }

  // scores (+ mask), softmax, and the guard against rows without a number that torch.onnx writes.
  bool IsAttention(const onnx::NodeProto& node) const {
    const onnx::NodeProto* masked = ReaderOf(node, "Add");
    const onnx::NodeProto* softmax = ReaderOf(masked == nullptr ? node : *masked, "Softmax");
    return softmax != nullptr && ReaderOf(*softmax, "IsNaN") != nullptr;
  }

 private:
  const onnx::NodeProto* ReaderOf(const onnx::NodeProto& node, std::string_view op_type) const {
    const auto [begin, end] = readers_.equal_range(node.output(0));
    const auto found = std::find_if(
        begin, end, [&](const auto& entry) { return entry.second->op_type() == op_type; });
    return found == end || found->second->output_size() == 0 ? nullptr : found->second;
  }

  std::unordered_multimap<std::string_view, const onnx::NodeProto*> readers_;
};

}  // namespace

Graph TakeFusedApart(Graph graph, const DimBinding& binding) {
  if (!HasParts(graph)) return graph;
  const FusedTypes types(graph, binding);
  const Readers readers(graph.model->proto.graph());
  const onnx::ModelProto& old = graph.model->proto;
  onnx::ModelProto model = old;
  model.mutable_graph()->clear_node();
  std::unordered_set<std::string> taken;
  for (const Value& value : graph.values) taken.emplace(value.name);
  for (const onnx::NodeProto& node : old.graph().node()) {
    const PartsRow* row = FindParts(node);
    const auto* inputs = row == nullptr ? nullptr : types.Of(node);
    if (inputs == nullptr) {
      *model.mutable_graph()->add_node() = node;
      continue;
    }
    FusedNode fused(*model.mutable_graph(), taken, node, *inputs, readers.IsAttention(node));
    row->take(fused);
  }
  return RebuildGraph(std::move(model), graph);
}

}  // namespace onnxfit
