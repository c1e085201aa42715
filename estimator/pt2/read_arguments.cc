// The arguments of calls and the sizes of tensors, from their JSON: a row for each kind.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "estimator/base/expression.h"
#include "estimator/base/quote.h"
#include "estimator/pt2/read_program.h"
#include "estimator/pt2/schema.h"

namespace onnxfit::pt2 {
namespace {

using Kind = Argument::Kind;
using ReadKind = Argument (*)(const Json& value, ReadState& state);

Argument ReadNone(const Json&, ReadState&) { return {}; }

Argument ReadNamedTensor(const Json& value, ReadState&) {
  return {.kind = Kind::kTensor, .text = Text(MemberOf(value, "name"))};
}

Argument ReadWhole(const Json& value, ReadState&) {
  return {.kind = Kind::kNumber, .number = Whole(value)};
}

Argument ReadReal(const Json& value, ReadState&) {
  return {.kind = Kind::kReal, .real = Real(value)};
}

Argument ReadBool(const Json& value, ReadState&) {
  return {.kind = Kind::kBool, .number = Truth(value) ? 1 : 0};
}

Argument ReadText(const Json& value, ReadState&) {
  return {.kind = Kind::kText, .text = Text(value)};
}

Argument ReadSymbol(const Json& value, ReadState&) {
  return {.kind = Kind::kSymbol, .text = Text(value)};
}

// A number that stands for a name; a number that is not known is what it is.
template <std::string_view (*kName)(int64_t)>
Argument ReadEnum(const Json& value, ReadState& state) {
  const int64_t number = Whole(value);
  const std::string_view name = kName(number);
  return {.kind = Kind::kText,
          .text = name.empty() ? state.pool.Keep(std::to_string(number)) : name};
}

Argument ReadDevice(const Json& value, ReadState& state) {
  const std::string_view type = Text(MemberOf(value, "type"));
  const Json* const index = OptionalMemberOf(value, "index");
  if (index == nullptr) return {.kind = Kind::kText, .text = type};
  return {.kind = Kind::kText, .text = state.pool.Keep(fmt::format("{}:{}", type, Whole(*index)))};
}

template <ReadKind kRead>
Argument ReadList(const Json& value, ReadState& state) {
  return {.kind = Kind::kList, .items = ReadEach(value, state, kRead)};
}

Argument ReadSubgraph(const Json& value, ReadState& state) {
  return {.kind = Kind::kGraph,
          .text = Text(MemberOf(value, "name")),
          .graph = std::make_shared<const Graph>(ReadGraph(MemberOf(value, "graph"), state))};
}

Argument ReadDict(const Json& value, ReadState& state) {
  Argument dict = {.kind = Kind::kOther, .text = "as_string_to_argument"};
  for (const auto& member : MembersOf(value)) {
    dict.items.push_back(ReadArgument(member.value, state));
  }
  return dict;
}

Argument ReadCustomObject(const Json&, ReadState&) {
  return {.kind = Kind::kOther, .text = "as_custom_obj"};
}

Argument ReadComplex(const Json&, ReadState&) {
  return {.kind = Kind::kOther, .text = "as_complex"};
}

// schema.py: Argument, SymIntArgument (as_name), OptionalTensorArgument, ConstantValue.  The first
// are the most frequent.
struct KindRow {
  std::string_view name;
  ReadKind read;
};
constexpr KindRow kKinds[] = {
    {"as_tensor", ReadNamedTensor},
    {"as_int", ReadWhole},
    {"as_float", ReadReal},
    {"as_bool", ReadBool},
    {"as_ints", ReadList<ReadWhole>},
    {"as_sym_ints", ReadList<ReadArgument>},
    {"as_sym_int", ReadArgument},
    {"as_name", ReadSymbol},
    {"as_none", ReadNone},
    {"as_scalar_type", ReadEnum<ScalarTypeName>},
    {"as_device", ReadDevice},
    {"as_layout", ReadEnum<LayoutName>},
    {"as_memory_format", ReadEnum<MemoryFormatName>},
    {"as_tensors", ReadList<ReadNamedTensor>},
    {"as_optional_tensors", ReadList<ReadArgument>},
    {"as_optional_tensor", ReadArgument},
    {"as_floats", ReadList<ReadReal>},
    {"as_bools", ReadList<ReadBool>},
    {"as_string", ReadText},
    {"as_strings", ReadList<ReadText>},
    {"as_sym_float", ReadArgument},
    {"as_sym_floats", ReadList<ReadArgument>},
    {"as_sym_bool", ReadArgument},
    {"as_sym_bools", ReadList<ReadArgument>},
    {"as_nested_tensors", ReadList<ReadList<ReadNamedTensor>>},
    {"as_int_lists", ReadList<ReadList<ReadWhole>>},
    {"as_float_lists", ReadList<ReadList<ReadReal>>},
    {"as_operator", ReadText},
    {"as_graph", ReadSubgraph},
    {"as_string_to_argument", ReadDict},
    {"as_custom_obj", ReadCustomObject},
    {"as_complex", ReadComplex},
};

Argument OtherArgument(std::string_view kind, ReadState& state) {
  state.AddNote(fmt::format("arguments of a kind that is not known are left out: {}", Quote(kind)));
  return {.kind = Kind::kOther, .text = kind};
}

// What `written` is, but for its hint.
const Size& SizeOf(std::string_view written, ReadState& state) {
  const auto [place, is_new] = state.sizes.try_emplace(written);
  if (is_new) {
    std::string plain = PlainExpression(written);
    if (const auto number = Evaluate(plain, {})) {
      place->second.number = *number;
    } else {
      place->second.expression = state.pool.Keep(std::move(plain));
    }
  }
  return place->second;
}

}  // namespace

Argument ReadArgument(const Json& json, ReadState& state) {
  const auto& [kind, value] = OnlyMemberOf(json);
  const std::string_view name = Text(kind);
  const auto* const row = std::ranges::find(kKinds, name, &KindRow::name);
  return row == std::end(kKinds) ? OtherArgument(name, state) : row->read(value, state);
}

Size ReadSize(const Json& json, ReadState& state) {
  const auto& [kind, value] = OnlyMemberOf(json);
  if (Text(kind) == "as_int") return {.number = Whole(value)};
  if (Text(kind) != "as_expr") throw UnexpectedJson(json, "'as_int' or 'as_expr'");
  const std::string_view written = Text(MemberOf(value, "expr_str"));
  if (written.empty()) throw UnexpectedJson(value, "an expression");
  Size size = SizeOf(written, state);
  const Json* const hint = OptionalMemberOf(value, "hint");
  const Json* const number = hint == nullptr ? nullptr : OptionalMemberOf(*hint, "as_int");
  if (number != nullptr) size.hint = Whole(*number);
  return size;
}

}  // namespace onnxfit::pt2
