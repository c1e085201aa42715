#include "estimator/pt2/exported_program.h"

#include <utility>

#include "estimator/base/digest.h"
#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/pt2/archive_layout.h"
#include "estimator/pt2/json_text.h"
#include "estimator/pt2/metadata.h"
#include "estimator/pt2/read_program.h"
#include "estimator/pt2/schema.h"
#include "estimator/pt2/zip_archive.h"

namespace onnxfit::pt2 {
namespace {

// What the views of a program are of.
struct ProgramTexts {
  std::string program;
  std::string weights_config;
  TextPool pool;
};

void CheckBeginning(std::string_view first) {
  if (first.empty() || MayBeExportedProgram(first)) return;  // FileBytes says that it is empty
  if (first.starts_with("version https://git-lfs")) {
    throw Error({.text = "a .pt2 was expected, found a Git LFS pointer, the file is not here",
                 .hint = "git lfs pull"});
  }
  throw Error({.text = "a .pt2 was expected, found no zip archive, which it is",
               .hint = std::string(kHowToExport)});
}

void ReadStorages(const ZipArchive& archive, const ArchiveLayout& layout, ProgramTexts& texts,
                  ExportedProgram& program) {
  if (layout.weights_config == nullptr) return;
  texts.weights_config = archive.Read(*layout.weights_config);
  const JsonDocument document(texts.weights_config, std::string(layout.weights_config->name));
  const auto has_bytes = [&](std::string_view name) {
    const auto* const member = archive.Find(layout.weights_folder + std::string(name));
    return member != nullptr && member->size > 0;
  };
  document.ReadBy([&](const Json& json) { NameStorages(json, program.inputs, has_bytes); });
}

ExportedProgram ReadArchive(std::string_view bytes) {
  CheckBeginning(bytes);
  const ZipArchive archive(bytes);
  const ArchiveLayout layout = FindProgram(archive);
  const auto texts = std::make_shared<ProgramTexts>();
  texts->program = archive.Read(*layout.program);
  std::string digest = Digest(texts->program);
  const JsonDocument document(texts->program, std::string(layout.program->name));
  ExportedProgram program =
      document.ReadBy([&](const Json& json) { return ReadProgram(json, texts->pool); });
  ReadStorages(archive, layout, *texts, program);
  program.digest = std::move(digest);
  program.owner = texts;
  return program;
}

// An Error that does not know its file gets `name`.
template <typename Load>
ExportedProgram LoadAs(const std::string& name, Load load) {
  try {
    ExportedProgram program = load();
    program.path = name;
    return program;
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    if (parts.file.empty()) parts.file = name;
    throw Error(std::move(parts));
  }
}

}  // namespace

ExportedProgram LoadExportedProgram(const std::string& path) {
  return LoadAs(path == "-" ? "<stdin>" : path, [&] {
    return FileBytes(path, CheckBeginning, {.what = "a .pt2 file"}).ReadBy(ReadArchive);
  });
}

ExportedProgram LoadExportedProgramFrom(std::string_view bytes, const std::string& name) {
  return LoadAs(name, [&] { return ReadArchive(bytes); });
}

const Argument* FindArgument(const Call& call, std::string_view name) {
  for (const auto& [given, argument] : call.arguments) {
    if (given == name && argument.kind != Argument::Kind::kNone) return &argument;
  }
  return nullptr;
}

bool MayBeExportedProgram(std::string_view first) { return MayBeZip(first); }

}  // namespace onnxfit::pt2
