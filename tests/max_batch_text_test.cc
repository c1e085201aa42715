#include <doctest/doctest.h>

#include <sstream>

#include "estimator/base/bytes.h"
#include "estimator/report/estimate.h"
#include "estimator/report/layout.h"
#include "estimator/report/max_batch.h"
#include "tests/sample_estimate.h"

namespace onnxfit::max_batch_text_test {
namespace {

constexpr char kFullTwice[] =
    "the card is full twice in 10 steps: cached memory goes back first, which takes time";

Target SampleTarget() {
  Target target = {.name = "t4", .device = DefaultDevice(), .total_bytes = 16 * kGiB};
  target.device.context = {kGiB, kGiB, kGiB, Basis::kMeasured};
  return target;
}

Judgement TightJudgement() {
  Judgement j;
  j.verdict = Verdict::kTight;
  j.usable_bytes = 16 * kGiB;
  j.used_bytes = 15 * kGiB;
  j.low_bytes = 14 * kGiB;
  j.high_bytes = 17 * kGiB;
  j.retries = 2;
  j.reasons = {kFullTwice};
  return j;
}

Judgement OomJudgement() {
  Judgement j = TightJudgement();
  j.verdict = Verdict::kOom;
  j.used_bytes = j.low_bytes = j.high_bytes = 20 * kGiB;
  j.reasons = {};
  j.fails_at = Failure{3, Phase::kBackward, "/conv1/Conv", 299 * kMiB, 12 * kMiB, 300 * kMiB};
  return j;
}

MaxBatchRow SampleRow() {
  MaxBatchRow row;
  row.found.target = SampleTarget();
  row.found.batch = 100;
  row.found.judgement = TightJudgement();
  row.found.next = BatchOutcome{104, OomJudgement()};
  row.found.luckier = {106, 109};
  row.found.fixed_bytes = 300 * kMiB;
  row.found.per_sample_bytes = 150 * kMiB;
  return row;
}

MaxBatchAnswer SampleAnswer() { return {.model = "lenet.onnx", .rows = {SampleRow()}}; }

Judgement FittingJudgement() {
  Judgement j = TightJudgement();
  j.verdict = Verdict::kFits;
  j.used_bytes = 12 * kGiB;
  j.reasons = {};
  return j;
}

// Two cards, and a run of each: of one 80 FITS and 100 is TIGHT, of the other nothing runs.
MaxBatchAnswer SampleTable() {
  MaxBatchAnswer answer = SampleAnswer();
  answer.rows[0].found.fitting = BatchOutcome{80, FittingJudgement()};
  answer.rows.push_back(SampleRow());
  MaxBatchRow& row = answer.rows.back();
  row.found.target.name = "k520";
  row.found.batch = 0;
  row.found.judgement = OomJudgement();
  return answer;
}

std::string Report(const MaxBatchAnswer& answer, const TextOptions& options = {}) {
  return "\n" + ToText(answer, options);
}

// Without the words on its columns.
std::string Table(const MaxBatchAnswer& answer) {
  const std::string text = Report(answer);
  return text.substr(0, text.find("\nfits: "));
}

std::string Unwrapped(const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) line.append(word).append(" ");
  return line;
}

std::string Json(const MaxBatchAnswer& answer) {
  return "\n" + ToJson(answer, {.version = "1.2.3", .rows = 0});
}

// The estimate's report up to where the bytes go.
std::string Head(const Estimate& estimate, const TextOptions& options = {}) {
  const std::string text = "\n" + ToText(estimate, options);
  return text.substr(0, text.find("\nWhere the bytes go"));
}

Estimate EstimateOn(const Judgement& judgement) {
  Estimate estimate = SampleEstimate();
  estimate.targets = {{SampleTarget(), judgement}};
  return estimate;
}

void CheckWidth(const std::string& text, bool is_ascii) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(Columns(line) <= 80);
    CHECK(!line.ends_with(' '));
    if (!is_ascii) continue;
    for (const char c : line) CHECK(static_cast<unsigned char>(c) < 0x80);
  }
}

}  // namespace

