#include "estimator/pt2/read_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "estimator/base/quote.h"
#include "estimator/pt2/schema.h"

namespace onnxfit::pt2 {

// --- What inputs and outputs are to the module ---------------------------------

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

// --- The whole -----------------------------------------------------------------

namespace {

SchemaVersion ReadSchemaVersion(const Json& json) {
  const Json& version = MemberOf(json, "schema_version");
  if (version.IsInt64()) return {.major = Whole(version), .minor = 0};  // before PyTorch 2.2
  return {.major = Whole(MemberOf(version, "major")), .minor = Whole(MemberOf(version, "minor"))};
}

// A limit that PyTorch does not know it writes as null, and did as one that no size reaches.
std::optional<int64_t> ReadLimit(const Json& range, std::string_view name) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max() - 1;  // sys.maxsize - 1
  const Json* const limit = OptionalMemberOf(range, name);
  if (limit == nullptr || limit->IsString()) return std::nullopt;  // "Infinity"
  if (limit->IsDouble() && !std::isfinite(limit->GetDouble())) return std::nullopt;
  const int64_t number = Whole(*limit);
  return number >= kNone || number <= -kNone ? std::nullopt : std::optional(number);
}

std::map<std::string_view, Range> ReadRanges(const Json& json) {
  std::map<std::string_view, Range> ranges;
  for (const auto& member : MembersOf(MemberOf(json, "range_constraints"))) {
    ranges[Text(member.name)] = {.low = ReadLimit(member.value, "min_val"),
                                 .high = ReadLimit(member.value, "max_val")};
  }
  return ranges;
}

void ReadModuleCalls(const Json& list, ExportedProgram& program) {
  for (const Json& entry : ItemsOf(list)) {
    const std::string_view path = Text(MemberOf(entry, "fqn"));
    program.module_calls.push_back({.path = path});
    const Json* const signature = path.empty() ? OptionalMemberOf(entry, "signature") : nullptr;
    const Json* const names =
        signature == nullptr ? nullptr : OptionalMemberOf(*signature, "forward_arg_names");
    if (names == nullptr) continue;
    for (const Json& name : ItemsOf(*names)) program.argument_names.push_back(Text(name));
  }
}

void CheckCount(const Json& signature, std::string_view name, size_t expected) {
  const Json& list = MemberOf(signature, name);
  if (list.Size() == expected) return;
  throw UnexpectedJson(list, fmt::format("a list of {}, as many as the graph has,", expected));
}

}  // namespace

void ReadState::AddNote(std::string note) {
  constexpr size_t kMaxNotes = 16;
  const bool is_new = std::ranges::find(notes, note) == notes.end();
  if (is_new && notes.size() < kMaxNotes) notes.push_back(std::move(note));
}

namespace {

WatchedGroup ReadWatchedGroup(const Json& json) {
  return {.optimizer = Text(MemberOf(json, "optimizer")),
          .impl = Text(MemberOf(json, "impl")),
          .args = ReadTextList(json, "args"),
          .parameters = ReadTextList(json, "parameters")};
}

// [[{"optimizer": "adamw", "impl": "", "args": [], "parameters": ["p_weight"]}]], of a whole step.
std::vector<WatchedOptimizer> ReadWatchedOptimizers(const Json& list) {
  std::vector<WatchedOptimizer> optimizers;
  for (const Json& groups : ItemsOf(list)) {
    WatchedOptimizer& optimizer = optimizers.emplace_back();
    for (const Json& group : ItemsOf(groups)) optimizer.push_back(ReadWatchedGroup(group));
  }
  return optimizers;
}

// {"watched": {"precision": "fp32"}} of a program that was watched.
std::optional<Watching> ReadWatching(const Json& json) {
  const Json* const ours = OptionalMemberOf(json, "onnxfit");
  const Json* const watched = ours == nullptr ? nullptr : OptionalMemberOf(*ours, "watched");
  if (watched == nullptr) return std::nullopt;
  Watching watching = {.precision = Text(MemberOf(*watched, "precision"))};
  const Json* const optimizers = OptionalMemberOf(*watched, "optimizers");
  watching.is_whole_step = optimizers != nullptr;
  if (optimizers != nullptr) watching.optimizers = ReadWatchedOptimizers(*optimizers);
  return watching;
}

}  // namespace

ExportedProgram ReadProgram(const Json& json, TextPool& pool) {
  ExportedProgram program;
  const SchemaVersion version = ReadSchemaVersion(json);
  CheckSchema(version, program.notes);
  program.schema_major = version.major;
  program.schema_minor = version.minor;
  if (const Json* const torch = OptionalMemberOf(json, "torch_version"))
    program.torch = Text(*torch);

  if (const Json* const verifiers = OptionalMemberOf(json, "verifiers")) {
    for (const Json& name : ItemsOf(*verifiers)) program.is_as_written |= Text(name) == "TRAINING";
  }

  ReadState state = {.pool = pool, .notes = program.notes};
  const Json& module = MemberOf(json, "graph_module");
  program.graph = ReadGraph(MemberOf(module, "graph"), state);
  const Json& signature = MemberOf(module, "signature");
  program.inputs = ReadInputSpecs(signature, state);
  program.outputs = ReadOutputSpecs(signature, state);
  CheckCount(signature, "input_specs", program.graph.inputs.size());
  CheckCount(signature, "output_specs", program.graph.outputs.size());
  ReadModuleCalls(MemberOf(module, "module_call_graph"), program);
  program.ranges = ReadRanges(json);
  program.watching = ReadWatching(json);
  RollUpLayers(program, pool);
  return program;
}

}  // namespace onnxfit::pt2
