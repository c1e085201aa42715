#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/paths.h"
#include "tests/run_command.h"
#include "tests/temp_folder.h"

namespace onnxfit::cards_command_test {
namespace {

using Args = std::vector<std::string>;

std::string Model(const std::string& name) { return std::string(kSourceDir) + "/models/" + name; }

// LeNet on a card without context; it reserves 24 MiB at batch 1.
CommandResult Lenet(Args more) {
  Args args = {Model("lenet.onnxtxt"), "--overhead", "0"};
  args.insert(args.end(), more.begin(), more.end());
  return RunCommand(args);
}

CommandResult Largest(Args more) {
  Args args = {"max-batch", Model("lenet.onnxtxt"), "--overhead", "0"};
  args.insert(args.end(), more.begin(), more.end());
  return RunCommand(args);
}

// A fully connected net of `hidden` layers of 5000 for MNIST.
std::string DeepNet(int hidden) {
  std::string weights;
  std::string nodes;
  std::string at = "x";
  for (int i = 0; i <= hidden; ++i) {
    const std::string n = std::to_string(i);
    const std::string rows = i == hidden ? "10" : "5000";
    const std::string columns = i == 0 ? "784" : "5000";
    weights += (i == 0 ? "float[" : ", float[") + rows + ", " + columns + "] w" + n +
               R"( = ["location": "none"], float[)" + rows + "] b" + n +
               R"( = ["location": "none"])";
    const std::string made = i == hidden ? "y" : "h" + n;
    nodes += made + " = Gemm <transB = 1> (" + at + ", w" + n + ", b" + n + ")\n";
    if (i < hidden) nodes += "a" + n + " = Relu (h" + n + ")\n";
    at = "a" + n;
  }
  return R"(<ir_version: 8, opset_import: ["" : 17]> net (float[N, 784] x) => (float[N, 10] y) <)" +
         weights + "> {\n" + nodes + "}\n";
}

}  // namespace

TEST_CASE("the exit code is that of the verdict") {
  struct Row {
    const char* memory;
    const char* verdict;
    int code;
    int strict_code;
  };
  const Row rows[] = {
      {"25165823", "OOM on ", 1, 1},    // a byte less than is reserved
      {"24MiB", "TIGHT on ", 0, 1},     // as much
      {"33554431", "TIGHT on ", 0, 1},  // 8 MiB more but a byte
      {"32MiB", "FITS on ", 0, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.memory);
    const CommandResult result = Lenet({"--memory", row.memory});
    CHECK(result.code == row.code);
    CHECK(result.err == "");
    CHECK(result.out.find(row.verdict) == 0);
    CHECK(Lenet({"--memory", row.memory, "--strict"}).code == row.strict_code);
    CHECK(Lenet({"--memory", row.memory, "--strict", "--exit-zero"}).code == 0);
    CHECK(Lenet({"--memory", row.memory, "-q"}).out ==
          result.out.substr(0, result.out.find('\n') + 1));
  }
  CHECK(Lenet({"--memory", "1GiB", "--memory", "8MiB"}).code == 1);  // one of them does not hold
  CHECK(Lenet({"--memory", "1GiB", "--memory", "2GiB"}).code == 0);
}

TEST_CASE("what cannot be answered is exit code 2, --exit-zero or not") {
  struct Row {
    Args args;
    const char* error;
  };
  const std::string model = Model("lenet.onnxtxt");
  const Row rows[] = {
      {{model, "-g", "t44"}, "error: --gpu: expected a card, found 't44' (did you mean t4?)"},
      {{model, "-g", "rtx3009"}, "error: --gpu: expected a card, found 'rtx3009' (did you mean "},
      {{model, "--memory", "0"},
       "error: --memory: expected a size above 0, such as 8GiB, found '0'\n"},
      {{model, "--memory", "8GQ"},
       "error: --memory: expected a size, found '8GQ' (try: 8GiB or 512MiB)\n"},
      {{model, "--memory", "-1"}, "error: --memory: expected a size, found '-1'"},
      {{model, "--memory", "99999999999GiB"}, "error: --memory: expected a size, found "},
      {{model, "--memory", "8GiB", "--overhead", "8GiB"},
       "error: 8.00 GiB: expected more than the 8.00 GiB that the context takes, found 8.00 GiB"},
      {{model, "--memory", "8GiB", "--reserve", "9GiB"}, "error: 8.00 GiB: expected more than "},
      {{"max-batch", model, "-b", "4", "--memory", "8GiB"},
       "error: --batch: expected with estimate, verify, diff, explain-oom, report or annotate, "
       "found "
       "with max-batch\n"},
      {{"max-batch", model, "--memory", "8GiB", "--max", "0"}, "error: --max: expected "},
      {{"max-batch", model, "--memory", "8GiB", "--multiple-of", "0"},
       "error: --multiple-of: expected a whole number from 1 "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.error);
    for (const bool exits_zero : {false, true}) {
      Args args = row.args;
      if (exits_zero) args.emplace_back("--exit-zero");
      const CommandResult result = RunCommand(args);
      CHECK(result.code == 2);
      CHECK(result.out == "");
      CHECK(result.err.find(row.error) == 0);
    }
  }
  CHECK(RunCommand({"max-batch", model})
            .err.find("--gpu: expected a card, found none (try: --gpu t4, "
                      "--memory 8GiB or --all-gpus)\n") != std::string::npos);
}

TEST_CASE("a list of all cards is no failure, a card that is named may be") {
  const auto all = [](Args more) {  // small cards have no room beside such a context
    Args args = {"max-batch", Model("lenet.onnxtxt"), "--overhead", "8GiB", "--max", "1", "-q"};
    args.insert(args.end(), more.begin(), more.end());
    return RunCommand(args);
  };
  const CommandResult listed = all({"--all-gpus"});
  CHECK(listed.code == 0);
  CHECK(listed.out.find("batch 0 to 1 FITS, by card") == 0);
  CHECK(all({"--all-gpus", "-g", "jetson-nano-2gb"}).code == 1);
  CHECK(all({"--all-gpus", "-g", "h200"}).code == 0);
  CHECK(all({"-g", "jetson-nano-2gb", "-g", "h200"}).code == 1);
}

TEST_CASE("8GB counts by 1000, 8GiB by 1024") {
  const auto capacity = [](const char* size) {
    const std::string json = Lenet({"--memory", size, "-f", "json", "-n", "0"}).out;
    const size_t at = json.find("\"capacity_bytes\": ");
    REQUIRE(at != std::string::npos);
    return json.substr(at + 18, json.find(',', at) - at - 18);
  };
  CHECK(capacity("8GB") == "8000000000");
  CHECK(capacity("8GiB") == "8589934592");
  CHECK(capacity("8gib") == "8589934592");
  CHECK(capacity("8192MiB") == "8589934592");
  CHECK(capacity("8589934592") == "8589934592");
}

TEST_CASE("max-batch: the batch and its verdict first, limits hold, codes as elsewhere") {
  const CommandResult result = Largest({"--memory", "64MiB"});
  CHECK(result.code == 0);
  CHECK(result.out.find("batch ") == 0);
  CHECK(result.out.find("\nAround it\n") != std::string::npos);
  CHECK(Largest({"--memory", "64MiB", "--multiple-of", "64", "--max", "300", "-q"})
            .out.find("batch 256 on 64.0 MiB: ") == 0);
  CHECK(Largest({"--memory", "64MiB", "--max", "5"}).out.find("larger ones run, too") !=
        std::string::npos);
  const CommandResult none = Largest({"--memory", "20MiB", "-q"});
  CHECK(none.code == 1);
  CHECK(none.out == "OOM on 20.0 MiB, not even batch 1: 24.0 MiB of 20.0 MiB\n");
  CHECK(Largest({"--memory", "20MiB", "--exit-zero"}).code == 0);
  CHECK(Largest({"--memory", "64MiB", "--strict", "-q"}).out.find(": FITS, ") != std::string::npos);
  CHECK(Largest({"--memory", "64MiB", "-f", "json"}).out.find("{\n  \"schema\": 1,") == 0);
}

TEST_CASE("what is said beside the batch to take is of that batch") {
  const TempFolder folder;
  const std::string path = folder.Write("fixed.onnxtxt", R"(<ir_version: 8, opset_import: ["" : 17]>
    net (float[1, 4096] x) => (float[1, 10] y)
    < float[4096, 512] a = ["location": "none"], float[512, 10] b = ["location": "none"] > {
      h = MatMul (x, a)
      y = MatMul (h, b)
    })");
  const auto run = [&](Args more) {
    Args args = {"max-batch", path, "--memory", "256MiB", "--overhead", "0"};
    args.insert(args.end(), more.begin(), more.end());
    return RunCommand(args).out;
  };
  const std::string text = run({});
  const std::string batch = text.substr(6, text.find(" on ") - 6);
  REQUIRE(text.find(" FITS") != std::string::npos);
  REQUIRE(text.find("  - up to ") != std::string::npos);  // a larger one is TIGHT
  CHECK(text.find("that is written in the file was changed to " + batch + "\n") !=
        std::string::npos);
  // JSON's estimate stays at max_batch.
  const std::string json = run({"-f", "json"});
  const size_t place = json.find("\"max_batch\": ") + 13;
  const std::string most = json.substr(place, json.find(',', place) - place);
  CHECK(most != batch);
  CHECK(json.find("was changed to " + most + "\"") != std::string::npos);
}

TEST_CASE("a table has the batch to take and the largest that runs") {
  const std::string one = Largest({"--memory", "64MiB", "-q"}).out;
  const std::string fits = one.substr(6, one.find(" on ") - 6);
  REQUIRE(one.find(" FITS") != std::string::npos);
  const std::string csv = Largest({"--memory", "64MiB", "--memory", "20MiB", "-f", "csv"}).out;
  CHECK(csv.find(",tight," + fits + ",") != std::string::npos);
  CHECK(csv.find(",oom,0,\n") != std::string::npos);
  const CommandResult table = Largest({"--memory", "64MiB", "--memory", "20MiB"});
  CHECK(table.code == 1);
  CHECK(table.out.find("batch 0 to " + fits + " FITS, 0 to ") == 0);
  const std::string json = Largest({"--memory", "64MiB", "--memory", "20MiB", "-f", "json"}).out;
  CHECK(json.find("\"fitting\": {\n        \"batch\": " + fits) != std::string::npos);
  CHECK(json.find("\"fitting\": {\n        \"batch\": 0\n") != std::string::npos);
}

TEST_CASE("in eval no flag of training is ignored without a word") {
  const std::string model = Model("lenet.onnxtxt");
  const auto told = [&](Args more) {
    Args args = {model, "--mode", "eval"};
    args.insert(args.end(), more.begin(), more.end());
    const std::string out = RunCommand(args).out;
    const size_t place = out.find("  OF112  ");
    return place == std::string::npos ? ""
                                      : out.substr(place + 9, out.find('\n', place) - place - 9);
  };
  CHECK(told({}) == "");
  CHECK(told({"-o", "none"}) == "");
  CHECK(told({"-o", "adamw"}) ==
        "--optimizer changes nothing: inference has no optimizer, no gradients");
  CHECK(told({"-o", "sgd", "--ema"}).starts_with("--optimizer, --ema change nothing: "));
  CHECK(told({"--strategy", "zero3", "--zero-offload", "--prefetch-bucket", "8"})
            .starts_with("--strategy, --prefetch-bucket, --zero-offload change nothing: "));
  CHECK(told({"--strategy", "zero3", "--persistence-threshold", "8"})
            .starts_with("--strategy, --persistence-threshold change nothing: "));
  CHECK(Largest({"--memory", "64MiB", "--mode", "eval", "-o", "sgd"}).out.find("  OF112  ") !=
        std::string::npos);
  CHECK(Largest({"--memory", "64MiB", "--memory", "32MiB", "--mode", "eval", "-o", "sgd"})
            .out.find("  OF112  ") != std::string::npos);
}

TEST_CASE("max-batch in eval speaks of inference alone") {
  const std::string out =
      RunCommand({"max-batch", Model("vgg16.script.onnx"), "-g", "t4", "--mode", "eval"}).out;
  CHECK(out.find("Why not take the largest") != std::string::npos);
  for (const char* word :
       {"learning", "optimizer", "freeze", "accumul", "gradient", "generalise"}) {
    CAPTURE(word);
    CHECK(out.find(word) == std::string::npos);
  }
}

// Every figure and warning that an article's reader would look for; those of runs without a
// context are in tests/data/card_runs.txt.
TEST_CASE("five hidden layers of 5000, and how many more, on a P100") {
  const TempFolder folder;
  const auto verdict = [&](int hidden, Args more) {
    Args args = {folder.Write("net.onnxtxt", DeepNet(hidden)),
                 "-b",
                 "32",
                 "-o",
                 "adam",
                 "-q",
                 "--in-place",
                 "never"};
    args.insert(args.end(), more.begin(), more.end());
    const std::string out = RunCommand(args).out;
    return out.substr(0, out.find(' '));
  };
  CHECK(verdict(5, {"-g", "p100"}) == "FITS");
  CHECK(verdict(34, {"-g", "p100"}) == "TIGHT");  // its context leaves no room to spare
  CHECK(verdict(35, {"-g", "p100"}) == "OOM");
  CHECK(verdict(5, {"--memory", "2076352512", "--overhead", "0"}) == "OOM");
}

TEST_CASE("LeNet on a Jetson Nano: who has a share, and what swap does not do") {
  const CommandResult result =
      RunCommand({Model("lenet.onnxtxt"), "-b", "128", "-g", "jetson-nano"});
  CHECK(result.code == 0);
  CHECK(result.out.find("FITS on jetson-nano: ") == 0);
  CHECK(result.out.find("go to the operating system and desktop first (assumed)") !=
        std::string::npos);
  CHECK(result.out.find("  OF203  ") != std::string::npos);
  CHECK(result.out.find("swap") != std::string::npos);
}

TEST_CASE("only a model with convolutions is said to ask cuDNN for no workspace") {
  const auto says_so = [](const char* model) {
    return RunCommand({Model(model)}).out.find("ask cuDNN for no workspace") != std::string::npos;
  };
  CHECK(says_so("lenet.onnxtxt"));
  CHECK(!says_so("mlp_2000.onnxtxt"));
}

TEST_CASE("in eval nothing is said of a backward pass") {
  const std::string net = R"(<ir_version: 8, opset_import: ["" : 17, "x" : 1]>
    net (float[N, 4] x) => (float[N, 4] y) < float[4, 4] w = ["location": "none"] > {
      a = MatMul (x, w)
      y = x.Strange (a)
    }
  )";
  const TempFolder folder;
  const std::string path = folder.Write("net.onnxtxt", net);
  const std::string train = RunCommand({path, "-b", "2", "-f", "json"}).out;
  const std::string eval = RunCommand({path, "-b", "2", "-f", "json", "--mode", "eval"}).out;
  CHECK(train.find("OF102") != std::string::npos);
  CHECK(train.find("kept until backward") != std::string::npos);
  CHECK(eval.find("OF102") != std::string::npos);
  CHECK(eval.find("backward") == std::string::npos);
  const CommandResult full =
      RunCommand({Model("vgg16.script.onnx"), "-b", "400", "-g", "gtx1050", "--mode", "eval"});
  CHECK(full.out.find("What would make it fit") != std::string::npos);
  for (const char* word : {"loss", "optimizer", "freeze", "accumul", "gradient"}) {
    CAPTURE(word);
    CHECK(full.out.find(word) == std::string::npos);
  }
}

TEST_CASE("a card that PyTorch has no kernels for gets an answer and a warning") {
  const CommandResult result = RunCommand({Model("vgg16.script.onnx"), "-b", "12", "-g", "k520"});
  CHECK(result.out.find(" on k520: ") != std::string::npos);
  CHECK(result.out.find("  OF201  ") != std::string::npos);
}

TEST_CASE("inference: how many processes fit, a context each") {
  const CommandResult result =
      RunCommand({Model("lenet.onnxtxt"), "--mode", "eval", "--memory", "8GiB", "--overhead",
                  "978MiB", "-f", "json", "-n", "0"});
  // 22 MiB are reserved: 1000 MiB each.
  CHECK(result.out.find("\"processes\": 8,") != std::string::npos);
  CHECK(RunCommand({Model("lenet.onnxtxt"), "--memory", "8GiB", "-f", "json", "-n", "0"})
            .out.find("\"processes\"") == std::string::npos);
}

}  // namespace onnxfit::cards_command_test
