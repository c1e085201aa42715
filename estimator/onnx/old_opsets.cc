// Files of opset 6 and older (ONNX 1.0 to 1.1, 2017 and 2018), written as opset 7 has them.  What
// changed is in ONNX's docs/Changelog.md (1.23.2).  onnx.version_converter, which does the same,
// ends at a Cast, Pad, Split, Tile or LSTM, and needs the shapes of all values for an axis.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "estimator/onnx/constants.h"
#include "estimator/onnx/contrib_operators.h"
#include "estimator/onnx/old_ranks.h"
#include "estimator/onnx/onnx_model.h"
#include "estimator/onnx/schemas.h"

namespace onnxfit {
namespace {

constexpr int64_t kWantedOpset = 7;

// What stands for the opset of files that are older than its being written.
constexpr int64_t kUnwrittenOpset = 1;
constexpr int64_t kIrWithOpsets = 3;

using OldNodeList = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

void Remove(onnx::NodeProto& node, std::string_view name) {
  auto& attributes = *node.mutable_attribute();
  for (int i = attributes.size() - 1; i >= 0; --i) {
    if (attributes[i].name() == name) attributes.DeleteSubrange(i, 1);
  }
}

onnx::AttributeProto& SetAttribute(onnx::NodeProto& node, const char* name,
                                   onnx::AttributeProto::AttributeType type) {
  Remove(node, name);
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

std::vector<int64_t> IntsOf(const onnx::NodeProto& node, std::string_view name) {
  const onnx::AttributeProto* found = FindAttribute(node, name);
  if (found == nullptr) return {};
  return {found->ints().begin(), found->ints().end()};
}

// --- What becomes of one node ---------------------------------------------------

class OldNodes {
 public:
  OldNodes(onnx::GraphProto& graph, int64_t opset)
      : graph_(graph), opset_(opset), ranks_(graph), reads_(CountReads(graph)) {
    old_.Swap(graph.mutable_node());
    for (const onnx::NodeProto& node : old_)
      taken_.insert(node.output().begin(), node.output().end());
  }

  void Rewrite();

 private:
  using Change = void (OldNodes::*)(onnx::NodeProto&);
  struct ChangeRow {
    std::string_view op_type;
    int64_t below;  // in opsets below this one
    Change change;
  };
  static const ChangeRow kChanges[];

  static std::unordered_map<std::string, int> CountReads(const onnx::GraphProto& graph) {
    std::unordered_map<std::string, int> reads;
    for (const onnx::NodeProto& node : graph.node()) {
      for (const std::string& input : node.input()) ++reads[input];
    }
    for (const onnx::ValueInfoProto& output : graph.output()) ++reads[output.name()];
    return reads;
  }

  std::string NewName(const std::string& near) {
    std::string name = near + "_opset7";
    while (!taken_.insert(name).second) name += '_';
    return name;
  }

  // In front of the node that is being written.
  std::string AddList(const std::string& near, const std::vector<int64_t>& elements) {
    onnx::NodeProto& node = *graph_.add_node();
    node.set_op_type("Constant");
    node.add_output(NewName(near));
    onnx::TensorProto& tensor =
        *SetAttribute(node, "value", onnx::AttributeProto::TENSOR).mutable_t();
    tensor.set_data_type(onnx::TensorProto::INT64);
    tensor.add_dims(static_cast<int64_t>(elements.size()));
    for (const int64_t element : elements) tensor.add_int64_data(element);
    return node.output(0);
  }

  std::optional<std::vector<int64_t>> ListAt(const onnx::NodeProto& node, int input) const {
    constexpr int64_t kMost = 1024;
    if (input >= node.input_size()) return std::nullopt;
    const onnx::TensorProto* tensor = ranks_.Stored(node.input(input));
    if (tensor == nullptr || !HasContents(*tensor)) return std::nullopt;
    const std::optional<HostTensor> known = FromProto(*tensor, nullptr);
    if (!known || known->is_float() || !HasUpTo(*known, kMost)) return std::nullopt;
    return InFull(*known).integers();
  }

  // --- Rows ---

  void JoinAlongOne(onnx::NodeProto& node) {
    if (FindAttribute(node, "axis") == nullptr)
      SetAttribute(node, "axis", onnx::AttributeProto::INT).set_i(1);
  }

  void ReadShape(onnx::NodeProto& node) {
    if (FindAttribute(node, "shape") == nullptr || node.input_size() != 1) return;
    node.add_input(AddList(node.output(0), IntsOf(node, "shape")));
    Remove(node, "shape");
  }

  // By name: "FLOAT16".
  void NameType(onnx::NodeProto& node) {
    const onnx::AttributeProto* to = FindAttribute(node, "to");
    if (to == nullptr || to->type() != onnx::AttributeProto::STRING) return;
    onnx::TensorProto::DataType type = onnx::TensorProto::UNDEFINED;
    if (!onnx::TensorProto::DataType_Parse(to->s(), &type)) return;
    SetAttribute(node, "to", onnx::AttributeProto::INT).set_i(type);
  }

  void RenamePads(onnx::NodeProto& node) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.name() == "paddings") attribute.set_name("pads");
    }
  }

