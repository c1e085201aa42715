// One estimate as Markdown and CSV.
#include <doctest/doctest.h>

#include "estimator/report/estimate.h"
#include "tests/sample_estimate.h"

namespace onnxfit::report_markdown_test {

TEST_CASE("an estimate as Markdown says what the text says") {
  CHECK("\n" + ToMarkdown(SampleEstimate(), {.rows = 3}) == R"(
**539.0 MiB on the device**: `models/lenet.onnx`, batch 32, fp32, adamw

### Where the bytes go

| kind | bytes | share | basis | range |
| --- | ---: | ---: | --- | --- |
| context | 515.0 MiB | 95.6% | measured | 420.0–620.0 MiB |
| cached | 18.0 MiB | 3.3% | modelled | |
| activations | 4.00 MiB | 0.7% | modelled | |
| rounding | 1.06 MiB | 0.2% | modelled | |
| optimizer state | 482.1 KiB | 0.1% | exact | |
| parameters | 241.0 KiB | 0.1% | exact | |
| gradients | 241.0 KiB | 0.0% | exact | |
| **total** | **539.0 MiB** | 100.0% | | |

nvidia-smi will show about 539 MiB. The peak is in step 2, backward, at `/conv1/Conv`.

### Step by step

| step | after forward | after backward | after step | peak allocated | peak reserved |
| ---: | ---: | ---: | ---: | ---: | ---: |
| 1 | 5.00 MiB | 1.00 MiB | 2.00 MiB | 5.00 MiB | 22.0 MiB |
| 2 | 5.00 MiB | 1.00 MiB | 2.00 MiB | 6.00 MiB | 24.0 MiB |

### Largest tensors at the peak

| bytes | type | name | kind | from | to |
| ---: | --- | --- | --- | --- | --- |
| 588.0 KiB | `float32[32, 6, 28, 28]` | `/conv1/Conv` | activations | `/conv1/Conv` | `/relu` |
| 2 × 187.5 KiB | `float32[120, 400]` | `fc1.weight` | optimizer state | `step` | end |
| 187.5 KiB | `float32[120, 400]` | `fc1.weight` | parameters | setup | end |

### Assumptions

- The loss is cross-entropy over the first output of floats: a file does not say what it was trained with.

### Warnings

- **OF102** 2 operators have no row (Frobnicate, Twist): all that they read and make is kept until the backward pass has gone by.
)");
  CHECK(ToMarkdown(SampleEstimate(), {.quiet = true}) ==
        "**539.0 MiB on the device**: `models/lenet.onnx`, batch 32, fp32, adamw\n");
  CHECK(ToMarkdown(SampleEstimate(), {.verbose = true})
            .find("\n### Notes\n\n- 4 external tensors were not read\n") != std::string::npos);
}

TEST_CASE("the verdict goes before all, with what does not hold") {
  Estimate e = SampleEstimate();
  JudgedTarget oom;
  oom.target.name = "t4";
  oom.judgement = {.verdict = Verdict::kOom,
                   .usable_bytes = 500 * kMiB,
                   .used_bytes = 600 * kMiB,
                   .low_bytes = 600 * kMiB,
                   .high_bytes = 600 * kMiB,
                   .fails_at = Failure{4, Phase::kBackward, "/fc1", 2 * kMiB, kMiB, 2 * kMiB}};
  JudgedTarget tight = oom;
  tight.target.name = "8 GiB";
  tight.judgement.verdict = Verdict::kTight;
  tight.judgement.fails_at.reset();
  tight.judgement.reasons = {"with 2 MiB less it fails in step 3"};
  e.targets = {oom, tight};
  const std::string text = ToMarkdown(e);
  CHECK("\n" + text.substr(0, text.find("\n### ")) == R"(
**OOM** on `t4`: 600.0 MiB of 500.0 MiB, 120.0%

- fails in step 4, backward, at /fc1: 2.00 MiB asked, 1.00 MiB short

**TIGHT** on `8 GiB`: 600.0 MiB of 500.0 MiB, 120.0%

- with 2 MiB less it fails in step 3

`models/lenet.onnx`, batch 32, fp32, adamw
)");
  CHECK(ToMarkdown(e, {.quiet = true}).find("the device") == std::string::npos);
}

TEST_CASE("of advice Markdown has what is enough") {
  Estimate e = SampleEstimate();
  JudgedTarget oom;
  oom.target.name = "t4";
  oom.judgement = {.verdict = Verdict::kOom, .usable_bytes = 500 * kMiB, .used_bytes = 600 * kMiB};
  oom.advice = {{.change = "some", .flags = "--ema", .cost = "less", .effect = Effect::kSome},
                {.change = "all", .flags = "-b 8", .cost = "time", .effect = Effect::kEnough},
                {.change = "none", .flags = "-p bf16", .cost = "x", .effect = Effect::kNone}};
  e.targets = {oom};
  const std::string text = ToMarkdown(e);
  CHECK(text.find("\nIt would fit with\n\n- `-b 8`: time\n\n") != std::string::npos);
}

TEST_CASE("Markdown trusts no name and knows no colour") {
  Estimate e = SampleEstimate();
  e.model.path = "a|b`<img>\n# x";
  e.largest[0].name = "x|y\n";
  e.settings.loss_output = "*bold*";
  const std::string text = ToMarkdown(e, {.ascii = true, .color = true});
  CHECK(text.find("**: a|b\\`\\<img\\>?# x, batch 32") != std::string::npos);
  CHECK(text.find("\n| 588.0 KiB | `float32[32, 6, 28, 28]` | x\\|y? | activations |") !=
        std::string::npos);
  CHECK(text.find("\nwith loss-output \\*bold\\*\n") != std::string::npos);
  for (const char c : text) CHECK((c == '\n' || (c >= ' ' && c <= '~')));
}

TEST_CASE("an estimate as CSV is a table of one record") {
  Estimate e = SampleEstimate();
  e.dims = {{"seq", 128}};
  e.model.path = "a,\"b\".onnx";
  CHECK("\n" + ToCsv(e) == R"(
model,batch,dim_seq,precision,optimizer,mode,exact_bytes,allocated_bytes,reserved_bytes,device_bytes,parameters_bytes,buffers_bytes,gradients_bytes,optimizer_state_bytes,activations_bytes,rounding_bytes,cached_bytes,context_bytes,error
"a,""b"".onnx",32,128,fp32,adamw,train,5242880,6291456,25165824,565182464,246824,0,246824,493648,4194304,1109856,18874368,540016640,
)");
}

TEST_CASE("the life of a tensor has a block in Markdown and a record in CSV") {
  Estimate e = SampleEstimate();
  TensorStory story;
  story.name = "fc1.weight.grad";
  story.type = {DType::kFloat32, {120, 400}};
  story.kind = Kind::kGradient;
  story.bytes = 192000;
  story.block_bytes = 192512;
  story.born = {2, Phase::kBackward, "/fc1"};
  story.at_peak = true;
  e.why = WhyAnswer{.asked = "fc1.weight.grad", .tensors = {story, story, story}};
  CHECK("\n" + ToCsv(e, {.rows = 1}) == R"(
name,dtype,shape,bytes,block_bytes,kind,storage,born_step,born_phase,born_node,dies_step,dies_phase,dies_node,at_peak
fc1.weight.grad,float32,120x400,192000,192512,gradients,,2,backward,/fc1,,,,yes
)");
  const std::string text = ToMarkdown(e, {.color = true});
  CHECK(text.find("\n```text\nfc1.weight.grad\n  is       float32[120, 400]") != std::string::npos);
  CHECK(text.find("### Where") == std::string::npos);
  CHECK(text.find('\033') == std::string::npos);
}

}  // namespace onnxfit::report_markdown_test
