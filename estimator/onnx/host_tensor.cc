// Tensors on the host: their elements, decoded from the file or made, and which of them are not 0.
#include <fmt/format.h>
#include <onnx/defs/tensor_proto_util.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cmath>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/onnx/constants.h"
#include "estimator/onnx/onnx_model.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit {

// --- Which elements of a mask are not 0 ----------------------------------------

namespace {

// Whether the first element of each row, and no further one than its number, is `first`.
template <typename T>
bool IsStaircase(std::span<const T> elements, size_t size, bool first) {
  const auto is_first = [first](T element) { return (element != 0) == first; };
  for (size_t row = 0; !elements.empty(); row = row + 1 == size ? 0 : row + 1) {
    const auto left = elements.first(row + 1);
    const auto right = elements.subspan(row + 1, size - row - 1);
    if (!std::ranges::all_of(left, is_first) || std::ranges::any_of(right, is_first)) return false;
    elements = elements.subspan(size);
  }
  return true;
}

}  // namespace

template <typename T>
Nonzeros NonzerosAmong(const std::vector<T>& elements, int64_t size) {
  if (elements.empty()) return Nonzeros::kAll;
  const bool first = elements[0] != 0;
  const auto is_first = [first](T element) { return (element != 0) == first; };
  if (std::ranges::all_of(elements, is_first)) return first ? Nonzeros::kAll : Nonzeros::kNone;
  if (size < 2 || !IsStaircase(std::span(elements), static_cast<size_t>(size), first)) {
    return Nonzeros::kMixed;
  }
  return first ? Nonzeros::kLower : Nonzeros::kUpper;
}

template Nonzeros NonzerosAmong(const std::vector<uint8_t>&, int64_t);
template Nonzeros NonzerosAmong(const std::vector<int64_t>&, int64_t);
template Nonzeros NonzerosAmong(const std::vector<double>&, int64_t);

Nonzeros InverseOf(Nonzeros a) {
  switch (a) {
    case Nonzeros::kNone:
      return Nonzeros::kAll;
    case Nonzeros::kAll:
      return Nonzeros::kNone;
    case Nonzeros::kLower:
      return Nonzeros::kUpper;
    case Nonzeros::kUpper:
      return Nonzeros::kLower;
    case Nonzeros::kMixed:
      break;
  }
  return Nonzeros::kMixed;
}

Nonzeros NonzerosBySide(bool before, bool on, bool behind) {
  if (before != on) return Nonzeros::kMixed;
  if (on == behind) return on ? Nonzeros::kAll : Nonzeros::kNone;
  return on ? Nonzeros::kLower : Nonzeros::kUpper;
}

// --- Elements, or how to get them ----------------------------------------------

namespace {

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

}  // namespace

int64_t HeldElements() { return held_elements; }

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

// --- Tensors of the file -------------------------------------------------------

namespace {

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

}  // namespace

int64_t LimitOf(DType dtype) { return IsFloat(dtype) ? kMaxFloats : kMaxIntegers; }

bool FitsIn(const TensorType& type, int64_t limit) {
  return FindCodec(type.dtype) != nullptr && NumelOrHuge(type.dims) <= limit;
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

// --- Tensors made of others ----------------------------------------------------

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

HostTensor StoredAs(const HostTensor& tensor, const Dims& stored) {
  if (tensor.stored == stored) return tensor;
  const Strides strides = BroadcastStrides(tensor.stored, stored);
  return WithElements(tensor, tensor.dims, stored,
                      [&](const auto& from) { return Gathered(from, stored, strides); });
}

HostTensor InFull(const HostTensor& tensor) { return StoredAs(tensor, tensor.dims); }

}  // namespace onnxfit
