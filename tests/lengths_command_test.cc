// `onnxfit estimate --lengths`.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/lines.h"
#include "tests/run_command.h"
#include "tests/temp_folder.h"

namespace onnxfit::lengths_command_test {
namespace {

using Args = std::vector<std::string>;

// Attention's scores make a step's bytes grow with the square of S.
constexpr const char* kModel = R"(
  <ir_version: 8, opset_import: ["" : 17]>
  net (float[N, S, 64] x) => (float[N, S, 64] y)
  < float[64, 64] w = ["location": "none"], float[64, 64] v = ["location": "none"] > {
    q = MatMul (x, w)
    k = Transpose <perm = [0, 2, 1]> (x)
    s = MatMul (q, k)
    p = Softmax <axis = -1> (s)
    o = MatMul (p, x)
    y = MatMul (o, v)
  })";

class Model {
 public:
  Model() : path_(folder_.Write("net.onnxtxt", kModel)) {}
  CommandResult Run(const Args& more) const {
    Args args = {path_, "-b", "8"};
    args.insert(args.end(), more.begin(), more.end());
    return RunCommand(args);
  }
  nlohmann::json Json(Args more) const {
    more.insert(more.end(), {"-f", "json"});
    return nlohmann::json::parse(Run(more).out);
  }
  const std::string& path() const { return path_; }
  std::string Write(const std::string& text) const { return folder_.Write("lengths", text); }

 private:
  TempFolder folder_;
  std::string path_;
};

}  // namespace

TEST_CASE("batches of one length reserve what an estimate says") {
  const Model model;
  const auto series = model.Json({"--lengths", "uniform:256..256", "--steps", "20", "-g", "t4"});
  const auto alike = model.Json({"--dim", "S=256", "-g", "t4"});
  CHECK(series["most_reserved_bytes"] == series["alike_bytes"]);
  CHECK(series["targets"][0]["used_bytes"] == alike["targets"][0]["used_bytes"]);
  CHECK(series["targets"][0]["verdict"] == "fits");
  CHECK(series["reserved_bytes"].size() == 20);
}

TEST_CASE("lengths that differ reserve more, and the longest first less") {
  const Model model;
  const auto series =
      model.Json({"--lengths", "uniform:100..1000", "--steps", "60", "--seeds", "3"});
  CHECK(series["most_reserved_bytes"] > series["alike_bytes"]);
  CHECK(series["least_reserved_bytes"] <= series["most_reserved_bytes"]);
  CHECK(series["lengths"].size() == 60);
  for (const auto& change : series["changes"]) {
    if (change["what"] == "the longest batch first") {
      CHECK(change["reserved_bytes"] < series["most_reserved_bytes"]);
    }
  }
}

TEST_CASE("a card that the longest batch fits may be full in a later step") {
  const Model model;
  const auto series = model.Json({"--lengths", "uniform:100..1000", "--steps", "60"});
  const int64_t alike = series["alike_bytes"];
  const int64_t most = series["most_reserved_bytes"];
  REQUIRE(alike + (16 << 20) < most);
  const std::string memory = std::to_string(alike + 1024);
  const Args card = {"--memory", memory, "--overhead", "0"};
  Args args = {"--lengths", "uniform:100..1000", "--steps", "60"};
  args.insert(args.end(), card.begin(), card.end());
  const auto target = model.Json(args)["targets"][0];
  CHECK(target["verdict"] != "fits");
  if (target["verdict"] == "tight") CHECK(target["used_bytes"] <= alike + 1024);
  CHECK(target.value("seeds_retry", 0) + target.value("seeds_die", 0) == 5);
}

TEST_CASE("a file of lengths is taken in its order") {
  const Model model;
  const std::string file = model.Write("300, 200, 100\n");
  const auto series = model.Json({"--lengths", "S=" + file, "--steps", "4"});
  CHECK(series["lengths"] == nlohmann::json({300, 200, 100, 300}));
  CHECK(series["dim"] == "S");
  const CommandResult text = model.Run({"--lengths", file, "--steps", "4"});
  CHECK(text.code == 0);
  CHECK(text.out.find("the file's lengths") != std::string::npos);
  CheckPage(text.out);
}

TEST_CASE("an epoch's last batch is smaller") {
  const Model model;
  const auto series =
      model.Json({"--lengths", "uniform:256..256", "--steps", "6", "--samples", "20", "-g", "t4"});
  CHECK(series["batches"] == nlohmann::json({8, 8, 4, 8, 8, 4}));
  CHECK(series["smallest_batch"] == 4);
  CHECK(series["batch"] == 8);
  CHECK(series["peak_allocated_bytes"][2] < series["peak_allocated_bytes"][1]);
  const CommandResult text =
      model.Run({"--lengths", "uniform:256..256", "--steps", "6", "--samples", "20"});
  CHECK(text.out.find("batch 4 to 8") != std::string::npos);
  CheckPage(text.out);
}

