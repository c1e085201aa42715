// The graph of a program, from its JSON: calls, tensors, symbols, and where each call came from.
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "estimator/program/forward_calls.h"
#include "estimator/program/line_spacing.h"
#include "estimator/pt2/read_program.h"
#include "estimator/pt2/schema.h"

namespace onnxfit::pt2 {

// --- Where a call came from ----------------------------------------------------

namespace {

constexpr std::string_view kBlanks = " \t\r\f\v";

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Takes what is before the next `separator` from `rest`, which is all of it where there is none.
std::string_view TakeUntil(char separator, std::string_view& rest) {
  const size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return taken;
}

// The commas of "key,layers.slice(0, 2),type" that are not in brackets part it in three.
std::optional<std::array<std::string_view, 3>> SplitFrame(std::string_view frame) {
  std::array<std::string_view, 3> parts;
  size_t part = 0;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < frame.size(); ++i) {
    const char c = frame[i];
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (c != ',' || depth != 0) continue;
    if (part == 2) return std::nullopt;
    parts[part++] = frame.substr(begin, i - begin);
    begin = i + 1;
  }
  if (part != 2) return std::nullopt;
  parts[2] = frame.substr(begin);
  return parts;
}

// "@1" of "L__self__model.act@1", "" of other keys.
std::string_view CallNumber(std::string_view key) {
  const size_t at = key.rfind('@');
  if (at == key.npos || at + 1 == key.size()) return {};
  const bool is_number = key.find_first_not_of("0123456789", at + 1) == key.npos;
  return is_number ? key.substr(at) : "";
}

std::string_view PathOfCall(std::string_view key, std::string_view path, TextPool& pool) {
  const std::string_view number = CallNumber(key);
  if (number.empty() || path.ends_with(number)) return path;
  const size_t size = path.size() + number.size();
  const std::string_view end = key.substr(key.size() - std::min(size, key.size()));
  if (end.size() == size && end.starts_with(path)) return end;
  return pool.Keep(std::string(path) + std::string(number));
}

std::optional<int64_t> LineNumber(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

constexpr std::string_view kFile = "File \"";
constexpr std::string_view kLine = "\", line ";
constexpr std::string_view kIn = ", in ";

// 'File "net.py", line 11, in forward'.
std::optional<SourceLine> ParseFileLine(std::string_view line) {
  if (!line.starts_with(kFile)) return std::nullopt;
  line.remove_prefix(kFile.size());
  const size_t name_end = line.rfind(kLine);
  if (name_end == line.npos) return std::nullopt;
  const std::string_view rest = line.substr(name_end + kLine.size());
  const size_t number_end = std::min(rest.find(kIn), rest.size());
  const std::optional<int64_t> number = LineNumber(rest.substr(0, number_end));
  if (!number) return std::nullopt;
  SourceLine source = {.file = line.substr(0, name_end), .line = *number};
  if (number_end < rest.size()) source.function = rest.substr(number_end + kIn.size());
  return source;
}

// Python 3.11 and later underline a part of the line above.
bool IsUnderline(std::string_view line) { return line.find_first_not_of("^~ ") == line.npos; }

// "x = self.conv(x)" of "x = self.conv(x)  # [N, C]".
std::string_view WithoutComment(std::string_view line) {
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == 0 && c == '#') return Trim(line.substr(0, i));
    if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    }
  }
  return line;
}

}  // namespace

void AddForwardsOfNoStack(std::vector<ModuleFrame>& modules, const std::vector<SourceLine>& lines,
                          TextPool& pool) {
  for (size_t i = 0; i + 1 < modules.size() && modules.size() < lines.size(); ++i) {
    const std::string_view called =
        ModuleCalledByForward(modules[i].path, modules[i + 1].path, lines[i].text);
    if (called.empty()) continue;
    modules.insert(modules.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                   {.path = pool.Keep(std::string(called)), .type = ""});
  }
}

std::vector<ModuleFrame> ParseModuleStack(std::string_view text, TextPool& pool) {
  std::vector<ModuleFrame> frames;
  while (!text.empty()) {
    const auto parts = SplitFrame(TakeUntil(';', text));
    if (!parts) continue;
    const auto& [key, path, type] = *parts;
    frames.push_back({.path = PathOfCall(key, path, pool), .type = type});
  }
  return frames;
}

