#include "estimator/onnx/text_form.h"

#include <fmt/format.h>
#include <onnx/defs/parser.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"

namespace onnxfit {
namespace {

// A bare graph is read as of opset 17, the last one that torch's old exporter writes.
constexpr int64_t kIrVersion = 8;
constexpr int64_t kOpset = 17;

constexpr int64_t kMaxTextBytes = 16 * kMiB;
constexpr int kMaxBracketDepth = 100;  // brackets; ONNX's parser is recursive
constexpr size_t kMaxContext = 60;

std::string Where(std::string_view text, size_t at) {
  const std::string_view before = text.substr(0, at);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return fmt::format("line {}, column {}", line, at - line_start + 1);
}

void CheckDepth(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted && c == '\\') {
      ++at;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == '#') {
      at = std::min(text.find('\n', at), text.size());
    } else if (!quoted && (c == '(' || c == '{')) {
      if (++depth <= kMaxBracketDepth) continue;
      throw Error({.where = Where(text, at),
                   .text = fmt::format("at most {} brackets inside one another were expected, "
                                       "found more",
                                       kMaxBracketDepth)});
    } else if (!quoted && (c == ')' || c == '}')) {
      --depth;
    }
  }
}

// The text between `from` and the first `to` after it, and what follows in `rest`.
std::string_view Between(std::string_view& rest, std::string_view from, std::string_view to) {
  const size_t begin = std::min(rest.find(from), rest.size());
  rest.remove_prefix(std::min(begin + from.size(), rest.size()));
  const size_t end = std::min(rest.find(to), rest.size());
  const std::string_view found = rest.substr(0, end);
  rest.remove_prefix(std::min(end + to.size(), rest.size()));
  return found;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// The first character that is neither space nor in a comment, 0 if there is none.
char FirstCharacter(std::string_view text) {
  text = Trim(text);
  while (text.starts_with('#')) text = Trim(text.substr(std::min(text.find('\n'), text.size())));
  return text.empty() ? '\0' : text.front();
}

// ONNX says "[ParseError at position (line: 3 column: 5)]\nError context: LINE\nMESSAGE".
[[noreturn]] void Fail(std::string_view message) {
  const std::string_view line = Between(message, "(line: ", " column: ");
  const std::string_view column = Between(message, "", ")]");
  const std::string_view context = Trim(Between(message, "Error context: ", "\n"));
  std::string what(Trim(message));
  if (what.ends_with('.')) what.pop_back();
  std::replace(what.begin(), what.end(), '\n', ' ');
  throw Error({.where = fmt::format("line {}, column {}", line, column),
               .text = fmt::format("{}, in: {}", what, context.substr(0, kMaxContext))});
}

// Throws where `parser` is not content.
void Require(const onnx::Common::Status& status) {
  if (!status.IsOK()) Fail(status.ErrorMessage());
}

onnx::ModelProto ParseModel(onnx::OnnxParser& parser, bool is_model) {
  onnx::ModelProto model;
  if (is_model) {
    Require(parser.Parse(model));
    return model;
  }
  model.set_ir_version(kIrVersion);
  model.add_opset_import()->set_version(kOpset);
  Require(parser.Parse(*model.mutable_graph()));
  return model;
}

}  // namespace

onnx::ModelProto ParseOnnxText(std::string_view text) {
  if (static_cast<int64_t>(text.size()) > kMaxTextBytes) {
    throw Error({.text = fmt::format("at most {} of text were expected, found {}",
                                     FormatBytes(kMaxTextBytes),
                                     FormatBytes(static_cast<int64_t>(text.size())))});
  }
  const char first = FirstCharacter(text);
  if (first == 0) throw Error({.text = "an ONNX model was expected, found no text"});
  CheckDepth(text);
  onnx::OnnxParser parser(text);
  onnx::ModelProto model;
  try {
    model = ParseModel(parser, first == '<');
  } catch (const Error&) {
    throw;
  } catch (const std::out_of_range&) {  // std::stoll
    throw Error({.text = "numbers of 64 bits were expected, found a larger one"});
  } catch (const std::exception& error) {
    throw Error({.text = "ONNX text was expected, found what its parser does not take",
                 .detail = fmt::format("ONNX says: {}", error.what())});
  }
  if (!parser.EndOfInput()) throw Error({.text = "one model was expected, more text follows it"});
  return model;
}

}  // namespace onnxfit
