// Sizes that data decide: what the binding says of them, and what is asked for where it says
// nothing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "estimator/base/quote.h"
#include "estimator/onnx/data_sizes.h"
#include "estimator/onnx/inferrer.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

// "int64[2, ?]".
std::string UnresolvedText(const onnx::TypeProto& type) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return "unknown";
  std::vector<std::string> dims;
  for (const auto& dim : type.tensor_type().shape().dim()) {
    dims.push_back(dim.has_dim_value() ? std::to_string(dim.dim_value()) : "?");
  }
  return fmt::format("{}[{}]", Name(static_cast<DType>(type.tensor_type().elem_type())),
                     fmt::join(dims, ", "));
}

}  // namespace

// --- What the file says ---------------------------------------------------------

const onnx::TypeProto* Inferrer::StoredTypeOf(ValueId value) {
  if (!stored_.has_value()) CollectStored();
  const auto found = stored_->find(graph_.values[Place(value)].name);
  const bool is_tensor = found != stored_->end() && found->second->has_tensor_type();
  return is_tensor ? found->second : nullptr;
}

const onnx::TensorShapeProto::Dimension* Inferrer::StoredDim(ValueId value, int axis) {
  const onnx::TypeProto* stored = StoredTypeOf(value);
  if (stored == nullptr) return nullptr;
  const auto& made = TypeAt(value).tensor_type().shape().dim();
  const auto& dims = stored->tensor_type().shape().dim();
  return dims.size() == made.size() ? &dims[axis] : nullptr;
}

// A size under an input's name, or computed from such, or a number in a file whose batch is the
// file's.
std::optional<int64_t> Inferrer::StoredSize(ValueId value, int axis) {
  const auto* dim = StoredDim(value, axis);
  if (dim == nullptr) return std::nullopt;
  if (const auto size = SizeUnder(dim->dim_param(), inputs_.symbols)) return size;
  const bool is_number = dim->has_dim_value() && !inputs_.rebound.has_value();
  return is_number ? std::optional(dim->dim_value()) : std::nullopt;
}

// --- What is open ---------------------------------------------------------------

// Where ONNX's inference leaves open how many dimensions there are.
void Inferrer::GiveRank(NodeId id, size_t output) {
  const ValueId value = NodeAt(id).outputs[output];
  onnx::TypeProto& type = TypeAt(value);
  if (type.has_sequence_type() || type.has_optional_type()) return;
  if (type.has_tensor_type() && type.tensor_type().has_shape()) return;
  const onnx::TypeProto* stored = StoredTypeOf(value);
  std::optional<TensorType> open = OpenTypeOf(CallOf(id, OperatorOf(NodeAt(id))), output);
  if (!open && stored != nullptr && stored->tensor_type().has_shape()) {
    open = {TensorTypeOf(value).dtype, {}};
    open->dims.assign(static_cast<size_t>(stored->tensor_type().shape().dim_size()), -1);
  }
  if (!open || std::ssize(open->dims) > kMaxRank) return;
  const bool has_type = open->dtype != DType::kUndefined;
  if (!has_type && stored == nullptr) return;
  const auto element =
      has_type ? static_cast<int32_t>(open->dtype) : stored->tensor_type().elem_type();
  type.mutable_tensor_type()->set_elem_type(element);
  auto* shape = type.mutable_tensor_type()->mutable_shape();
  for (const int64_t dim : open->dims) {
    auto* added = shape->add_dim();
    if (dim >= 0) added->set_dim_value(dim);
  }
}

namespace {

// Operators that read the sizes of their output as a list, and what an element below `least` of it
// leaves to the other input.
struct SizeListRow {
  std::string_view op_type;
  size_t input;
  int64_t least;
};
constexpr SizeListRow kSizeLists[] = {
    {"ConstantOfShape", 0, 0}, {"Reshape", 1, 1}, {"Expand", 1, 2}, {"Resize", 3, 1}};

}  // namespace

// An element of a list whose other elements may not be known: of [2, n] that a Concat joins.
std::optional<int64_t> Inferrer::JoinedElement(ValueId list, int64_t place) const {
  const NodeId producer = list == kNoValue ? kNoNode : graph_.values[Place(list)].producer;
  if (producer == kNoNode || NodeAt(producer).op_type != "Concat") return std::nullopt;
  for (const ValueId piece : NodeAt(producer).inputs) {
    const Dims dims = TensorTypeOf(piece).dims;
    if (dims.size() != 1) return std::nullopt;
    const std::optional<HostTensor>& known = KnownOf(piece);
    const bool is_here = place < dims[0];
    if (is_here && (!known || known->is_float())) return std::nullopt;
    if (is_here) return InFull(*known).integers()[Index(place)];
    place -= dims[0];
  }
  return std::nullopt;
}

