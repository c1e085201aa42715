#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <new>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "estimator/base/error.h"
#include "tests/files.h"
#include "tests/paths.h"
#include "tests/run_command.h"
#include "tests/temp_folder.h"

namespace onnxfit::cli_test {
namespace {

// A folder with a small model in it.
class ModelFolder {
 public:
  ModelFolder() {
    folder_.Write("mlp.onnxtxt", R"(<ir_version: 8, opset_import: ["" : 17]>
mlp (float[N, 4] x) => (float[N, 2] y)
<float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
  y = MatMul(x, w)
})");
  }
  std::string file(const char* name) const { return folder_.Path(name); }
  std::string model() const { return file("mlp.onnxtxt"); }

 private:
  TempFolder folder_;
};

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

// The last lines of a largest batch that is none, a command over several lines.
std::vector<std::string> RecipeIn(const std::string& report) {
  const std::string title = "To see it\n";
  const size_t begin = report.find(title);
  REQUIRE(begin != std::string::npos);
  const size_t end = report.find("\n\n", begin);
  std::istringstream words(report.substr(begin, end - begin).substr(title.size()));
  std::vector<std::string> recipe;
  for (std::string word; words >> word;) {
    if (word != "\\") recipe.push_back(word);
  }
  return recipe;
}

TEST_CASE("max-batch of a file that holds one batch names the command that takes it") {
  TempFolder folder;
  folder.Write("net.onnxtxt", R"(<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 4] x) => (float[N, 4] y)
<float[2, 2] w = ["location": "none"]> {
  y = MatMul (w, x)
})");
  const std::string model = folder.Path("net.onnxtxt");
  const CommandResult result = RunCommand({"max-batch", model, "--memory", "8GiB"});
  CHECK(result.code == 2);
  CHECK_MESSAGE(
      result.err.find("(try: onnxfit estimate " + model + " --batch 2") != std::string::npos,
      result.err);
}

TEST_CASE("where not even one sample runs, a command that does is there to be copied") {
  const std::string model = std::string(kSourceDir) + "/models/gpt2.dynamo.onnx";
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"-p", "bf16", "--optimizer-impl", "foreach"}}) {
    std::vector<std::string> args = {"max-batch",  model, "--memory",      "1000MiB",
                                     "--overhead", "0",   "--multiple-of", "1"};
    args.insert(args.end(), more.begin(), more.end());
    const CommandResult search = RunCommand(args);
    CHECK(search.code == 1);
    const std::vector<std::string> recipe = RecipeIn(search.out);
    REQUIRE(recipe.size() > 6);
    CHECK(recipe[0] == "onnxfit");
    CHECK(recipe[1] == "estimate");
    const CommandResult copied = RunCommand({recipe.begin() + 1, recipe.end()});
    CAPTURE(copied.err);
    CHECK(copied.code == 0);
    CHECK(copied.out.starts_with("FITS"));
    args.insert(args.end(), {"-f", "json"});
    const std::string json = RunCommand(args).out;
    CHECK(json.find("\"recipe\": \"onnxfit estimate ") != std::string::npos);
  }
}

}  // namespace

TEST_CASE("an estimate is printed, as text and as JSON, by both spellings") {
  const ModelFolder folder;
  const CommandResult text = RunCommand({folder.model(), "-b", "3"});
  CHECK(text.code == 0);
  CHECK(text.err == "");
  CHECK(FirstLine(text.out).find("mlp.onnxtxt, batch 3, fp32, adamw: ") != std::string::npos);
  CHECK(text.out.find("Where the bytes go") != std::string::npos);
  CHECK(text.out.find('\033') == std::string::npos);  // no terminal, no colour
  CHECK(RunCommand({"estimate", "-b", "3", folder.model()}).out == text.out);
  CHECK(RunCommand({folder.model(), "-b", "3", "-q"}).out == FirstLine(text.out) + "\n");
  CHECK(RunCommand({folder.model(), "--color", "always"}).out.find('\033') != std::string::npos);

  const CommandResult json =
      RunCommand({folder.model(), "-b", "3", "--format", "json", "-o", "sgd"});
  CHECK(json.code == 0);
  CHECK(json.out.find("{\n  \"schema\": 1,\n  \"version\": \"") == 0);
  CHECK(json.out.find("\"batch\": 3,") != std::string::npos);
  CHECK(json.out.find("\"optimizer\": \"sgd\",") != std::string::npos);
}

TEST_CASE("what Muon steps is said") {
  const TempFolder folder;
  const std::string model = folder.Write("two.onnxtxt", R"(<ir_version: 8, opset_import: ["" : 17]>
mlp (float[N, 2] x) => (float[N, 2] y)
<float[2, 2] w = {1, 2, 3, 4}, float[2, 2] v = {5, 6, 7, 8}> {
  h = MatMul(x, w)
  y = MatMul(h, v)
})");
  const CommandResult json = RunCommand({model, "-o", "muon", "--format", "json"});
  CHECK(json.out.find("torch.optim.Muon steps 1 of 2 parameters, matrices of hidden layers; AdamW, "
                      "behind it, embeddings, the last layer's and what is no matrix") !=
        std::string::npos);
  const CommandResult torchao = RunCommand({model, "-o", "torchao-adamw-8bit"});
  CHECK(torchao.out.find("Inductor's code in PyTorch 2.11") != std::string::npos);
}

