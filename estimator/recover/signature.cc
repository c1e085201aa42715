#include "estimator/recover/signature.h"

#include <optional>

namespace onnxfit {
namespace {

constexpr std::string_view kMetadataKey = "graph_signature";

std::string_view Signature(const Graph& graph) {
  for (const auto& [key, value] : graph.metadata) {
    if (key.ends_with(kMetadataKey)) return value;
  }
  return {};
}

// What stands between the quotes of target='...'.
std::string_view Target(std::string_view line) {
  constexpr std::string_view kOpen = "target='";
  const size_t begin = line.find(kOpen);
  if (begin == std::string_view::npos) return {};
  const std::string_view rest = line.substr(begin + kOpen.size());
  return rest.substr(0, rest.find('\''));
}

std::optional<SignatureEntry> ParseLine(std::string_view line) {
  using Kind = SignatureEntry::Kind;
  const std::string_view target = Target(line);
  const size_t colon = line.find(": ");
  if (target.empty() || colon == std::string_view::npos) return std::nullopt;
  const std::string_view name = line.substr(0, colon);
  const std::string_view kind = line.substr(colon + 2);
  if (kind.starts_with("PARAMETER ")) return SignatureEntry{Kind::kParameter, name, target};
  if (kind.starts_with("BUFFER ")) return SignatureEntry{Kind::kBuffer, name, target};
  return std::nullopt;
}

}  // namespace

std::vector<SignatureEntry> ReadSignature(const Graph& graph) {
  std::vector<SignatureEntry> entries;
  std::string_view rest = Signature(graph);
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    if (const auto entry = ParseLine(rest.substr(0, end))) entries.push_back(*entry);
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return entries;
}

}  // namespace onnxfit
