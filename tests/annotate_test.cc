#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "estimator/fit/predict.h"
#include "estimator/onnx/annotated_copy.h"
#include "estimator/onnx/loader.h"
#include "tests/files.h"
#include "tests/paths.h"
#include "tests/run_command.h"
#include "tests/temp_folder.h"

namespace onnxfit::annotate_test {
namespace {

std::string Model(const char* name) { return std::string(kSourceDir) + "/models/" + name; }

// What `node` of the copy has under `key`, "" where it has none.
std::string NoteOf(const Graph& graph, const std::string& node, const std::string& key) {
  for (const Node& found : graph.nodes) {
    if (found.name == node) return std::string(FindMetadata(found.metadata, key));
  }
  return "";
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

constexpr char kNet[] = R"(<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 4] x) => (float[N, 2] y) <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
  [first] h = Relu (x)
  [last] y = MatMul (h, w)
})";

}  // namespace

TEST_CASE("nodes, tensors and the model get notes") {
  const TempFolder folder;
  const std::string model = folder.Write("m.onnxtxt", kNet);
  FileNotes notes;
  notes.model = {{"run", "batch 2"}};
  notes.nodes["last"] = {{"at_peak", "16 B"}};
  notes.tensors["w"] = {{"at_peak", "32 B of w"}};
  notes.tensors["x"] = {{"at_peak", "32 B of x"}};
  notes.nodes["nowhere"] = {{"at_peak", "none"}};
  const AnnotatedCopy copy = Annotate(model, notes);
  CHECK(copy.nodes == 1);
  CHECK(copy.weight_files.empty());
  const Graph graph = LoadGraphFrom(copy.bytes, "copy.onnx", "copy.onnx");
  CHECK(NoteOf(graph, "last", "onnxfit.at_peak") == "16 B");
  CHECK(NoteOf(graph, "first", "onnxfit.at_peak").empty());
  for (const char* text : {"32 B of w", "32 B of x", "onnxfit.run", "batch 2"}) {
    CAPTURE(text);
    CHECK(Has(copy.bytes, text));
  }
  CHECK_FALSE(Has(copy.bytes, "none"));
}

TEST_CASE("notes of an earlier copy go, all else stays") {
  const TempFolder folder;
  FileNotes notes;
  notes.nodes["last"] = {{"at_peak", "an old note"}};
  const std::string old =
      folder.Write("old.onnx", Annotate(folder.Write("m.onnxtxt", kNet), notes).bytes);
  const std::string plain = Annotate(old, {}).bytes;
  CHECK_FALSE(Has(plain, "onnxfit."));
  CHECK(plain == Annotate(folder.Path("m.onnxtxt"), {}).bytes);
}

TEST_CASE("the copy is answered as the model is") {
  const TempFolder folder;
  const std::string copy = folder.Path("copy.onnx");
  for (const char* name : {"resnet18.train.onnx", "gpt2.dynamo.onnx"}) {
    CAPTURE(name);
    const CommandResult made =
        RunCommand({"annotate", Model(name), "-b", "2", "--output", copy, "--force"});
    REQUIRE(made.code == 0);
    CHECK(made.out.empty());
    const auto answer = [](const std::string& model) {
      Estimate estimate = MakeEstimate(LoadModel(model), {.binding = {.batch = 2}});
      return std::tuple(estimate.peak, estimate.device_bytes, estimate.peak_node);
    };
    CHECK(answer(copy) == answer(Model(name)));
  }
}

TEST_CASE("what nodes and tensors have at the peak is on them") {
  const TempFolder folder;
  const std::string copy = folder.Path("copy.onnx");
  REQUIRE(
      RunCommand({"annotate", Model("resnet18.train.onnx"), "-b", "16", "--output", copy}).code ==
      0);
  const Graph graph = LoadModel(copy);
  const std::string note = NoteOf(graph, "/model/conv1/Conv", "onnxfit.at_peak");
  CHECK(Has(note, "49.0 MiB (51380224 bytes), "));  // 16 × 64 × 112 × 112 × 4
  CHECK(Has(note, "%: activations"));
  CHECK(Has(NoteOf(graph, "/model/conv1/Conv", "onnxfit.allocated"), " while it runs forward"));
}

TEST_CASE("weights in other files stay beside the copy, a .pt2 has none") {
  const TempFolder folder;
  const TempFolder other;
  const std::string model = folder.Write("m.onnxtxt", R"(<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 4] x) => (float[N, 2] y) <float[4, 2] w = ["location": "w.bin"]>
{ y = MatMul (x, w) })");
  CHECK(Annotate(model, {}).weight_files == std::set<std::string>{"w.bin"});
  CHECK(RunCommand({"annotate", model, "--output", other.Path("c.onnx")}).code == 0);
  folder.Write("w.bin", std::string(32, '\0'));  // which the copy would not find from there
  const CommandResult apart = RunCommand({"annotate", model, "--output", other.Path("d.onnx")});
  CHECK(apart.code == 2);
  CHECK(Has(apart.err, "expected a file beside the model"));
  CHECK(RunCommand({"annotate", model, "--output", folder.Path("c.onnx")}).code == 0);
  CHECK(Has(RunCommand({"annotate", Model("x.pt2")}).err, "found a .pt2"));
  CHECK(Has(RunCommand({"annotate", "-"}).err, "read twice"));
  CHECK(Has(RunCommand({"annotate", model, "--output", "c.onnxtxt"}).err, "(try: c.onnx)"));
  CHECK(RunCommand({"annotate", model, "--output", "-"}).out.size() > 50);
  CHECK(RunCommand({"annotate"}).code == 2);
}

}  // namespace onnxfit::annotate_test
