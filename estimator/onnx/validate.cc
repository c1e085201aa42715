// Checks of single things in a model, with their error texts.
#include <fmt/format.h>
#include <onnx/defs/schema.h>

#include <algorithm>

#include "estimator/base/quote.h"
#include "estimator/base/text.h"
#include "estimator/onnx/onnx_model.h"
#include "estimator/onnx/schemas.h"

namespace onnxfit {
namespace {

// Those below 7 are written as opset 7 before they are looked at (old_opsets.cc).
constexpr int64_t kOldestOpset = 1;

int64_t NewestOpset() {
  using Range = onnx::OpSchemaRegistry::DomainToVersionRange;
  return Range::Instance().Map().at(onnx::ONNX_DOMAIN).second;
}

DType CheckedDType(int64_t type, const std::string& where) {
  constexpr auto kLast = static_cast<int64_t>(DType::kFloat6E3M2);
  if (type >= 1 && type <= kLast) return static_cast<DType>(type);
  throw Error(
      {.where = where,
       .text = fmt::format("an element type from 1 to {} was expected, found {}", kLast, type)});
}

void CheckDim(int64_t dim, const std::string& where, const char* hint) {
  if (dim >= 0) return;
  throw Error({.where = where,
               .text = fmt::format("dimensions of 0 or more were expected, found {}", dim),
               .hint = hint});
}

void CheckRank(int64_t rank, const std::string& where) {
  if (rank <= kMaxRank) return;
  throw Error(
      {.where = where,
       .text = fmt::format("at most {} dimensions were expected, found {}", kMaxRank, rank)});
}

template <typename Tensor>
TensorType CheckedType(const Tensor& tensor, int64_t dtype, const std::string& name) {
  const std::string where = fmt::format("initializer {}", Quote(name));
  TensorType type{.dtype = CheckedDType(dtype, where), .dims = {}};
  CheckRank(tensor.dims_size(), where);
  type.dims.assign(tensor.dims().begin(), tensor.dims().end());
  for (const int64_t dim : type.dims) CheckDim(dim, where, "");
  try {
    BytesOf(type);
  } catch (const Error&) {
    throw Error({.where = where,
                 .text = fmt::format("a size of at most 2^63 - 1 bytes was expected, found {}",
                                     ToString(type))});
  }
  return type;
}

// The names worth a look as a correction of `typed`; few enough to be compared at once.
std::vector<std::string_view> Candidates(std::string_view typed, std::span<const Value> values) {
  constexpr size_t kLongest = 200;
  size_t letters = 0;
  std::vector<std::string_view> names;
  if (typed.size() > kLongest) return names;
  for (const Value& value : values) {
    const size_t length = value.name.size();
    if (length > typed.size() + 2 + typed.size() / 2) continue;
    letters += length * typed.size();
    if (letters > 50'000'000) break;
    names.push_back(value.name);
  }
  return names;
}

}  // namespace

void CheckIsComplete(const onnx::ModelProto& model) {
  const auto require = [](bool there, const char* what) {
    if (!there)
      throw Error({.text = fmt::format("a model with {} was expected, found none", what)});
  };
  require(model.has_graph(), "a graph");
  require(model.graph().node_size() > 0, "nodes");
  require(model.graph().output_size() > 0, "outputs");
}

void CheckOpset(const onnx::ModelProto& model) {
  const auto& opsets = model.opset_import();
  const auto opset = std::find_if(opsets.begin(), opsets.end(),
                                  [](const auto& import) { return IsOnnxDomain(import.domain()); });
  const int64_t newest = NewestOpset();
  if (opset == opsets.end()) {
    const auto& nodes = model.graph().node();
    if (std::none_of(nodes.begin(), nodes.end(),
                     [](const auto& node) { return IsOnnxDomain(node.domain()); })) {
      return;
    }
    throw Error({.where = "opset_import",
                 .text = fmt::format("an opset from {} to {} was expected, found none",
                                     kOldestOpset, newest)});
  }
  if (opset->version() >= kOldestOpset && opset->version() <= newest) return;
  throw Error({.where = "opset_import",
               .text = fmt::format("an opset from {} to {} was expected, found {}", kOldestOpset,
                                   newest, opset->version()),
               .hint = fmt::format("export it again with opset_version={}",
                                   opset->version() > newest ? newest : 17)});
}

void CheckInput(const onnx::ValueInfoProto& input) {
  const std::string where = fmt::format("input {}", Quote(input.name()));
  const auto& shape = input.type().tensor_type().shape();
  CheckRank(shape.dim_size(), where);
  for (const auto& dim : shape.dim()) {
    CheckDim(dim.dim_value(), where, "export it again, with a name for a free dimension");
  }
}

TensorType TypeOfInitializer(const onnx::TensorProto& tensor) {
  TensorType type = CheckedType(tensor, tensor.data_type(), tensor.name());
  const int64_t bytes = BytesOf(type);
  const auto found = static_cast<int64_t>(tensor.raw_data().size());
  if (tensor.has_raw_data() && found > 0 && found != bytes) {
    throw Error({.where = fmt::format("initializer {}", Quote(tensor.name())),
                 .text = fmt::format("{} has {} bytes, found {}", ToString(type), bytes, found)});
  }
  return type;
}

TensorType TypeOfInitializer(const onnx::SparseTensorProto& tensor) {
  return CheckedType(tensor, tensor.values().data_type(), tensor.values().name());
}

Error DanglingName(std::string where, std::string_view what, std::string_view name,
                   std::span<const Value> values) {
  const std::vector<std::string_view> candidates = Candidates(name, values);
  const std::string_view near = Nearest(name, candidates);
  return Error({.where = std::move(where),
                .text = fmt::format("{} {} should be made by a node, an input or an initializer, "
                                    "found none of that name",
                                    what, Quote(name)),
                .hint = near.empty() ? "" : Quote(near)});
}

// --- Contents of tensors -------------------------------------------------------

namespace {

// Which typed field holds the elements of a tensor; entries of the others are none of it.
// Source: onnx.proto (ONNX 1.23.2), message TensorProto.
int64_t TypedElements(const onnx::TensorProto& tensor) {
  switch (static_cast<DType>(tensor.data_type())) {
    case DType::kFloat32:
      return tensor.float_data_size();
    case DType::kComplex64:
      return tensor.float_data_size() / 2;
    case DType::kFloat64:
      return tensor.double_data_size();
    case DType::kComplex128:
      return tensor.double_data_size() / 2;
    case DType::kInt64:
      return tensor.int64_data_size();
    case DType::kUint32:
    case DType::kUint64:
      return tensor.uint64_data_size();
    case DType::kString:
      return tensor.string_data_size();
    default:
      return tensor.int32_data_size();
  }
}

// Types of less than a byte lie several to an entry.
bool HasAllElements(const onnx::TensorProto& tensor, const TensorType& type) {
  if (tensor.has_raw_data()) {
    return static_cast<int64_t>(tensor.raw_data().size()) == BytesOf(type);
  }
  const int64_t found = TypedElements(tensor);
  const int64_t expected = Numel(type.dims);
  const int bits = BitsOf(type.dtype);
  if (bits > 0 && bits < 8) return found >= (expected * bits + 7) / 8 && found <= expected;
  return found == expected;
}

}  // namespace

bool HasContents(const onnx::TensorProto& tensor) {
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL || tensor.has_segment()) return false;
  if (tensor.data_type() <= 0 || tensor.data_type() > static_cast<int>(DType::kFloat6E3M2)) {
    return false;
  }
  TensorType type{.dtype = static_cast<DType>(tensor.data_type()), .dims = {}};
  for (const int64_t dim : tensor.dims()) {
    if (dim < 0) return false;
    type.dims.push_back(dim);
  }
  try {
    return HasAllElements(tensor, type);
  } catch (const Error&) {  // a size that does not fit 63 bits
    return false;
  }
}

}  // namespace onnxfit