std::optional<int64_t> Inferrer::ListedSize(NodeId id, int axis) const {
  const Node& node = NodeAt(id);
  const auto* row = std::ranges::find(kSizeLists, node.op_type, &SizeListRow::op_type);
  if (row == std::end(kSizeLists) || row->input >= node.inputs.size()) return std::nullopt;
  if (FindAttribute(node, "keep_aspect_ratio_policy") != nullptr) return std::nullopt;
  const ValueId list = node.inputs[row->input];
  if (list == kNoValue) return std::nullopt;
  const Dims length = TensorTypeOf(list).dims;
  const bool is_whole = length == Dims{TypeAt(node.outputs[0]).tensor_type().shape().dim_size()};
  const std::optional<int64_t> size = is_whole ? JoinedElement(list, axis) : std::nullopt;
  return size && *size >= row->least ? size : std::nullopt;
}

void Inferrer::KeepSizes(NodeId id, size_t output) {
  const ValueId value = NodeAt(id).outputs[output];
  if (!TypeAt(value).has_tensor_type() || !TypeAt(value).tensor_type().has_shape()) return;
  const Call call = CallOf(id, OperatorOf(NodeAt(id)));
  auto& dims = *TypeAt(value).mutable_tensor_type()->mutable_shape()->mutable_dim();
  for (int axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis].has_dim_value()) continue;
    std::optional<int64_t> size = SizeOf(call, output, axis);
    if (!size) size = ListedSize(id, axis);
    if (size) dims[axis].set_dim_value(*size);
  }
}

namespace {

// A Reshape holds what its input does: the last of its sizes has what the known ones leave.
void ShareElements(const Call& call, const TensorType& made, std::vector<OpenSize>& open) {
  if (open.empty() || call.input_types.empty()) return;
  int64_t left = Numel(call.input_types[0].dims);
  for (const int64_t dim : made.dims) {
    if (dim > 0) left = left % dim == 0 ? left / dim : 0;
  }
  if (left <= 0) return;
  for (OpenSize& size : open) size.example = 1;
  open.back().example = left;
}

}  // namespace

std::vector<OpenSize> Inferrer::OpenSizesOf(NodeId id) {
  std::vector<OpenSize> open;
  const Node& node = NodeAt(id);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId value = node.outputs[i];
    if (value == kNoValue || Resolved(value) || TypeAt(value).has_sequence_type()) continue;
    const std::string name(graph_.values[Place(value)].name);
    const auto& type = TypeAt(value).tensor_type();
    if (!type.has_shape()) {
      open.push_back({value, -1, name});
      continue;
    }
    const auto& dims = type.shape().dim();
    const auto left = std::ranges::count_if(dims, [](const auto& d) { return !d.has_dim_value(); });
    const Call call = CallOf(id, OperatorOf(node));
    for (int axis = 0; axis < dims.size(); ++axis) {
      if (dims[axis].has_dim_value()) continue;
      const auto* stored = StoredDim(value, axis);
      std::string symbol = stored == nullptr ? "" : stored->dim_param();
      if (symbol.empty()) symbol = NameOfSize(name, axis, static_cast<int>(left));
      open.push_back({value, axis, std::move(symbol), MostOf(call, i, axis)});
    }
    if (node.op_type == "Reshape") ShareElements(call, TensorTypeOf(value), open);
  }
  return open;
}

// --- What is given --------------------------------------------------------------

void Inferrer::Assume(const OpenSize& open, int64_t size) {
  auto* shape = TypeAt(open.value).mutable_tensor_type()->mutable_shape();
  shape->mutable_dim(open.axis)->set_dim_value(size);
}

// By the name that the error gives, or by the value and its dimension.
std::optional<int64_t> Inferrer::BoundOf(const OpenSize& open, const std::string& by_place) const {
  for (const std::string& name : {open.name, by_place}) {
    const auto found = inputs_.inner_dims.find(name);
    if (found != inputs_.inner_dims.end()) return found->second;
  }
  return std::nullopt;
}

// Where all that `value` leads to is where, and what, scatters write into tensors of known sizes,
// the most places there may be: x[mask] = y, whose count no result shows.
std::optional<int64_t> Inferrer::MostScattered(NodeId id, ValueId value) const {
  constexpr size_t kMostValues = 32;
  std::optional<int64_t> most;
  std::set<ValueId> open = {value};
  const auto is_open = [&](ValueId input) { return open.contains(input); };
  for (size_t i = Place(id) + 1; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    if (std::ranges::none_of(node.inputs, is_open)) continue;
    const bool writes = node.op_type == "ScatterND" && !is_open(node.inputs[0]);
    if (writes && Resolved(node.inputs[0])) {
      most = std::max(most.value_or(0), Numel(TensorTypeOf(node.inputs[0]).dims));
    } else {
      open.insert(node.outputs.begin(), node.outputs.end());
    }
    if (open.size() > kMostValues) return std::nullopt;
  }
  return std::ranges::none_of(graph_.outputs, is_open) ? most : std::nullopt;
}