std::vector<SourceLine> ParseStackTrace(std::string_view text, TextPool& pool) {
  std::vector<SourceLine> lines;
  bool is_text_next = false;
  while (!text.empty()) {
    const std::string_view line = Trim(TakeUntil('\n', text));
    if (const auto source = ParseFileLine(line)) {
      lines.push_back(*source);
      is_text_next = true;
    } else if (is_text_next && !IsUnderline(line)) {
      const std::string_view statement = WithoutComment(line);
      std::string spaced = WithSpacing(statement);
      lines.back().text = spaced.empty() ? statement : pool.Keep(std::move(spaced));
      is_text_next = false;
    }
  }
  return lines;
}

// --- The graph -----------------------------------------------------------------

std::vector<std::string_view> ReadTextList(const Json& json, std::string_view name) {
  std::vector<std::string_view> texts;
  const Json* const list = OptionalMemberOf(json, name);
  if (list == nullptr) return texts;
  for (const Json& text : ItemsOf(*list)) texts.push_back(Text(text));
  return texts;
}

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

// "float" of "float_1;method_descriptor.float".
std::string_view ReadMethod(std::string_view function) {
  const size_t end = function.rfind('.');
  return end == function.npos ? std::string_view() : function.substr(end + 1);
}

// What python/onnxfit/asked_gradients.py and checkpoints.py note: {"onnxfit.is_checkpointed":
// true}.
bool IsNoted(std::string_view custom, std::string_view fact) {
  return custom.find(fact) != std::string_view::npos;
}

// {"dies": ["x"], "no_grad": true, "autocast": 13, "checkpoint": 0}; of "autocast" 0 is off.
std::shared_ptr<const WatchedCall> ReadWatched(const Json* metadata) {
  const Json* const json = metadata == nullptr ? nullptr : OptionalMemberOf(*metadata, "onnxfit");
  if (json == nullptr) return nullptr;
  WatchedCall watched = {.dies = ReadTextList(*json, "dies"),
                         .dies_of_step_before = ReadTextList(*json, "dies_of_step_before"),
                         .drops = ReadTextList(*json, "drops"),
                         .is_made_once = OptionalMemberOf(*json, "once") != nullptr};
  watched.leaves_autograd = OptionalMemberOf(*json, "no_grad") != nullptr;
  if (const Json* const autocast = OptionalMemberOf(*json, "autocast")) {
    watched.enters_autocast = ScalarTypeOf(Whole(*autocast));
    watched.leaves_autocast = watched.enters_autocast == DType::kUndefined;
  }
  if (const Json* const checkpoint = OptionalMemberOf(*json, "checkpoint"))
    watched.checkpoint = Whole(*checkpoint);
  watched.is_reentrant = OptionalMemberOf(*json, "reentrant") != nullptr;
  watched.returns_first = OptionalMemberOf(*json, "same") != nullptr;
  watched.is_in_function = OptionalMemberOf(*json, "function") != nullptr;
  watched.is_in_backward = OptionalMemberOf(*json, "in_backward") != nullptr;
  watched.is_nested = OptionalMemberOf(*json, "nested") != nullptr;
  watched.asks_for_gradients = OptionalMemberOf(*json, "asks_for_gradients") != nullptr;
  return std::make_shared<const WatchedCall>(std::move(watched));
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
  call.lines = ParseStackTrace(MetadataOf(metadata, "stack_trace"), state.pool);
  call.method = ReadMethod(MetadataOf(metadata, "torch_fn"));
  const std::string_view custom = MetadataOf(metadata, "custom");
  call.asks_for_gradients = IsNoted(custom, R"("onnxfit.asks_for_gradients": true)");
  call.is_checkpointed = IsNoted(custom, R"("onnxfit.is_checkpointed": true)");
  call.watched = ReadWatched(metadata);
  if (call.watched != nullptr) call.asks_for_gradients = call.watched->asks_for_gradients;
  AddForwardsOfNoStack(call.modules, call.lines, state.pool);
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
