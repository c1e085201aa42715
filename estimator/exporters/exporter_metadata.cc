#include "estimator/exporters/exporter_metadata.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/program/forward_calls.h"
#include "estimator/program/line_spacing.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

constexpr std::string_view kSignatureKey = "graph_signature";
constexpr std::string_view kScopesKey = "pkg.torch.onnx.name_scopes";
constexpr std::string_view kClassKey = "pkg.torch.onnx.class_hierarchy";
constexpr std::string_view kLinesKey = "pkg.torch.onnx.stack_trace";
constexpr std::string_view kFxNodeKey = "pkg.torch.onnx.fx_node";

// --- The signature --------------------------------------------------------------------------

std::string_view SignatureText(const Graph& graph) {
  for (const auto& [key, value] : graph.metadata) {
    if (key.ends_with(kSignatureKey)) return value;
  }
  return {};
}

// What stands between the quotes of target='...'.
std::string_view TargetIn(std::string_view line) {
  constexpr std::string_view kOpen = "target='";
  const size_t begin = line.find(kOpen);
  if (begin == std::string_view::npos) return {};
  const std::string_view rest = line.substr(begin + kOpen.size());
  return rest.substr(0, rest.find('\''));
}

std::optional<SignatureEntry> EntryIn(std::string_view line) {
  using Kind = SignatureEntry::Kind;
  const std::string_view target = TargetIn(line);
  const size_t colon = line.find(": ");
  if (target.empty() || colon == std::string_view::npos) return std::nullopt;
  const std::string_view name = line.substr(0, colon);
  const std::string_view kind = line.substr(colon + 2);
  if (kind.starts_with("PARAMETER ")) return SignatureEntry{Kind::kParameter, name, target};
  if (kind.starts_with("BUFFER ")) return SignatureEntry{Kind::kBuffer, name, target};
  return std::nullopt;
}

