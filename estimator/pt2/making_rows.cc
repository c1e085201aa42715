// Tensors made from numbers, casts, and what is written over.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/source_statement.h"
#include "estimator/pt2/call_rows.h"

namespace onnxfit::pt2 {
namespace {

// "x" of "torch.rand(size, dtype=x.dtype)"; "" of others.
std::string_view TypeGiver(const Call& call) {
  constexpr std::string_view kGiven = "dtype=";
  if (call.lines.empty()) return "";
  const std::string_view line = call.lines.back().text;
  const size_t given = line.find(kGiven);
  if (given == line.npos) return "";
  const std::string_view rest = line.substr(given + kGiven.size());
  const size_t end = rest.find(".dtype");
  return end == rest.npos || end > rest.find_first_of(",)") ? "" : rest.substr(0, end);
}

bool IsMadeInFp32(const Call& call) {
  return !call.lines.empty() && MakesInFp32(call.lines.back().text);
}

// A tensor that is made from numbers alone, in fp32 where no type is given, or that one.
void WriteNumbers(CallWriter& writer, const Call& call, std::string_view op) {
  TensorType type = writer.TypeOfResult(call);
  const bool is_wide = !writer.RunsAsExported() && (FindArgument(call, "dtype") == nullptr ||
                                                    SpellsFloat32(call) || IsMadeInFp32(call));
  if (is_wide && IsFloat(type.dtype) && BitsOf(type.dtype) == 16) type.dtype = DType::kFloat32;
  writer.Emit(op, {}, {writer.Result(call, type)});
}

// The same in a type that is given, most likely as that of what it will be joined with:
// torch.zeros(sizes, dtype=query.dtype).
void WriteFilled(CallWriter& writer, const Call& call, std::string_view op) {
  const bool is_float = IsFloat(writer.TypeOfResult(call).dtype);
  const bool is_given = FindArgument(call, "dtype") != nullptr && !SpellsFloat32(call);
  NameId partner = is_float ? GiverUnderAutocast(writer, call) : kNoName;
  if (partner == kNoName && is_float && is_given) partner = writer.PartnerOfResult(call);
  const bool is_other =
      partner != kNoName && writer.RunsAsExported() &&
      writer.program().values[Index(partner)].type.dtype != writer.TypeOfResult(call).dtype;
  if (partner == kNoName || is_other) return WriteNumbers(writer, call, op);
  writer.Emit("bernoulli", {partner}, {writer.Result(call)});
}

// One number is drawn on the CPU where the line names no device: "probability = torch.rand([])",
// by which loops skip layers.
void WriteDrawn(CallWriter& writer, const Call& call, std::string_view op) {
  const std::string_view line = call.lines.empty() ? "" : call.lines.back().text;
  const bool is_on_host = writer.TypeOfResult(call).dims.empty() &&
                          line.find("torch.rand(") != line.npos && line.find("device") == line.npos;
  is_on_host ? writer.ReturnSame(call, kNoName) : WriteFilled(writer, call, op);
}

// The same in the type of its first operand: x.new_empty(…), rand_like(x).
void WriteLike(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  const bool is_float = IsFloat(writer.TypeOfResult(call).dtype);
  const bool follows = self != kNoName && is_float && FindArgument(call, "dtype") == nullptr;
  follows ? writer.Emit("bernoulli", {self}, {writer.Result(call)})
          : WriteConstant(writer, call, op);
}

// "x.to(input_dtype)", behind "input_dtype = x.dtype" and a cast to float32 in the same module:
// norms of transformers 5.17.  An export in fp32 has float32 for both.
bool SpellsInputType(const Call& call) {
  return !call.lines.empty() &&
         call.lines.back().text.find(".to(input_dtype)") != std::string::npos;
}

constexpr std::string_view kNameLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

// Whether a statement begins with the cast of a name: "x = x.to(torch.float32)", but not "x = x *
// silu(gate.to(torch.float32))".
bool BeginsWithCast(const Call& call) {
  const std::string_view line = call.lines.empty() ? "" : call.lines.back().text;
  const size_t bound = line.find(" = ");
  const std::string_view value = bound == line.npos ? line : line.substr(bound + 3);
  const size_t end = value.find_first_not_of(kNameLetters);
  return end != value.npos && value[end] == '.';
}

// "f(x.float()).to(x.dtype)", whose x may be in fp32 already.
bool SpellsOwnType(const Call& call) {
  constexpr std::string_view kFloat = ".float()";
  const std::string_view line = call.lines.empty() ? "" : call.lines.back().text;
  const size_t cast = line.find(kFloat);
  if (cast == line.npos) return false;
  const size_t begin = line.find_last_not_of(kNameLetters, cast - 1) + 1;
  const std::string type = fmt::format(".to({}.dtype)", line.substr(begin, cast - begin));
  return line.find(type, cast) != line.npos;
}

constexpr std::string_view kToOtherWidth = "to_other_width";

// What the last cast of a helper has made.
NameId LastCastOfHelper(const Program& program) {
  const auto last = std::find_if(program.calls.rbegin(), program.calls.rend(),
                                 [](const AtenCall& call) { return call.op == kToOtherWidth; });
  return last == program.calls.rend() ? kNoName : last->outputs[0];
}

// A cast of a helper, to the other of both widths, or as the one before it.
void WriteCastOfHelper(CallWriter& writer, const Call& call, NameId self, CastWay way) {
  const TensorType type = {DType::kFloat32, writer.TypeOfResult(call).dims};
  const bool is_own = way == CastWay::kOtherOfLocal || way == CastWay::kSameOfLocal;
  const bool is_same = way == CastWay::kSameOfLocal || way == CastWay::kSameOfArgument;
  std::vector<NameId> operands = {self};
  if (const NameId like = is_same ? LastCastOfHelper(writer.program()) : kNoName; like != kNoName)
    operands.push_back(like);
  const NameId result = is_own ? writer.Result(call, type) : writer.CastResult(call, self, type);
  writer.Emit(kToOtherWidth, std::move(operands), {result});
}

// The call that has made `name`, through views and dropouts, if the last calls are those; null
// where others are among them.
const AtenCall* LastMakerOf(const Program& program, NameId name) {
  constexpr std::string_view kOnTheWay[] = {"dropout", "permute", "view", "reshape", "slice"};
  for (auto call = program.calls.rbegin(); call != program.calls.rend(); ++call) {
    if (call->outputs.empty() || call->outputs[0] != name) return nullptr;
    if (std::ranges::find(kOnTheWay, call->op) == std::end(kOnTheWay)) return &*call;
    name = call->inputs[0];
  }
  return nullptr;
}

// What the last product of matrices reads first.
NameId QueryOf(const Program& program) {
  for (auto call = program.calls.rbegin(); call != program.calls.rend(); ++call) {
    if (call->op == "matmul") return call->inputs[0];
  }
  return kNoName;
}

// Whether neither a cast's line nor its method tells its type.
bool IsOfUnknownType(const Call& call) { return HidesTypes(call) && call.method != kToFloat; }

// Whose type attention's code gives `self` under autocast, where the file says fp32:
// "attn_weights.to(value.dtype)" of what a softmax has made, which autocast runs in fp32, that of
// what it is multiplied with, but eager attention has ".to(query.dtype)", and so has what attention
// has made.  kNoName of other casts.
NameId PartnerInAttention(CallWriter& writer, const Call& call, NameId self) {
  if (!IsOfUnknownType(call) && !SpellsCastBack(call)) return kNoName;
  const AtenCall* maker = LastMakerOf(writer.program(), self);
  if (maker == nullptr) return kNoName;
  if (maker->op == "scaled_dot_product_attention") return maker->inputs[0];
  if (maker->op != "softmax") return kNoName;
  const bool is_eager = call.lines.back().text.find(CallOfEagerAttention()) != std::string::npos;
  const bool has_sinks = writer.program().calls.back().op == "slice";
  return is_eager && !has_sinks ? QueryOf(writer.program()) : writer.PartnerOfResult(call);
}

// "flat" of "x = f(y).to(flat.dtype)", where it is the line's only cast; "" of others.
std::string_view TypedLike(const Call& call) {
  constexpr std::string_view kCast = ".to(";
  constexpr std::string_view kType = ".dtype)";
  if (call.lines.empty() || SpellsFloat32(call)) return "";
  const std::string_view line = call.lines.back().text;
  const size_t cast = line.find(kCast);
  if (cast == line.npos || line.find(kCast, cast + 1) != line.npos) return "";
  const std::string_view rest = line.substr(cast + kCast.size());
  const size_t end = rest.find(kType);
  return end == rest.npos ? "" : rest.substr(0, end);
}

// "y" of "f(x.float()).to(y.dtype)", which the line names nowhere else: what the result meets; ""
// of others.
std::string_view TypedLikeOther(const Call& call) {
  constexpr std::string_view kCast = ".to(";
  const std::string_view line = call.lines.empty() ? "" : call.lines.back().text;
  const size_t cast = line.find(kCast);
  if (cast == line.npos || !SpellsCastBack(call)) return "";
  const std::string_view rest = line.substr(cast + kCast.size());
  const std::string_view other = rest.substr(0, std::min(rest.find(".dtype)"), rest.size()));
  return line.substr(0, cast).find(other) == line.npos ? other : "";
}

// Whether a line casts several to the type of one, which its forward was given: "return
// cos.to(dtype=x.dtype), sin.to(dtype=x.dtype)" of a rotary embedding.
bool CastsAllLikeArgument(const Call& call) {
  constexpr std::string_view kSpellings[] = {".to(dtype=x.dtype)", ".to(x.dtype)"};
  const std::string_view line = call.lines.empty() ? "" : call.lines.back().text;
  return std::ranges::any_of(kSpellings, [&](std::string_view spelling) {
    const size_t cast = line.find(spelling);
    return cast != line.npos && line.find(spelling, cast + 1) != line.npos;
  });
}

// What a cast under autocast, which the file has in fp32, has the type of: kNoName where that is
// not known.
NameId PartnerUnderAutocast(CallWriter& writer, const Call& call, NameId self) {
  if (AutocastType(writer.settings().precision) == DType::kUndefined) return kNoName;
  if (const NameId named = writer.TypeGiverOf(call); named != kNoName) return named;
  NameId partner = PartnerInAttention(writer, call, self);
  const std::string_view other = writer.IsOfLine(self) ? TypedLikeOther(call) : "";
  if (partner == kNoName && (IsOfUnknownType(call) || !other.empty()))
    partner = writer.FactorOfResult(call);
  if (partner != kNoName && !other.empty()) writer.Bind(call, other, partner);
  if (partner == kNoName) partner = writer.ReadFirstOnLine(call);
  if (partner != kNoName) return partner;
  if (CastsAllLikeArgument(call)) return writer.GivenToNextModule(call);
  const std::string_view variable = TypedLike(call);
  return variable.empty() ? kNoName : writer.BoundTo(call, variable);
}

NameId HeldUnderAutocast(CallWriter& writer, const Call& call) {
  const bool is_autocast = AutocastType(writer.settings().precision) != DType::kUndefined;
  return is_autocast ? writer.HeldTypeOf(call) : kNoName;
}

// In the type that the file says.
void WriteOwnCast(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  if (self == kNoName) return WriteConstant(writer, call, "constant");
  if (writer.IsNoMask(self)) return writer.ReturnSame(call, self);
  const bool is_copy =
      writer.IntAt(call, "copy", 0) != 0 &&
      writer.TypeOfResult(call).dtype == writer.program().values[Index(self)].type.dtype;
  writer.Emit(is_copy ? "clone" : op, {self}, {writer.Result(call)});
}

void WriteCast(CallWriter& writer, const Call& call, std::string_view op) {
  if (writer.RunsAsExported()) return WriteOwnCast(writer, call, op);
  TensorType type = writer.TypeOfResult(call);
  const std::optional<CastWay> way = writer.WayOf(call);
  const bool is_to_float32 = SpellsFloat32(call) && way != CastWay::kBack;
  if (writer.TextAt(call, "dtype") == "float32" && is_to_float32 && IsFloat(type.dtype) &&
      BitsOf(type.dtype) < 32) {
    type.dtype = DType::kFloat32;
  }
  const DType own = writer.OwnTypeOfResult(call);
  if (own != DType::kUndefined) type.dtype = own;
  const NameId given = writer.GivenToCast(call);
  const NameId self = given == kNoName ? writer.TensorAt(call, "self") : given;
  if (self == kNoName) return WriteConstant(writer, call, "constant");
  if (writer.IsNoMask(self)) return writer.ReturnSame(call, self);
  if (const NameId partner = PartnerUnderAutocast(writer, call, self); partner != kNoName)
    return writer.Emit("type_as", {self, partner}, {writer.Result(call)});
  if (const NameId held = HeldUnderAutocast(writer, call); held != kNoName)
    return writer.EmitTypedLike(held, self, writer.Result(call));
  if (is_to_float32 && (BeginsWithCast(call) || SpellsOwnType(call))) writer.NoteInput(call, self);
  const bool is_first = is_to_float32 && SpellsCastBack(call);  // "(w.to(torch.float32) * x).to(t)"
  const bool is_back_to_input =
      SpellsInputType(call) || (way == CastWay::kBack && SpellsOwnType(call));
  const NameId input = is_back_to_input && !is_first ? writer.NotedInput(call) : kNoName;
  if (input != kNoName) return writer.Emit("type_as", {self, input}, {writer.Result(call)});
  const bool is_local = way == CastWay::kFloatOfLocal;
  if (is_local || way == CastWay::kFloatOfArgument) {
    type.dtype = DType::kFloat32;
    const NameId result =
        is_local ? writer.Result(call, type) : writer.CastResult(call, self, type);
    return writer.Emit(op, {self}, {result});
  }
  if (way == CastWay::kBack) return writer.Emit(op, {self}, {writer.Result(call, type)});
  if (way && way != CastWay::kForProduct) return WriteCastOfHelper(writer, call, self, *way);
  writer.Emit(op, {self}, {writer.CastResult(call, self, type)});
}

// out[:, a:b] = x: what `out` was read as has x's history from then on.
void WriteCopy(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  const NameId source = writer.TensorAt(call, "src");
  const bool is_tracked = writer.trains() && source != kNoName && writer.IsTracked(source);
  const NameId base = is_tracked ? writer.BaseOf(self) : kNoName;
  if (base != kNoName) {
    const NameId written = writer.NewNameLike(base, std::string(call.name));
    writer.Emit(op, {base, source}, {written});
    writer.Supersede(base, written);
    if (base == self) return writer.ReturnSame(call, written);  // x[:] = y
  }
  writer.ReturnSame(call, self);
}

// x.type_as(other), "norm(x.float()).type_as(x)"; where `other` is on the host, a cast to the type
// that the file says.
void WriteTypeAs(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  const NameId other = writer.UncastAt(call, "other");
  if (self == kNoName || other == kNoName) return WriteCast(writer, call, "to");
  writer.Emit(op, {self, other}, {writer.Result(call)});
}

// x.to(device): of the options that x has, so that it names the type that x has here, whichever it
// has in a run (dispatch_to, tools/autograd/templates/python_variable_methods.cpp, pytorch
// v2.11.0).
void WriteMove(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  const bool is_other =
      !writer.TextAt(call, "memory_format").empty() || writer.IntAt(call, "copy", 0) != 0;
  if (self == kNoName || is_other) return WriteCast(writer, call, op);
  writer.ReturnSame(call, self);
}

constexpr CallRow kMakingRows[] = {
    // Tensors made from numbers.
    {"arange.default", "constant", WriteNumbers},
    {"arange.start", "constant", WriteNumbers},
    {"arange.start_step", "constant", WriteNumbers},
    {"linspace.default", "constant", WriteNumbers},
    {"full.default", "constant", WriteFilled},
    {"full_like.default", "constant", WriteLike},
    {"zeros.default", "constant", WriteFilled},
    {"zeros_like.default", "constant", WriteLike},
    {"ones.default", "constant", WriteFilled},
    {"ones_like.default", "constant", WriteLike},
    {"empty.memory_format", "constant", WriteFilled},
    {"empty_like.default", "constant", WriteLike},
    {"new_zeros.default", "constant", WriteLike},
    {"new_ones.default", "constant", WriteLike},
    {"new_full.default", "constant", WriteLike},
    {"new_empty.default", "constant", WriteLike},
    {"eye.default", "constant", WriteNumbers},
    {"randperm.default", "randperm", WriteConstant},
    {"randint.default", "constant", WriteConstant},
    {"randint.low", "constant", WriteConstant},
    {"randint_like.default", "constant", WriteLike},
    {"randint_like.low_dtype", "constant", WriteLike},
    {"rand.default", "constant", WriteDrawn},
    {"randn.default", "constant", WriteFilled},
    {"rand_like.default", "constant", WriteLike},
    {"randn_like.default", "constant", WriteLike},
    {"normal.Tensor_float", "normal", WriteUnary},
    {"scalar_tensor.default", "constant", WriteConstant},
    {"lift_fresh_copy.default", "", ReturnFirst},

    // Casts.
    {"to.dtype", "to", WriteCast},
    {"to.dtype_layout", "to", WriteMove},
    {"to.device", "to", WriteCast},
    {"_to_copy.default", "to", WriteCast},
    {"to.other", "type_as", WriteTypeAs},
    {"type_as.default", "type_as", WriteTypeAs},

    // Written over: nothing new.
    {"bernoulli_.float", "", ReturnFirst},
    {"uniform_.default", "", ReturnFirst},
    {"exponential_.default", "", ReturnFirst},
    {"random_.default", "", ReturnFirst},
    {"random_.from", "", ReturnFirst},
    {"normal_.default", "", ReturnFirst},
    {"fill_.Scalar", "", ReturnFirst},
    {"fill_.Tensor", "", ReturnFirst},  // "x[:, 0] = 2", whose number is on the host
    {"zero_.default", "", ReturnFirst},
    {"copy_.default", "copy_slice", WriteCopy},
};

}  // namespace

bool SpellsFloat32(const Call& call) {
  if (call.method == kToFloat) return true;
  if (call.lines.empty()) return false;
  const std::string line = WithFloat32(call.lines.back().text);
  if (line.find("float32") != line.npos) return true;
  return call.method != "to" && line.find(".float()") != line.npos;
}

NameId GiverUnderAutocast(const CallWriter& writer, const Call& call) {
  if (AutocastType(writer.settings().precision) == DType::kUndefined) return kNoName;
  const std::string_view variable = TypeGiver(call);
  return variable.empty() ? kNoName : writer.BoundOrPassedTo(call, variable);
}

bool HidesTypes(const Call& call) {
  constexpr std::string_view kSpellings[] = {".to(",  ".float(",    ".type(", "type_as",
                                             "dtype", ".bfloat16(", ".half(", "float32"};
  if (call.lines.empty()) return false;
  const std::string_view line = call.lines.back().text;
  return line.find('(') != std::string_view::npos &&
         std::ranges::none_of(kSpellings, [&](std::string_view spelling) {
           return line.find(spelling) != std::string_view::npos;
         });
}

std::span<const CallRow> MakingRows() { return kMakingRows; }

}  // namespace onnxfit::pt2