// As much as there may be, where there is a limit.  What scatters alone read is not worth a word.
void Inferrer::TakeMost(NodeId id, const OpenSize& open) {
  if (const std::optional<int64_t> most = MostScattered(id, open.value)) {
    Assume(open, std::min(*most, open.most.value_or(*most)));
  } else if (open.most) {
    Assume(open, std::min(*open.most, taken_.try_emplace(open.name, *open.most).first->second));
  }
}

void Inferrer::TakeBound(NodeId id, const OpenSize& open) {
  const std::string value(graph_.values[Place(open.value)].name);
  const std::string by_place = NameOfSize(value, open.axis, 0);
  const std::optional<int64_t> size = BoundOf(open, by_place);
  if (size) used_names_.insert({open.name, by_place});
  // More than there may be in a small batch is the most; which a search asks for, too.
  if (!size || (open.most && *size > *open.most)) {
    TakeMost(id, open);
  } else {
    Assume(open, *size);
  }
}

void Inferrer::TakeBounds(NodeId id) {
  const Node& node = NodeAt(id);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId value = node.outputs[i];
    if (value == kNoValue || Resolved(value)) continue;
    GiveRank(id, i);
    KeepSizes(id, i);
    const auto whole = inputs_.inner_shapes.find(std::string(graph_.values[Place(value)].name));
    if (whole == inputs_.inner_shapes.end() || TypeAt(value).has_sequence_type()) continue;
    used_names_.insert(whole->first);
    TypeAt(value) = ProtoFrom(TensorTypeOf(value).dtype, whole->second);
  }
  for (const OpenSize& open : OpenSizesOf(id)) {
    if (open.axis < 0) continue;
    const std::optional<int64_t> stored = StoredSize(open.value, open.axis);
    if (stored) {
      Assume(open, *stored);
    } else {
      TakeBound(id, open);
    }
  }
  if (node.op_type == "Reshape" && OutputsResolved(id)) CheckReshape(id);
}

BoundInputs Inferrer::SizesByName() const {
  BoundInputs sizes;
  sizes.symbols = inputs_.symbols;
  sizes.inner_dims = inputs_.inner_dims;
  sizes.inner_shapes = inputs_.inner_shapes;
  return sizes;
}

std::string Inferrer::UnusedName() const {
  for (const auto& [name, size] : inputs_.inner_dims) {
    if (!used_names_.contains(name)) return name;
  }
  for (const auto& [name, dims] : inputs_.inner_shapes) {
    if (!used_names_.contains(name)) return name;
  }
  return "";
}

// --- What is asked for ----------------------------------------------------------

namespace {

int64_t ExampleFor(const OpenSize& open) {
  constexpr int64_t kExample = 100;  // nothing says how many there may be
  return open.example.value_or(kExample);
}

std::string FlagFor(const OpenSize& open) {
  if (open.axis < 0) return "--shape " + ShellWord(open.name + "=1x3x224x224");
  return "--dim " + ShellWord(fmt::format("{}={}", open.name, ExampleFor(open)));
}

}  // namespace

// Behind what is open, as if it were answered: so that all that is to be typed is told at once.
std::vector<std::string> Inferrer::FlagsFrom(NodeId first) {
  constexpr size_t kMostFlags = 12;
  std::vector<std::string> flags;
  const auto last = static_cast<NodeId>(graph_.nodes.size());
  for (NodeId id = first; id < last && flags.size() < kMostFlags; ++id) {
    if (id != first && !TryInfer(id)) return flags;
    for (const OpenSize& open : OpenSizesOf(id)) {
      std::string flag = FlagFor(open);
      if (std::ranges::find(flags, flag) == flags.end()) flags.push_back(std::move(flag));
      if (open.axis < 0) continue;
      const int64_t size = ExampleFor(open);
      inputs_.inner_dims.emplace(open.name, size);
      Assume(open, size);
    }
    if (!OutputsResolved(id)) return flags;
  }
  return flags;
}

bool Inferrer::TryInfer(NodeId id) {
  try {
    Infer(id);
  } catch (const Error&) {
    return false;
  }
  return true;
}

void Inferrer::RefuseUnresolved(NodeId id) {
  std::string text = "the shapes of its outputs depend on data";
  for (const ValueId value : NodeAt(id).outputs) {
    if (value == kNoValue || Resolved(value)) continue;
    text = fmt::format("the shape of its output {} depends on data, {}",
                       Quote(graph_.values[Place(value)].name), UnresolvedText(TypeAt(value)));
    break;
  }
  const std::vector<std::string> flags = FlagsFrom(id);
  Refuse(id, std::move(text),
         flags.empty() ? "onnxsim, or an export whose shapes follow from those of the inputs"
                       : fmt::format("{}", fmt::join(flags, " ")));
}

}  // namespace onnxfit
