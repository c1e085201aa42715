#include "estimator/pt2/archive_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/quote.h"
#include "estimator/pt2/schema.h"

namespace onnxfit::pt2 {
namespace {

using Models = std::vector<const ZipArchive::Member*>;

constexpr std::string_view kModels = "models/";
constexpr std::string_view kJson = ".json";

// Archives that are well known and no .pt2 of torch.export.save, by a member that they have.
struct OtherArchive {
  std::string_view member;  // in the archive's folder; "*x" is an ending, "x/" a folder
  std::string_view name;
  std::string_view hint;
};

constexpr OtherArchive kOtherArchives[] = {
    {"constants.pkl", "TorchScript, as torch.jit.save writes", kHowToExport},
    {".data/extern_modules", "a torch.package", kHowToExport},
    {"data.pkl", "weights or a pickled model, as torch.save writes", kHowToExport},
    {"data/aotinductor/", "a package of compiled code (AOTInductor) without its program",
     kHowToExport},
    {"data/executorch/", "a package for ExecuTorch without its program", kHowToExport},
    {"model.weights.h5", "a Keras model", "an export of the same model by PyTorch"},
    {"*.npy", "NumPy arrays", kHowToExport},
    {"*.pt2", "an archive of files", "unzip it"},
    {"*.onnx", "an archive of files", "unzip it"},
};

// "lenet/" where that is what the first name begins with: PyTorch puts all in one folder.
std::string_view TopFolder(const ZipArchive& archive) {
  const std::string_view first = archive.members().front().name;
  return first.substr(0, first.find('/') + 1);
}

bool IsOf(const OtherArchive& other, std::string_view name) {
  if (other.member.starts_with('*')) return name.ends_with(other.member.substr(1));
  return other.member.ends_with('/') ? name.starts_with(other.member) : name == other.member;
}

[[noreturn]] void RefuseOtherArchive(const ZipArchive& archive) {
  const size_t folder = TopFolder(archive).size();
  for (const OtherArchive& other : kOtherArchives) {
    for (const ZipArchive::Member& member : archive.members()) {
      if (!IsOf(other, member.name.substr(std::min(folder, member.name.size())))) continue;
      throw Error(
          {.text = fmt::format("a program of torch.export was expected, found {}", other.name),
           .hint = std::string(other.hint)});
    }
  }
  throw Error({.text = fmt::format("a program of torch.export was expected ({}model.json), found a "
                                   "zip archive with {}",
                                   kModels, Quote(archive.members().front().name)),
               .hint = std::string(kHowToExport)});
}

// The members models/NAME.json in `folder`.
Models ModelsIn(const ZipArchive& archive, const std::string& folder) {
  Models models;
  for (const ZipArchive::Member& member : archive.members()) {
    const std::string_view name = member.name;
    if (name.starts_with(folder + std::string(kModels)) && name.ends_with(kJson)) {
      models.push_back(&member);
    }
  }
  return models;
}

// torch.export.load takes the one that is called "model".
const ZipArchive::Member& ChooseModel(const ZipArchive& archive, const Models& models,
                                      const std::string& folder) {
  if (models.size() == 1) return *models.front();
  const auto* const model = archive.Find(fmt::format("{}{}model{}", folder, kModels, kJson));
  if (model != nullptr) return *model;
  throw Error({.text = fmt::format("one program was expected, found {}: {}, {} …", models.size(),
                                   Quote(models[0]->name), Quote(models[1]->name)),
               .hint = std::string(kHowToExport)});
}

// What the member says, or `otherwise` where there is none.
std::string Contents(const ZipArchive& archive, const std::string& name,
                     std::string_view otherwise) {
  const ZipArchive::Member* const member = archive.Find(name);
  return member == nullptr ? std::string(otherwise) : archive.Read(*member);
}

ArchiveLayout LayoutOf(const ZipArchive& archive, const Models& models, const std::string& folder) {
  CheckArchive(Contents(archive, folder + "archive_format", "pt2"),
               Contents(archive, folder + "archive_version", "0"));
  const ZipArchive::Member& program = ChooseModel(archive, models, folder);
  const size_t begin = folder.size() + kModels.size();
  const std::string_view name =
      program.name.substr(begin, program.name.size() - begin - kJson.size());
  const std::string weights = folder + "data/weights/";
  return {
      .program = &program,
      .weights_config = archive.Find(fmt::format("{}{}_weights_config{}", weights, name, kJson)),
      .weights_folder = weights};
}

}  // namespace

ArchiveLayout FindProgram(const ZipArchive& archive) {
  if (archive.members().empty()) {
    throw Error({.text = "a program of torch.export was expected, found an empty zip archive"});
  }
  for (const std::string_view top : {std::string_view(), TopFolder(archive)}) {
    const std::string folder(top);
    const Models models = ModelsIn(archive, folder);
    if (!models.empty()) return LayoutOf(archive, models, folder);
    const auto* const old = archive.Find(folder + "serialized_exported_program.json");
    if (old != nullptr) return {.program = old, .weights_config = nullptr, .weights_folder = {}};
  }
  RefuseOtherArchive(archive);
}

}  // namespace onnxfit::pt2
