#include "estimator/onnx/constants.h"

#include <fmt/format.h>
#include <onnx/defs/tensor_proto_util.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/onnx/constant_loops.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

// From here on it pays to wait until somebody asks for the elements.
constexpr int64_t kEagerElements = 4096;
// Evaluations that wait for one another, so that asking cannot exhaust the stack.
constexpr int kMaxNestedCalls = 64;

template <typename T>
Integers Widened(const onnx::TensorProto& tensor) {
  const std::vector<T> values = onnx::ParseRawData<T>(tensor);
  return Integers(values.begin(), values.end());
}

template <typename T>
Floats WidenedFloats(const onnx::TensorProto& tensor) {
  const std::vector<T> values = onnx::ParseRawData<T>(tensor);
  return Floats(values.begin(), values.end());
}

// sign, exponent, mantissa of the 16-bit types; subnormals and infinities included.
double FromBits16(uint16_t bits, int mantissa_bits, int bias) {
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int exponent_mask = (1 << (15 - mantissa_bits)) - 1;
  const int exponent = (bits >> mantissa_bits) & exponent_mask;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == exponent_mask) return mantissa != 0 ? std::nan("") : sign * HUGE_VAL;
  const int implicit = exponent == 0 ? 0 : 1 << mantissa_bits;
  const int power = (exponent == 0 ? 1 : exponent) - bias - mantissa_bits;
  return sign * std::ldexp(implicit + mantissa, power);
}

template <int mantissa_bits, int bias>
Floats HalfFloats(const onnx::TensorProto& tensor) {
  Floats floats;
  if (tensor.has_raw_data()) {
    for (const uint16_t bits : onnx::ParseRawData<uint16_t>(tensor)) {
      floats.push_back(FromBits16(bits, mantissa_bits, bias));
    }
    return floats;
  }
  for (const int32_t bits : tensor.int32_data()) {
    floats.push_back(FromBits16(static_cast<uint16_t>(bits), mantissa_bits, bias));
  }
  return floats;
}

template <typename T>
Elements DecodeInt32(const onnx::TensorProto& tensor) {
  if (tensor.has_raw_data()) return Widened<T>(tensor);
  return Integers(tensor.int32_data().begin(), tensor.int32_data().end());
}

Elements DecodeInt64(const onnx::TensorProto& tensor) {
  if (tensor.has_raw_data()) return Widened<int64_t>(tensor);
  return Integers(tensor.int64_data().begin(), tensor.int64_data().end());
}

Elements DecodeUint32(const onnx::TensorProto& tensor) {
  if (tensor.has_raw_data()) return Widened<uint32_t>(tensor);
  return Integers(tensor.uint64_data().begin(), tensor.uint64_data().end());
}

Elements DecodeFloat(const onnx::TensorProto& tensor) {
  if (tensor.has_raw_data()) return WidenedFloats<float>(tensor);
  return Floats(tensor.float_data().begin(), tensor.float_data().end());
}

Elements DecodeDouble(const onnx::TensorProto& tensor) {
  if (tensor.has_raw_data()) return WidenedFloats<double>(tensor);
  return Floats(tensor.double_data().begin(), tensor.double_data().end());
}

template <int mantissa_bits, int bias>
Elements DecodeHalf(const onnx::TensorProto& tensor) {
  return HalfFloats<mantissa_bits, bias>(tensor);
}

struct Codec {
  DType dtype;
  Elements (*decode)(const onnx::TensorProto&);
};

// Without uint64: its upper half does not fit, and no shape is computed in it.
// Where elements lie in a TensorProto: onnx.proto (ONNX 1.23.2), TensorProto.
constexpr Codec kCodecs[] = {
    {DType::kInt64, DecodeInt64},
    {DType::kInt32, DecodeInt32<int32_t>},
    {DType::kBool, DecodeInt32<uint8_t>},
    {DType::kFloat32, DecodeFloat},
    {DType::kFloat64, DecodeDouble},
    {DType::kInt8, DecodeInt32<int8_t>},
    {DType::kUint8, DecodeInt32<uint8_t>},
    {DType::kInt16, DecodeInt32<int16_t>},
    {DType::kUint16, DecodeInt32<uint16_t>},
    {DType::kUint32, DecodeUint32},
    {DType::kFloat16, DecodeHalf<10, 15>},
    {DType::kBFloat16, DecodeHalf<7, 127>},
};

const Codec* FindCodec(DType dtype) {
  for (const Codec& codec : kCodecs) {
    if (codec.dtype == dtype) return &codec;
  }
  return nullptr;
}

int64_t LimitOf(DType dtype) { return IsFloat(dtype) ? kMaxFloats : kMaxIntegers; }

bool FitsIn(const TensorType& type, int64_t limit) {
  return FindCodec(type.dtype) != nullptr && NumelOrHuge(type.dims) <= limit;
}

std::atomic<int64_t> held_elements = 0;