// The first line of `text`, which goes on behind it.
std::string_view TakeLine(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// Rows of tensors that the model has as its own, and those that it does not.
void ReadSignature(const Graph& graph, ExporterMetadata& metadata) {
  for (std::string_view rest = SignatureText(graph); !rest.empty();) {
    const std::string_view line = TakeLine(rest);
    if (const auto entry = EntryIn(line)) metadata.signature.push_back(*entry);
    if (line.find(": CONSTANT_TENSOR ") != std::string_view::npos)
      metadata.constants.push_back(TargetIn(line));
  }
}

// --- Modules and classes --------------------------------------------------------------------

// A list of strings as Python prints it, but for the last, which is the operator.
std::vector<std::string> OuterItems(std::string_view text) {
  std::vector<std::string> items;
  for (size_t open = text.find('\''); open != std::string_view::npos; open = text.find('\'')) {
    text.remove_prefix(open + 1);
    const size_t close = text.find('\'');
    items.emplace_back(text.substr(0, close));
    if (close == std::string_view::npos) break;
    text.remove_prefix(close + 1);
  }
  if (!items.empty()) items.pop_back();
  return items;
}

// The modules in "/a/b/c", all parts but the last.
std::vector<std::string> ModulesIn(std::string_view path) {
  const auto depth = static_cast<size_t>(std::count(path.begin(), path.end(), '/'));
  if (!path.starts_with('/') || depth > kMostModuleDepth) return {};
  std::vector<std::string> parts;
  path.remove_prefix(1);
  for (size_t end = path.find('/'); end != std::string_view::npos; end = path.find('/')) {
    parts.emplace_back(path.substr(0, end));
    path.remove_prefix(end + 1);
  }
  return parts;
}

// "/a/b/" of "/a/b/Conv": what nodes of one module call have in common.
std::string_view ScopeIn(std::string_view name) {
  return name.substr(0, name.find_last_of('/') + 1);
}

// --- Lines ----------------------------------------------------------------------------------

// Frames are two lines each: File "x.py", line 3, in forward; then the source.
NodeLines LinesIn(std::string_view text, SourceLines& source, std::deque<std::string>& spaced) {
  constexpr std::string_view kFrame = "File \"";
  constexpr std::string_view kLine = ", line ";
  NodeLines lines = {.text = text};
  std::string_view rest = text;
  for (size_t at = rest.find(kFrame); at != std::string_view::npos; at = rest.find(kFrame)) {
    rest.remove_prefix(at + kFrame.size());
    const std::string_view head = TakeLine(rest);
    int64_t number = 0;  // unknown
    if (const size_t line = head.find(kLine); line != std::string_view::npos) {
      const std::string_view digits = head.substr(line + kLine.size());
      std::from_chars(digits.data(), digits.data() + digits.size(), number);
    }
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    lines.innermost = rest.starts_with(kFrame) ? std::string_view() : TakeLine(rest);
    std::string with_blanks = WithSpacing(lines.innermost);
    if (!with_blanks.empty()) lines.innermost = spaced.emplace_back(std::move(with_blanks));
    const std::string_view file = head.substr(0, head.find('"'));
    lines.lines.push_back({file, lines.innermost});
    lines.frames.push_back(number == 0 ? kNoStatement : source.Read(number, lines.innermost, file));
  }
  return lines;
}

// The module calls of nodes, by what their exporter writes.
class ModuleReader {
 public:
  explicit ModuleReader(ModuleTree& modules) : modules_(modules) {}

  ModuleId Read(const Graph& graph, const Node& node, const NodeLines& lines) {
    const std::string_view scopes = FindMetadata(node.metadata, kScopesKey);
    if (scopes.find('\'') != std::string_view::npos) return ReadList(scopes, lines);
    const ModuleId module = ReadName(node.name);
    if (module != kOutside || node.outputs.empty() || node.outputs[0] == kNoValue) return module;
    return ReadName(graph.values[Index(node.outputs[0])].name);
  }

 private:
  ModuleId ReadList(std::string_view text, const NodeLines& lines) {
    const auto [found, is_new] = in_lists_.try_emplace({text, lines.text}, kOutside);
    if (!is_new) return found->second;
    std::vector<std::string> items = OuterItems(text);
    AddForwards(items, lines.lines);
    if (items.size() < kMostModuleDepth) found->second = modules_.Enter(items);
    return found->second;
  }

  // Those that a line calls by their forward, which the list leaves out.
  static void AddForwards(std::vector<std::string>& items, const std::vector<FileLine>& lines) {
    for (size_t i = 0; i + 1 < items.size() && items.size() < lines.size(); ++i) {
      const std::string called(ModuleCalledByForward(items[i], items[i + 1], lines[i].text));
      if (!called.empty()) items.insert(items.begin() + static_cast<std::ptrdiff_t>(i) + 1, called);
    }
  }

  ModuleId ReadName(std::string_view name) {
    const auto [found, is_new] = known_.try_emplace(ScopeIn(name), kOutside);
    if (is_new) found->second = modules_.Enter(ModulesIn(name));
    return found->second;
  }

  ModuleTree& modules_;
  std::unordered_map<std::string_view, ModuleId> known_;
  std::map<std::pair<std::string_view, std::string_view>, ModuleId> in_lists_;  // and lines
};

// One node after the other.  Texts that nodes share are read once.
class MetadataReader {
 public:
  MetadataReader(const Graph& graph, ExporterMetadata& metadata)
      : graph_(graph), metadata_(metadata), modules_(metadata.modules) {}

  void Read(NodeId id) {
    const Node& node = graph_.nodes[Index(id)];
    const int32_t lines = ReadLines(node);
    metadata_.origins.push_back(
        {.module = modules_.Read(graph_, node, metadata_.lines[Index(lines)]),
         .group = ReadCall(node),
         .classes = ReadClasses(node),
         .lines = lines});
    NoteClasses(metadata_.origins.back());
    const int32_t group = metadata_.origins.back().group;
    if (group >= 0) metadata_.groups[Index(group)].nodes.push_back(id);
  }

 private:
  int32_t ReadClasses(const Node& node) {
    const std::string_view text = FindMetadata(node.metadata, kClassKey);
    const auto [place, is_new] = classes_.try_emplace(text, SizeOf(metadata_.classes));
    if (is_new) metadata_.classes.push_back(OuterItems(text));
    return place->second;
  }

  // Of the modules around a node, where one is named for each.
  void NoteClasses(const NodeOrigin& origin) {
    const std::vector<std::string>& classes = metadata_.classes[Index(origin.classes)];
    ModuleId module = origin.module;
    if (classes.size() != metadata_.modules.DepthOf(module)) return;
    for (size_t i = classes.size(); i-- > 0; module = metadata_.modules.CallerOf(module)) {
      metadata_.modules.SetClass(module, classes[i]);
    }
  }

  int32_t ReadLines(const Node& node) {
    const std::string_view text = FindMetadata(node.metadata, kLinesKey);
    const auto [place, is_new] = lines_.try_emplace(text, SizeOf(metadata_.lines));
    if (is_new) metadata_.lines.push_back(LinesIn(text, metadata_.source, *metadata_.spaced));
    return place->second;
  }

  // The group of its call, -1 where there is none.
  int32_t ReadCall(const Node& node) {
    const std::string_view text = FindMetadata(node.metadata, kFxNodeKey);
    const auto [place, is_new] = groups_.try_emplace(text, -1);
    if (is_new && !text.empty()) place->second = GroupOf(ParseFxNode(text));
    return place->second;
  }

  int32_t GroupOf(std::optional<FxNode> call) {
    if (!call.has_value()) return -1;
    const auto [place, is_new] = named_.try_emplace(call->name, SizeOf(metadata_.groups));
    if (is_new) metadata_.groups.push_back({.call = std::move(*call), .nodes = {}});
    return place->second;
  }

  static int32_t SizeOf(const auto& list) { return static_cast<int32_t>(list.size()); }

  using Places = std::unordered_map<std::string_view, int32_t>;

  const Graph& graph_;
  ExporterMetadata& metadata_;
  ModuleReader modules_;
  Places classes_ = {{"", 0}};  // by text: indices of what they say
  Places lines_ = {{"", 0}};
  Places groups_;
  Places named_;  // groups by the names of their calls
};

}  // namespace