TEST_CASE("the largest batch of one card: its verdict first, then what is around it") {
  CHECK(Report(SampleAnswer()) == R"(
batch 100 on t4: TIGHT, 15.0 GiB of 16.0 GiB, 93.8%
lenet.onnx, fp32, adamw
  - the card is full twice in 10 steps: cached memory goes back first, which
    takes time

Around it
  - 98 to 103 run; 104 fails in step 3, backward, at /conv1/Conv: 300.00 MiB
    asked, 12.0 MiB short
  - 106, 109 run by luck: 104 does not
  - tensors take about 300.0 MiB + 150.0 MiB a sample
)");
  CHECK(ToText(SampleAnswer(), {.quiet = true}) ==
        "batch 100 on t4: TIGHT, 15.0 GiB of 16.0 GiB, 93.8%\n");
  const std::string color = ToText(SampleAnswer(), {.color = true});
  CHECK(color.find("batch 100 on t4: \033[33mTIGHT\033[0m, 15.0 GiB") == 0);
}

TEST_CASE("the batch to take is one that fits; what is tight stands beside it") {
  MaxBatchAnswer answer = SampleAnswer();
  MaxBatch& found = answer.rows[0].found;
  found.fitting = BatchOutcome{80, FittingJudgement()};
  const std::string text = Report(answer);
  CHECK(text.starts_with(R"(
batch 80 on t4: FITS, 12.0 GiB of 16.0 GiB, 75.0%
lenet.onnx, fp32, adamw

Around it
  - up to 100 it is TIGHT: the card is full twice in 10 steps: cached memory
    goes back first, which takes time
  - 98 to 103 run; 104 fails)"));
  const std::string json = Json(answer);
  CHECK(json.find("\"max_batch\": 100") != std::string::npos);
  CHECK(json.find("\"fitting\": {\n        \"batch\": 80,\n        \"used_bytes\": 12884901888") !=
        std::string::npos);
  found.fitting = BatchOutcome{0, {}};
  CHECK(Report(answer).starts_with("\nbatch 100 on t4: TIGHT"));
  CHECK(Report(answer).find("Around it\n  - no batch FITS\n  - 98 to 103 run;") !=
        std::string::npos);
}

TEST_CASE("what the file leaves open is said beside the batch and the verdict") {
  MaxBatchAnswer answer = SampleAnswer();
  answer.rows[0].found.guessed_batch = 120;
  answer.rows[0].found.reading = "--in-place known";
  CHECK(Report(answer).find(R"(
  - up to 120 run if what is likely is so; what --in-place known says is left
    open, and the worse is taken
)") != std::string::npos);
  CHECK(Json(answer).find("\"guessed\": {\n        \"max_batch\": 120,\n        \"reading\": "
                          "\"--in-place known\"") != std::string::npos);
  Judgement judgement = TightJudgement();
  judgement.reading = "--in-place known";
  judgement.guessed = GuessedUse{Verdict::kFits, 14 * kGiB};
  CHECK(Head(EstimateOn(judgement)).find(R"(
  - what --in-place known says is left open, and the worse is taken: 1.00 GiB
    more than is likely (14.0 GiB, FITS)
)") != std::string::npos);
  judgement.guessed->used_bytes = 16 * kGiB;  // TIGHT is worse than FITS, whatever it takes
  CHECK(Head(EstimateOn(judgement)).find(R"(
  - what --in-place known says is left open, and the worse is taken: not what is
    likely (16.0 GiB, FITS)
)") != std::string::npos);
}

// What it then takes has nothing to do with what an endless card would give.
TEST_CASE("on a full card no range of an endless one is told") {
  Estimate estimate = EstimateOn(TightJudgement());
  estimate.range = {{17 * kGiB, "--dropout 0"}, {18 * kGiB, "--dropout 0.1"}};
  const std::string text = ToText(estimate, {});
  CHECK(text.find("nvidia-smi will show about 15360 MiB.") != std::string::npos);
}

// As an estimate says it.
TEST_CASE("what is assumed and what is warned of stand below") {
  MaxBatchAnswer answer = SampleAnswer();
  answer.rows[0].estimate = SampleEstimate();
  answer.rows[0].estimate->assumptions = {"the file stores its parameters in float16"};
  answer.rows[0].estimate->warnings = {{"OF101", "8 batch norms are put back"}};
  CHECK(Report(answer).ends_with(R"(
Assumptions
  - the file stores its parameters in float16

Warnings
  OF101  8 batch norms are put back
)"));
  CHECK(ToMarkdown(answer).ends_with(R"(

### Assumptions

- the file stores its parameters in float16

### Warnings

- **OF101** 8 batch norms are put back
)"));
  CHECK(ToText(answer, {.quiet = true}).find("Assumptions") == std::string::npos);
}

TEST_CASE("rows of a table share what is said of the file") {
  MaxBatchAnswer answer = SampleTable();
  answer.rows[0].remarks = {{"it stores float16", "2.00 MiB more are kept"}, {{"OF104", "to 80"}}};
  answer.rows[1].remarks = {{"it stores float16", "7.00 MiB more are kept"}, {{"OF104", "to 9"}}};
  answer.warnings = {{"OF201", "no kernels for: k520"}};
  CHECK(Report(answer).ends_with(R"(
Assumptions
  - it stores float16
  - 2.00–7.00 MiB more are kept

Warnings
  OF104  to 9–80
  OF201  no kernels for: k520
)"));
  CHECK(Json(answer).find("\"assumptions\": [\n        \"it stores float16\",") !=
        std::string::npos);
  CHECK(Json(answer).find("\"code\": \"OF104\",\n          \"text\": \"to 9\"") !=
        std::string::npos);
}

TEST_CASE("what grows faster than the batch is on no line") {
  MaxBatchAnswer answer = SampleAnswer();
  answer.rows[0].found.fixed_bytes = answer.rows[0].found.per_sample_bytes = 0;
  answer.rows[0].found.grows_faster = true;
  CHECK(
      Unwrapped(Report(answer))
          .find("- tensors grow faster than the batch: a sample takes more, the more there are") !=
      std::string::npos);
}

TEST_CASE("no batch, one more and --max have words of their own") {
  MaxBatchAnswer answer = SampleAnswer();
  MaxBatch& found = answer.rows[0].found;
  found.luckier.resize(1);
  CHECK(Report(answer).find("  - 106 runs by luck: 104 does not\n") != std::string::npos);
  found.luckier = {106, 107, 108, 109, 110, 111, 112, 113, 114, 115};
  CHECK(Report(answer).find("113 and 2 more run by luck: 104 does") != std::string::npos);
  found.luckier_stride = 7;
  CHECK(Unwrapped(Report(answer)).find("2 more run by luck (one in 7 was tried): 104 does not") !=
        std::string::npos);
  found.luckier_stride = 1;
  found.batch = 30;
  found.next->batch = 31;
  CHECK(Report(answer).find("  - 30 runs; 31 fails in step 3") != std::string::npos);
  found.batch = 200;
  found.next->batch = 205;
  CHECK(Report(answer).find("  - 196 to 204 run; 205 fails in step 3") != std::string::npos);
  found.batch = 13020;
  found.next->batch = 13281;
  CHECK(Unwrapped(Report(answer))
            .find("- 12760 to 13280 run (one in 4 was tried); 13281 fails in step 3") !=
        std::string::npos);
  found.batch = 200;
  found.is_limited = true;
  found.next = {};
  found.luckier = {};
  CHECK(Report(answer).find("Around it\n  - larger ones run, too: --max ends it\n  - tensors") !=
        std::string::npos);
  answer = SampleAnswer();
  answer.rows[0].found.batch = 0;
  answer.rows[0].found.judged_batch = 1;
  answer.rows[0].found.judgement = OomJudgement();
  answer.rows[0].found.luckier = {};
  answer.rows[0].found.next->batch = 1;
  CHECK(Report(answer) == R"(
OOM on t4, not even batch 1: 20.0 GiB of 16.0 GiB
lenet.onnx, fp32, adamw
  - fails in step 3, backward, at /conv1/Conv: 300.00 MiB asked, 12.0 MiB short

Around it
  - tensors take about 300.0 MiB + 150.0 MiB a sample
)");
}

TEST_CASE("several cards are a table, the run beside them where it varies") {
  CHECK(Report(SampleTable()) == R"(
batch 0 to 80 FITS, 0 to 100 run, by card (2 of them)
lenet.onnx, fp32, adamw

  card    usable  fits  runs      used   share  verdict
  t4    16.0 GiB    80   100  12.0 GiB   75.0%  FITS
  k520  16.0 GiB  none  none  20.0 GiB  125.0%  OOM

fits: the batch to take. runs: the largest that runs, TIGHT above what fits.
used, share and verdict are of the batch to take, or of the least that fails.
)");
  MaxBatchAnswer runs = SampleTable();
  runs.rows[1].settings.precision = Precision::kBf16;
  runs.rows[1].dims = {{"seq", 512}};
  CHECK(Table(runs) == R"(
batch 0 to 80 FITS, 0 to 100 run, by run and card
lenet.onnx

  card  run                     usable  fits  runs      used   share  verdict
  t4    fp32, adamw           16.0 GiB    80   100  12.0 GiB   75.0%  FITS
  k520  seq=512, bf16, adamw  16.0 GiB  none  none  20.0 GiB  125.0%  OOM
)");
  CHECK(ToText(SampleTable(), {.quiet = true}) ==
        "batch 0 to 80 FITS, 0 to 100 run, by card (2 of them)\n");
  for (MaxBatchRow& row : runs.rows) row.dims = {{"height", 640}, {"width", 640}};
  runs.rows.push_back(runs.rows[0]);
  CHECK(Table(runs) == R"(
batch 0 to 80 FITS, 0 to 100 run, by run and card
lenet.onnx

  card    usable  fits  runs      used   share  verdict
  height=640, width=640, fp32, adamw
  t4    16.0 GiB    80   100  12.0 GiB   75.0%  FITS
  height=640, width=640, bf16, adamw
  k520  16.0 GiB  none  none  20.0 GiB  125.0%  OOM
  height=640, width=640, fp32, adamw
  t4    16.0 GiB    80   100  12.0 GiB   75.0%  FITS
)");
}

TEST_CASE("a table says where nothing fits, nothing runs, and what is TIGHT does not count") {
  MaxBatchAnswer answer = SampleTable();
  answer.rows[0].found.fitting = BatchOutcome{0, {}};
  CHECK(Table(answer) == R"(
no batch FITS, 0 to 100 run, by card (2 of them)
lenet.onnx, fp32, adamw

  card    usable  fits  runs      used   share  verdict
  t4    16.0 GiB  none   100  15.0 GiB   93.8%  TIGHT
  k520  16.0 GiB  none  none  20.0 GiB  125.0%  OOM
)");
  answer.rows[0] = answer.rows[1];
  CHECK(Report(answer).starts_with("\nno batch runs, by card (2 of them)\n"));
  answer.is_of_ranks = true;
  CHECK(Report(answer).starts_with("\nno batch runs, on all cards (2 kinds of them)\n"));
  answer.is_of_ranks = false;
  answer = SampleTable();
  for (MaxBatchRow& row : answer.rows) {
    row.found.batch = 80;
    row.found.judgement = FittingJudgement();
    row.found.fitting.reset();
  }
  CHECK(Report(answer).starts_with("\nbatch 80 FITS, by card (2 of them)\n"));
  answer.is_strict = true;
  CHECK(Report(answer) == R"(
batch 80 FITS, by card (2 of them)
lenet.onnx, fp32, adamw

  card    usable  fits      used  share  verdict
  t4    16.0 GiB    80  12.0 GiB  75.0%  FITS
  k520  16.0 GiB    80  12.0 GiB  75.0%  FITS
)");
  CHECK(ToMarkdown(answer).find("| card | usable | fits | used | share |") != std::string::npos);
  CHECK(ToCsv(answer).find(",80,12884901888,fits,80,12884901888\n") != std::string::npos);
}

TEST_CASE("the same as Markdown and CSV") {
  CHECK("\n" + ToMarkdown(SampleTable()) == R"(
Largest batch of `lenet.onnx`, fp32, adamw

| card | usable | fits | runs | used | share | verdict |
| --- | ---: | ---: | ---: | ---: | ---: | --- |
| t4 | 16.0 GiB | 80 | 100 | 12.0 GiB | 75.0% | FITS |
| k520 | 16.0 GiB | none | none | 20.0 GiB | 125.0% | OOM |

fits: the batch to take. runs: the largest that runs, TIGHT above what fits.
used, share and verdict are of the batch to take, or of the least that fails.
)");
  const std::string page = ToMarkdown(SampleAnswer());
  CHECK(page.starts_with("Largest batch of `lenet.onnx`, fp32, adamw\n\n| card |"));
  CHECK(page.find("\n\n- the card is full twice in 10 steps") != std::string::npos);
  CHECK(page.find("\n- tensors take about 300.0 MiB + 150.0 MiB a sample\n") != std::string::npos);
  MaxBatchAnswer advised = SampleAnswer();
  Advice advice;
  advice.flags = "-p bf16";
  advice.cost = "all in bf16";
  advice.max_batch = 199;
  advised.rows[0].advice = {advice};
  CHECK(ToMarkdown(advised).ends_with("\n- `-p bf16`: up to batch 199; all in bf16\n"));
  CHECK("\n" + ToCsv(SampleTable()) == R"(
model,run,precision,optimizer,mode,gpu,memory_bytes,max_batch,used_bytes,verdict,fitting_batch,fitting_used_bytes
lenet.onnx,"fp32, adamw",fp32,adamw,train,t4,17179869184,100,16106127360,tight,80,12884901888
lenet.onnx,"fp32, adamw",fp32,adamw,train,k520,17179869184,0,21474836480,oom,0,
)");
}

TEST_CASE("JSON has the fields of the contract") {
  CHECK(Json(SampleAnswer()) == R"(
{
  "schema": 1,
  "version": "1.2.3",
  "model": {
    "path": "lenet.onnx"
  },
  "framework": {
    "name": "pytorch-2.11"
  },
  "targets": [
    {
      "gpu": "t4",
      "memory_bytes": 17179869184,
      "max_batch": 100,
      "settings": {
        "dims": {},
        "precision": "fp32",
        "optimizer": "adamw",
        "mode": "train"
      },
      "target": {
        "gpu": "t4",
        "capacity_bytes": 17179869184,
        "used_bytes": 16106127360,
        "low": 15032385536,
        "high": 18253611008,
        "verdict": "tight",
        "share": 0.9375,
        "retries": 2,
        "reasons": [
          "the card is full twice in 10 steps: cached memory goes back first, which takes time"
        ]
      },
      "fitting": {
        "batch": 0
      },
      "luckier": [
        106,
        109
      ],
      "fixed_bytes": 314572800,
      "per_sample_bytes": 157286400,
      "next": {
        "batch": 104,
        "verdict": "oom",
        "short_bytes": 12582912,
        "fails_at": {
          "step": 3,
          "phase": "backward",
          "node": "/conv1/Conv",
          "asked_bytes": 313524224,
          "tried_bytes": 314572800,
          "short_bytes": 12582912
        }
      }
    }
  ]
}
)");
  MaxBatchAnswer answer = SampleAnswer();
  answer.rows[0].found.is_limited = true;
  answer.rows[0].estimate = SampleEstimate();
  answer.rows[0].found.judgement = FittingJudgement();
  CHECK(Json(answer).find("\"fitting\": {\n        \"batch\": 100,\n        \"used_bytes\": "
                          "12884901888") != std::string::npos);
  CHECK(Json(answer).find("\"limited\": true") != std::string::npos);
  CHECK(Json(answer).find("\"estimate\": {") != std::string::npos);
}

TEST_CASE("an estimate with a card begins with the verdict") {
  CHECK(Head(EstimateOn(TightJudgement())) == R"(
TIGHT on t4: 15.0 GiB of 16.0 GiB, 93.8% (14.0–17.0 GiB)
  - the card is full twice in 10 steps: cached memory goes back first, which
    takes time
models/lenet.onnx, batch 32, fp32, adamw
)");
  Judgement fits = TightJudgement();
  fits.verdict = Verdict::kFits;
  fits.reasons = {};
  fits.low_bytes = fits.high_bytes = fits.used_bytes;
  fits.processes = 1;
  fits.copies = 1;
  Estimate estimate = EstimateOn(fits);
  estimate.targets[0].target.shares = {{"operating system", kGiB, kGiB / 2, kGiB, Basis::kAssumed}};
  CHECK(Head(estimate) == R"(
FITS on t4: 15.0 GiB of 16.0 GiB, 93.8%
  - 1.00 GiB of the card go to the operating system first (assumed)
  - one process of this fits, a context each; or one copy of the model in one
    process, asked in turn
models/lenet.onnx, batch 32, fp32, adamw
)");
  estimate.device_bytes = fits.used_bytes;  // the same: said beside the model, too
  CHECK(Head(estimate).ends_with(", batch 32, fp32, adamw: 15.0 GiB on the device\n"));
  Judgement oom = OomJudgement();
  oom.processes = 0;
  CHECK(Head(EstimateOn(oom)) == R"(
OOM on t4: 20.0 GiB of 16.0 GiB, 125.0%
  - fails in step 3, backward, at /conv1/Conv: 300.00 MiB asked, 12.0 MiB short
models/lenet.onnx, batch 32, fp32, adamw
)");
  oom.fails_at = Failure{0, Phase::kSetup, "", 300 * kMiB, 0, 300 * kMiB};
  CHECK(Head(EstimateOn(oom)).find("\n  - fails before the first step: 300.00 MiB asked\n") !=
        std::string::npos);
  CHECK(ToText(EstimateOn(fits), {.quiet = true}) == "FITS on t4: 15.0 GiB of 16.0 GiB, 93.8%\n");
}

TEST_CASE("a range whose ends read alike is none") {
  Judgement judgement = TightJudgement();
  judgement.low_bytes = judgement.used_bytes;
  judgement.high_bytes = judgement.used_bytes + 1;
  CHECK(ToText(EstimateOn(judgement), {.quiet = true}) ==
        "TIGHT on t4: 15.0 GiB of 16.0 GiB, 93.8%\n");
}

TEST_CASE("each verdict has its colour, the ASCII report no dash") {
  struct Row {
    Verdict verdict;
    const char* expected;
  };
  const Row rows[] = {{Verdict::kFits, "\033[32mFITS\033[0m on t4: "},
                      {Verdict::kTight, "\033[33mTIGHT\033[0m on t4: "},
                      {Verdict::kOom, "\033[31mOOM\033[0m on t4: "}};
  for (const Row& row : rows) {
    Judgement judgement = TightJudgement();
    judgement.verdict = row.verdict;
    CHECK(ToText(EstimateOn(judgement), {.color = true}).find(row.expected) == 0);
  }
  CHECK(Head(EstimateOn(TightJudgement()), {.ascii = true}).find("93.8% (14.0-17.0 GiB)\n") !=
        std::string::npos);
}

TEST_CASE("JSON of an estimate has a target for each card") {
  Judgement judgement = OomJudgement();
  judgement.processes = 0;
  judgement.copies = 0;
  Estimate estimate = EstimateOn(judgement);
  estimate.targets[0].target.shares = {{"others", 7, 5, 9, Basis::kAssumed}};
  const std::string json = ToJson(estimate, {.version = "1.2.3", .rows = 0});
  const size_t begin = json.find("  \"targets\": [");
  REQUIRE(begin != std::string::npos);
  const std::string expected = R"(  "targets": [
    {
      "gpu": "t4",
      "capacity_bytes": 17179869184,
      "used_bytes": 21474836480,
      "low": 21474836480,
      "high": 21474836480,
      "verdict": "oom",
      "share": 1.25,
      "retries": 2,
      "fails_at": {
        "step": 3,
        "phase": "backward",
        "node": "/conv1/Conv",
        "asked_bytes": 313524224,
        "tried_bytes": 314572800,
        "short_bytes": 12582912
      },
      "processes": 0,
      "copies": 0,
      "shares": [
        {
          "what": "others",
          "bytes": 7,
          "low": 5,
          "high": 9,
          "basis": "assumed"
        }
      ]
    }
  ])";
  CHECK(json.substr(begin, expected.size()) == expected);
}

TEST_CASE("long names of cards are cut, runs without room for a column are whole above the rows") {
  MaxBatchAnswer answer = SampleTable();
  for (MaxBatchRow& row : answer.rows) {
    row.found.target.name = "jetson-agx-orin-32gb with 24.0 GiB";
    row.settings.precision = Precision::kAmpBf16;
    row.dims = {{"sequence_length", 512}};
  }
  answer.rows[1].settings.precision = Precision::kFp32;
  CHECK(Table(answer) == R"(
batch 0 to 80 FITS, 0 to 100 run, by run and card
lenet.onnx

  card                             usable  fits  runs      used   share  verdict
  sequence_length=512, amp-bf16, adamw
  jetson-agx-ori… with 24.0 GiB  16.0 GiB    80   100  12.0 GiB   75.0%  FITS
  sequence_length=512, fp32, adamw
  jetson-agx-ori… with 24.0 GiB  16.0 GiB  none  none  20.0 GiB  125.0%  OOM
)");
  answer.rows.resize(1);
  answer.rows[0].found.fitting.reset();
  answer.rows[0].found.batch = 472887;
  CHECK(ToText(answer, {.quiet = true}) ==
        "batch 472887 on jetson-agx-or… with 24.0 GiB: TIGHT, 15.0 GiB of 16.0 GiB, 93.8%\n");
  Estimate estimate = EstimateOn(TightJudgement());
  estimate.targets[0].target.name = "jetson-agx-orin-32gb with 24.0 GiB";
  CHECK(ToText(estimate, {.quiet = true}) ==
        "TIGHT on jetson-agx-o…with 24.0 GiB: 15.0 GiB of 16.0 GiB, 93.8% (14.0–17.0 GiB)\n");
}

TEST_CASE("no report of a card is wider than 80 columns, ASCII has no other letter") {
  const std::string names[] = {"", std::string(300, 'n'), "größe", "\033[2J\n",
                               std::string(100, ' ')};
  for (const std::string& name : names) {
    CAPTURE(name);
    MaxBatchAnswer answer = SampleAnswer();
    answer.model = name;
    MaxBatchRow& row = answer.rows[0];
    row.dims = {{name, 1}};
    row.found.target.name = name;
    row.found.batch = int64_t{1} << 40;
    row.found.target.shares = {{"of others", int64_t{1} << 62, 0, int64_t{1} << 62, {}}};
    row.found.next->judgement.fails_at->node = name;
    row.found.judgement.reasons = {name};
    row.estimate = SampleEstimate();
    row.estimate->warnings = {{"OF203", name}};
    MaxBatchAnswer table = answer;
    table.rows.push_back(row);
    table.rows.back().settings.precision = Precision::kAmpBf16;
    Estimate estimate = EstimateOn(row.found.judgement);
    estimate.targets[0].target = row.found.target;
    for (const bool is_ascii : {false, true}) {
      const TextOptions options = {.ascii = is_ascii};
      CheckWidth(ToText(answer, options), is_ascii);
      CheckWidth(ToText(table, options), is_ascii);
      CheckWidth(ToText(estimate, options), is_ascii);
    }
  }
}

}  // namespace onnxfit::max_batch_text_test
