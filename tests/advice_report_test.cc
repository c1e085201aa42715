// Advice as text and as JSON.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "estimator/report/json_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/sentences.h"

namespace onnxfit::advice_report_test {
namespace {

Judgement Of(Verdict verdict, int64_t used_bytes) {
  return {.verdict = verdict, .used_bytes = used_bytes};
}

std::vector<Advice> AtBatchSample() {
  return {{.change = "fused optimizer",
           .flags = "--optimizer-impl fused",
           .cost = "the same update in one kernel",
           .judgement = Of(Verdict::kTight, 10 * kGiB),
           .saved_bytes = 2 * kGiB},
          {.change = "all but fc frozen",
           .flags = "--freeze 'conv*' --freeze 'layer*' --freeze 'bn*'",
           .cost = "8.0% of the parameters are trained",
           .cost_class = CostClass::kTrainsLess,
           .judgement = Of(Verdict::kFits, 1 * kGiB),
           .saved_bytes = 11 * kGiB},
          {.change = "an optimizer with less state",
           .flags = "-o sgd",
           .cost = "another learning rate and more steps; worse for transformers",
           .cost_class = CostClass::kTuning,
           .effect = Effect::kSome,
           .judgement = Of(Verdict::kOom, 12 * kGiB),
           .saved_bytes = 300 * kMiB},
          {.change = "mixed precision",
           .flags = "-p amp-bf16",
           .cost = "little risk",
           .cost_class = CostClass::kPrecision,
           .effect = Effect::kNone,
           .why = "amp-bf16 does not help: 10.9 GiB of 11.6 GiB are parameters"},
          {.change = "several cards",
           .cost = "assumed: shared evenly",
           .cost_class = CostClass::kMoney,
           .effect = Effect::kNone,
           .why = "no single card holds this: 13 of b300 would"}};
}

std::vector<Advice> RaiseSample() {
  return {{.change = "gradient accumulation",
           .flags = "-b 169 --accumulate 2",
           .cost = "in passes of this size",
           .cost_class = CostClass::kTime,
           .max_batch = 169,
           .accumulate = 2},
          {.change = "mixed precision",
           .flags = "-p amp-fp16",
           .cost = "little risk",
           .cost_class = CostClass::kPrecision,
           .max_batch = 328}};
}

TEST_CASE("flags, what they give, and below them what they cost") {
  CHECK(AdviceText(AtBatchSample()) == R"(
What would make it fit
  --optimizer-impl fused  TIGHT  10.0 GiB, saves 2.00 GiB
      fused optimizer: the same update in one kernel
  --freeze 'conv*' --freeze 'layer*' --freeze 'bn*'
                          FITS   1.00 GiB, saves 11.0 GiB
      all but fc frozen: 8.0% of the parameters are trained
  -o sgd                  OOM    12.0 GiB, saves 300.0 MiB
      an optimizer with less state: another learning rate and more steps; worse
      for transformers
  - amp-bf16 does not help: 10.9 GiB of 11.6 GiB are parameters
  - no single card holds this: 13 of b300 would; assumed: shared evenly
)");
  CHECK(AdviceText(RaiseSample()) == R"(
What would raise it
  -b 169 --accumulate 2  2 × 169 a step
      gradient accumulation: in passes of this size
  -p amp-fp16            up to batch 328
      mixed precision: little risk
)");
  CHECK(AdviceText({}).empty());
}

TEST_CASE("the number of rows is the caller's") {
  const std::string text = AdviceText(AtBatchSample(), {.rows = 1});
  CHECK(text.find("--optimizer-impl") != std::string::npos);
  CHECK(text.find("-o sgd") == std::string::npos);
  CHECK(text.find("no single card") != std::string::npos);
}

TEST_CASE("no line is wider than 80 columns, and ASCII is enough") {
  std::vector<Advice> all = AtBatchSample();
  all[0].flags = "--freeze 'Übung." + std::string(90, 'x') + "*'";
  all[1].cost = std::string(100, 'y');
  for (const bool ascii : {false, true}) {
    const std::string text =
        AdviceText(all, {.ascii = ascii}) + AdviceText(RaiseSample(), {.ascii = ascii});
    for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
      CHECK(Columns(text.substr(begin, text.find('\n', begin) - begin)) <= kReportColumns);
    }
    const bool is_ascii = std::all_of(text.begin(), text.end(), [](char c) { return c > 0; });
    CHECK(is_ascii == ascii);
  }
}

TEST_CASE("verdicts are coloured where colours are") {
  const std::string text = AdviceText(AtBatchSample(), {.color = true});
  CHECK(text.find("\033[33mTIGHT\033[0m  10.0 GiB") != std::string::npos);
  CHECK(text.find("\033[32mFITS\033[0m   1.00 GiB") != std::string::npos);
}

TEST_CASE("JSON has all of it, and nothing that is not known") {
  const Json rows = AdviceJson(AtBatchSample());
  CHECK(rows[0].dump() ==
        R"({"change":"fused optimizer","flags":"--optimizer-impl fused","effect":"enough",)"
        R"("verdict":"tight","used_bytes":10737418240,"saved_bytes":2147483648,)"
        R"("cost":"the same update in one kernel","cost_class":"free"})");
  CHECK(rows[4].dump() ==
        R"({"change":"several cards","effect":"none","cost":"assumed: shared evenly",)"
        R"("cost_class":"money","why":"no single card holds this: 13 of b300 would"})");
  CHECK(AdviceJson(RaiseSample())[0].dump() ==
        R"({"change":"gradient accumulation","flags":"-b 169 --accumulate 2","effect":"enough",)"
        R"("max_batch":169,"accumulate":2,"cost":"in passes of this size","cost_class":"time"})");
  CHECK(AdviceJson({}).dump() == "[]");
}

}  // namespace
}  // namespace onnxfit::advice_report_test
