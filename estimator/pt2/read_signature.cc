#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "estimator/base/quote.h"
#include "estimator/pt2/read_program.h"

namespace onnxfit::pt2 {
namespace {

// schema.py: InputSpec and OutputSpec.  `target` is the member that names what is meant; "" where
// there is none.
template <typename Spec>
struct SpecRow {
  std::string_view name;
  typename Spec::Kind kind;
  std::string_view target;
};

using In = InputSpec::Kind;
constexpr SpecRow<InputSpec> kInputSpecs[] = {
    {"parameter", In::kParameter, "parameter_name"},
    {"buffer", In::kBuffer, "buffer_name"},
    {"user_input", In::kUser, ""},
    {"constant_input", In::kUser, ""},
    {"tensor_constant", In::kConstant, "tensor_constant_name"},
    {"custom_obj", In::kOther, "custom_obj_name"},
    {"token", In::kOther, ""},
};

using Out = OutputSpec::Kind;
constexpr SpecRow<OutputSpec> kOutputSpecs[] = {
    {"user_output", Out::kUser, ""},
    {"loss_output", Out::kUser, ""},
    {"buffer_mutation", Out::kMutation, "buffer_name"},
    {"parameter_mutation", Out::kMutation, "parameter_name"},
    {"user_input_mutation", Out::kMutation, "user_input_name"},
    {"gradient_to_parameter", Out::kOther, "parameter_name"},
    {"gradient_to_user_input", Out::kOther, "user_input_name"},
    {"token", Out::kOther, ""},
};

// A kind that is not known is kOther, and noted.
template <typename Spec>
SpecRow<Spec> FindSpec(std::span<const SpecRow<Spec>> rows, std::string_view name,
                       ReadState& state) {
  const auto row = std::ranges::find(rows, name, &SpecRow<Spec>::name);
  if (row != rows.end()) return *row;
  state.AddNote(
      fmt::format("inputs or outputs of a kind that is not known are left out: {}", Quote(name)));
  return {.name = name, .kind = Spec::Kind::kOther, .target = ""};
}

bool IsNamed(const Argument& argument) {
  return argument.kind == Argument::Kind::kTensor || argument.kind == Argument::Kind::kSymbol;
}

// {"name": "x"} of a parameter, or {"as_tensor": {"name": "x"}} of a user's input.
Argument ReadSpecArgument(const Json& arg, ReadState& state) {
  const Json* const name = OptionalMemberOf(arg, "name");
  if (name != nullptr) return {.kind = Argument::Kind::kTensor, .text = Text(*name)};
  return ReadArgument(arg, state);
}

InputSpec ReadInputSpec(const Json& json, ReadState& state) {
  const auto& [kind, value] = OnlyMemberOf(json);
  const auto row = FindSpec<InputSpec>(kInputSpecs, Text(kind), state);
  InputSpec spec = {.kind = row.kind};
  if (!row.target.empty()) spec.target = Text(MemberOf(value, row.target));
  if (row.name == "constant_input") {
    spec.name = Text(MemberOf(value, "name"));
    spec.constant = ReadArgument(MemberOf(value, "value"), state);
  } else if (const Json* const arg = OptionalMemberOf(value, "arg")) {
    Argument argument = ReadSpecArgument(*arg, state);
    if (IsNamed(argument)) {
      spec.name = argument.text;
    } else {
      spec.constant = std::move(argument);
    }
  }
  const Json* const persistent = OptionalMemberOf(value, "persistent");
  if (persistent != nullptr) spec.persistent = Truth(*persistent);
  return spec;
}

OutputSpec ReadOutputSpec(const Json& json, ReadState& state) {
  const auto& [kind, value] = OnlyMemberOf(json);
  const auto row = FindSpec<OutputSpec>(kOutputSpecs, Text(kind), state);
  OutputSpec spec = {.kind = row.kind};
  if (!row.target.empty()) spec.target = Text(MemberOf(value, row.target));
  if (const Json* const arg = OptionalMemberOf(value, "arg")) {
    const Argument argument = ReadSpecArgument(*arg, state);
    if (IsNamed(argument)) spec.name = argument.text;
  }
  return spec;
}

}  // namespace

std::vector<InputSpec> ReadInputSpecs(const Json& signature, ReadState& state) {
  std::vector<InputSpec> specs;
  for (const Json& spec : ItemsOf(MemberOf(signature, "input_specs"))) {
    specs.push_back(ReadInputSpec(spec, state));
  }
  return specs;
}

std::vector<OutputSpec> ReadOutputSpecs(const Json& signature, ReadState& state) {
  std::vector<OutputSpec> specs;
  for (const Json& spec : ItemsOf(MemberOf(signature, "output_specs"))) {
    specs.push_back(ReadOutputSpec(spec, state));
  }
  return specs;
}

}  // namespace onnxfit::pt2
