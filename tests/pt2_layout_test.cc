// What is in an archive: PyTorch's two layouts, and all else that is a zip archive.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "estimator/base/text.h"
#include "tests/pt2_archive.h"
#include "tests/temp_folder.h"

namespace onnxfit::pt2_layout_test {
namespace {

const std::string kProgram(kSmallProgram);
constexpr char kHint[] = " (try: torch.export.save(torch.export.export(model, args), 'model.pt2'))";

TEST_CASE("both layouts, in a folder and in none") {
  const std::vector<std::vector<ZipEntry>> archives = {
      {{.name = "net/data/weights/weight_0", .contents = "w"},
       {.name = "net/models/model.json", .contents = kProgram},
       {.name = "net/archive_format", .contents = "pt2"},
       {.name = "net/archive_version", .contents = "0"}},
      {{.name = "models/model.json", .contents = kProgram}},
      {{.name = "net/extra/a", .contents = ""},
       {.name = "net/models/other.json", .contents = kProgram, .deflate = true}},
      {{.name = "a/models/b.json", .contents = "{}"},
       {.name = "a/models/model.json", .contents = kProgram}},
      {{.name = "serialized_state_dict.pt", .contents = "w"},
       {.name = "version", .contents = "8.1"},
       {.name = "serialized_exported_program.json", .contents = kProgram}},
      {{.name = "net/version", .contents = "8.1"},
       {.name = "net/serialized_exported_program.json", .contents = kProgram, .deflate = true}},
  };
  for (const auto& entries : archives) {
    CAPTURE(entries.front().name);
    CHECK(Pt2Text(ZipOf(entries)) == kSmallProgramText);
  }
  const pt2::ExportedProgram program = ReadPt2(Pt2Of(kProgram));
  CHECK(program.path == "net.pt2");
  CHECK(program.digest == Digest(kProgram));
}

TEST_CASE("what the export assumed, where torch.export.save puts files of users") {
  const auto assumed = [](const std::string& program, const std::string& member,
                          const std::string& text) {
    return ReadPt2(
               ZipOf({{.name = program, .contents = kProgram}, {.name = member, .contents = text}}))
        .assumptions;
  };
  const std::string text = R"({"assumptions": ["a → 1", "b"], "later": 1})";
  const std::vector<std::string> both = {"a → 1", "b"};
  constexpr char kModel[] = "n/models/model.json";
  CHECK(assumed(kModel, "n/extra/onnxfit/notes.json", text) == both);
  CHECK(assumed("models/model.json", "extra/onnxfit/notes.json", text) == both);
  CHECK(assumed("serialized_exported_program.json", "extra_files/onnxfit/notes.json", text) ==
        both);
  CHECK(assumed(kModel, "n/extra/notes.json", text).empty());
  CHECK(assumed(kModel, "n/extra/onnxfit/notes.json", "{}").empty());
  CHECK_THROWS_WITH_AS(assumed(kModel, "n/extra/onnxfit/notes.json", R"({"assumptions": 3})"),
                       "net.pt2: n/extra/onnxfit/notes.json: assumptions: a list was expected, "
                       "found 3 (try: copy or export it again, it is damaged)",
                       Error);
}

TEST_CASE("the batch is where the export says") {
  const auto place = [](const std::string& text) {
    return ReadPt2(ZipOf({{.name = "models/model.json", .contents = kProgram},
                          {.name = "extra/onnxfit/notes.json", .contents = text}}))
        .batch_place;
  };
  CHECK(place(R"({"batch": ["x", 1]})") == "1 x");
  CHECK(place("{}").empty());
  CHECK_THROWS_WITH_AS(place(R"({"batch": ["x"]})"),
                       "net.pt2: extra/onnxfit/notes.json: batch: an input and a dimension was "
                       "expected, found a list of 1 (try: copy or export it again, it is damaged)",
                       Error);
}

TEST_CASE("tied weights are of one member") {
  const auto config = [](const std::string& other) {
    return R"({"config": {"w": {"path_name": "weight_0", "is_param": true, "use_pickle": false},
                          "other": {"path_name": ")" +
           other + R"(", "is_param": true}}})";
  };
  const auto storage_of = [&](const std::string& weight, const std::string& text) {
    const auto program =
        ReadPt2(ZipOf({{.name = "n/models/model.json", .contents = kProgram},
                       {.name = "n/data/weights/weight_0", .contents = weight},
                       {.name = "n/data/weights/model_weights_config.json", .contents = text}}));
    return std::string(program.inputs[0].storage);
  };
  CHECK(storage_of("bytes", config("weight_0")) == "weight_0");
  CHECK(storage_of("", config("weight_0")).empty());  // from the meta device
  CHECK_THROWS_WITH_AS(storage_of("bytes", "{}"),
                       "net.pt2: n/data/weights/model_weights_config.json: a member 'config' was "
                       "expected, found an empty object (try: copy or export it again, it is "
                       "damaged)",
                       Error);
}