  // Parts were an input.
  void ListParts(onnx::NodeProto& node) {
    const auto parts = ListAt(node, 1);
    if (!parts) return;
    onnx::AttributeProto& split = SetAttribute(node, "split", onnx::AttributeProto::INTS);
    for (const int64_t part : *parts) split.add_ints(part);
    node.mutable_input()->DeleteSubrange(1, node.input_size() - 1);
  }

  // How often, and along which axis, were inputs.
  void RepeatAll(onnx::NodeProto& node) {
    const auto tiles = ListAt(node, 1);
    const auto axis = ListAt(node, 2);
    const std::optional<int> rank = ranks_.OfInput(node, 0);
    const bool is_known = tiles && axis && rank && tiles->size() == 1 && axis->size() == 1;
    if (!is_known || axis->front() < 0 || axis->front() >= *rank) return;
    std::vector<int64_t> repeats(Index(*rank), 1);
    repeats[static_cast<size_t>(axis->front())] = tiles->front();
    *node.mutable_input(1) = AddList(node.output(0), repeats);
    node.mutable_input()->DeleteSubrange(2, 1);
  }

  void ListScales(onnx::NodeProto& node) {
    const onnx::AttributeProto* height = FindAttribute(node, "height_scale");
    const onnx::AttributeProto* width = FindAttribute(node, "width_scale");
    if (height == nullptr || width == nullptr) return;
    const float scales[] = {1, 1, height->f(), width->f()};
    onnx::AttributeProto& list = SetAttribute(node, "scales", onnx::AttributeProto::FLOATS);
    for (const float scale : scales) list.add_floats(scale);
    Remove(node, "height_scale");
    Remove(node, "width_scale");
  }

  void CountPower(onnx::NodeProto& node) {
    const onnx::AttributeProto* p = FindAttribute(node, "p");
    constexpr float kMost = 1 << 20;
    if (p == nullptr || p->type() != onnx::AttributeProto::FLOAT) return;
    if (!(std::abs(p->f()) <= kMost)) return;
    const auto power = static_cast<int64_t>(p->f());
    SetAttribute(node, "p", onnx::AttributeProto::INT).set_i(power);
  }

  void ForgetTest(onnx::NodeProto& node) { Remove(node, "is_test"); }
  void ForgetSequence(onnx::NodeProto& node) { Remove(node, "output_sequence"); }
  void ForgetBroadcast(onnx::NodeProto& node) { Remove(node, "broadcast"); }

  // The second operand began at `axis` of the first one; today the last dimensions lie together.
  void AlignSecond(onnx::NodeProto& node) {
    const onnx::AttributeProto* written = FindAttribute(node, "axis");
    const std::optional<int> first = ranks_.OfInput(node, 0);
    const std::optional<int> second = ranks_.OfInput(node, 1);
    const int64_t axis = written == nullptr ? 0 : written->i();
    Remove(node, "axis");
    Remove(node, "broadcast");
    if (written == nullptr || !first || !second || axis < -*first || axis > *first) return;
    const int64_t behind = *first - (axis < 0 ? axis + *first : axis) - *second;
    if (behind <= 0) return;
    onnx::NodeProto& unsqueeze = *graph_.add_node();
    unsqueeze.set_op_type("Unsqueeze");
    unsqueeze.add_input(node.input(1));
    unsqueeze.add_output(NewName(node.input(1)));
    onnx::AttributeProto& axes = SetAttribute(unsqueeze, "axes", onnx::AttributeProto::INTS);
    for (int64_t i = 0; i < behind; ++i) axes.add_ints(*second + i);
    *node.mutable_input(1) = unsqueeze.output(0);
  }

