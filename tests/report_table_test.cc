// Tables over combinations, in all formats, made by hand.
#include <doctest/doctest.h>

#include <sstream>

#include "estimator/base/bytes.h"
#include "estimator/report/estimate.h"
#include "estimator/report/layout.h"

namespace onnxfit::report_table_test {
namespace {

JudgedTarget Judged(const std::string& name, Verdict verdict, int64_t used) {
  JudgedTarget judged;
  judged.target.name = name;
  judged.judgement.verdict = verdict;
  judged.judgement.usable_bytes = 1000 * kMiB;
  judged.judgement.used_bytes = used * kMiB;
  return judged;
}

// Answers as MakeEstimate would give them, of `device` MiB.
Estimate Answered(const EstimateRequest& request, int64_t device) {
  Estimate e;
  e.model.path = "models/net.onnx";
  e.settings = request.settings;
  e.batch = request.binding.batch.value_or(1);
  e.dims = request.binding.dims;
  e.peak = {(device - 30) * kMiB + 1, (device - 20) * kMiB, (device - 10) * kMiB};
  e.device_bytes = device * kMiB;
  e.breakdown = {{"activations", (device - 10) * kMiB, Basis::kModelled, {}, {}},
                 {"context", 10 * kMiB, Basis::kMeasured, {}, {}}};
  e.assumptions = {"the card is an A100"};
  return e;
}

// Two batches and two precisions; the last one cannot be.
SweepAnswer Sample() {
  SweepAnswer answer;
  answer.model = "models/net.onnx";
  answer.sweep = {.batches = {8, 16}, .precisions = {Precision::kFp32, Precision::kAmpBf16}};
  int64_t device = 100;
  EstimateRequest base;
  base.binding.dims["seq"] = 128;
  for (const EstimateRequest& request : Combinations(base, answer.sweep)) {
    answer.rows.push_back({request, Answered(request, device), ""});
    device += 100;
  }
  answer.rows[3].estimate.reset();
  answer.rows[3].error = "node 'a': expected 3, found 4";
  return answer;
}

SweepAnswer WithTargets(const std::vector<std::string>& names) {
  SweepAnswer answer = Sample();
  const Verdict verdicts[] = {Verdict::kFits, Verdict::kTight, Verdict::kOom};
  for (size_t i = 0; i < 3; ++i) {
    for (const std::string& name : names) {
      answer.rows[i].estimate->targets.push_back(
          Judged(name, verdicts[i], 500 + 300 * static_cast<int64_t>(i)));
    }
  }
  return answer;
}

std::string Text(const SweepAnswer& answer, const TextOptions& options = {}) {
  return "\n" + ToText(answer, options);
}

void CheckWidth(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(Columns(line) <= 80);
    CHECK(!line.ends_with(' '));
  }
}

}  // namespace

TEST_CASE("a table begins with its answer, and its rows say what varies") {
  CHECK(Text(Sample()) == R"(
models/net.onnx, 2 batches × 2 precisions: device 100.0 to 300.0 MiB
with seq=128, adamw

  batch  precision  allocated   reserved     device
      8  fp32        80.0 MiB   90.0 MiB  100.0 MiB
      8  amp-bf16   180.0 MiB  190.0 MiB  200.0 MiB
     16  fp32       280.0 MiB  290.0 MiB  300.0 MiB
     16  amp-bf16   no answer: node 'a': expected 3, found 4

nvidia-smi will show about what device says.

Assumptions
  - the card is an A100
)");
  CHECK(ToText(Sample(), {.quiet = true}) ==
        "models/net.onnx, 2 batches × 2 precisions: device 100.0 to 300.0 MiB\n");
}

TEST_CASE("with a target there are verdicts, on the first line and in each row") {
  const std::string text = Text(WithTargets({"t4"}));
  CHECK(text.substr(0, text.find("\n\nnvidia")) == R"(
1 OOM, 1 TIGHT, 1 FITS: models/net.onnx, 2 batches × 2 precisions
device 100.0 to 300.0 MiB
with seq=128, adamw

  batch  precision  allocated   reserved     device  t4
      8  fp32        80.0 MiB   90.0 MiB  100.0 MiB  FITS   50.0%
      8  amp-bf16   180.0 MiB  190.0 MiB  200.0 MiB  TIGHT  80.0%
     16  fp32       280.0 MiB  290.0 MiB  300.0 MiB  OOM   110.0%
     16  amp-bf16   no answer: node 'a': expected 3, found 4)");
  SweepAnswer fits = WithTargets({"t4"});
  fits.rows.resize(1);
  CHECK(Text(fits).find("\nFITS in all 1: models/net.onnx") == 0);
}