TEST_CASE("archives of something else") {
  struct Row {
    std::vector<ZipEntry> entries;
    std::string error;
  };
  const std::string expected = "net.pt2: a program of torch.export was expected, found ";
  const Row rows[] = {
      {{}, expected + "an empty zip archive"},
      {{{.name = "net/data.pkl"}, {.name = "net/code/__torch__.py"}, {.name = "net/constants.pkl"}},
       expected + "TorchScript, as torch.jit.save writes" + kHint},
      {{{.name = "checkpoint/data.pkl"}, {.name = "checkpoint/data/0"}},
       expected + "weights or a pickled model, as torch.save writes" + kHint},
      {{{.name = "p/.data/extern_modules"}}, expected + "a torch.package" + kHint},
      {{{.name = "p/data/aotinductor/model/a.so"}, {.name = "p/archive_format"}},
       expected + "a package of compiled code (AOTInductor) without its program" + kHint},
      {{{.name = "arr_0.npy"}, {.name = "arr_1.npy"}}, expected + "NumPy arrays" + kHint},
      {{{.name = "config.json"}, {.name = "model.weights.h5"}},
       expected + "a Keras model (try: an export of the same model by PyTorch)"},
      {{{.name = "a/README"}, {.name = "a/net.pt2"}},
       expected + "an archive of files (try: unzip it)"},
      {{{.name = "a.txt"}},
       "net.pt2: a program of torch.export was expected (models/model.json), found a zip archive "
       "with 'a.txt'" +
           std::string(kHint)},
      {{{.name = "models/a.json"}, {.name = "models/b.json"}},
       "net.pt2: one program was expected, found 2: 'models/a.json', 'models/b.json' …" +
           std::string(kHint)},
      {{{.name = "models/model.json"}, {.name = "models/model.json"}},
       "net.pt2: member 'models/model.json': one member of the name was expected, found several "
       "(try: "
       "copy or export it again, it is damaged)"},
      {{{.name = "models/model.json"}, {.name = "archive_format", .contents = "pt3"}},
       "net.pt2: archive_format: 'pt2' was expected, found 'pt3'"},
      {{{.name = "models/model.json"}, {.name = "archive_version", .contents = "1"}},
       "net.pt2: archive_version: '0' was expected, found '1' (try: PyTorch 2.15, "
       "torch.export.save(torch.export.export(model, args), 'model.pt2'))"},
      {{{.name = "models/model.json"}},
       "net.pt2: models/model.json: byte 0: JSON was expected, its parser says: The document is "
       "empty. (try: copy or export it again, it is damaged)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.error);
    const std::string archive = ZipOf(row.entries);
    CHECK(Pt2Text(row.entries.empty() ? "PK\3\4" + archive : archive) == row.error);
  }
}

std::string LoadError(const std::string& path) {
  try {
    pt2::LoadExportedProgram(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("files that are no archive") {
  const TempFolder folder;
  const auto error_of = [&](std::string_view bytes) {
    const std::string path = folder.Write("a.pt2", bytes);
    const std::string error = LoadError(path);
    return error.starts_with(path + ": ") ? error.substr(path.size() + 2) : "no path: " + error;
  };
  CHECK(error_of("\x08\x08 onnx") ==
        "a .pt2 was expected, found no zip archive, which it is" + std::string(kHint));
  CHECK(error_of("version https://git-lfs.github.com/spec/v1\n") ==
        "a .pt2 was expected, found a Git LFS pointer, the file is not here (try: git lfs pull)");
  CHECK(error_of("") == "a .pt2 file was expected, the file is empty");
  const std::string whole = Pt2Of(kProgram);
  CHECK(error_of(whole.substr(0, whole.size() / 2)) ==
        "a whole zip archive was expected, found no table of its members at the end (try: copy or "
        "export it again, it is cut off or damaged)");
  CHECK(LoadError(folder.Path("b.pt2")) ==
        folder.Path("b.pt2") + ": a .pt2 file was expected, there is no such file (try: " +
            folder.Path("a.pt2") + ")");
  CHECK(ToString(pt2::LoadExportedProgram(folder.Write("c.pt2", whole))) == kSmallProgramText);
  CHECK(pt2::MayBeExportedProgram(whole));
  CHECK(!pt2::MayBeExportedProgram("PK"));
}

}  // namespace
}  // namespace onnxfit::pt2_layout_test