TEST_CASE("batches of so many tokens") {
  const Model model;
  const std::string file = model.Write("100 100 100 200 200 400 400");
  const CommandResult told = RunCommand(
      {model.path(), "--lengths", file, "--steps", "7", "--tokens", "800", "-f", "json"});
  const auto series = nlohmann::json::parse(told.out);
  CHECK(series["batches"] == nlohmann::json({8, 8, 8, 4, 4, 2, 2}));
  struct Row {
    size_t step;
    int64_t batch;
    int64_t length;
  };
  // Behind another of its shape a step is that of an estimate.
  for (const Row& row : {Row{2, 8, 100}, Row{4, 4, 200}, Row{6, 2, 400}}) {
    CAPTURE(row.step);
    const CommandResult alone = RunCommand({model.path(), "-b", std::to_string(row.batch), "--dim",
                                            "S=" + std::to_string(row.length), "-f", "json"});
    CHECK(series["peak_allocated_bytes"][row.step] ==
          nlohmann::json::parse(alone.out)["peak"]["allocated_bytes"]);
  }
}

TEST_CASE("a seed is the one that is named, and those that follow") {
  const Model model;
  const Args lengths = {"--lengths", "uniform:100..1000", "--steps", "20", "--seeds", "1"};
  const auto with = [&](const std::string& seed) {
    Args args = lengths;
    args.insert(args.end(), {"--seed", seed});
    return model.Json(args);
  };
  CHECK(with("7")["lengths"] == with("7")["lengths"]);
  CHECK(with("7")["lengths"] != with("8")["lengths"]);
  CHECK(with("0")["lengths"] == model.Json(lengths)["lengths"]);
  CHECK(with("7")["worst_seed"] == 7);
}

TEST_CASE("the largest batch of such steps is the largest that an estimate runs") {
  const Model model;
  const Args lengths = {"--lengths", "uniform:100..1000", "--steps", "40",         "--seeds",
                        "2",         "--memory",          "1GiB",    "--overhead", "0"};
  Args search = {"max-batch", model.path(), "-f", "json"};
  search.insert(search.end(), lengths.begin(), lengths.end());
  const CommandResult found = RunCommand(search);
  REQUIRE(found.code == 0);
  const auto target = nlohmann::json::parse(found.out)["targets"][0];
  const int64_t largest = target["max_batch"];
  CHECK(target["fails"] == largest + 1);
  CHECK(target["max_batch_fits"] <= largest);
  CHECK(target["series"]["batch"] == largest);
  const auto verdict_at = [&](int64_t batch) {
    Args args = {model.path(), "-b", std::to_string(batch), "-f", "json"};
    args.insert(args.end(), lengths.begin(), lengths.end());
    return nlohmann::json::parse(RunCommand(args).out)["targets"][0]["verdict"];
  };
  CHECK(verdict_at(largest) != "oom");
  CHECK(verdict_at(largest + 1) == "oom");
  CHECK(verdict_at(target["max_batch_fits"]) == "fits");
  if (target["series"]["targets"][0]["verdict"] != "fits") CHECK(target.contains("expandable"));
}

TEST_CASE("no batch is larger than an epoch") {
  const Model model;
  const CommandResult found =
      RunCommand({"max-batch", model.path(), "--lengths", "uniform:64..64", "--steps", "5",
                  "--samples", "12", "-g", "t4", "-f", "json"});
  CHECK(nlohmann::json::parse(found.out)["targets"][0]["max_batch"] == 12);
}

TEST_CASE("what pads would make too long for the model is no part of the answer") {
  const TempFolder folder;
  const std::string model = folder.Write("net.onnxtxt", R"(
    <ir_version: 8, opset_import: ["" : 17]>
    net (float[N, S, 64] x) => (float[N, S, 64] y)
    < float[100, 64] table = ["location": "none"], float[64, 64] w = ["location": "none"],
      int64[1] zero = {0} > {
      length = Shape <start = 1, end = 2> (x)
      p = Slice (table, zero, length, zero)
      a = Add (x, p)
      y = MatMul (a, w)
    })");
  const CommandResult told =
      RunCommand({model, "-b", "2", "--lengths", "uniform:90..100", "--steps", "5", "-f", "json"});
  CHECK(told.code == 0);
  for (const auto& change : nlohmann::json::parse(told.out)["changes"]) {
    CHECK(change.value("flags", "") != "--pad-to 64");
  }
}

TEST_CASE("what goes with no lengths is refused") {
  const Model model;
  const auto error_of = [&](const Args& args) { return model.Run(args).err; };
  CHECK(error_of({"--steps", "4"}).find("--lengths uniform:64..512") != std::string::npos);
  CHECK(error_of({"--lengths", "T=uniform:1..2"}).find("free are S") != std::string::npos);
  CHECK(error_of({"--lengths", "uniform:1..2", "-p", "fp32,bf16"}).find("found a list") !=
        std::string::npos);
  CHECK(error_of({"--lengths", "uniform:1..2", "-f", "csv"}).find("text or json") !=
        std::string::npos);
  CHECK(error_of({"--lengths", "uniform:1..2", "--tokens", "9"}).find("without --batch") !=
        std::string::npos);
  const auto error_without = [&](Args args) {
    args.insert(args.begin(), {"max-batch", model.path(), "--lengths", "uniform:1..2"});
    return RunCommand(args).err;
  };
  CHECK(error_without({}).find("expected a card for the largest batch") != std::string::npos);
  CHECK(error_without({"-g", "t4", "--solve", "S"}).find("--solve: expected without --lengths") !=
        std::string::npos);
}

}  // namespace onnxfit::lengths_command_test
