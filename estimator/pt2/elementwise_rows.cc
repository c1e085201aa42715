// Arithmetic and comparisons.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/pt2/call_rows.h"
#include "estimator/pt2/libraries.h"

namespace onnxfit::pt2 {
namespace {

// "hidden_states = hidden_states.to(self.weight.dtype)" before the product of a norm's weight,
// which has one dimension, and the hidden states.
void CastToWeight(CallWriter& writer, std::vector<NameId>& operands) {
  const size_t rank = writer.DimsOf(operands[0]).size();
  const size_t weight = rank > writer.DimsOf(operands[1]).size() ? 1 : 0;
  NameId& states = operands[1 - weight];
  const ProgramValue& value = writer.program().values[Index(states)];
  const NameId cast = writer.NewName(value.name + ".cast", value.type);
  writer.EmitBinding("hidden_states", "type_as", {states, operands[weight]}, {cast});
  states = cast;
}

// What transformers adds to a mask while torch.export traces it, and leaves out of a run where a
// row has one sequence: find_packed_sequence_indices of masking_utils.py, transformers 5.17.0.
bool ShowsOneSequence(CallWriter& writer, const Call& call) {
  const Known* shown = writer.LeavesOutMask(call) ? writer.KnownResultOf(call) : nullptr;
  return shown != nullptr && AreAllTrue(*shown);
}

// A tensor and a number run as the operator with a scalar; in place nothing is made, unless a
// gradient flows.
template <const char* kScalar>
void WriteBinary(CallWriter& writer, const Call& call, std::string_view op) {
  std::vector<NameId> tensors = writer.Tensors(call);
  if (tensors.size() == 2 && writer.IsNoMask(tensors[1]))
    return writer.ReturnSame(call, tensors[0]);
  const bool has_number = tensors.size() < 2;
  const bool is_filled = has_number && WritesInPlace(call.target) && !tensors.empty();
  if (is_filled && !writer.IsTracked(tensors[0])) return writer.ReturnSame(call, tensors[0]);
  if (!has_number && CastsToWeightFirst(call)) CastToWeight(writer, tensors);
  constexpr std::string_view kOfNumber = kScalar;
  const bool is_other = has_number && !kOfNumber.empty();
  const NameId result = writer.Result(call);
  writer.Emit(is_other ? kOfNumber : op, std::move(tensors), {result});
  if (op == "eq" && ShowsOneSequence(writer, call)) writer.NoteNoMask(result);
}

// A bound on one side is another kernel.
void WriteClamp(CallWriter& writer, const Call& call, std::string_view op) {
  const bool has_min = FindArgument(call, "min") != nullptr;
  const bool has_both = has_min && FindArgument(call, "max") != nullptr;
  WriteUnary(writer, call, has_both ? op : has_min ? "clamp_min" : "clamp_max");
}

void WriteClampByTensors(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId min = writer.TensorAt(call, "min");
  const NameId max = writer.TensorAt(call, "max");
  if (min != kNoName && max != kNoName) return WriteAll(writer, call, op);
  WriteAll(writer, call, min != kNoName ? "clamp_min.Tensor" : "clamp_max.Tensor");
}

// at::rsub(self, other): other - self.
void WriteReversed(CallWriter& writer, const Call& call, std::string_view op) {
  const std::vector<NameId> tensors = writer.Tensors(call);
  if (tensors.size() < 2) return writer.WriteUnknown(call);
  writer.Emit(op, {tensors[1], tensors[0]}, {writer.Result(call)});
}

// A local of `call` in the type of its result, or in `dtype`.
NameId LocalOf(CallWriter& writer, const Call& call, std::string_view op,
               std::vector<NameId> inputs, DType dtype = DType::kUndefined) {
  TensorType type = writer.program().values[Index(inputs[0])].type;
  if (dtype != DType::kUndefined) type.dtype = dtype;
  const NameId local = writer.NewName(std::string(call.name) + "." + std::string(op), type);
  writer.Emit(op, std::move(inputs), {local});
  return local;
}

// at::pow of what is cast to float64 (aten/src/ATen/native/Pow.cpp, pytorch v2.11.0).
void WriteFloatPower(CallWriter& writer, const Call& call, std::string_view op) {
  std::vector<NameId> tensors = writer.Tensors(call);
  for (size_t i = tensors.size(); i-- > 0;) {
    tensors[i] = LocalOf(writer, call, "to", {tensors[i]}, DType::kFloat64);
  }
  writer.Emit(op, std::move(tensors),
              {writer.Result(call, TensorType{DType::kFloat64, writer.TypeOfResult(call).dims})});
}

// (1 + erf(x * sqrt(1/2))) * 0.5
// Source: special_ndtr of aten/src/ATen/native/UnaryOps.cpp, pytorch v2.11.0.
void WriteNormalCdf(CallWriter& writer, const Call& call, std::string_view) {
  const NameId x = writer.TensorAt(call, "self");
  const NameId scaled = LocalOf(writer, call, "mul.Scalar", {x});
  const NameId erf = LocalOf(writer, call, "erf", {scaled});
  const NameId sum = LocalOf(writer, call, "add.Scalar", {erf});
  writer.Emit("mul.Scalar", {sum}, {writer.Result(call)});
}

// torch.where(arange(S)[:, None] >= arange(S), bias, -3e38), which attention with a bias is told
// to be causal by: each call makes it anew.
// Source: sdpa_attention_forward of integrations/sdpa_attention.py, transformers 5.17.
void WriteCausalBias(CallWriter& writer, const Call& call, NameId bias) {
  const TensorType type = writer.program().values[Index(bias)].type;
  const int64_t size = type.dims.back();
  const std::string name(call.name);
  const auto make = [&](const char* op, std::vector<NameId> inputs, const TensorType& made) {
    const NameId result = writer.NewName(name + "." + op, made);
    writer.Emit(op, std::move(inputs), {result});
    return result;
  };
  const NameId rows = make("constant", {}, {DType::kInt64, {size}});
  const NameId column = make("view", {rows}, {DType::kInt64, {size, 1}});
  const NameId columns = make("constant", {}, {DType::kInt64, {size}});
  const NameId shown = make("ge", {column, columns}, {DType::kBool, {size, size}});
  const NameId lowest = make("constant", {}, {type.dtype, {}});
  writer.Emit("where", {shown, bias, lowest}, {writer.Result(call, type)});
}

// A number becomes a tensor on the device first.
// Source: where of aten/src/ATen/native/TensorCompare.cpp, pytorch v2.11.0.
void WriteWhere(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  const bool is_bias = self != kNoName && writer.DimsOf(self).size() > 1;
  const Known* shown = is_bias ? writer.LibraryMaskAt(call, "condition") : nullptr;
  const bool is_lost = shown != nullptr && IsCausal(*shown) && LosesCausality(call);
  if (is_lost || (shown != nullptr && AreAllTrue(*shown))) return writer.ReturnSame(call, self);
  if (shown != nullptr && IsCausal(*shown)) return WriteCausalBias(writer, call, self);
  std::vector<NameId> operands = {writer.TensorAt(call, "condition")};
  for (const char* name : {"self", "other"}) {
    NameId operand = writer.TensorAt(call, name);
    if (operand == kNoName) {
      TensorType type = writer.TypeOfResult(call);
      type.dims.clear();
      operand = writer.NewName(std::string(call.name) + "." + name, type);
      writer.Emit("constant", {}, {operand});
    }
    operands.push_back(operand);
  }
  const NameId result = writer.Result(call);
  writer.Emit(op, std::move(operands), {result});
  const Known* mask = writer.LeavesOutMask(call) ? writer.KnownAt(call, "condition") : nullptr;
  if (mask != nullptr && AreAllTrue(*mask)) writer.NoteNoMask(result);
}

// torch.div (x, y, out=z): the kernel writes into z, whatever types it reads.  A watched run has
// it, torch.nn.utils.parametrizations.spectral_norm calls it.
void WriteInto(CallWriter& writer, const Call& call, std::string_view) {
  const NameId out = writer.TensorAt(call, "out");
  out == kNoName ? writer.WriteUnknown(call) : writer.ReturnSame(call, out);
}

constexpr char kAddScalar[] = "add.Scalar";
constexpr char kMulScalar[] = "mul.Scalar";
constexpr char kPowScalar[] = "pow.Tensor_Scalar";
constexpr char kSame[] = "";  // as with a tensor

constexpr CallRow kElementwiseRows[] = {
    // Elementwise arithmetic.
    {"multiply.Tensor", "mul", WriteBinary<kMulScalar>},
    {"divide.Tensor", "div", WriteBinary<kMulScalar>},
    {"subtract.Tensor", "sub", WriteBinary<kAddScalar>},
    {"add.Tensor", "add", WriteBinary<kAddScalar>},
    {"sub.Tensor", "sub", WriteBinary<kAddScalar>},
    {"add.out", "", WriteInto},
    {"sub.out", "", WriteInto},
    {"mul.out", "", WriteInto},
    {"div.out", "", WriteInto},
    {"true_divide.Tensor", "div", WriteBinary<kMulScalar>},
    {"rsub.Scalar", "neg", WriteUnary},
    {"rsub.Tensor", "sub", WriteReversed},
    {"mul.Tensor", "mul", WriteBinary<kMulScalar>},
    {"div.Tensor", "div", WriteBinary<kMulScalar>},
    {"add.Scalar", "add.Scalar", WriteUnary},
    {"sub.Scalar", "add.Scalar", WriteUnary},
    {"mul.Scalar", "mul.Scalar", WriteUnary},
    {"div.Scalar", "mul.Scalar", WriteUnary},
    {"div.Tensor_mode", "div.Tensor_mode", WriteAll},
    {"div.Scalar_mode", "div.Tensor_mode", WriteAll},
    {"floor_divide.default", "floor_divide", WriteAll},
    {"remainder.Scalar", "remainder", WriteUnary},
    {"remainder.Tensor", "remainder", WriteAll},
    {"fmod.Scalar", "fmod", WriteUnary},
    {"fmod.Tensor", "fmod", WriteAll},
    {"pow.Tensor_Scalar", "pow.Tensor_Scalar", WriteUnary},
    {"square.default", "square", WriteUnary},  // at::pow(x, 2)
    {"addcmul.default", "addcmul", WriteAll},
    {"addcdiv.default", "addcdiv", WriteAll},
    {"lerp.Scalar", "lerp", WriteAll},
    {"lerp.Tensor", "lerp.Tensor", WriteAll},
    {"pow.Tensor_Tensor", "pow", WriteBinary<kPowScalar>},
    {"pow.Scalar", "pow.Scalar", WriteUnary},
    {"float_power.Tensor_Tensor", "pow", WriteFloatPower},
    {"float_power.Tensor_Scalar", "pow.Tensor_Scalar", WriteFloatPower},
    {"float_power.Scalar", "pow.Scalar", WriteFloatPower},
    {"ldexp.Tensor", "ldexp", WriteAll},
    {"frexp.Tensor", "frexp", WriteParts},
    {"atan2.default", "atan2", WriteAll},
    {"polar.default", "polar", WriteAll},
    {"hypot.default", "hypot", WriteAll},
    {"logaddexp.default", "logaddexp", WriteAll},
    {"logaddexp2.default", "logaddexp2", WriteAll},
    {"xlogy.Tensor", "xlogy", WriteAll},
    {"special_xlogy.default", "xlogy", WriteAll},
    {"special_xlog1py.default", "special_xlog1py", WriteAll},
    {"fmax.default", "fmax", WriteAll},
    {"fmin.default", "fmin", WriteAll},
    {"minimum.default", "minimum", WriteAll},
    {"maximum.default", "maximum", WriteAll},
    {"min.other", "minimum", WriteAll},
    {"max.other", "maximum", WriteAll},
    {"neg.default", "neg", WriteUnary},
    {"exp.default", "exp", WriteUnary},
    {"expm1.default", "expm1", WriteUnary},
    {"log.default", "log", WriteUnary},
    {"log2.default", "log2", WriteUnary},
    {"log10.default", "log10", WriteUnary},
    {"log1p.default", "log1p", WriteUnary},
    {"sqrt.default", "sqrt", WriteUnary},
    {"rsqrt.default", "rsqrt", WriteUnary},
    {"reciprocal.default", "reciprocal", WriteUnary},
    {"erf.default", "erf", WriteUnary},
    {"abs.default", "abs", WriteUnary},
    {"sin.default", "sin", WriteUnary},
    {"cos.default", "cos", WriteUnary},
    {"tan.default", "tan", WriteUnary},
    {"atan.default", "atan", WriteUnary},
    {"asin.default", "asin", WriteUnary},
    {"acos.default", "acos", WriteUnary},
    {"sinh.default", "sinh", WriteUnary},
    {"cosh.default", "cosh", WriteUnary},
    {"asinh.default", "asinh", WriteUnary},
    {"acosh.default", "acosh", WriteUnary},
    {"atanh.default", "atanh", WriteUnary},
    {"exp2.default", "exp2", WriteUnary},
    {"special_exp2.default", "exp2", WriteUnary},
    {"erfc.default", "erfc", WriteUnary},
    {"special_erfc.default", "erfc", WriteUnary},
    {"erfinv.default", "erfinv", WriteUnary},
    {"special_erfinv.default", "erfinv", WriteUnary},
    {"logit.default", "logit", WriteUnary},
    {"special_logit.default", "logit", WriteUnary},
    {"angle.default", "angle", WriteUnary},
    {"frac.default", "frac", WriteUnary},
    {"deg2rad.default", "deg2rad", WriteUnary},
    {"rad2deg.default", "rad2deg", WriteUnary},
    {"nan_to_num.default", "nan_to_num", WriteUnary},
    {"sinc.default", "sinc", WriteUnary},
    {"special_sinc.default", "sinc", WriteUnary},
    {"special_entr.default", "special_entr", WriteUnary},
    {"special_erfcx.default", "special_erfcx", WriteUnary},
    {"special_i0e.default", "special_i0e", WriteUnary},
    {"special_i1.default", "special_i1", WriteUnary},
    {"special_i1e.default", "special_i1e", WriteUnary},
    {"special_log_ndtr.default", "special_log_ndtr", WriteUnary},
    {"special_ndtri.default", "special_ndtri", WriteUnary},
    {"trunc.default", "trunc", WriteUnary},
    {"fix.default", "trunc", WriteUnary},
    {"special_ndtr.default", "", WriteNormalCdf},
    {"floor.default", "floor", WriteUnary},
    {"ceil.default", "ceil", WriteUnary},
    {"round.default", "round", WriteUnary},
    {"round.decimals", "round.decimals", WriteUnary},
    {"sign.default", "sign", WriteUnary},
    {"tril.default", "tril", WriteUnary},
    {"triu.default", "triu", WriteUnary},
    {"clamp.default", "clamp", WriteClamp},
    {"clamp.Tensor", "clamp.Tensor", WriteClampByTensors},
    {"clamp_min.default", "clamp_min", WriteUnary},
    {"clamp_max.default", "clamp_max", WriteUnary},
    {"clamp_min.Tensor", "clamp_min.Tensor", WriteAll},
    {"clamp_max.Tensor", "clamp_max.Tensor", WriteAll},
    {"where.self", "where", WriteWhere},
    {"where.ScalarOther", "where", WriteWhere},
    {"where.ScalarSelf", "where", WriteWhere},
    {"where.Scalar", "where", WriteWhere},
    {"masked_fill.Scalar", "masked_fill", WriteAll},

    // Comparisons and logic.
    {"eq.Tensor", "eq", WriteBinary<kSame>},
    {"eq.Scalar", "eq", WriteUnary},
    {"ne.Tensor", "ne", WriteBinary<kSame>},
    {"ne.Scalar", "ne", WriteUnary},
    {"gt.Tensor", "gt", WriteBinary<kSame>},
    {"gt.Scalar", "gt", WriteUnary},
    {"ge.Tensor", "ge", WriteBinary<kSame>},
    {"ge.Scalar", "ge", WriteUnary},
    {"lt.Tensor", "lt", WriteBinary<kSame>},
    {"lt.Scalar", "lt", WriteUnary},
    {"le.Tensor", "le", WriteBinary<kSame>},
    {"le.Scalar", "le", WriteUnary},
    {"logical_and.default", "logical_and", WriteAll},
    {"logical_or.default", "logical_or", WriteAll},
    {"logical_not.default", "logical_not", WriteUnary},
    {"bitwise_and.Tensor", "bitwise_and", WriteAll},
    {"bitwise_or.Tensor", "bitwise_or", WriteAll},
    {"bitwise_not.default", "bitwise_not", WriteUnary},
    {"bitwise_and.Scalar", "bitwise_and", WriteUnary},
    {"bitwise_or.Scalar", "bitwise_or", WriteUnary},
    {"bitwise_xor.Tensor", "bitwise_xor", WriteAll},
    {"bitwise_xor.Scalar", "bitwise_xor", WriteUnary},
    {"bitwise_left_shift.Tensor", "bitwise_left_shift", WriteAll},
    {"bitwise_left_shift.Tensor_Scalar", "bitwise_left_shift", WriteUnary},
    {"bitwise_right_shift.Tensor", "bitwise_right_shift", WriteAll},
    {"bitwise_right_shift.Tensor_Scalar", "bitwise_right_shift", WriteUnary},
    {"__and__.Scalar", "__and__", WriteUnary},
    {"__or__.Scalar", "__or__", WriteUnary},
    {"__xor__.Tensor", "__xor__", WriteAll},
    {"__xor__.Scalar", "__xor__", WriteUnary},
    {"__lshift__.Scalar", "__lshift__", WriteUnary},
    {"__lshift__.Tensor", "__lshift__", WriteAll},
    {"__rshift__.Scalar", "__rshift__", WriteUnary},
    {"__rshift__.Tensor", "__rshift__", WriteAll},
    {"__and__.Tensor", "__and__", WriteBinary<kSame>},
    {"__or__.Tensor", "__or__", WriteAll},
    {"isnan.default", "isnan", WriteUnary},
    {"isinf.default", "isinf", WriteUnary},
};

}  // namespace

std::span<const CallRow> ElementwiseRows() { return kElementwiseRows; }

}  // namespace onnxfit::pt2