TEST_CASE("targets that 80 columns do not hold get a line each") {
  const std::string text = Text(WithTargets({"t4", "a100-80gb", "h100"}));
  CheckWidth(text);
  CHECK(text.find(R"(
  batch  precision  allocated   reserved     device
      8  fp32        80.0 MiB   90.0 MiB  100.0 MiB  t4         FITS   50.0%
                                                     a100-80gb  FITS   50.0%
                                                     h100       FITS   50.0%
      8  amp-bf16   180.0 MiB  190.0 MiB  200.0 MiB  t4         TIGHT  80.0%
)") != std::string::npos);
}

TEST_CASE("what varies goes to a line of its own where there is no other room") {
  SweepAnswer answer = WithTargets({"t4", "a100-80gb"});
  for (const char* name : {"sequence_length", "past_sequence_length", "encoder_length"}) {
    answer.sweep.dims.push_back({name, {1, 2}});
    for (SweepRow& row : answer.rows) row.request.binding.dims[name] = 1;
  }
  const std::string text = Text(answer);
  CheckWidth(text);
  CHECK(text.find(R"(
  batch 8, sequence_length 1, past_sequence_length 1, encoder_length 1, amp-bf16
  180.0 MiB  190.0 MiB  200.0 MiB  t4         TIGHT  80.0%
                                   a100-80gb  TIGHT  80.0%
)") != std::string::npos);
  CHECK(text.find("    no answer: node 'a': expected 3, found 4\n") != std::string::npos);
}

TEST_CASE("what all rows share is said once, the rest with its rows") {
  SweepAnswer answer = Sample();
  answer.rows[3] = {answer.rows[3].request, Answered(answer.rows[3].request, 400), ""};
  const auto warn = [&](size_t row, const std::string& text) {
    answer.rows[row].estimate->warnings.push_back({"OF102", text});
  };
  for (const size_t row : {0U, 1U, 2U, 3U}) warn(row, "all");
  for (const size_t row : {1U, 3U}) warn(row, "lower");
  for (const size_t row : {2U, 3U}) warn(row, "large");
  for (const size_t row : {0U, 3U}) warn(row, "diagonal");
  for (const size_t row : {0U, 1U, 2U}) warn(row, "all but one");
  warn(2, "single");
  const std::string text = Text(answer);
  CHECK(text.substr(text.find("\nWarnings")) == R"(
Warnings
  OF102  all
  OF102  batch 8; fp32 and 1 more row: diagonal
  OF102  batch 8; fp32 and 2 more rows: all but one
  OF102  amp-bf16: lower
  OF102  batch 16: large
  OF102  batch 16; fp32: single
)");
  for (const char letter : std::string("abcdefghi")) warn(0, std::string("more ") + letter);
  CHECK(Text(answer).find("\n  - 8 more of some rows (-v shows all)\n") != std::string::npos);
  const std::string verbose = Text(answer, {.verbose = true});
  CHECK(verbose.find("more i\n") != std::string::npos);
  CHECK(verbose.find("-v shows") == std::string::npos);
}

TEST_CASE("sentences that differ in their numbers alone are told as one") {
  SweepAnswer answer = Sample();
  const auto assume = [&](size_t row, const std::string& text) {
    answer.rows[row].estimate->assumptions.push_back(text);
  };
  assume(0, "4 dropouts before fc1: 900.0 KiB more (--dropout 0, if there is none)");
  assume(1, "4 dropouts before fc1: 1.20 MiB more (--dropout 0, if there is none)");
  assume(2, "4 dropouts before fc1: 20.0 MiB more (--dropout 0, if there is none)");
  assume(0, "changed to 9");
  assume(1, "changed to 10");
  assume(2, "fc2 alone");
  assume(2, "twice 1");
  assume(2, "twice 2");
  const std::string text = Text(answer);
  CHECK(text.substr(text.find("\nAssumptions")) == R"(
Assumptions
  - the card is an A100
  - 4 dropouts before fc1: 900.0 KiB–20.0 MiB more (--dropout 0, if there is
    none)
  - batch 8: changed to 9–10
  - batch 16; fp32: fc2 alone
  - batch 16; fp32: twice 1
  - batch 16; fp32: twice 2
)");
}

TEST_CASE("a table trusts no name, and has an ASCII form") {
  for (const char* name : {"a\nb\033[2J|`*", "模型模型模型模型模型模型模型模型模型模型模型", "é"}) {
    SweepAnswer answer = WithTargets({std::string(60, 'x'), name});
    answer.model = name + std::string(100, 'm');
    answer.sweep.dims = {{name, {1, 2}}, {std::string(200, 'd'), {1}}};
    answer.rows[3].error = name + std::string(200, 'e');
    for (SweepRow& row : answer.rows) {
      for (const SweptDim& dim : answer.sweep.dims) row.request.binding.dims[dim.name] = 1;
    }
    CheckWidth(ToText(answer));
    const std::string ascii = ToText(answer, {.ascii = true});
    CheckWidth(ascii);
    for (const std::string& text :
         {ascii, ToMarkdown(answer, {.ascii = true}), ToCsv(answer, {.ascii = true})}) {
      for (const char c : text) CHECK((c == '\n' || (c >= ' ' && c <= '~')));
    }
  }
}

TEST_CASE("a table as Markdown") {
  CHECK("\n" + ToMarkdown(WithTargets({"t4"})) == R"(
**1 OOM, 1 TIGHT, 1 FITS**: `models/net.onnx`, 2 batches × 2 precisions, device 100.0 to 300.0 MiB

with seq=128, adamw

| batch | precision | allocated | reserved | device | t4 | no answer |
| ---: | --- | ---: | ---: | ---: | --- | --- |
| 8 | fp32 | 80.0 MiB | 90.0 MiB | 100.0 MiB | FITS 50.0% | |
| 8 | amp-bf16 | 180.0 MiB | 190.0 MiB | 200.0 MiB | **TIGHT** 80.0% | |
| 16 | fp32 | 280.0 MiB | 290.0 MiB | 300.0 MiB | **OOM** 110.0% | |
| 16 | amp-bf16 | | | | | node 'a': expected 3, found 4 |

nvidia-smi will show about what device says.

### Assumptions

- the card is an A100
)");
}

TEST_CASE("a table as CSV has a column a figure and exact bytes") {
  CHECK("\n" + ToCsv(WithTargets({"t4"})) == R"(
model,batch,dim_seq,precision,optimizer,mode,exact_bytes,allocated_bytes,reserved_bytes,device_bytes,activations_bytes,context_bytes,t4_verdict,t4_used_bytes,error
models/net.onnx,8,128,fp32,adamw,train,73400321,83886080,94371840,104857600,94371840,10485760,fits,524288000,
models/net.onnx,8,128,amp-bf16,adamw,train,178257921,188743680,199229440,209715200,199229440,10485760,tight,838860800,
models/net.onnx,16,128,fp32,adamw,train,283115521,293601280,304087040,314572800,304087040,10485760,oom,1153433600,
models/net.onnx,16,128,amp-bf16,adamw,train,,,,,,,,,"node 'a': expected 3, found 4"
)");
}

TEST_CASE("a table as JSON is an array of what one estimate gives") {
  const SweepAnswer answer = Sample();
  const JsonOptions options = {.version = "1.2.3"};
  std::string expected = "[\n";
  for (size_t i = 0; i < 3; ++i) {
    const std::string one = ToJson(*answer.rows[i].estimate, options);
    expected += one.substr(0, one.size() - 1) + ",\n";
  }
  CHECK(ToJson(answer, options) == expected + R"({
  "schema": 1,
  "version": "1.2.3",
  "model": {
    "path": "models/net.onnx"
  },
  "settings": {
    "batch": 16,
    "dims": {
      "seq": 128
    },
    "precision": "amp-bf16",
    "optimizer": "adamw",
    "mode": "train",
    "loss": "cross-entropy",
    "framework": "pytorch-2.11"
  },
  "error": "node 'a': expected 3, found 4"
}
]
)");
}

}  // namespace onnxfit::report_table_test