TEST_CASE("lists print a table, in every format") {
  const ModelFolder folder;
  const std::vector<std::string> args = {folder.model(), "-b", "3,5", "-p", "fp32,bf16"};
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), args.begin(), args.end());
    return RunCommand(more);
  };
  const CommandResult text = run({});
  CHECK(text.code == 0);
  CHECK(text.err == "");
  CHECK(FirstLine(text.out).find("mlp.onnxtxt, 2 batches × 2 precisions: device ") !=
        std::string::npos);
  CHECK(text.out.find("\n      5  bf16 ") != std::string::npos);
  CHECK(run({"-q"}).out == FirstLine(text.out) + "\n");
  CHECK(run({"-f", "markdown"}).out.find("\n| 5 | bf16 | ") != std::string::npos);
  CHECK(run({"-f", "csv"}).out.find("model,batch,precision,optimizer,mode,") == 0);
  CHECK(run({"-f", "json"}).out.find("[\n{\n  \"schema\": 1,") == 0);
  CHECK(run({"-f", "json", "-n", "0"}).out.find("\"largest\": []") != std::string::npos);
  CHECK(run({"-f", "json", "-n", "1"}).out.find("\"largest\": []") == std::string::npos);
  CHECK(RunCommand({folder.model(), "-b", "3:3:3"}).out ==
        RunCommand({folder.model(), "-b", "3"}).out);
  // With nothing answered it is the first one's error.
  const CommandResult none = RunCommand({folder.model(), "--dim", "nope=3,4"});
  CHECK(none.code == 2);
  CHECK(none.out == "");
  CHECK(none.err.find("error: " + folder.model() + ": --dim nope=3: ") == 0);
}

TEST_CASE("a table holds where every row does") {
  const ModelFolder folder;
  const auto code = [&](const std::string& memory, const std::string& more = "--strict=no") {
    return RunCommand(
               {folder.model(), "-b", "1,4000000", "--overhead", "0", "--memory", memory, more})
        .code;
  };
  CHECK(code("64GiB") == 0);
  CHECK(code("30MiB") == 1);  // the large batch does not fit
  CHECK(code("30MiB", "--exit-zero") == 0);
  const CommandResult table =
      RunCommand({folder.model(), "-b", "1,4000000", "--overhead", "0", "--memory", "30MiB", "-q"});
  CHECK(table.out.find("1 OOM, 1 FITS: ") == 0);
  const CommandResult search = RunCommand({"max-batch", folder.model(), "-p", "fp32,bf16",
                                           "--memory", "8GiB", "-f", "csv", "--max", "64"});
  CHECK(std::count(search.out.begin(), search.out.end(), '\n') == 3);
}

TEST_CASE("one estimate is printed as Markdown and as CSV") {
  const ModelFolder folder;
  const CommandResult markdown = RunCommand({folder.model(), "-b", "3", "-f", "markdown"});
  CHECK(markdown.code == 0);
  CHECK(markdown.out.find("**") == 0);
  CHECK(markdown.out.find("\n| kind | bytes | share |") != std::string::npos);
  const CommandResult csv = RunCommand({folder.model(), "-b", "3", "-f", "csv"});
  CHECK(csv.out.find("mlp.onnxtxt,3,fp32,adamw,train,") != std::string::npos);
}

TEST_CASE("a .pt2 that is not there is not said to be an ONNX file") {
  CHECK(RunCommand({"none.pt2"}).err ==
        "error: none.pt2: a .pt2 file was expected, there is no such file (try: python -m onnxfit "
        "export MODULE:FUNCTION, which writes one from Python: docs/python.md)\n");
}

TEST_CASE("an overhead replaces the context") {
  const ModelFolder folder;
  const CommandResult result = RunCommand({folder.model(), "--overhead", "0"});
  CHECK(result.code == 0);
  CHECK(result.out.find("  context ") == std::string::npos);
}

TEST_CASE("the life of a tensor is told, and an unknown one refused") {
  const ModelFolder folder;
  CHECK(RunCommand({folder.model(), "--why", "w.grad"}).out.find("\nw.grad\n  is ") !=
        std::string::npos);
  CHECK(RunCommand({folder.model(), "--why", "w", "-f", "json"}).out.find("\"why\": {") !=
        std::string::npos);
  const CommandResult unknown = RunCommand({folder.model(), "--why", "wgrad"});
  CHECK(unknown.code == 2);
  CHECK(unknown.out == "");
  CHECK(unknown.err == "error: " + folder.model() +
                           ": --why: no tensor and no node is called 'wgrad' (try: w.grad)\n");
}

