// Elementwise operators and reductions.  Integers wrap as the runtime's do.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "estimator/base/index.h"
#include "estimator/onnx/constants.h"

namespace onnxfit {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

// --- Elements of each type ------------------------------------------------------

int64_t Wrapped(DType dtype, int64_t x) {
  if (dtype == DType::kInt64) return x;
  if (dtype == DType::kBool) return x != 0 ? 1 : 0;
  const int unused = 64 - BitsOf(dtype);
  const auto shifted = static_cast<int64_t>(static_cast<uint64_t>(x) << unused);
  const bool is_unsigned = Name(dtype).starts_with("uint");
  if (is_unsigned) return static_cast<int64_t>(static_cast<uint64_t>(shifted) >> unused);
  return shifted >> unused;
}

// Bits of the mantissa, the implicit one included.
double RoundedTo(int bits, double x) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

double Wrapped(DType dtype, double x) {
  if (dtype == DType::kFloat64 || !std::isfinite(x)) return x;
  if (dtype == DType::kFloat16) return RoundedTo(11, x);
  if (dtype == DType::kBFloat16) return RoundedTo(8, x);
  if (std::abs(x) > std::numeric_limits<float>::max()) return std::copysign(HUGE_VAL, x);
  return static_cast<double>(static_cast<float>(x));
}

// Towards zero; what does not fit is cut to the nearest that does, NaN is 0.
int64_t Truncated(double x) {
  if (std::isnan(x)) return 0;
  if (x >= 0x1p63) return kHighest;
  if (x < -0x1p63) return kLowest;
  return static_cast<int64_t>(x);
}

uint64_t Bits(int64_t x) { return static_cast<uint64_t>(x); }
int64_t FromBits(uint64_t x) { return static_cast<int64_t>(x); }

// --- One operator each ----------------------------------------------------------

struct Add {
  int64_t operator()(int64_t a, int64_t b) const { return FromBits(Bits(a) + Bits(b)); }
  double operator()(double a, double b) const { return a + b; }
};
struct Sub {
  int64_t operator()(int64_t a, int64_t b) const { return FromBits(Bits(a) - Bits(b)); }
  double operator()(double a, double b) const { return a - b; }
};
struct Mul {
  int64_t operator()(int64_t a, int64_t b) const { return FromBits(Bits(a) * Bits(b)); }
  double operator()(double a, double b) const { return a * b; }
};
struct Div {
  // Truncates; the runtime stops at x / 0, so that any value will do.
  int64_t operator()(int64_t a, int64_t b) const {
    if (b == 0) return 0;
    return b == -1 ? FromBits(0 - Bits(a)) : a / b;
  }
  double operator()(double a, double b) const { return a / b; }
};
struct Fmod {  // the sign of the dividend
  int64_t operator()(int64_t a, int64_t b) const { return b == 0 || b == -1 ? 0 : a % b; }
  double operator()(double a, double b) const { return std::fmod(a, b); }
};
struct Mod {  // the sign of the divisor
  int64_t operator()(int64_t a, int64_t b) const {
    const int64_t rest = Fmod()(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
  double operator()(double a, double b) const { return std::fmod(a, b); }
};
struct Min {
  template <typename T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Max {
  template <typename T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
struct Power {
  int64_t operator()(int64_t base, int64_t exponent) const {
    if (exponent < 0) return Truncated(std::pow(base, exponent));
    uint64_t power = 1;
    for (uint64_t factor = Bits(base); exponent != 0; exponent >>= 1, factor *= factor) {
      if ((exponent & 1) != 0) power *= factor;
    }
    return FromBits(power);
  }
  double operator()(double a, double b) const { return std::pow(a, b); }
};

struct And {
  int64_t operator()(int64_t a, int64_t b) const { return a & b; }
};
struct Or {
  int64_t operator()(int64_t a, int64_t b) const { return a | b; }
};
struct Xor {
  int64_t operator()(int64_t a, int64_t b) const { return a ^ b; }
};

struct Neg {
  int64_t operator()(int64_t x) const { return FromBits(0 - Bits(x)); }
  double operator()(double x) const { return -x; }
};
struct Abs {
  int64_t operator()(int64_t x) const { return x < 0 ? Neg()(x) : x; }
  double operator()(double x) const { return std::abs(x); }
};
struct Sign {
  template <typename T>
  T operator()(T x) const {
    return static_cast<T>((x > T{0}) - (x < T{0}));
  }
};
struct BitwiseNot {
  int64_t operator()(int64_t x) const { return ~x; }
};
struct Not {
  int64_t operator()(int64_t x) const { return x == 0 ? 1 : 0; }
};

template <double (*function)(double)>
struct OfFloats {
  double operator()(double x) const { return function(x); }
};
double Reciprocal(double x) { return 1.0 / x; }
double IsNaN(double x) { return std::isnan(x) ? 1 : 0; }
double Relu(double x) { return x > 0 ? x : 0; }

// --- Broadcasting ---------------------------------------------------------------

// What the inputs' elements broadcast to; nullopt where they do not.
std::optional<Dims> BroadcastStored(const Call& call) {
  Dims stored;
  for (const auto& input : call.inputs) {
    if (input.has_value()) stored = BroadcastDims(stored, input->stored);
  }
  for (const auto& input : call.inputs) {
    if (input.has_value() && !BroadcastsTo(input->stored, stored)) return std::nullopt;
  }
  const Dims& dims = call.output_types[0].dims;
  if (stored.size() != dims.size() || !BroadcastsTo(stored, dims)) return std::nullopt;
  return stored;
}

bool SameTypeFrom(const Call& call, size_t first) {
  for (size_t i = first; i < call.inputs.size(); ++i) {
    if (call.has(i) && call.in(i).dtype != call.in(first).dtype) return false;
  }
  return call.has(first);
}

std::optional<Dims> SameTypeStored(const Call& call) {
  return SameTypeFrom(call, 0) ? BroadcastStored(call) : std::nullopt;
}

std::optional<Dims> IntegerStored(const Call& call) {
  return SameTypeFrom(call, 0) && !call.in(0).is_float() ? BroadcastStored(call) : std::nullopt;
}

std::optional<Dims> FloatStored(const Call& call) {
  return call.in(0).is_float() ? std::optional(call.in(0).stored) : std::nullopt;
}

std::optional<Dims> WhereStored(const Call& call) {
  if (call.inputs.size() != 3 || !SameTypeFrom(call, 1)) return std::nullopt;
  return call.in(0).dtype == DType::kBool ? BroadcastStored(call) : std::nullopt;
}

HostTensor OutputOf(const Call& call, Dims stored, Elements elements) {
  const TensorType& type = call.output_types[0];
  return {type.dtype, type.dims, std::move(stored),
          std::make_shared<const LazyElements>(std::move(elements))};
}

template <typename Out, typename In, typename Op>
std::vector<Out> Zip(const Dims& loop, const HostTensor& a, const HostTensor& b, Op op) {
  return Zipped<Out>(loop, std::get<std::vector<In>>(a.elements->Get()),
                     BroadcastStrides(a.stored, loop), std::get<std::vector<In>>(b.elements->Get()),
                     BroadcastStrides(b.stored, loop), op);
}

template <typename T, typename Op>
std::vector<T> ZipWrapped(DType dtype, const Dims& loop, const HostTensor& a, const HostTensor& b,
                          Op op) {
  return Zip<T, T>(loop, a, b, [&](T x, T y) { return Wrapped(dtype, op(x, y)); });
}

template <typename Op>
HostTensor Combined(const Call& call, const HostTensor& a, const HostTensor& b, Op op) {
  const DType dtype = call.output_types[0].dtype;
  Dims loop = BroadcastDims(a.stored, b.stored);
  if (a.is_float()) {
    Floats floats = ZipWrapped<double>(dtype, loop, a, b, op);
    return OutputOf(call, std::move(loop), std::move(floats));
  }
  Integers integers = ZipWrapped<int64_t>(dtype, loop, a, b, op);
  return OutputOf(call, std::move(loop), std::move(integers));
}

// Two inputs, or any number from one on (Min, Max, Sum).
template <typename Op>
std::vector<HostTensor> Binary(const Call& call) {
  HostTensor all = call.in(0);
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    if (call.has(i)) all = Combined(call, all, call.in(i), Op());
  }
  return {all};
}

template <typename Op>
std::vector<HostTensor> Logical(const Call& call) {
  const HostTensor& a = call.in(0);
  const HostTensor& b = call.in(1);
  Dims loop = BroadcastDims(a.stored, b.stored);
  Integers out = ZipWrapped<int64_t>(call.output_types[0].dtype, loop, a, b, Op());
  return {OutputOf(call, std::move(loop), std::move(out))};
}

template <typename Op>
std::vector<HostTensor> Compare(const Call& call) {
  const HostTensor& a = call.in(0);
  const HostTensor& b = call.in(1);
  Dims loop = BroadcastDims(a.stored, b.stored);
  const auto compare = [](auto x, auto y) -> int64_t { return Op()(x, y) ? 1 : 0; };
  Integers out = a.is_float() ? Zip<int64_t, double>(loop, a, b, compare)
                              : Zip<int64_t, int64_t>(loop, a, b, compare);
  return {OutputOf(call, std::move(loop), std::move(out))};
}

std::vector<HostTensor> Modulo(const Call& call) {
  return IntAttribute(*call.node, "fmod", 0) != 0 ? Binary<Fmod>(call) : Binary<Mod>(call);
}

Floats AsFloats(const HostTensor& tensor) {
  if (tensor.is_float()) return tensor.floats();
  return Floats(tensor.integers().begin(), tensor.integers().end());
}

Integers AsIntegers(const HostTensor& tensor, DType dtype) {
  if (!tensor.is_float()) {
    Integers wrapped = tensor.integers();
    for (int64_t& x : wrapped) x = Wrapped(dtype, x);
    return wrapped;
  }
  Integers integers;
  for (const double x : tensor.floats()) {
    integers.push_back(dtype == DType::kBool ? (x != 0 ? 1 : 0) : Wrapped(dtype, Truncated(x)));
  }
  return integers;
}

HostTensor Converted(const HostTensor& tensor, DType dtype) {
  if (tensor.dtype == dtype) return tensor;
  HostTensor converted = tensor;
  converted.dtype = dtype;
  if (IsFloat(dtype)) {
    Floats floats = AsFloats(tensor);
    for (double& x : floats) x = Wrapped(dtype, x);
    converted.elements = std::make_shared<const LazyElements>(std::move(floats));
  } else {
    converted.elements = std::make_shared<const LazyElements>(AsIntegers(tensor, dtype));
  }
  return converted;
}

// Cast and CastLike: the type is inferred.
std::vector<HostTensor> Cast(const Call& call) {
  return {Converted(call.in(0), call.output_types[0].dtype)};
}

// The exponent's type is its own; the result has the base's.
std::vector<HostTensor> Pow(const Call& call) {
  const DType dtype = call.output_types[0].dtype;
  if (!call.in(0).is_float() && !call.in(1).is_float()) return Binary<Power>(call);
  const HostTensor base = Converted(call.in(0), DType::kFloat64);
  const HostTensor exponent = Converted(call.in(1), DType::kFloat64);
  Call wide = call;
  wide.output_types[0].dtype = DType::kFloat64;
  return {Converted(Combined(wide, base, exponent, Power()), dtype)};
}

// Both sides and the condition are stored alike, then chosen from.
std::vector<HostTensor> Where(const Call& call) {
  Dims loop = *BroadcastStored(call);
  const Integers condition = StoredAs(call.in(0), loop).integers();
  const HostTensor no = StoredAs(call.in(2), loop);
  const HostTensor yes = StoredAs(call.in(1), loop);
  Elements chosen = std::visit(
      [&](const auto& from) {
        auto out = std::get<std::decay_t<decltype(from)>>(no.elements->Get());
        for (size_t i = 0; i < out.size(); ++i) {
          if (condition[i] != 0) out[i] = from[i];
        }
        return Elements(std::move(out));
      },
      yes.elements->Get());
  return {OutputOf(call, std::move(loop), std::move(chosen))};
}

// --- One input ------------------------------------------------------------------

template <typename Op, typename T>
std::vector<T> Each(const std::vector<T>& from, DType dtype) {
  std::vector<T> to;
  to.reserve(from.size());
  for (const T x : from) to.push_back(Wrapped(dtype, Op()(x)));
  return to;
}

template <typename Op>
std::vector<HostTensor> Unary(const Call& call) {
  const HostTensor& in = call.in(0);
  const auto each = [&](const auto& from) { return Each<Op>(from, in.dtype); };
  return {WithElements(in, in.dims, in.stored, each)};
}

template <typename Op>
std::vector<HostTensor> UnaryInteger(const Call& call) {
  const HostTensor& in = call.in(0);
  return {OutputOf(call, in.stored, Each<Op>(in.integers(), in.dtype))};
}

template <double (*function)(double)>
std::vector<HostTensor> UnaryFloat(const Call& call) {
  const HostTensor& in = call.in(0);
  return {OutputOf(call, in.stored, Each<OfFloats<function>>(in.floats(), in.dtype))};
}

std::vector<HostTensor> TestNaN(const Call& call) {
  const HostTensor& in = call.in(0);
  Integers out;
  for (const double x : Each<OfFloats<IsNaN>>(in.floats(), in.dtype)) {
    out.push_back(x != 0 ? 1 : 0);
  }
  return {OutputOf(call, in.stored, std::move(out))};
}

// Since opset 11 the bounds are inputs, before they are attributes of floats.
template <typename Op>
HostTensor Bounded(const Call& call, const HostTensor& x, size_t input, std::string_view name) {
  if (call.has(input)) return Combined(call, x, call.in(input), Op());
  const onnx::AttributeProto* bound = FindAttribute(*call.node, name);
  if (bound == nullptr || call.opset >= 11) return x;
  return Combined(call, x, MakeFloats(x.dtype, {}, {static_cast<double>(bound->f())}), Op());
}

std::vector<HostTensor> Clip(const Call& call) {
  return {Bounded<Min>(call, Bounded<Max>(call, call.in(0), 1, "min"), 2, "max")};
}

// --- Masks ----------------------------------------------------------------------

// Of two bools, where one kind of input decides alone (none in And, all in Or) and its opposite
// leaves it to the other input.
template <Nonzeros decides>
std::optional<Nonzeros> LogicalNonzeros(const Call& call, int64_t size) {
  if (call.in(0).dtype != DType::kBool || call.inputs.size() != 2) return std::nullopt;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Nonzeros own = NonzerosOfInput(call, i, size);
    if (own == decides) return own;
    if (own == InverseOf(decides)) return SpreadNonzeros(call, 1 - i, size);
  }
  return std::nullopt;
}

std::optional<Nonzeros> NotNonzeros(const Call& call, int64_t size) {
  return InverseOf(NonzerosOfInput(call, 0, size));
}

// Whether the numbers of `tensor` are all along its last axis, or all along the one before it.
bool IsLine(const HostTensor& tensor, int64_t size, bool is_row) {
  const size_t rank = tensor.stored.size();
  const size_t axis = is_row ? 1 : 2;  // from the end
  return rank >= axis && tensor.stored[rank - axis] == size && Numel(tensor.stored) == size;
}

bool Rises(const Integers& line) {
  return std::ranges::adjacent_find(line, std::ranges::greater_equal()) == line.end();
}

// All elements, where they are one number.
std::optional<int64_t> OneNumber(const Integers& line) {
  const auto differs = std::ranges::adjacent_find(line, std::ranges::not_equal_to());
  return line.empty() || differs != line.end() ? std::nullopt : std::optional(line[0]);
}

// Of two numbers; or of rising numbers down the rows with the same along the columns, or the other
// way round: there the sides of the diagonal differ.
template <typename Op>
std::optional<Nonzeros> CompareNonzeros(const Call& call, int64_t size) {
  const HostTensor& a = call.in(0);
  const HostTensor& b = call.in(1);
  if (a.is_float() || Numel(a.stored) > size || Numel(b.stored) > size) return std::nullopt;
  const auto holds = [](int64_t x, int64_t y) { return Op()(x, y); };
  const auto x = OneNumber(a.integers());
  const auto y = OneNumber(b.integers());
  if (x && y) return holds(*x, *y) ? Nonzeros::kAll : Nonzeros::kNone;
  if (a.integers() != b.integers() || !Rises(a.integers())) return std::nullopt;
  if (IsLine(a, size, false) && IsLine(b, size, true)) {
    return NonzerosBySide(holds(1, 0), holds(0, 0), holds(0, 1));
  }
  if (IsLine(a, size, true) && IsLine(b, size, false)) {
    return NonzerosBySide(holds(0, 1), holds(0, 0), holds(1, 0));
  }
  return std::nullopt;
}

// --- Reductions -----------------------------------------------------------------

// Axes as an attribute, or as input 1 (ReduceSum from opset 13 on, others from 18).
std::vector<int64_t> ReducedAxes(const Call& call) {
  if (call.has(1)) return InFull(call.in(1)).integers();
  const onnx::AttributeProto* axes = FindAttribute(*call.node, "axes");
  if (axes == nullptr) return {};
  return {axes->ints().begin(), axes->ints().end()};
}

// The shape with 1 where `axes` are reduced; without axes all are.  nullopt where an axis
// is out of range.
std::optional<Dims> ReducedDims(const Dims& dims, const std::vector<int64_t>& axes) {
  if (axes.empty()) return Dims(dims.size(), 1);
  Dims reduced = dims;
  for (const int64_t axis : axes) {
    if (AxisOf(axis, dims.size()) >= dims.size()) return std::nullopt;
    reduced[AxisOf(axis, dims.size())] = 1;
  }
  return reduced;
}

template <typename Op, typename T>
std::vector<T> Reduced(const std::vector<T>& from, const Dims& dims, const Dims& reduced,
                       DType dtype) {
  const Strides in = RowMajor(dims);
  const Strides out = BroadcastStrides(reduced, dims);
  std::vector<T> to(static_cast<size_t>(Numel(reduced)));
  std::vector<bool> begun(to.size());
  ForEachRow<2>(dims, {&in, &out}, [&](const std::array<int64_t, 2>& at) {
    for (int64_t i = 0; i < LastOf(dims, 1); ++i) {
      const T x = from[Index(at[0] + i)];
      const auto place = static_cast<size_t>(at[1] + i * LastOf(out, 0));
      to[place] = begun[place] ? Wrapped(dtype, Op()(to[place], x)) : x;
      begun[place] = true;
    }
  });
  return to;
}

template <typename Op>
std::vector<HostTensor> Reduce(const Call& call) {
  if (call.has(1) && call.in(1).is_float()) return {};
  const HostTensor in = InFull(call.in(0));
  const std::vector<int64_t> axes = ReducedAxes(call);
  if (axes.empty() && IntAttribute(*call.node, "noop_with_empty_axes", 0) != 0) return {in};
  const std::optional<Dims> reduced = ReducedDims(in.dims, axes);
  if (!reduced.has_value() || Numel(in.dims) == 0) return {};
  const auto reduce = [&](const auto& from) {
    return Reduced<Op>(from, in.dims, *reduced, in.dtype);
  };
  const Dims& dims = call.output_types[0].dims;
  return {WithElements(in, dims, dims, reduce)};
}

std::vector<HostTensor> ReduceMean(const Call& call) {
  std::vector<HostTensor> sum = Reduce<Add>(call);
  if (sum.empty()) return {};
  const int64_t count = Numel(call.in(0).dims) / Numel(sum[0].dims);
  const HostTensor divisor = Converted(MakeIntegers(DType::kInt64, {}, {count}), sum[0].dtype);
  return {Combined(call, sum[0], divisor, Div())};
}

// Sums along one axis in place: each element plus the one before it in that direction.
template <typename T>
void Accumulate(std::vector<T>& elements, int64_t length, int64_t step, bool exclusive,
                bool reverse, DType dtype) {
  const int64_t block = length * step;
  for (int64_t start = 0; start < static_cast<int64_t>(elements.size()); ++start) {
    if (start % block >= step) continue;  // not the first along the axis
    T sum{};
    for (int64_t i = 0; i < length; ++i) {
      T& x = elements[Index(start + (reverse ? length - 1 - i : i) * step)];
      const T next = Wrapped(dtype, Add()(sum, x));
      x = exclusive ? sum : next;
      sum = next;
    }
  }
}

std::vector<HostTensor> CumSum(const Call& call) {
  const HostTensor in = InFull(call.in(0));
  if (!call.has(1) || call.in(1).is_float() || call.in(1).integers().empty()) return {};
  const size_t axis = AxisOf(call.in(1).integers()[0], in.dims.size());
  if (axis >= in.dims.size()) return {};
  const bool exclusive = IntAttribute(*call.node, "exclusive", 0) != 0;
  const bool reverse = IntAttribute(*call.node, "reverse", 0) != 0;
  return {WithElements(in, in.dims, in.dims, [&](auto elements) {
    Accumulate(elements, in.dims[axis], RowMajor(in.dims)[axis], exclusive, reverse, in.dtype);
    return elements;
  })};
}

template <typename Op>
constexpr EvaluatorRow ComparisonRow(std::string_view op_type) {
  return {.op_type = op_type,
          .evaluate = Compare<Op>,
          .stored = SameTypeStored,
          .nonzeros = CompareNonzeros<Op>};
}

constexpr EvaluatorRow kArithmeticRows[] = {
    {"Add", Binary<Add>, SameTypeStored},
    {"Sub", Binary<Sub>, SameTypeStored},
    {"Mul", Binary<Mul>, SameTypeStored},
    {"Div", Binary<Div>, SameTypeStored},
    {"Mod", Modulo, SameTypeStored},
    {"Min", Binary<Min>, SameTypeStored},
    {"Max", Binary<Max>, SameTypeStored},
    {"Sum", Binary<Add>, SameTypeStored},
    {"Pow", Pow, BroadcastStored},
    {"Where", Where, WhereStored},
    {"Clip", Clip, SameTypeStored},

    ComparisonRow<std::equal_to<>>("Equal"),
    ComparisonRow<std::less<>>("Less"),
    ComparisonRow<std::less_equal<>>("LessOrEqual"),
    ComparisonRow<std::greater<>>("Greater"),
    ComparisonRow<std::greater_equal<>>("GreaterOrEqual"),

    {"And", Logical<And>, IntegerStored, true, false, LogicalNonzeros<Nonzeros::kNone>},
    {"Or", Logical<Or>, IntegerStored, true, false, LogicalNonzeros<Nonzeros::kAll>},
    {"Xor", Logical<Xor>, IntegerStored},
    {"Not", UnaryInteger<Not>, IntegerStored, true, false, NotNonzeros},
    {"BitwiseAnd", Logical<And>, IntegerStored},
    {"BitwiseOr", Logical<Or>, IntegerStored},
    {"BitwiseXor", Logical<Xor>, IntegerStored},
    {"BitwiseNot", UnaryInteger<BitwiseNot>, IntegerStored},

    {"Neg", Unary<Neg>, FirstStored},
    {"Abs", Unary<Abs>, FirstStored},
    {"Sign", Unary<Sign>, FirstStored},
    {"Floor", UnaryFloat<std::floor>, FloatStored},
    {"Ceil", UnaryFloat<std::ceil>, FloatStored},
    {"Round", UnaryFloat<std::nearbyint>, FloatStored},  // halves to even
    {"Sqrt", UnaryFloat<std::sqrt>, FloatStored},
    {"Exp", UnaryFloat<std::exp>, FloatStored},
    {"Log", UnaryFloat<std::log>, FloatStored},
    {"Reciprocal", UnaryFloat<Reciprocal>, FloatStored},
    {"Relu", UnaryFloat<Relu>, FloatStored},
    {"IsNaN", TestNaN, FloatStored},
    {"Cast", Cast, FirstStored},
    {"CastLike", Cast, FirstStored},

    {"ReduceSum", Reduce<Add>},
    {"ReduceProd", Reduce<Mul>},
    {"ReduceMin", Reduce<Min>},
    {"ReduceMax", Reduce<Max>},
    {"ReduceMean", ReduceMean},
    {"CumSum", CumSum},
};

}  // namespace

std::span<const EvaluatorRow> ArithmeticRows() { return kArithmeticRows; }

}  // namespace onnxfit
