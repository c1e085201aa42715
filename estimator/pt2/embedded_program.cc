#include "estimator/pt2/embedded_program.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/base/quote.h"
#include "estimator/base/warnings.h"
#include "estimator/pt2/call_order.h"
#include "estimator/pt2/exported_program.h"
#include "estimator/pt2/make_program.h"
#include "estimator/pt2/packed_text.h"

namespace onnxfit::pt2 {

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
