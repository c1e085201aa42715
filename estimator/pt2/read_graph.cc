#include <algorithm>
#include <optional>
#include <utility>

#include "estimator/pt2/read_program.h"
#include "estimator/pt2/schema.h"

namespace onnxfit::pt2 {
namespace {

std::string_view DeviceOf(const Json& tensor) {
  const Json* const device = OptionalMemberOf(tensor, "device");
  const Json* const type =
      device != nullptr && device->IsObject() ? OptionalMemberOf(*device, "type") : nullptr;
  return type != nullptr && type->IsString() ? Text(*type) : std::string_view();
}

// {"as_bool": true} or an expression.
std::optional<Size> ReadTruth(const Json& json, ReadState& state) {
  const auto& [kind, value] = OnlyMemberOf(json);
  if (Text(kind) == "as_bool") return Size{.number = Truth(value) ? 1 : 0};
  return Text(kind) == "as_expr" ? std::optional(ReadSize(json, state)) : std::nullopt;
}

DType ReadDType(const Json& json) {
  const DType dtype = ScalarTypeOf(Whole(json));
  if (dtype == DType::kUndefined) throw UnexpectedJson(json, "the number of an element type");
  return dtype;
}

Tensor ReadTensor(const Json& json, ReadState& state) {
  const Json& sizes = MemberOf(json, "sizes");
  Tensor tensor = {.dtype = ReadDType(MemberOf(json, "dtype")),
                   .sizes = ReadEach(sizes, state, ReadSize),
                   .strides = ReadEach(MemberOf(json, "strides"), state, ReadSize),
                   .requires_grad = Truth(MemberOf(json, "requires_grad")),
                   .device = DeviceOf(json)};
  if (std::ranges::any_of(tensor.sizes, [](const Size& size) { return size.number < 0; })) {
    throw UnexpectedJson(sizes, "sizes of 0 or more");
  }
  return tensor;
}

// The first tensor or number among `results` and in their lists, or "".
std::string_view FirstName(const std::vector<Argument>& results) {
  for (const Argument& result : results) {
    const std::string_view name =
        result.kind == Argument::Kind::kList ? FirstName(result.items) : result.text;
    if (!name.empty()) return name;
  }
  return {};
}

// Damaged metadata is left out: it explains the program, and is none of it.
std::string_view MetadataOf(const Json* metadata, std::string_view name) {
  const Json* const found = metadata == nullptr ? nullptr : OptionalMemberOf(*metadata, name);
  return found != nullptr && found->IsString() ? Text(*found) : std::string_view();
}

Call ReadCall(const Json& node, ReadState& state) {
  Call call = {.target = Text(MemberOf(node, "target"))};
  const auto inputs = ItemsOf(MemberOf(node, "inputs"));
  call.arguments.reserve(inputs.Size());
  for (const Json& input : inputs) {
    call.arguments.emplace_back(Text(MemberOf(input, "name")),
                                ReadArgument(MemberOf(input, "arg"), state));
  }
  call.results = ReadEach(MemberOf(node, "outputs"), state, ReadArgument);
  const Json* const name = OptionalMemberOf(node, "name");
  call.name = name == nullptr ? FirstName(call.results) : Text(*name);
  const Json* const metadata = OptionalMemberOf(node, "metadata");
  call.modules = ParseModuleStack(MetadataOf(metadata, "nn_module_stack"), state.pool);
  call.lines = ParseStackTrace(MetadataOf(metadata, "stack_trace"));
  return call;
}

}  // namespace

Graph ReadGraph(const Json& json, ReadState& state) {
  Graph graph = {.inputs = ReadEach(MemberOf(json, "inputs"), state, ReadArgument),
                 .outputs = ReadEach(MemberOf(json, "outputs"), state, ReadArgument)};
  const auto nodes = ItemsOf(MemberOf(json, "nodes"));
  graph.calls.reserve(nodes.Size());
  for (const Json& node : nodes) graph.calls.push_back(ReadCall(node, state));
  for (const auto& member : MembersOf(MemberOf(json, "tensor_values"))) {
    graph.tensors[Text(member.name)] = ReadTensor(member.value, state);
  }
  for (const auto& member : MembersOf(MemberOf(json, "sym_int_values"))) {
    graph.symbols[Text(member.name)] = ReadSize(member.value, state);
  }
  const Json* const truths = OptionalMemberOf(json, "sym_bool_values");
  if (truths == nullptr) return graph;
  for (const auto& member : MembersOf(*truths)) {
    if (const auto truth = ReadTruth(member.value, state)) graph.truths[Text(member.name)] = *truth;
  }
  return graph;
}

}  // namespace onnxfit::pt2
