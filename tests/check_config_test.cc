#include "cli/check_config.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>

#include "cli/config_file.h"
#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "tests/temp_folder.h"

namespace onnxfit::check_config_test {
namespace {

namespace fs = std::filesystem;

// The checks of `toml` in a folder that has models/lenet.onnx, models/vgg.onnx, models/w[1].onnx.
std::vector<Check> Read(const std::string& toml) {
  const TempFolder folder;
  fs::create_directory(folder.Path("models"));
  for (const char* name : {"models/lenet.onnx", "models/vgg.onnx", "models/w[1].onnx"}) {
    folder.Write(name, "x");
  }
  CheckConfig config = ReadCheckConfig(folder.Write("c.toml", toml));
  for (Check& check : config.checks) {
    if (!check.model.empty()) check.model = fs::relative(check.model, folder.Path("")).string();
  }
  return config.checks;
}

Check ReadCheck(const std::string& toml) {
  const std::vector<Check> checks = Read(toml);
  REQUIRE(checks.size() == 1);
  return checks[0];
}

std::vector<std::string> NamesIn(const std::string& toml) {
  std::vector<std::string> names;
  for (const Check& check : Read(toml)) {
    names.push_back(check.error.empty() ? check.name : check.name + ": " + check.error);
  }
  return names;
}

// A check of one model with these further lines, from line 3.
std::string WithLines(const std::string& lines) {
  return "[[check]]\nmodel = \"models/lenet.onnx\"\n" + lines;
}

// What the whole file's Error says after its path.
std::string ErrorOf(const std::string& toml) {
  const TempFolder folder;
  const std::string path = folder.Write("c.toml", toml);
  try {
    ReadCheckConfig(path);
  } catch (const Error& error) {
    const std::string text = error.what();
    return text.starts_with(path + ": ") ? text.substr(path.size() + 2) : text;
  }
  return "";
}

}  // namespace

TEST_CASE("a check of one model has its name and all defaults") {
  const Check check = ReadCheck(WithLines(""));
  CHECK(check.name == "lenet");
  CHECK(check.model == "models/lenet.onnx");
  CHECK(check.line == 1);
  CHECK(check.error.empty());
  CHECK(!check.request.binding.batch);
  CHECK(check.request.settings.precision == Precision::kFp32);
  CHECK(check.request.settings.device.name == DefaultDevice().name);
  CHECK(check.request.targets.empty());
  CHECK(check.budgets.empty());
  CHECK(check.max_increase.text == "0");
  CHECK(check.max_increase.bytes == 0);
  CHECK(check.level == Level::kError);
  CHECK(check.lock == LockUse::kRequired);
  CHECK(!check.is_strict);
  CHECK(check.message.empty());
}

TEST_CASE("[defaults] say at which level a check that is gone fails") {
  struct Row {
    const char* defaults;
    std::optional<Level> gone;
  };
  const Row rows[] = {{"", Level::kError},
                      {"lock = \"required\"", Level::kError},
                      {"level = \"warn\"", Level::kWarn},
                      {"lock = \"optional\"", std::nullopt},
                      {"lock = \"none\"", std::nullopt}};
  for (const Row& row : rows) {
    CAPTURE(row.defaults);
    const TempFolder folder;
    const std::string path =
        folder.Write("c.toml", fmt::format("[defaults]\n{}\n{}", row.defaults, WithLines("")));
    CHECK(ReadCheckConfig(path).gone == row.gone);
  }
}

TEST_CASE("every key reaches its place") {
  const Check check = ReadCheck(WithLines(R"(
name = "first"
batch = 32
dims = { seq = 512, "a b" = 3 }
shapes = { ids = "2x512", mask = [2, 1] }
precision = "amp-bf16"
optimizer = "sgd"
optimizer-impl = "fused"
clip-grad = true
ema = false
mode = "train"
loss = "causal-lm"
loss-output = "logits"
labels = "y"
batch-norm = "keep"
dropout = [0.1, "classifier=0.5"]
assume = { conv-bias = true, tied-head = false }
attention = "eager"
in-place = "never"
out-of-place = "*/Add"
zero-grad = "keep"
hold-outputs = true
drop-batch = true
same-batch = true
prefetch = 2
accumulate = 4
freeze = ["layer1.*", "*.bias"]
note = ["a guess"]
framework = "pytorch-2.11"
alloc-conf = "expandable_segments:True"
overhead = "450MiB"
max-increase = "2.5%"
level = "warn"
lock = "optional"
strict = true
message = "Ask the vision team."
)"));
  const EstimateRequest& request = check.request;
  CHECK(check.error.empty());
  CHECK(check.name == "first");
  CHECK(request.binding.batch == 32);
  CHECK(request.binding.dims == std::map<std::string, int64_t>{{"seq", 512}, {"a b", 3}});
  CHECK(request.binding.inputs == std::map<std::string, Dims>{{"ids", {2, 512}}, {"mask", {2, 1}}});
  CHECK(request.settings.precision == Precision::kAmpBf16);
  CHECK(request.settings.optimizer == Optimizer::kSgd);
  CHECK(request.settings.optimizer_impl == OptimizerImpl::kFused);
  CHECK(request.settings.clip_grad);
  CHECK(!request.settings.ema);
  CHECK(request.settings.loss == Loss::kCausalLm);
  CHECK(request.settings.loss_output == "logits");
  CHECK(request.settings.labels == "y");
  CHECK(request.settings.batch_norm == BatchNormUse::kKeep);
  CHECK(request.settings.dropout == 0.1);
  CHECK(request.settings.placed_dropouts == std::vector<PlacedDropout>{{"classifier", 0.5}});
  CHECK(request.settings.assumed.conv_bias);
  CHECK(request.settings.assumed.tied_head == false);
  CHECK(request.settings.attention == AttentionUse::kEager);
  CHECK(request.settings.in_place == InPlaceUse::kNever);
  CHECK(request.assumptions == std::vector<std::string>{"a guess"});
  CHECK(request.settings.out_of_place == std::vector<std::string>{"*/Add"});
  CHECK(request.settings.loop.zero_grad == ZeroGrad::kKeep);
  CHECK(request.settings.loop.hold_outputs);
  CHECK(request.settings.loop.drop_batch);
  CHECK(request.settings.loop.same_batch);
  CHECK(request.settings.loop.prefetch == 2);
  CHECK(request.settings.loop.accumulate == 4);
  CHECK(request.settings.freeze == std::vector<std::string>{"layer1.*", "*.bias"});
  CHECK(request.settings.framework.name == "pytorch-2.11");
  CHECK(request.alloc_conf.text == "expandable_segments:True");
  CHECK(request.overhead_bytes == 450 * kMiB);
  CHECK(check.max_increase.text == "2.5%");
  CHECK(check.max_increase.share == 0.025);
  CHECK(check.max_increase.bytes == 0);
  CHECK(check.level == Level::kWarn);
  CHECK(check.lock == LockUse::kOptional);
  CHECK(check.is_strict);
  CHECK(check.message == "Ask the vision team.");
}

TEST_CASE("budgets are sizes, cards and shares of cards") {
  const Check check = ReadCheck(WithLines(R"(
budget = ["16GiB", "t4", "80% of Tesla T4", "1.5GB", 17179869184, "3060"]
reserve = "1GiB"
overhead = "300MiB"
)"));
  CHECK(check.error.empty());
  REQUIRE(check.budgets.size() == 6);
  CHECK(check.budgets[0].text == "16GiB");
  CHECK(check.budgets[0].bytes == 16 * kGiB);
  CHECK(!check.budgets[0].target);
  CHECK(check.budgets[1].target->name == "t4");
  CHECK(check.budgets[1].share == 1);
  CHECK(!check.budgets[1].bytes);
  CHECK(check.budgets[2].text == "80% of Tesla T4");
  CHECK(check.budgets[2].target->name == "t4");
  CHECK(check.budgets[2].share == 0.8);
  CHECK(check.budgets[3].bytes == 1'500'000'000);
  CHECK(check.budgets[4].bytes == 16 * kGiB);
  CHECK(check.budgets[5].target->name == "rtx3060");
  const std::vector<Target>& targets = check.request.targets;
  REQUIRE(targets.size() == 3);  // t4, t4 again, rtx3060
  CHECK(targets[2].name == "rtx3060");
  CHECK(check.request.settings.device.name == targets[0].device.name);
  CHECK(targets[0].usable_bytes() == targets[0].total_bytes - kGiB);
  CHECK(targets[0].capacity_bytes() == targets[0].usable_bytes() - 300 * kMiB);
  CHECK(ReadCheck(WithLines("budget = \"l4\"")).request.targets[0].name == "l4");
}

TEST_CASE("what an increase may be") {
  struct Row {
    const char* lines;
    int64_t bytes;
    double share;
  };
  const Row rows[] = {{"max-increase = 0", 0, 0},
                      {"max-increase = \"0\"", 0, 0},
                      {"max-increase = \"64MiB\"", 64 * kMiB, 0},
                      {"max-increase = \"0%\"", 0, 0},
                      {"max-increase = \"150%\"", 0, 1.5},
                      {"max-increase = 2097152", 2 * kMiB, 0}};
  for (const Row& row : rows) {
    CAPTURE(row.lines);
    const Check check = ReadCheck(WithLines(row.lines));
    CHECK(check.error.empty());
    CHECK(check.max_increase.bytes == row.bytes);
    CHECK(check.max_increase.share == row.share);
  }
}

TEST_CASE("names say what can vary") {
  struct Row {
    std::string toml;
    std::vector<std::string> names;
  };
  const Row rows[] = {
      {WithLines("batch = [8]\nprecision = [\"bf16\"]"), {"lenet"}},
      {WithLines("batch = [8, 16]"), {"lenet[batch 8]", "lenet[batch 16]"}},
      {WithLines("batch = \"8:24:8\""), {"lenet[batch 8]", "lenet[batch 16]", "lenet[batch 24]"}},
      {WithLines("batch = 8\ndims = { seq = [128, 512], past = 4 }"),
       {"lenet[seq=128]", "lenet[seq=512]"}},
      {WithLines("dims = { seq = [128, 512], past = \"4,8\" }"),
       {"lenet[seq=128, past=4]", "lenet[seq=128, past=8]", "lenet[seq=512, past=4]",
        "lenet[seq=512, past=8]"}},
      {WithLines("precision = [\"fp32\", \"bf16\"]\noptimizer = [\"sgd\", \"adamw\"]"),
       {"lenet[fp32, sgd]", "lenet[fp32, adamw]", "lenet[bf16, sgd]", "lenet[bf16, adamw]"}},
      {"[[check]]\nname = \"zoo\"\nmodel = \"models/[lv]*.onnx\"\nbatch = [1, 2]",
       {"zoo[models/lenet.onnx, batch 1]", "zoo[models/lenet.onnx, batch 2]",
        "zoo[models/vgg.onnx, batch 1]", "zoo[models/vgg.onnx, batch 2]"}},
      {"[[check]]\nname = \"zoo\"\nmodel = \"**/len*\"", {"zoo[models/lenet.onnx]"}},
      {"[[check]]\nname = \"zoo\"\nmodel = [\"models/vgg.onnx\", \"models/[lv]*.onnx\"]",
       {"zoo[models/vgg.onnx]", "zoo[models/lenet.onnx]"}},
      {"[[check]]\nname = \"zoo\"\nmodel = [\"models/none.onnx\"]", {"zoo[models/none.onnx]"}},
      {"[[check]]\nmodel = \"models/w[1].onnx\"", {"w[1]"}},
      {"[[check]]\nmodel = \"a.b/net.train.onnx\"", {"net.train"}},
      {"[[check]]\nmodel = \"a.onnxtxt\"\n[[check]]\nmodel = \"b.bin\"", {"a", "b.bin"}},
      {"check = [{ model = \"a.onnx\" }, { model = \"b.onnx\" }]", {"a", "b"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.toml);
    CHECK(NamesIn(row.toml) == row.names);
  }
}

TEST_CASE("combinations are run as they are named") {
  const std::vector<Check> checks =
      Read(WithLines("batch = [8, 16]\nprecision = [\"fp32\", \"bf16\"]\nbudget = \"t4\""));
  REQUIRE(checks.size() == 4);
  CHECK(checks[1].name == "lenet[batch 8, bf16]");
  CHECK(checks[1].request.binding.batch == 8);
  CHECK(checks[1].request.settings.precision == Precision::kBf16);
  CHECK(checks[2].name == "lenet[batch 16, fp32]");
  CHECK(checks[2].request.binding.batch == 16);
  for (const Check& check : checks) {
    CHECK(check.budgets.size() == 1);
    CHECK(check.request.targets.size() == 1);
    CHECK(check.line == 1);
  }
}

TEST_CASE("a check's key replaces that of the defaults") {
  const std::vector<Check> checks = Read(R"([defaults]
precision = "amp-bf16"
dims = { seq = 128 }
budget = ["t4", "l4"]
level = "warn"
freeze = ["a", "b"]
overhead = "1GiB"

[[check]]
model = "a.onnx"

[[check]]
model = "b.onnx"
precision = "fp32"
dims = { past = 4 }
budget = "8GiB"
freeze = []
)");
  REQUIRE(checks.size() == 2);
  CHECK(checks[0].request.settings.precision == Precision::kAmpBf16);
  CHECK(checks[0].request.binding.dims == std::map<std::string, int64_t>{{"seq", 128}});
  CHECK(checks[0].budgets.size() == 2);
  CHECK(checks[0].level == Level::kWarn);
  CHECK(checks[0].request.settings.freeze.size() == 2);
  CHECK(checks[1].request.settings.precision == Precision::kFp32);
  CHECK(checks[1].request.binding.dims == std::map<std::string, int64_t>{{"past", 4}});
  CHECK(checks[1].budgets.size() == 1);
  CHECK(checks[1].request.targets.empty());
  CHECK(checks[1].level == Level::kWarn);
  CHECK(checks[1].request.settings.freeze.empty());
  CHECK(checks[1].request.overhead_bytes == kGiB);
}

TEST_CASE("what is wrong in one check says where, what was expected and what was found") {
  struct Row {
    std::string lines;  // from line 3
    const char* error;
  };
  const Row rows[] = {
      {"zzz = 3\nalpha = 4", "line 3: unknown key 'zzz' (try: onnxfit --help)"},
      {"bach = 3", "line 3: unknown key 'bach' (did you mean 'batch'?)"},
      {"batch_size = 3", "line 3: unknown key 'batch_size' (try: onnxfit --help)"},
      {"optimizer_impl = \"fused\"",
       "line 3: unknown key 'optimizer_impl' (did you mean 'optimizer-impl'?)"},
      {"gpu = \"t4\"", "line 3: unknown key 'gpu' (did you mean 'budget'?)"},
      {"dim = { seq = 3 }", "line 3: unknown key 'dim' (did you mean 'dims'?)"},
      {"batch = \"x\"", "line 3: batch: expected a whole number from 1, found 'x'"},
      {"batch = \"\"", "line 3: batch: expected a whole number from 1, found nothing"},
      {"batch = 2.0", "line 3: batch: expected a whole number from 1, found '2.0'"},
      {"batch = -1", "line 3: batch: expected a whole number from 1, found '-1'"},
      {"batch = true", "line 3: batch: expected a whole number from 1, found 'true'"},
      {"batch = 1979-05-27", "line 3: batch: expected a whole number from 1, found '1979-05-27'"},
      {"batch = [8, 8]", "line 3: batch: '8' is given twice"},
      {"batch = []", "line 3: batch: expected a value or a list of them, found an empty list"},
      {"batch = [[1]]", "line 3: batch: expected a value or a list of them, found a list"},
      {"batch = { a = 1 }", "line 3: batch: expected a value or a list of them, found a table"},
      {"mode = [\"train\"]", "line 3: mode: expected one value, found a list"},
      {"precision = \"fp23\"",
       "line 3: precision: expected fp32, amp-fp16, amp-bf16, bf16, fp16 or fp64, found 'fp23' "
       "(did you mean 'fp32'?)"},
      {"ema = \"\"", "line 3: ema: expected yes or no, found nothing"},
      {"ema = \"maybe\"", "line 3: ema: expected yes or no, found 'maybe'"},
      {"dims = 3", "line 3: dims: expected NAME=N such as seq=512, found '3'"},
      {"dims = { seq = \"x\" }", "line 3: dims seq: expected a whole number from 1, found 'x'"},
      {"dims = { seq = [] }",
       "line 3: dims seq: expected a value or a list of them, found an empty list"},
      {"[check.dims]\nseq = { a = 1 }",
       "line 3: dims seq: expected a value or a list of them, found a table"},
      {"shapes = { ids = \"2xq\" }",
       "line 3: shapes ids: expected sizes such as 2x512, found '2xq'"},
      {"freeze = { a = true }",
       "line 3: freeze: expected a value or a list of them, found a table"},
      {"assume = { bias = true }",
       "line 3: assume: expected conv-bias=yes, in-place-dropout=yes, tied-head=yes, or the same "
       "with no, found 'bias=yes'"},
      {"budget = \"tt4\"",
       "line 3: budget: expected a size such as 16GiB or a card, found 'tt4' (did you mean t4?) "
       "(try: onnxfit gpus)"},
      {"budget = \"auto\"",
       "line 3: budget: expected a card's name, found 'auto': a check must be the same on every "
       "machine (try: onnxfit gpus --detect)"},
      {"budget = \"80% of auto\"",
       "line 3: budget: expected a card's name, found '80% of auto': a check must be the same on "
       "every machine (try: onnxfit gpus --detect)"},
      {"budget = \"-1GiB\"",
       "line 3: budget: expected a size such as 16GiB or a card, found '-1GiB' (try: onnxfit "
       "gpus)"},
      {"budget = \"\"",
       "line 3: budget: expected a size such as 16GiB or a card, found nothing (try: onnxfit "
       "gpus)"},
      {"budget = 16", "line 3: budget: expected a size, found '16' (try: 8GiB or 512MiB)"},
      {"budget = \"0\"", "line 3: budget: expected a size above 0, such as 8GiB, found '0'"},
      {"budget = \"80%\"",
       "line 3: budget: expected up to 100% of a card, such as 80% of t4, found '80%'"},
      {"budget = \"101% of t4\"",
       "line 3: budget: expected up to 100% of a card, such as 80% of t4, found '101% of t4'"},
      {"budget = \"0% of t4\"",
       "line 3: budget: expected up to 100% of a card, such as 80% of t4, found '0% of t4'"},
      {"budget = \"80% of tt4\"",
       "line 3: budget: expected a card, found 'tt4' (did you mean t4?) (try: onnxfit gpus)"},
      {"budget = [\"t4\", \"t4\"]", "line 3: budget: 't4' is given twice"},
      {"budget = { t4 = 1 }",
       "line 3: budget: expected a size, a card or a list of them, found a table"},
      {"budget = \"t4\"\noverhead = \"64GiB\"",
       "line 3: t4: expected more than the 64.0 GiB that the context takes, found 14.6 GiB (try: "
       "--overhead SIZE)"},
      {"reserve = \"some\"",
       "line 3: reserve: expected a size, found 'some' (try: 8GiB or 512MiB)"},
      {"max-increase = -1",
       "line 3: max-increase: expected 0, a size such as 64MiB or a share such as 2%, found '-1'"},
      {"max-increase = \"-2%\"",
       "line 3: max-increase: expected 0, a size such as 64MiB or a share such as 2%, found '-2%'"},
      {"max-increase = \"2x%\"",
       "line 3: max-increase: expected a share up to 1000%, such as 2%, found '2x%'"},
      {"max-increase = \"1e300%\"",
       "line 3: max-increase: expected a share up to 1000%, such as 2%, found '1e300%'"},
      {"max-increase = 5",
       "line 3: max-increase: expected a size, found '5' (try: 8GiB or 512MiB)"},
      {"max-increase = []", "line 3: max-increase: expected a size or a share, found a list"},
      {"level = \"warning\"", "line 3: level: expected error, warn or off, found 'warning'"},
      {"lock = false", "line 3: lock: expected required, optional or none, found 'false'"},
      {"strict = 2", "line 3: strict: expected yes or no, found '2'"},
      {"name = 3", "line 3: name: expected a string, found an integer"},
      {"name = \"\"", "line 3: name: expected a name of one line, found nothing"},
      {"name = \"a\\nb\"", "line 3: name: expected a name of one line, found 'a?b'"},
      {"message = []", "line 3: message: expected a string, found a list"},
      {"alloc-conf = \"max_split_size_mb:1\"",
       "line 3: alloc-conf max_split_size_mb: expected a whole number from 20, found '1'"},
      {"batch = \"1:10000:1\"\ndims = { s = [1, 2] }",
       "line 1: expected at most 10000 models and combinations, found more (try: shorter lists)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.lines);
    const Check check = ReadCheck(WithLines(row.lines));
    CHECK(check.error == row.error);
    CHECK(fmt::format("line {}: ", check.line) == check.error.substr(0, 8));
    CHECK(check.model == "models/lenet.onnx");
  }
}

TEST_CASE("a model that is wrong, or none") {
  struct Row {
    const char* toml;
    const char* name;
    const char* error;
  };
  const Row rows[] = {
      {"[[check]]\nbatch = 3", "check",
       "line 1: model: expected the path of a model, found no such key"},
      {"[[check]]\nname = \"a\"\nmodel = \"\"", "a",
       "line 3: model: expected the path of a model, a glob or a list of them, found nothing"},
      {"[[check]]\nname = \"a\"\nmodel = [\"x.onnx\", \"\"]", "a",
       "line 3: model: expected the path of a model, a glob or a list of them, found nothing"},
      {"[[check]]\nname = \"a\"\nmodel = []", "a",
       "line 3: model: expected the path of a model, a glob or a list of them, found an empty "
       "list"},
      {"[[check]]\nname = \"a\"\nmodel = 3", "a",
       "line 3: model: expected the path of a model, a glob or a list of them, found an integer"},
      {"[[check]]\nname = \"a\"\nmodel = \"modles/*.onnx\"", "a",
       "line 3: model: expected files, found none that match 'modles/*.onnx'"},
      {"[[check]]\nmodel = \"models/*.onnx\"", "*",
       "line 2: name: expected beside a model that is a glob or a list, found no such key"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.toml);
    const Check check = ReadCheck(row.toml);
    CHECK(check.name == row.name);
    CHECK(check.error == row.error);
  }
}

TEST_CASE("a wrong check does not stop the others, and has a name of its own") {
  CHECK(NamesIn(R"([[check]]
model = "a.onnx"
[[check]]
name = "a"
model = "b.onnx"
[[check]]
batch = 3
[[check]]
batch = 4
[[check]]
name = "b"
model = "b.onnx"
batch = 0
[[check]]
model = "b.onnx"
[[check]]
model = "c.onnx"
)") == std::vector<std::string>{
           "a", "a (line 4): line 4: name: 'a' is given twice, first at line 1",
           "check: line 6: model: expected the path of a model, found no such key",
           "check (line 8): line 8: model: expected the path of a model, found no such key",
           "b: line 13: batch: expected a whole number from 1, found '0'",
           "b (line 14): line 14: name: 'b' is given twice, first at line 10", "c"});
}

TEST_CASE("what is wrong with the file is an error of the file") {
  struct Row {
    const char* toml;
    const char* error;
  };
  const Row rows[] = {
      {"", "a config file was expected, the file is empty"},
      {"# nothing\n", "expected a [[check]], found none (try: onnxfit init)"},
      {"[defaults]\nbatch = 3\n", "expected a [[check]], found none (try: onnxfit init)"},
      {"[[check]]\nmodel = \"a.onnx\nbatch = 2\n",
       "line 2, column 16: parsing string: unescaped control characters other than TAB (U+0009) "
       "are explicitly prohibited"},
      {"[[check]]\nmax-increase = 2%\n",
       "line 2, column 17: parsing decimal integer: expected digit, saw '%'"},
      {"[{a = 1}]\n",
       "line 1, column 2: parsing key: expected bare key starting character or string delimiter, "
       "saw '{'"},
      {"\xff = 1", "line 1, column 1: Encountered invalid utf-8 sequence"},
      {"[[checks]]\nmodel = \"a.onnx\"",
       "line 1: expected [[check]] or [defaults], found 'checks' (did you mean 'check'?)"},
      {"\n[default]\n",
       "line 2: expected [[check]] or [defaults], found 'default' (did you mean 'defaults'?)"},
      {"batch = 3\n[[check]]\nmodel = \"a.onnx\"",
       "line 1: expected [[check]] or [defaults], found 'batch'"},
      {"[check]\nmodel = \"a.onnx\"",
       "line 1: check: expected [[check]], a list of tables, found a table"},
      {"check = [1]", "line 1: check: expected a table, found an integer"},
      {"defaults = 3", "line 1: defaults: expected a table, found an integer"},
      {"[defaults]\nprecison = \"bf16\"",
       "line 2: unknown key 'precison' (did you mean 'precision'?)"},
      {"[defaults]\nmodel = \"a.onnx\"",
       "line 2: model: expected in a [[check]], found in [defaults]"},
      {"[defaults]\n\nprefetch = -1\n",
       "line 3: prefetch: expected a whole number from 0 to 1024, found '-1'"},
      {"[defaults]\nbudget = \"tt4\"",
       "line 2: budget: expected a size such as 16GiB or a card, found 'tt4' (did you mean t4?) "
       "(try: onnxfit gpus)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.toml);
    CHECK(ErrorOf(row.toml) == row.error);
  }
  CHECK_THROWS_WITH(ReadCheckConfig("no/c.toml"),
                    "no/c.toml: a config file was expected, there is no such file");
}

TEST_CASE("models are found from the folder of the config") {
  const TempFolder folder;
  const fs::path before = fs::current_path();
  fs::create_directories(folder.Path("sub/models"));
  folder.Write("sub/models/a.onnx", "x");
  folder.Write("sub/c.toml", "[[check]]\nname = \"m\"\nmodel = [\"models/*\", \"../b.onnx\"]\n");
  const auto models_of = [](const std::string& path) {
    std::vector<std::string> models;
    for (const Check& check : ReadCheckConfig(path).checks) models.push_back(check.model);
    return models;
  };
  fs::current_path(folder.Path("sub"));
  CHECK(models_of("c.toml") == std::vector<std::string>{"models/a.onnx", "../b.onnx"});
  CHECK(models_of("./c.toml") == std::vector<std::string>{"models/a.onnx", "../b.onnx"});
  fs::current_path(folder.Path(""));
  CHECK(models_of("sub/c.toml") == std::vector<std::string>{"sub/models/a.onnx", "sub/../b.onnx"});
  CHECK(ReadCheckConfig("sub/c.toml").checks[0].name == "m[models/a.onnx]");
  fs::current_path(before);
  CHECK(models_of(folder.Path("sub/c.toml"))[0] == folder.Path("sub/models/a.onnx"));
}

TEST_CASE("the environment has no say in checks") {
  setenv("ONNXFIT_BATCH", "16", 1);
  setenv("ONNXFIT_STRICT", "1", 1);
  const Check check = ReadCheck(WithLines(""));
  unsetenv("ONNXFIT_BATCH");
  unsetenv("ONNXFIT_STRICT");
  CHECK(!check.request.binding.batch);
  CHECK(!check.is_strict);
}

// What toml++ 3.3 makes of them is undefined.
TEST_CASE("letters beyond ASCII are in strings and comments alone") {
  const auto is_read = [](const char* text) {
    try {
      ParseToml(text, "x.toml");
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  for (const char* text :
       {"á", "a = á", "a = 1 á", "á = 1", "a = \"b\" á", "a = \"\"\"\nb\"\"\"\n[é]"}) {
    CAPTURE(text);
    CHECK_FALSE(is_read(text));
  }
  for (const char* text : {"# á", "a = 'é'", "\"é\" = 1", "a = \"\\\"é\"  # á",
                           "\xEF\xBB\xBF a = 1", "a = \"\"\"\n\"é\"\n\"\"\""}) {
    CAPTURE(text);
    CHECK(is_read(text));
  }
}

TEST_CASE("what is written for TOML is what TOML reads") {
  for (const char* text : {"", "a", "a b", "a\"b\\c", "tab\tnewline\n\x7f", "naïve", "a.b", "-"}) {
    CAPTURE(text);
    const TomlNode file = ParseToml(TomlKey(text) + " = " + TomlString(text), "x.toml");
    CHECK(file.children.at(0).key == text);
    CHECK(file.children.at(0).text == text);
  }
  CHECK(TomlKey("a-B_9") == "a-B_9");
  CHECK(TomlKey("a.b") == "\"a.b\"");
}

}  // namespace onnxfit::check_config_test