int64_t CountOf(const Elements& elements) {
  return std::visit([](const auto& all) { return static_cast<int64_t>(all.size()); }, elements);
}

void Hold(int64_t count) {
  if ((held_elements += count) <= kMaxHeldElements) return;
  held_elements -= count;
  throw Error({.text = fmt::format("constants of at most {} elements were expected, found more",
                                   kMaxHeldElements)});
}

class LazyDecoding final : public LazyElements {
 public:
  LazyDecoding(const onnx::TensorProto& tensor, const Codec& codec,
               std::shared_ptr<const void> owner)
      : LazyElements(1), tensor_(&tensor), codec_(&codec), owner_(std::move(owner)) {}

 private:
  Elements Evaluate() const override { return codec_->decode(*tensor_); }
  void Release() const override { owner_.reset(); }
  std::optional<Nonzeros> Foresee(int64_t size) const override {
    if (codec_->dtype != DType::kBool || !tensor_->has_raw_data()) return std::nullopt;
    return NonzerosAmong(onnx::ParseRawData<uint8_t>(*tensor_), size);
  }

  const onnx::TensorProto* tensor_;
  const Codec* codec_;
  mutable std::shared_ptr<const void> owner_;
};

int DepthOf(const Call& call) {
  int depth = 1;
  for (const auto& input : call.inputs) {
    if (input.has_value()) depth = std::max(depth, input->elements->depth() + 1);
  }
  return depth;
}

class LazyCall final : public LazyElements {
 public:
  LazyCall(const EvaluatorRow& row, Call call)
      : LazyElements(DepthOf(call)), row_(&row), call_(std::move(call)) {}

 private:
  Elements Evaluate() const override { return row_->evaluate(call_).at(0).elements->Get(); }
  void Release() const override { call_ = {}; }
  std::optional<Nonzeros> Foresee(int64_t size) const override {
    return row_->nonzeros == nullptr ? std::nullopt : row_->nonzeros(call_, size);
  }

  const EvaluatorRow* row_;
  mutable Call call_;
};

// Stores a tensor that is the same for each index of axis 0 (a batch) only once.
void FoldAxis0(HostTensor& tensor) {
  if (tensor.stored.size() < 2 || tensor.stored[0] < 2) return;
  const auto fold = [&](const auto& all) -> std::optional<Elements> {
    const auto each = all.size() / static_cast<size_t>(tensor.stored[0]);
    // Repeats with this period exactly where it equals itself, shifted.
    if (!std::equal(all.begin() + static_cast<std::ptrdiff_t>(each), all.end(), all.begin())) {
      return std::nullopt;
    }
    using Vector = std::decay_t<decltype(all)>;
    return Vector(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(each));
  };
  auto folded = std::visit(fold, tensor.elements->Get());
  if (!folded.has_value()) return;
  tensor.stored[0] = 1;
  tensor.elements = std::make_shared<const LazyElements>(*std::move(folded));
}

bool AllKnown(const Call& call) {
  for (int i = 0; i < call.node->input_size(); ++i) {
    if (!call.node->input(i).empty() && !call.has(static_cast<size_t>(i))) return false;
  }
  return true;
}

// Both sides in full, since evaluators of this kind unfold what repeats.  What a row does not
// read may be of any size.
bool Fits(const EvaluatorRow& row, const Call& call) {
  for (const auto& input : call.inputs) {
    if (!row.needs_values) break;
    if (input.has_value() && !HasUpTo(*input, LimitOf(input->dtype))) return false;
  }
  for (const TensorType& type : call.output_types) {
    if (!FitsIn(type, LimitOf(type.dtype))) return false;
  }
  return true;
}

bool Resolved(const Call& call) {
  for (const TensorType& type : call.output_types) {
    if (std::any_of(type.dims.begin(), type.dims.end(), [](int64_t dim) { return dim < 0; })) {
      return false;
    }
  }
  return true;
}

std::vector<HostTensor> EvaluateNow(const EvaluatorRow& row, const Call& call) {
  if (!Fits(row, call)) return {};
  std::vector<HostTensor> outputs = row.evaluate(call);
  for (HostTensor& output : outputs) {
    if (output.elements->depth() == 0) FoldAxis0(output);
  }
  return outputs;
}

HostTensor EvaluateLater(const EvaluatorRow& row, Call call, Dims stored) {
  const TensorType type = call.output_types[0];
  auto lazy = std::make_shared<const LazyCall>(row, std::move(call));
  return {type.dtype, type.dims, std::move(stored), std::move(lazy)};
}

using RowsByName = std::unordered_map<std::string_view, const EvaluatorRow*>;

RowsByName AllRows() {
  RowsByName rows;
  for (const auto family : {ArithmeticRows(), MovementRows(), IndexingRows()}) {
    for (const EvaluatorRow& row : family) rows.emplace(row.op_type, &row);
  }
  return rows;
}

}  // namespace

LazyElements::LazyElements(Elements elements) : elements_(std::move(elements)) {
  Hold(CountOf(*elements_));
}

