#include "estimator/recover/source_text.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

namespace onnxfit {
namespace {

constexpr std::string_view kInPlaceMarks[] = {"+=",      "*=",           ".add_(",    ".mul_(",
                                              "relu_(",  "relu6_(",      "sigmoid_(", "tanh_(",
                                              "clamp_(", "inplace=True", "silu_(",    "hardtanh_("};

constexpr std::string_view kFrame = "File \"";
constexpr std::string_view kLine = ", line ";

// The first line of `text`, which goes on behind it.
std::string_view TakeLine(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

}  // namespace

// Frames are two lines each: File "x.py", line 3, in forward; then the source.
std::vector<SourceFrame> SourceFrames(const Node& node) {
  std::string_view rest = FindMetadata(node.metadata, kSourceKey);
  std::vector<SourceFrame> frames;
  for (size_t at = rest.find(kFrame); at != std::string_view::npos; at = rest.find(kFrame)) {
    rest.remove_prefix(at + kFrame.size());
    const std::string_view head = TakeLine(rest);
    SourceFrame frame;
    if (const size_t line = head.find(kLine); line != std::string_view::npos) {
      const std::string_view number = head.substr(line + kLine.size());
      std::from_chars(number.data(), number.data() + number.size(), frame.line);
    }
    const size_t text = std::min(rest.find_first_not_of(" \t"), rest.size());
    rest.remove_prefix(text);
    if (!rest.starts_with(kFrame)) frame.text = TakeLine(rest);
    frames.push_back(std::move(frame));
  }
  return frames;
}

std::string_view InnermostLine(const std::vector<SourceFrame>& frames) {
  return frames.empty() ? std::string_view() : frames.back().text;
}

std::optional<bool> WrittenInPlace(std::string_view line) {
  if (line.empty()) return std::nullopt;
  for (const std::string_view mark : kInPlaceMarks) {
    if (line.find(mark) != std::string_view::npos) return true;
  }
  const bool is_setting = line.find("self.inplace") != std::string_view::npos;
  const bool may_be_argument = line.find(", True)") != std::string_view::npos;
  return is_setting || may_be_argument ? std::nullopt : std::optional(false);
}

}  // namespace onnxfit
