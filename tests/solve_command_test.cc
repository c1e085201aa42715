// `onnxfit max-batch --solve`.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/lines.h"
#include "tests/run_command.h"
#include "tests/temp_folder.h"

namespace onnxfit::solve_command_test {
namespace {

using Args = std::vector<std::string>;

constexpr const char* kText = R"(
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

// A linear layer that adapters stand beside, before the head.
constexpr const char* kLinear = R"(
  <ir_version: 8, opset_import: ["" : 17]>
  net (float[N, 64] x) => (float[N, 64] y)
  < float[64, 64] "fc.weight" = ["location": "none"],
    float[64, 64] "head.weight" = ["location": "none"] > {
    ["/fc/MatMul"] a = MatMul (x, "fc.weight")
    b = Relu (a)
    ["/head/MatMul"] y = MatMul (b, "head.weight")
  })";

constexpr const char* kFixedImage = R"(
  <ir_version: 8, opset_import: ["" : 17], producer_name: "pytorch">
  net (float[N, 3, 64, 64] x) => (float[N, 8, 64, 64] y)
  < float[8, 3, 3, 3] w = ["location": "none"] > { y = Conv <pads = [1, 1, 1, 1]> (x, w) })";

class Model {
 public:
  explicit Model(const char* text) : path_(folder_.Write("net.onnxtxt", text)) {}

  CommandResult Solve(const Args& more) const { return Run("max-batch", more); }
  CommandResult Run(const std::string& command, const Args& more) const {
    Args args = {command, path_};
    args.insert(args.end(), more.begin(), more.end());
    return RunCommand(args);
  }
  nlohmann::json Json(Args more) const {
    more.insert(more.end(), {"-f", "json"});
    return nlohmann::json::parse(Solve(more).out);
  }

 private:
  TempFolder folder_;
  std::string path_;
};

bool Says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("an estimate runs at the answer, and fails at the first above it") {
  const Model model(kText);
  for (const char* card : {"t4", "rtx3060"}) {
    CAPTURE(card);
    const auto row = model.Json({"--solve", "S", "-b", "8", "-g", card})["rows"][0];
    const auto code_at = [&](const nlohmann::json& size) {
      const std::string dim = "S=" + std::to_string(size.get<int64_t>());
      return model.Run("estimate", {"--dim", dim, "-b", "8", "-g", card}).code;
    };
    CHECK(code_at(row["fits"]["size"]) == 0);
    CHECK(code_at(row["runs"]["size"]) == 0);
    CHECK(code_at(row["next"]["size"]) == 1);
    CHECK(row["one_more_bytes"]["last"] > row["one_more_bytes"]["half"]);
  }
}

TEST_CASE("one answer is a page whose first line says it") {
  const Model model(kText);
  const CommandResult result = model.Solve({"--solve", "S", "-b", "8", "-g", "t4"});
  CHECK(result.code == 0);
  CHECK(result.out.starts_with("S "));
  CHECK(Says(result.out.substr(0, result.out.find('\n')), " on t4: FITS, "));
  CHECK(Says(result.out, "faster than in a line"));
  CHECK(Says(result.out, "is the first above it that does not run: it fails in"));
  CheckPage(result.out);
  const CommandResult line = model.Solve({"--solve", "S", "-b", "8", "-g", "t4", "-q"});
  CHECK(line.out == result.out.substr(0, result.out.find('\n') + 1));
}

TEST_CASE("a list of batches and several cards are a row each") {
  const Model model(kText);
  const Args args = {"--solve", "S", "-b", "1,4,16", "-g", "t4", "-g", "a100-80gb"};
  const auto rows = model.Json(args)["rows"];
  REQUIRE(rows.size() == 6);
  for (size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i]["batch"] == (std::vector{1, 4, 16})[i / 2]);
    if (i >= 2) CHECK(rows[i]["runs"]["size"] < rows[i - 2]["runs"]["size"]);
  }
  const auto alone = model.Json({"--solve", "S", "-b", "4", "-g", "a100-80gb"})["rows"][0];
  CHECK(alone["runs"] == rows[3]["runs"]);
  CHECK(alone["next"] == rows[3]["next"]);
  const CommandResult text = model.Solve(args);
  CHECK(text.code == 0);
  CHECK(Says(text.out, "batch  card "));
  CheckPage(text.out);
}

TEST_CASE("no size that runs is an answer with exit 1") {
  const Model model(kText);
  const Args args = {"--solve", "S", "--memory", "8MiB", "--overhead", "0"};
  const CommandResult result = model.Solve(args);
  CHECK(result.code == 1);
  CHECK(result.out.starts_with("OOM on 8.00 MiB, not even S 1: "));
}

TEST_CASE("a batch is held beside --solve alone") {
  const Model model(kText);
  CHECK(model.Json({"--solve", "S", "-g", "t4"})["rows"][0]["batch"] == 1);
  CHECK(model.Solve({"-b", "8", "-g", "t4"}).code == 2);
}

TEST_CASE("a rank is solved beside adapters") {
  const Model model(kLinear);
  const Args args = {"--solve", "rank", "--lora", "8:fc",       "--memory",
                     "1GiB",    "-b",   "4",      "--overhead", "0"};
  const auto row = model.Json(args)["rows"][0];
  CHECK(row["runs"]["size"] > 8);
  CHECK(model.Solve({"--solve", "rank", "-g", "t4"}).err.find("(try: --lora 8 --solve rank)") !=
        std::string::npos);
}

TEST_CASE("what cannot be solved for is refused, with what can") {
  const Model text(kText);
  const auto error_of = [&](const Args& args) { return text.Solve(args).err; };
  CHECK(Says(error_of({"--solve", "seq", "-g", "t4"}),
             "--solve seq: no size that is free has this name, there is 'S' (try: --solve S)"));
  CHECK(Says(error_of({"--solve", "image", "-g", "t4"}), "(try: --solve S)"));
  CHECK(Says(error_of({"--solve", "S", "--dim", "S=8", "-g", "t4"}),
             "--solve S: looks for that size, expected no --dim S=8"));
  CHECK(Says(error_of({"--solve", "S", "-f", "csv", "-g", "t4"}), "(try: --format json)"));
  CHECK(Says(error_of({"--solve", "S"}), "--gpu: expected a card, found none"));
  CHECK(Says(error_of({"--solve", "S", "-g", "t4", "--runtime", "onnxruntime"}), "--runtime"));
  CHECK(text.Solve({"--solve", "S", "-g", "t4", "-q"}).code == 0);
  const Model image(kFixedImage);
  CHECK(Says(image.Solve({"--solve", "image", "-g", "t4"}).err,
             "--solve image: the file leaves no size free but the batch (try: an export with "
             "dynamic_shapes=({0: \"N\", 2: \"height\", 3: \"width\"},)"));
}

}  // namespace onnxfit::solve_command_test
