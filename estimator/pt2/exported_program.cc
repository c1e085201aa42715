#include "estimator/pt2/exported_program.h"

#include <string_view>
#include <unordered_map>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/base/text.h"
#include "estimator/pt2/archive_layout.h"
#include "estimator/pt2/json_text.h"
#include "estimator/pt2/metadata.h"
#include "estimator/pt2/read_program.h"
#include "estimator/pt2/schema.h"
#include "estimator/pt2/zip_archive.h"

namespace onnxfit::pt2 {
namespace {

// What the views of a program are of.
struct OwnedTexts {
  std::string program;
  std::string tensors;  // which are one
  TextPool pool;
};

// `texts` has the program alone.
ExportedProgram ReadTexts(const std::shared_ptr<OwnedTexts>& texts, std::string name) {
  std::string digest = Digest(texts->program);
  const JsonDocument document(texts->program, std::move(name));
  ExportedProgram program =
      document.ReadBy([&](const Json& json) { return ReadProgram(json, texts->pool); });
  program.digest = std::move(digest);
  program.owner = texts;
  return program;
}

void CheckBeginning(std::string_view first) {
  if (first.empty() || MayBeExportedProgram(first)) return;  // FileBytes says that it is empty
  if (first.starts_with("version https://git-lfs")) {
    throw Error({.text = "a .pt2 was expected, found a Git LFS pointer, the file is not here",
                 .hint = "git lfs pull"});
  }
  throw Error({.text = "a .pt2 was expected, found no zip archive, which it is",
               .hint = std::string(kHowToExport)});
}

void ReadStorages(const ZipArchive& archive, const ArchiveLayout& layout, OwnedTexts& texts,
                  ExportedProgram& program) {
  if (layout.weights_config == nullptr) return;
  texts.tensors = archive.Read(*layout.weights_config);
  const JsonDocument document(texts.tensors, std::string(layout.weights_config->name));
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
  const auto texts = std::make_shared<OwnedTexts>();
  texts->program = archive.Read(*layout.program);
  ExportedProgram program = ReadTexts(texts, std::string(layout.program->name));
  ReadStorages(archive, layout, *texts, program);
  return program;
}

// Each tensor is stored under its own name, or under that which it is tied to.
void ReadTies(const std::string& name, OwnedTexts& texts, ExportedProgram& program) {
  std::unordered_map<std::string_view, std::string_view> targets;
  const JsonDocument document(texts.tensors, name);
  document.ReadBy([&](const Json& json) {
    for (const auto& [tied, target] : MembersOf(json)) targets.emplace(Text(tied), Text(target));
    return 0;
  });
  for (InputSpec& input : program.inputs) {
    const auto found = targets.find(input.target);
    input.storage = found == targets.end() ? input.target : found->second;
  }
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

ExportedProgram ReadExportedProgram(ProgramTexts texts) {
  const auto owned = std::make_shared<OwnedTexts>();
  owned->program = std::move(texts.program);
  owned->tensors = std::move(texts.ties);
  ExportedProgram program = ReadTexts(owned, texts.program_name);
  if (owned->tensors.empty()) owned->tensors = "{}";
  ReadTies(texts.ties_name, *owned, program);
  return program;
}

const Argument* FindArgument(const Call& call, std::string_view name) {
  for (const auto& [given, argument] : call.arguments) {
    if (given == name && argument.kind != Argument::Kind::kNone) return &argument;
  }
  return nullptr;
}

void AddNames(const Argument& argument, std::set<std::string_view>& names) {
  if (argument.kind == Argument::Kind::kTensor) names.insert(argument.text);
  for (const Argument& item : argument.items) AddNames(item, names);
}

bool MayBeExportedProgram(std::string_view first) { return MayBeZip(first); }

}  // namespace onnxfit::pt2