const FxNode* ExporterMetadata::CallOf(NodeId node) const {
  const int32_t group = GroupOf(node);
  return group < 0 ? nullptr : &groups[Index(group)].call;
}

std::string_view ExporterMetadata::TargetOf(NodeId node) const {
  const FxNode* call = CallOf(node);
  return call == nullptr ? std::string_view() : call->target;
}

const std::vector<std::string>& ExporterMetadata::ClassesOf(NodeId node) const {
  return classes[Index(At(node).classes)];
}

const NodeLines& ExporterMetadata::LinesOf(NodeId node) const {
  return lines[Index(At(node).lines)];
}

ExporterMetadata ReadExporterMetadata(const Graph& graph) {
  ExporterMetadata metadata;
  ReadSignature(graph, metadata);
  MetadataReader reader(graph, metadata);
  for (size_t i = 0; i < graph.nodes.size(); ++i) reader.Read(static_cast<NodeId>(i));
  return metadata;
}

bool IsComputedName(std::string_view name) {
  return name.starts_with("onnx::") || name.starts_with('/');
}

bool IsNamedByTorchScript(const Node& node) { return node.name.starts_with('/'); }

bool IsLifted(std::string_view name) { return ChildOf(name).starts_with("lifted_tensor_"); }

bool IsOfAttribute(std::string_view name) {
  constexpr std::string_view kNames[] = {"helper.constant.", "auto.cast."};  // paddle2onnx 2.1.0
  return std::ranges::any_of(kNames, [&](std::string_view it) { return name.starts_with(it); });
}

}  // namespace onnxfit
