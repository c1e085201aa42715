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

TEST_CASE("what goes with no lengths is refused") {
  const Model model;
  const auto error_of = [&](const Args& args) { return model.Run(args).err; };
  CHECK(error_of({"--steps", "4"}).find("--lengths uniform:64..512") != std::string::npos);
  CHECK(error_of({"--lengths", "T=uniform:1..2"}).find("free are S") != std::string::npos);
  CHECK(error_of({"--lengths", "uniform:1..2", "-p", "fp32,bf16"}).find("found a list") !=
        std::string::npos);
  CHECK(error_of({"--lengths", "uniform:1..2", "-f", "csv"}).find("text or json") !=
        std::string::npos);
}

}  // namespace onnxfit::lengths_command_test
