#include "estimator/pt2/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/quote.h"

namespace onnxfit::pt2 {

// --- Versions ------------------------------------------------------------------

namespace {

// Of what is read here they differ in `as_none`, which held [] and holds true, and in kinds of
// arguments and element types that were added.  torch.export.load reads 8 and no other.  8.1 is of
// October 2024, 7.3 came before it.
struct SchemaRow {
  SchemaVersion version;
  std::string_view torch;  // the last that writes it
};

constexpr SchemaRow kSchemas[] = {
    {{7, 3}, "2.5"}, {{8, 2}, "2.6"}, {{8, 8}, "2.8"}, {{8, 17}, "2.11"}, {{8, 20}, "2.15"},
};
constexpr int64_t kOldestMajor = std::begin(kSchemas)->version.major;
constexpr SchemaVersion kNewest = std::prev(std::end(kSchemas))->version;
constexpr std::string_view kNewestTorch = std::prev(std::end(kSchemas))->torch;

struct ScalarTypeRow {
  int64_t number;
  std::string_view name;
  DType dtype;
};

// schema.py: ScalarType.  A schema.yaml of 8.1 has 23 and 24, later ones 29 and 30 instead.
// complex32 is no number, and as wide as the one that stands for it.
constexpr ScalarTypeRow kScalarTypes[] = {
    {1, "uint8", DType::kUint8},
    {2, "int8", DType::kInt8},
    {3, "int16", DType::kInt16},
    {4, "int32", DType::kInt32},
    {5, "int64", DType::kInt64},
    {6, "float16", DType::kFloat16},
    {7, "float32", DType::kFloat32},
    {8, "float64", DType::kFloat64},
    {9, "complex32", DType::kUint32},
    {10, "complex64", DType::kComplex64},
    {11, "complex128", DType::kComplex128},
    {12, "bool", DType::kBool},
    {13, "bfloat16", DType::kBFloat16},
    {23, "float8_e5m2", DType::kFloat8E5M2},
    {24, "float8_e4m3fn", DType::kFloat8E4M3FN},
    {28, "uint16", DType::kUint16},
    {29, "float8_e4m3fn", DType::kFloat8E4M3FN},
    {30, "float8_e5m2", DType::kFloat8E5M2},
    {31, "float8_e4m3fnuz", DType::kFloat8E4M3FNUZ},
    {32, "float8_e5m2fnuz", DType::kFloat8E5M2FNUZ},
    {33, "float8_e8m0fnu", DType::kFloat8E8M0},
    {34, "uint32", DType::kUint32},
    {35, "uint64", DType::kUint64},
};

const ScalarTypeRow* FindScalarType(int64_t number) {
  const auto* const row = std::ranges::find(kScalarTypes, number, &ScalarTypeRow::number);
  return row == std::end(kScalarTypes) ? nullptr : row;
}

}  // namespace

std::string_view TorchOfSchema(const SchemaVersion& version) {
  const auto* const row = std::ranges::find_if(
      kSchemas, [&](const SchemaRow& known) { return known.version >= version; });
  return row == std::end(kSchemas) ? kNewestTorch : row->torch;
}

void CheckSchema(const SchemaVersion& version, std::vector<std::string>& notes) {
  const auto [major, minor] = version;
  if (major < kOldestMajor || major > kNewest.major) {
    throw Error(
        {.text = fmt::format("schema {} or {} was expected (PyTorch 2.5 to {}), found {}.{}",
                             kOldestMajor, kNewest.major, kNewestTorch, major, minor),
         .hint = fmt::format("PyTorch {}, {}", kNewestTorch, kHowToExport)});
  }
  if (major == kNewest.major && minor > kNewest.minor) {
    notes.push_back(fmt::format("schema {}.{} is newer than {}.{}: what it adds is left out", major,
                                minor, kNewest.major, kNewest.minor));
  }
}

void CheckArchive(std::string_view format, std::string_view version) {
  if (format != "pt2") {
    throw Error({.where = "archive_format",
                 .text = fmt::format("'pt2' was expected, found {}", Quote(format))});
  }
  if (version != "0") {
    throw Error({.where = "archive_version",
                 .text = fmt::format("'0' was expected, found {}", Quote(version)),
                 .hint = fmt::format("PyTorch {}, {}", kNewestTorch, kHowToExport)});
  }
}

std::string_view ScalarTypeName(int64_t number) {
  const ScalarTypeRow* const row = FindScalarType(number);
  return row == nullptr ? "" : row->name;
}

DType ScalarTypeOf(int64_t number) {
  const ScalarTypeRow* const row = FindScalarType(number);
  return row == nullptr ? DType::kUndefined : row->dtype;
}

DType ScalarTypeOf(std::string_view name) {
  const auto* const row = std::ranges::find(kScalarTypes, name, &ScalarTypeRow::name);
  return row == std::end(kScalarTypes) ? DType::kUndefined : row->dtype;
}

std::string_view LayoutName(int64_t number) {
  constexpr std::string_view kNames[] = {"",           "sparse_coo", "sparse_csr", "sparse_csc",
                                         "sparse_bsr", "sparse_bsc", "_mkldnn",    "strided"};
  return number < 0 || number >= std::ssize(kNames) ? "" : kNames[number];
}

std::string_view MemoryFormatName(int64_t number) {
  constexpr std::string_view kNames[] = {"", "contiguous_format", "channels_last",
                                         "channels_last_3d", "preserve_format"};
  return number < 0 || number >= std::ssize(kNames) ? "" : kNames[number];
}

// --- Layouts of archives -------------------------------------------------------

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
      .weights_folder = weights,
      .notes = archive.Find(fmt::format("{}extra/{}", folder, kNotesMember)),
      .watched = archive.Find(fmt::format("{}extra/{}", folder, kWatchedMember))};
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
    if (old == nullptr) continue;
    return {.program = old,
            .notes = archive.Find(fmt::format("{}extra_files/{}", folder, kNotesMember)),
            .watched = archive.Find(fmt::format("{}extra_files/{}", folder, kWatchedMember))};
  }
  RefuseOtherArchive(archive);
}

}  // namespace onnxfit::pt2
