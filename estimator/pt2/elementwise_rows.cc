// Arithmetic, comparisons and reductions.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/pt2/call_rows.h"
#include "estimator/pt2/libraries.h"

namespace onnxfit::pt2 {
namespace {

// x.to(like.dtype), which is x where that is its type.
NameId CastLike(CallWriter& writer, NameId x, NameId like) {
  const ProgramValue& value = writer.program().values[Index(x)];
  const NameId cast = writer.NewName(value.name + ".cast", value.type);
  writer.Emit("type_as", {x, like}, {cast});
  return cast;
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
  if (!has_number && CastsToWeightFirst(call))
    tensors[1] = CastLike(writer, tensors[1], tensors[0]);
  writer.Emit(has_number ? std::string_view(kScalar) : op, std::move(tensors),
              {writer.Result(call)});
}

// A bound on one side is another kernel.
void WriteClamp(CallWriter& writer, const Call& call, std::string_view op) {
  const bool has_both =
      FindArgument(call, "min") != nullptr && FindArgument(call, "max") != nullptr;
  WriteUnary(writer, call, has_both ? op : "clamp_min");
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
  const NameId shown = make("compare", {column, columns}, {DType::kBool, {size, size}});
  const NameId lowest = make("constant", {}, {type.dtype, {}});
  writer.Emit("where", {shown, bias, lowest}, {writer.Result(call, type)});
}

// A number becomes a tensor on the device first.
// Source: where of aten/src/ATen/native/TensorCompare.cpp, pytorch v2.11.0.
void WriteWhere(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  const bool is_bias = self != kNoName && writer.DimsOf(self).size() > 1;
  const Known* shown = is_bias ? writer.LibraryMaskAt(call, "condition") : nullptr;
  if (shown != nullptr && AreAllTrue(*shown)) return writer.ReturnSame(call, self);
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
  const Known* mask = BuildsLibraryMask(call) ? writer.KnownAt(call, "condition") : nullptr;
  if (mask != nullptr && AreAllTrue(*mask)) writer.NoteNoMask(result);
}

// Values and places; where nobody reads these, they are an auxiliary result.
void WriteWithPlaces(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  std::vector<NameId> results = writer.Results(call);
  if (self == kNoName || results.empty()) return writer.WriteUnknown(call);
  if (results.size() > 1 && writer.IsRead(call.results[1].text)) {
    return writer.Emit("topk", {self}, std::move(results));
  }
  writer.Emit(op, {self}, {results[0]});
}

constexpr char kAddScalar[] = "add.Scalar";
constexpr char kMulScalar[] = "mul.Scalar";
constexpr char kPowScalar[] = "pow.Tensor_Scalar";
constexpr char kCompare[] = "compare";

constexpr CallRow kElementwiseRows[] = {
    // Elementwise arithmetic.
    {"multiply.Tensor", "mul", WriteBinary<kMulScalar>},
    {"divide.Tensor", "div", WriteBinary<kMulScalar>},
    {"subtract.Tensor", "sub", WriteBinary<kAddScalar>},
    {"add.Tensor", "add", WriteBinary<kAddScalar>},
    {"sub.Tensor", "sub", WriteBinary<kAddScalar>},
    {"rsub.Scalar", "neg", WriteUnary},
    {"mul.Tensor", "mul", WriteBinary<kMulScalar>},
    {"div.Tensor", "div", WriteBinary<kMulScalar>},
    {"add.Scalar", "add.Scalar", WriteUnary},
    {"sub.Scalar", "add.Scalar", WriteUnary},
    {"mul.Scalar", "mul.Scalar", WriteUnary},
    {"div.Scalar", "mul.Scalar", WriteUnary},
    {"div.Tensor_mode", "compare", WriteAll},
    {"floor_divide.default", "compare", WriteAll},
    {"remainder.Scalar", "compare", WriteUnary},
    {"pow.Tensor_Scalar", "pow.Tensor_Scalar", WriteUnary},
    {"square.default", "pow.Tensor_Scalar", WriteUnary},  // at::pow(x, 2)
    {"addcmul.default", "addcmul", WriteAll},
    {"addcdiv.default", "addcdiv", WriteAll},
    {"lerp.Scalar", "lerp", WriteAll},
    {"pow.Tensor_Tensor", "pow", WriteBinary<kPowScalar>},
    {"pow.Scalar", "pow.Scalar", WriteUnary},
    {"minimum.default", "minimum", WriteAll},
    {"maximum.default", "maximum", WriteAll},
    {"min.other", "minimum", WriteAll},
    {"max.other", "maximum", WriteAll},
    {"neg.default", "neg", WriteUnary},
    {"exp.default", "exp", WriteUnary},
    {"expm1.default", "expm1", WriteUnary},
    {"log.default", "log", WriteUnary},
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
    {"floor.default", "floor", WriteUnary},
    {"ceil.default", "floor", WriteUnary},
    {"round.default", "floor", WriteUnary},
    {"sign.default", "floor", WriteUnary},
    {"tril.default", "tril", WriteUnary},
    {"triu.default", "tril", WriteUnary},
    {"cumsum.default", "cumsum", WriteUnary},
    {"clamp.default", "clamp", WriteClamp},
    {"clamp.Tensor", "clamp", WriteUnary},
    {"clamp_min.default", "clamp_min", WriteUnary},
    {"clamp_max.default", "clamp_min", WriteUnary},
    {"where.self", "where", WriteWhere},
    {"where.ScalarOther", "where", WriteWhere},
    {"where.ScalarSelf", "where", WriteWhere},
    {"where.Scalar", "where", WriteWhere},
    {"masked_fill.Scalar", "masked_fill", WriteAll},

    // Comparisons and logic.
    {"eq.Tensor", "compare", WriteBinary<kCompare>},
    {"eq.Scalar", "compare", WriteUnary},
    {"ne.Tensor", "compare", WriteBinary<kCompare>},
    {"ne.Scalar", "compare", WriteUnary},
    {"gt.Tensor", "compare", WriteBinary<kCompare>},
    {"gt.Scalar", "compare", WriteUnary},
    {"ge.Tensor", "compare", WriteBinary<kCompare>},
    {"ge.Scalar", "compare", WriteUnary},
    {"lt.Tensor", "compare", WriteBinary<kCompare>},
    {"lt.Scalar", "compare", WriteUnary},
    {"le.Tensor", "compare", WriteBinary<kCompare>},
    {"le.Scalar", "compare", WriteUnary},
    {"logical_and.default", "compare", WriteAll},
    {"logical_or.default", "compare", WriteAll},
    {"logical_not.default", "compare", WriteUnary},
    {"bitwise_and.Tensor", "compare", WriteAll},
    {"bitwise_or.Tensor", "compare", WriteAll},
    {"bitwise_not.default", "compare", WriteUnary},
    {"bitwise_and.Scalar", "compare", WriteUnary},
    {"bitwise_or.Scalar", "compare", WriteUnary},
    {"bitwise_xor.Tensor", "compare", WriteAll},
    {"bitwise_xor.Scalar", "compare", WriteUnary},
    {"bitwise_left_shift.Tensor", "compare", WriteAll},
    {"bitwise_left_shift.Tensor_Scalar", "compare", WriteUnary},
    {"bitwise_right_shift.Tensor", "compare", WriteAll},
    {"bitwise_right_shift.Tensor_Scalar", "compare", WriteUnary},
    {"__and__.Scalar", "compare", WriteUnary},
    {"__or__.Scalar", "compare", WriteUnary},
    {"__xor__.Tensor", "compare", WriteAll},
    {"__xor__.Scalar", "compare", WriteUnary},
    {"__lshift__.Scalar", "compare", WriteUnary},
    {"__lshift__.Tensor", "compare", WriteAll},
    {"__rshift__.Scalar", "compare", WriteUnary},
    {"__rshift__.Tensor", "compare", WriteAll},
    {"__and__.Tensor", "compare", WriteAll},
    {"__or__.Tensor", "compare", WriteAll},
    {"isnan.default", "compare", WriteUnary},
    {"isinf.default", "compare", WriteUnary},

    // Reductions.
    {"mean.default", "mean", WriteUnary},
    {"mean.dim", "mean", WriteUnary},
    {"sum.default", "sum", WriteUnary},
    {"sum.dim_IntList", "sum", WriteUnary},
    {"max.dim", "max.dim", WriteWithPlaces},
    {"min.dim", "max.dim", WriteWithPlaces},
    {"amax.default", "amax", WriteUnary},
    {"any.default", "amax", WriteUnary},
    {"any.dim", "amax", WriteUnary},
    {"any.dims", "amax", WriteUnary},
    {"all.default", "amax", WriteUnary},
    {"all.dim", "amax", WriteUnary},
    {"all.dims", "amax", WriteUnary},
    {"amin.default", "amax", WriteUnary},
    {"argmax.default", "argmax", WriteUnary},
    {"argmin.default", "argmax", WriteUnary},
    {"var.dim", "var", WriteUnary},
    {"var.correction", "var", WriteUnary},
    {"std.dim", "std", WriteUnary},
    {"std.correction", "std", WriteUnary},
    {"topk.default", "topk", WriteParts},
    {"sort.default", "topk", WriteParts},
    {"sort.stable", "topk", WriteParts},
    {"argsort.default", "argmax", WriteUnary},
    {"logsumexp.default", "logsumexp", WriteUnary},
    {"linalg_vector_norm.default", "norm", WriteUnary},
    {"norm.ScalarOpt_dim", "norm", WriteUnary},
};

}  // namespace

std::span<const CallRow> ElementwiseRows() { return kElementwiseRows; }

}  // namespace onnxfit::pt2
