#include "cli/asked_of_file.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/framework.h"
#include "estimator/fit/predict.h"
#include "estimator/onnx/loader.h"
#include "estimator/pt2/embedded_program.h"
#include "estimator/pt2/make_program.h"
#include "tests/pack_text.h"
#include "tests/parsed_options.h"
#include "tests/pt2_archive.h"
#include "tests/run_command.h"
#include "tests/temp_folder.h"

namespace onnxfit::asked_of_file_test {
namespace {

constexpr std::string_view kNet = R"(
net (float[N, 64] x) => (float[N, 10] y)
<float[10, 64] w = ["location": "none"], float[10] b = ["location": "none"]>
{ y = Gemm <transB = 1> (x, w, b) })";

// A model in ONNX's text that such a tool wrote; "" for none.
std::string ModelOf(std::string_view producer, std::string_view version) {
  const std::string by =
      producer.empty()
          ? ""
          : fmt::format(", producer_name: \"{}\", producer_version: \"{}\"", producer, version);
  return fmt::format("<ir_version: 8, opset_import: [\"\": 17]{}>{}", by, kNet);
}

// "2.11 file": which version, and why.
std::string Chosen(const Graph& file, const std::vector<std::string>& flags = {}) {
  std::vector<std::string> args = {"m.onnx"};
  args.insert(args.end(), flags.begin(), flags.end());
  const EstimateRequest request = AskedOf(file, Parse(args).request);
  const TrainingSettings& settings = request.settings;
  return fmt::format("{} {}{}", settings.framework.name.substr(8),
                     ToString(settings.framework_choice.basis),
                     request.warnings.empty() ? "" : " " + request.warnings.back().code);
}

Graph Text(std::string_view producer, std::string_view version) {
  return ParseGraph(ModelOf(producer, version));
}

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  return text.replace(text.find(from), from.size(), to);
}

Graph Program(const std::string& json) {
  return pt2::InputGraph(pt2::ReadExportedProgram({.program = json, .program_name = "model.json"}));
}

CommandResult RunText(const std::string& text, const std::vector<std::string>& flags,
                      const std::string& command = "estimate") {
  const TempFolder folder;
  std::vector<std::string> args = {command, folder.Write("m.onnxtxt", text)};
  args.insert(args.end(), flags.begin(), flags.end());
  return RunCommand(args);
}

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the version is that which wrote the file, else the default") {
  struct Row {
    std::string_view producer, version, chosen;
  };
  constexpr Row kRows[] = {
      {"pytorch", "2.11.0+cu130", "2.11 file"},
      {"pytorch", "2.11.0", "2.11 file"},
      {"pytorch", "2.15.0+cpu", "2.15 file"},
      {"pytorch", "2.7.0a0+git5228986", "2.7 file"},
      {"pytorch", "2.0.1", "2.0 file"},
      {"pytorch", "1.13.1", "1.13 file"},
      {"pytorch", "1.10", "1.10 file"},
      // Of these there is no row: the next one.
      {"pytorch", "1.11.0", "1.13 nearest"},
      {"pytorch", "1.12.1", "1.13 nearest"},
      {"pytorch", "1.9", "1.10 nearest"},
      {"pytorch", "0.4.1", "1.10 nearest"},
      {"pytorch", "2.16.0.dev20261101+cu132", "2.15 nearest OF208"},
      {"pytorch", "3.0.0", "2.15 nearest OF208"},
      // Nobody says.
      {"pytorch", "", "2.11 unknown"},
      {"pytorch", "CI", "2.11 unknown"},
      {"pytorch", "2", "2.11 unknown"},
      {"tf2onnx", "1.16.1", "2.11 unknown"},
      {"onnx.quantize", "0.1.0", "2.11 unknown"},
      {"", "", "2.11 unknown"},
  };
  for (const Row& row : kRows) {
    CAPTURE(row.producer);
    CAPTURE(row.version);
    CHECK(Chosen(Text(row.producer, row.version)) == row.chosen);
    CHECK(Chosen(Text(row.producer, row.version), {"--framework", "pytorch-2.8"}) == "2.8 given");
  }
}

TEST_CASE("a .pt2 says its version, or its schema does") {
  const std::string written(kSmallProgram);
  constexpr std::string_view kTorch = R"("torch_version": "2.11.0+cu130",)";
  constexpr std::string_view kSchema = R"("major": 8, "minor": 17)";
  CHECK(Chosen(Program(written)) == "2.11 file");
  const auto with = [&](std::string_view torch) {
    return Chosen(Program(Replaced(written, kTorch, torch)));
  };
  CHECK(with(R"("torch_version": "2.14.1",)") == "2.14 file");
  CHECK(with(R"("torch_version": "2.17.0",)") == "2.15 nearest OF208");
  CHECK(with(R"("torch_version": "<=2.4",)") == "2.4 file");
  CHECK(with("") == "2.11 file");
  const auto of_schema = [&](std::string_view schema) {
    return Chosen(Program(Replaced(Replaced(written, kTorch, ""), kSchema, schema)));
  };
  CHECK(of_schema(R"("major": 7, "minor": 3)") == "2.5 file");
  CHECK(of_schema(R"("major": 8, "minor": 8)") == "2.8 file");
  CHECK(of_schema(R"("major": 8, "minor": 12)") == "2.11 file");
  CHECK(of_schema(R"("major": 8, "minor": 20)") == "2.15 file");
  CHECK(of_schema(R"("major": 8, "minor": 25)") == "2.15 file");
}