  // Up to 0.3 torch.onnx wrote the bias of a convolution as an Add behind it.
  bool JoinBias(const onnx::NodeProto& node) {
    if (node.op_type() != "Add" || node.input_size() != 2 || graph_.node_size() == 0) return false;
    onnx::NodeProto& conv = *graph_.mutable_node(graph_.node_size() - 1);
    const bool is_conv = conv.op_type() == "Conv" || conv.op_type() == "ConvTranspose";
    if (!is_conv || conv.input_size() != 2 || conv.output().empty()) return false;
    if (conv.output(0) != node.input(0)) return false;
    const onnx::TensorProto* bias = ranks_.Stored(node.input(1));
    const onnx::AttributeProto* axis = FindAttribute(node, "axis");
    if (bias == nullptr || bias->dims_size() != 1 || axis == nullptr || axis->i() != 1)
      return false;
    if (reads_[conv.output(0)] != 1) return false;
    conv.add_input(node.input(1));
    conv.set_output(0, node.output(0));
    ranks_.See(conv);
    return true;
  }

  onnx::GraphProto& graph_;
  int64_t opset_;
  OldRanks ranks_;
  std::unordered_map<std::string, int> reads_;
  std::unordered_set<std::string> taken_;
  OldNodeList old_;
};

constexpr std::string_view kBinary[] = {"Add", "Sub", "Mul",   "Div",     "Pow", "And",
                                        "Or",  "Xor", "Equal", "Greater", "Less"};

const OldNodes::ChangeRow OldNodes::kChanges[] = {
    {"Pad", 2, &OldNodes::RenamePads},
    {"Split", 2, &OldNodes::ListParts},
    {"LpPool", 2, &OldNodes::CountPower},
    {"GlobalLpPool", 2, &OldNodes::CountPower},
    {"Concat", 4, &OldNodes::JoinAlongOne},
    {"Reshape", 5, &OldNodes::ReadShape},
    {"Cast", 6, &OldNodes::NameType},
    {"Tile", 6, &OldNodes::RepeatAll},
    {"BatchNormalization", 7, &OldNodes::ForgetTest},
    {"Dropout", 7, &OldNodes::ForgetTest},
    {"Gemm", 7, &OldNodes::ForgetBroadcast},
    {"LSTM", 7, &OldNodes::ForgetSequence},
    {"GRU", 7, &OldNodes::ForgetSequence},
    {"RNN", 7, &OldNodes::ForgetSequence},
    {"Upsample", 7, &OldNodes::ListScales},
};

void OldNodes::Rewrite() {
  for (onnx::NodeProto& node : old_) {
    if (node.output().empty()) {  // which validate.cc refuses
      *graph_.add_node() = node;
      continue;
    }
    if (JoinBias(node)) continue;
    Remove(node, "consumed_inputs");
    for (const ChangeRow& row : kChanges) {
      if (row.op_type == node.op_type() && opset_ < row.below) (this->*row.change)(node);
    }
    const bool is_binary = std::ranges::find(kBinary, node.op_type()) != std::end(kBinary);
    if (is_binary) AlignSecond(node);
    ranks_.See(node);
    *graph_.add_node() = node;
  }
}

}  // namespace

void UpgradeOldOpset(onnx::ModelProto& model, std::vector<std::string>& notes) {
  onnx::OperatorSetIdProto* own = nullptr;
  for (onnx::OperatorSetIdProto& opset : *model.mutable_opset_import()) {
    if (IsOnnxDomain(opset.domain())) own = &opset;
  }
  const bool is_first = model.opset_import().empty() && model.ir_version() < kIrWithOpsets;
  if (is_first) own = model.add_opset_import();
  if (is_first) own->set_version(kUnwrittenOpset);
  if (own == nullptr || own->version() < kUnwrittenOpset || own->version() >= kWantedOpset) return;
  OldNodes(*model.mutable_graph(), own->version()).Rewrite();
  notes.push_back(fmt::format("read opset {} as opset {}", own->version(), kWantedOpset));
  own->set_version(kWantedOpset);
}

}  // namespace onnxfit
