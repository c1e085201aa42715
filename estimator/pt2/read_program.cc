#include "estimator/pt2/read_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "estimator/pt2/schema.h"

namespace onnxfit::pt2 {
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

ExportedProgram ReadProgram(const Json& json, TextPool& pool) {
  ExportedProgram program;
  const SchemaVersion version = ReadSchemaVersion(json);
  CheckSchema(version, program.notes);
  program.schema_major = version.major;
  program.schema_minor = version.minor;
  if (const Json* const torch = OptionalMemberOf(json, "torch_version"))
    program.torch = Text(*torch);

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
  return program;
}

}  // namespace onnxfit::pt2