TEST_CASE("a program within an ONNX file says it where the file does not") {
  constexpr std::string_view kNodes = R"(
net (float[s0, 3] x) => (float[s0, 3] y) { y = Relu(x) })";
  const auto model = [&](const std::string& metadata) {
    return ParseGraph(fmt::format(
        "<ir_version: 8, opset_import: [\"\": 17], metadata_props: [{}]>{}", metadata, kNodes));
  };
  const Graph file = pt2::WithEmbeddedProgram(model(fmt::format(
      "\"onnxfit.metadata\": \"1\", \"onnxfit.graph\": \"{}\", \"onnxfit.program\": \"{}\"",
      StructureDigest(model("")), PackText(kSmallProgram))));
  REQUIRE(file.embedded != nullptr);
  CHECK(Chosen(file) == "2.11 file");
}

TEST_CASE("what flags ask for may want a later version") {
  const Graph old = Text("pytorch", "1.13.1");
  CHECK(Chosen(old, {"--compile", "inductor"}) == "2.0 nearest");
  CHECK(Chosen(old, {"--strategy", "fsdp"}) == "2.4 nearest");
  const Graph file = Text("pytorch", "2.11.0");
  CHECK(Chosen(file, {"--compile", "inductor"}) == "2.11 file");
  CHECK(Chosen(file, {"--alloc-conf", "expandable_segments:True"}) == "2.11 file");
  CHECK(Chosen(file, {"--alloc-conf", "pinned_max_cached_size_mb:64"}) == "2.13 nearest");
  CHECK(Chosen(Text("", ""), {"--alloc-conf", "pinned_max_cached_size_mb:64"}) == "2.13 unknown");
  const auto text = RunText(ModelOf("pytorch", "1.13.1"), {"--compile", "inductor"}).out;
  CHECK(Has(text, "PyTorch is pytorch-2.0, the first behind 1.13.1, which exported the model"));
}

TEST_CASE("defaults of an old version come with it") {
  const auto zero_grad = [](const std::vector<std::string>& flags) {
    std::vector<std::string> args = {"m.onnx"};
    args.insert(args.end(), flags.begin(), flags.end());
    return AskedOf(Text("pytorch", "1.13.1"), Parse(args).request).settings.loop.zero_grad;
  };
  CHECK(zero_grad({}) == ZeroGrad::kKeep);
  CHECK(zero_grad({"--zero-grad", "before-forward"}) == ZeroGrad::kBeforeForward);
}

TEST_CASE("cards are judged by the version") {
  const std::vector<std::string> flags = {"--gpu", "k80"};
  CHECK(Has(RunText(ModelOf("pytorch", "2.11.0"), flags).out, "OF201"));
  CHECK_FALSE(Has(RunText(ModelOf("pytorch", "1.13.1"), flags).out, "OF201"));
}

TEST_CASE("every answer says which version it is by, and why") {
  const std::string file = ModelOf("pytorch", "2.11.0");
  const std::string unknown = ModelOf("", "");
  constexpr std::string_view kFile = "PyTorch is pytorch-2.11, which exported the model";
  constexpr std::string_view kUnknown = "PyTorch is pytorch-2.11: the file does not say which";
  for (const char* command : {"estimate", "max-batch"}) {
    CAPTURE(command);
    CHECK(Has(RunText(file, {"--gpu", "t4"}, command).out, kFile));
    CHECK(Has(RunText(unknown, {"--gpu", "t4"}, command).out, kUnknown));
    const auto given = RunText(file, {"--gpu", "t4", "--framework", "pytorch-2.11"}, command).out;
    CHECK(Has(given, "framework pytorch-2.11"));
    CHECK_FALSE(Has(given, "PyTorch is"));
    const auto json = RunText(file, {"--gpu", "t4", "--format", "json"}, command).out;
    CHECK(Has(json, R"("framework": {
    "name": "pytorch-2.11",
    "basis": "file",
    "written_by": "2.11.0"
  })"));
  }
  CHECK(Has(RunText(ModelOf("pytorch", "1.12.1"), {}).out,
            "PyTorch is pytorch-1.13, the next known to 1.12.1, which exported the model"));
  CHECK(Has(RunCommand({"estimate", "--params", "7B", "--layers", "32", "--hidden", "4096"}).out,
            "PyTorch is pytorch-2.11 (--framework)"));
}

TEST_CASE("a newer version than all known is warned of in every answer") {
  const std::string file = ModelOf("pytorch", "2.16.0+cu132");
  constexpr std::string_view kWarning = "OF208  PyTorch 2.16.0 wrote the file";
  CHECK(Has(RunText(file, {}).out, kWarning));
  CHECK(Has(RunText(file, {"-b", "1,2"}).out, "OF208"));
  CHECK(Has(RunText(file, {"--gpu", "t4"}, "max-batch").out, "OF208"));
  CHECK_FALSE(Has(RunText(file, {"--framework", "pytorch-2.15"}).out, "OF208"));
}

TEST_CASE("two files of different versions are compared as each of them runs") {
  const TempFolder folder;
  const std::string old_file = folder.Write("old.onnxtxt", ModelOf("pytorch", "2.11.0"));
  const std::string new_file = folder.Write("new.onnxtxt", ModelOf("pytorch", "2.15.0"));
  const auto diff = RunCommand({"diff", old_file, new_file});
  CHECK(Has(diff.out, "framework"));
  CHECK(Has(diff.out, "pytorch-2.15"));
  const auto alike = RunCommand({"diff", old_file, new_file, "--framework", "pytorch-2.15"});
  CHECK_FALSE(Has(alike.out, "pytorch-2.11"));
}

}  // namespace onnxfit::asked_of_file_test
