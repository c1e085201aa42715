#include "estimator/program/source_text.h"

namespace onnxfit {
namespace {

constexpr std::string_view kSourceKey = "pkg.torch.onnx.stack_trace";
constexpr std::string_view kInPlaceMarks[] = {"+=", "*=", ".add_(", ".mul_("};

}  // namespace

// Frames are two lines each: File "x.py", line 3, in forward; then the source.
std::string_view SourceLine(const Node& node) {
  std::string_view trace = FindMetadata(node.metadata, kSourceKey);
  const size_t frame = trace.rfind("File \"");
  if (frame == std::string_view::npos) return {};
  trace.remove_prefix(frame);
  const size_t line_end = trace.find('\n');
  if (line_end == std::string_view::npos) return {};
  trace.remove_prefix(line_end + 1);
  const size_t begin = trace.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  trace.remove_prefix(begin);
  return trace.substr(0, trace.find('\n'));
}

std::optional<bool> WrittenInPlace(const Node& node) {
  const std::string_view line = SourceLine(node);
  if (line.empty()) return std::nullopt;
  for (const std::string_view mark : kInPlaceMarks) {
    if (line.find(mark) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace onnxfit