LazyElements::~LazyElements() {
  if (elements_.has_value()) held_elements -= CountOf(*elements_);
}

const Elements& LazyElements::Get() const {
  if (!elements_.has_value()) {
    Elements elements = Evaluate();
    Hold(CountOf(elements));
    elements_ = std::move(elements);
    Release();
  }
  return *elements_;
}

Nonzeros LazyElements::NonzerosOf(int64_t size) const {
  if (nonzeros_.has_value() && nonzeros_->first == size) return nonzeros_->second;
  std::optional<Nonzeros> found;
  if (!elements_.has_value()) found = Foresee(size);
  if (!found.has_value()) {
    found = std::visit([&](const auto& all) { return NonzerosAmong(all, size); }, Get());
  }
  nonzeros_ = {size, *found};
  return *found;
}

int64_t MatrixSize(const Dims& stored) {
  const size_t rank = stored.size();
  const bool is_square = rank >= 2 && stored[rank - 1] == stored[rank - 2];
  return is_square && stored[rank - 1] > 1 ? stored[rank - 1] : 0;
}

HostTensor MakeIntegers(DType dtype, Dims dims, Integers elements) {
  assert(NumelOrHuge(dims) == static_cast<int64_t>(elements.size()));
  Dims stored = dims;
  return {dtype, std::move(dims), std::move(stored),
          std::make_shared<const LazyElements>(std::move(elements))};
}

HostTensor MakeFloats(DType dtype, Dims dims, Floats elements) {
  assert(NumelOrHuge(dims) == static_cast<int64_t>(elements.size()));
  Dims stored = dims;
  return {dtype, std::move(dims), std::move(stored),
          std::make_shared<const LazyElements>(std::move(elements))};
}

bool HasUpTo(const HostTensor& tensor, int64_t limit) { return NumelOrHuge(tensor.dims) <= limit; }

const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, std::string_view name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

int64_t IntAttribute(const onnx::NodeProto& node, std::string_view name, int64_t absent) {
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  return attribute == nullptr ? absent : attribute->i();
}

const EvaluatorRow* FindEvaluator(std::string_view op_type) {
  static const RowsByName rows = AllRows();
  const auto found = rows.find(op_type);
  return found == rows.end() ? nullptr : found->second;
}

std::vector<HostTensor> Evaluate(const EvaluatorRow& row, Call call) {
  if (row.needs_values && !AllKnown(call)) return {};
  if (!row.finds_dims && !Resolved(call)) return {};
  if (row.stored == nullptr) return EvaluateNow(row, call);
  const TensorType& type = call.output_types[0];
  std::optional<Dims> stored = row.stored(call);
  if (!stored.has_value() || !FitsIn({type.dtype, *stored}, LimitOf(type.dtype))) return {};
  if (NumelOrHuge(*stored) <= kEagerElements || DepthOf(call) > kMaxNestedCalls) {
    return row.evaluate(call);
  }
  return {EvaluateLater(row, std::move(call), *std::move(stored))};
}

int64_t WorkOf(const EvaluatorRow& row, const Call& call) {
  if (row.stored != nullptr || !Resolved(call) || !Fits(row, call)) return 0;
  int64_t elements = 0;
  for (const auto& input : call.inputs) {
    if (row.needs_values && input.has_value()) elements += Numel(input->dims);
  }
  for (const TensorType& type : call.output_types) elements += Numel(type.dims);
  return elements;
}

std::optional<HostTensor> FromProto(const onnx::TensorProto& tensor,
                                    std::shared_ptr<const void> owner) {
  HostTensor known{static_cast<DType>(tensor.data_type()), {}, {}, nullptr};
  const Codec* codec = FindCodec(known.dtype);
  if (codec == nullptr) return std::nullopt;
  known.dims.assign(tensor.dims().begin(), tensor.dims().end());
  if (NumelOrHuge(known.dims) > LimitOf(known.dtype)) return std::nullopt;
  if (!HasContents(tensor)) return std::nullopt;
  known.stored = known.dims;
  known.elements = std::make_shared<const LazyDecoding>(tensor, *codec, std::move(owner));
  return known;
}

onnx::TensorProto ToProto(const HostTensor& tensor) {
  const HostTensor full = InFull(tensor);
  onnx::TensorProto proto;
  proto.set_data_type(static_cast<int32_t>(tensor.dtype));
  for (const int64_t dim : full.dims) proto.add_dims(dim);
  if (full.is_float()) {
    const bool wide = full.dtype == DType::kFloat64;
    for (const double x : full.floats()) {
      wide ? proto.add_double_data(x) : proto.add_float_data(static_cast<float>(x));
    }
    return proto;
  }
  const bool wide = full.dtype == DType::kInt64;
  for (const int64_t x : full.integers()) {
    wide ? proto.add_int64_data(x) : proto.add_int32_data(static_cast<int32_t>(x));
  }
  return proto;
}

}  // namespace onnxfit