TEST_CASE("a report goes to a file, which is kept unless --force says so") {
  const ModelFolder folder;
  const std::string path = folder.file("report.txt");
  const std::string expected = RunCommand({folder.model()}).out;
  const CommandResult first = RunCommand({folder.model(), "--output", path});
  CHECK(first.code == 0);
  CHECK(first.out == "");
  CHECK(ContentsOf(path) == expected);

  std::ofstream(path) << "mine";
  const CommandResult second = RunCommand({folder.model(), "--output", path});
  CHECK(second.code == 2);
  CHECK(second.err == "error: " + path + ": --output: the file exists (try: --force)\n");
  CHECK(ContentsOf(path) == "mine");

  CHECK(RunCommand({folder.model(), "--output", path, "--force"}).code == 0);
  CHECK(ContentsOf(path) == expected);
}

TEST_CASE("a report goes neither over its model nor where nothing can be written") {
  const ModelFolder folder;
  const std::string before = ContentsOf(folder.model());
  struct Row {
    std::string output;
    const char* error;
  };
  const Row rows[] = {
      {folder.model(), ": --output: expected another file than the model\n"},
      {folder.file(""), ": --output: expected a file, found a directory\n"},
      {folder.file("none/report.txt"), ": the report could not be written\n"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.output);
    const CommandResult result = RunCommand({folder.model(), "--output", row.output, "--force"});
    CHECK(result.code == 2);
    CHECK(result.err == "error: " + row.output + row.error);
  }
  CHECK(ContentsOf(folder.model()) == before);
}

TEST_CASE("an error is one line on the error stream and nothing else") {
  const ModelFolder folder;
  struct Row {
    std::vector<std::string> args;
    std::string begin;
  };
  const Row rows[] = {
      {{}, "error: expected a model file, found none (try: onnxfit MODEL.pt2, or MODEL.onnx)\n"},
      {{folder.model(), "--batch", "0"},
       "error: --batch: expected a whole number from 1, found '0'\n"},
      {{folder.model(), "--precision", "fp23"}, "error: --precision: expected "},
      {{folder.file("missing.onnx")}, "error: " + folder.file("missing.onnx") + ": "},
      {{folder.model(), "--dim", "nope=3"}, "error: " + folder.model() + ": "},
      {{"estimate", "two\nlines.onnx"}, "error: two?lines.onnx: "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.begin);
    const CommandResult result = RunCommand(row.args);
    CHECK(result.code == 2);
    CHECK(result.out == "");
    CHECK(result.err.find(row.begin) == 0);
    CHECK(result.err.find('\n') == result.err.size() - 1);
  }
}

TEST_CASE("what ONNX said to an error is told with -v alone") {
  const ModelFolder folder;
  const std::string plain = RunCommand({folder.model(), "--shape", "x=8x5"}).err;
  CHECK(plain ==
        "error: " + folder.model() +
            ": input 'x': dimension 1 is 5, expected 4 as the file fixes it: node 'MatMul "
            "#0': it reads 5 features of float32[8, 5], its weight 'w' float32[4, 2] takes "
            "4 (try: --shape x=8x4)\n");
  const std::string verbose = RunCommand({folder.model(), "--shape", "x=8x5", "-v"}).err;
  CHECK(verbose.find("takes 4; ONNX says: [ShapeInferenceError] Incompatible dimensions for matrix "
                     "multiplication (try: --shape x=8x4)\n") != std::string::npos);
}

TEST_CASE("whatever is thrown becomes a line and an exit code") {
  const auto caught = [](const std::function<int()>& command, const std::string& model) {
    std::ostringstream err;
    CHECK(CatchErrors(command, model, err) == 2);
    return err.str();
  };
  const auto throws = [](const Error& error) { return [error]() -> int { throw error; }; };
  CHECK(caught(throws(Error({.text = "odd"})), "") == "error: odd\n");
  CHECK(caught(throws(Error({.text = "odd"})), "m.onnx") == "error: m.onnx: odd\n");
  CHECK(caught(throws(Error({.file = "w.bin", .text = "odd"})), "m.onnx") == "error: w.bin: odd\n");
  CHECK(caught([]() -> int { throw std::bad_alloc(); }, "m.onnx") ==
        "error: m.onnx: this machine has too little memory\n");
  CHECK(caught([]() -> int { throw std::runtime_error("a\nb"); }, "m.onnx") ==
        "error: internal: a?b\n");
  std::ostringstream err;
  CHECK(CatchErrors([] { return 1; }, "m.onnx", err) == 1);
}

TEST_CASE("help and version are answers") {
  const CommandResult help = RunCommand({"--help"});
  CHECK(help.code == 0);
  CHECK(help.out.find("usage: onnxfit [estimate] MODEL [flags]") != std::string::npos);
  CHECK(help.err == "");
  CHECK(RunCommand({"--version"}).out.find("onnxfit 0.") == 0);
}

}  // namespace onnxfit::cli_test
