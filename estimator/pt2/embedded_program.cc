#include "estimator/pt2/embedded_program.h"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/base/inflate.h"
#include "estimator/base/quote.h"
#include "estimator/base/warnings.h"
#include "estimator/pt2/call_order.h"
#include "estimator/pt2/exported_program.h"
#include "estimator/pt2/make_program.h"

namespace onnxfit::pt2 {

// --- Long texts, packed --------------------------------------------------------

namespace {

constexpr size_t kMaxTextBytes = size_t{256} << 20;

// The number that a character of base64 stands for; -1 for others.
int32_t SixBits(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

std::optional<std::string> DecodeBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int32_t six = SixBits(c);
    if (six < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(six);
    if ((count += 6) < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

std::string UnpackText(std::string_view packed, const std::string& where) {
  const std::optional<std::string> bytes = DecodeBase64(packed);
  if (!bytes) throw Error({.where = where, .text = "base64 was expected, found another text"});
  std::optional<std::string> text = Inflate(*bytes, kMaxTextBytes);
  if (!text) {
    throw Error(
        {.where = where,
         .text = "a text deflated by zlib was expected, found what is damaged or too long"});
  }
  return *std::move(text);
}

}  // namespace

// --- The program in the metadata -----------------------------------------------

namespace {

constexpr std::string_view kVersionKey = "onnxfit.metadata";
constexpr std::string_view kGraphKey = "onnxfit.graph";
constexpr std::string_view kProgramKey = "onnxfit.program";
constexpr std::string_view kTiesKey = "onnxfit.ties";
constexpr std::string_view kNotesKey = "onnxfit.notes";
constexpr std::string_view kVersion = "1";

void CheckKeys(const onnxfit::Graph& file) {
  const std::string_view version = FindMetadata(file.metadata, kVersionKey);
  if (version != kVersion) {
    throw Error({.where = std::string(kVersionKey),
                 .text = fmt::format("{} was expected, found {}", kVersion, Quote(version))});
  }
  if (FindMetadata(file.metadata, kGraphKey) != StructureDigest(file)) {
    throw Error({.where = std::string(kGraphKey),
                 .text = "the graph that was exported was expected, found one that was changed"});
  }
}

void CheckIsKnown(const Argument& argument, const ExportedProgram& program) {
  for (const Argument& item : argument.items) CheckIsKnown(item, program);
  if (argument.kind != Argument::Kind::kTensor) return;
  if (program.graph.tensors.contains(argument.text)) return;
  throw Error({.where = std::string(kProgramKey),
               .text = fmt::format("a tensor of the program was expected, found {}",
                                   Quote(argument.text))});
}

void CheckNames(const ExportedProgram& program) {
  for (const Call& call : program.graph.calls) {
    for (const auto& [name, argument] : call.arguments) CheckIsKnown(argument, program);
  }
}

onnxfit::Graph ReadEmbedded(const onnxfit::Graph& file) {
  CheckKeys(file);
  ExportedProgram program = ReadExportedProgram(
      {.program = UnpackText(FindMetadata(file.metadata, kProgramKey), std::string(kProgramKey)),
       .program_name = std::string(kProgramKey),
       .ties = std::string(FindMetadata(file.metadata, kTiesKey)),
       .ties_name = std::string(kTiesKey),
       .notes = std::string(FindMetadata(file.metadata, kNotesKey)),
       .notes_name = std::string(kNotesKey)});
  CheckNames(program);
  CheckOrder(program);
  program.path = file.path;
  program.digest = file.digest;
  onnxfit::Graph embedded = InputGraph(std::move(program));
  embedded.opsets = file.opsets;
  embedded.notes.insert(embedded.notes.begin(), file.notes.begin(), file.notes.end());
  embedded.notes.push_back(fmt::format("the calls are those of {} in the metadata", kProgramKey));
  return embedded;
}

}  // namespace

onnxfit::Graph WithEmbeddedProgram(onnxfit::Graph file) {
  if (FindMetadata(file.metadata, kVersionKey).empty()) return file;
  try {
    file.embedded = std::make_shared<const onnxfit::Graph>(ReadEmbedded(file));
    if (file.torch.empty()) file.torch = file.embedded->torch;
  } catch (const Error& error) {
    file.warnings.push_back(UnusedProgram(error));
  }
  return file;
}

Warning UnusedProgram(const Error& error) {
  Error::Parts parts = error.parts();
  parts.file.clear();
  parts.hint.clear();
  return {warning::kUnusedProgram,
          fmt::format("the calls in {} are not used, but what its nodes say: {}", kProgramKey,
                      Error(std::move(parts)).what())};
}

}  // namespace onnxfit::pt2
