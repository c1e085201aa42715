#include <doctest/doctest.h>

#include <cstdio>
#include <limits>
#include <sstream>

#include "estimator/report/estimate.h"
#include "estimator/report/estimate_parts.h"
#include "estimator/report/layout.h"
#include "tests/sample_estimate.h"

namespace onnxfit::report_text_test {
namespace {

// Reports begin with a newline here, so that expectations line up.
std::string Report(const Estimate& estimate, const TextOptions& options = {}) {
  return "\n" + ToText(estimate, options);
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

size_t CodePoints(const std::string& text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0u) != 0x80;
  return count;
}

// Every name of a story is `name`.
WhyAnswer HostileAnswer(const std::string& name) {
  WhyAnswer why = {.asked = name};
  for (const HeldBy::By by : {HeldBy::By::kName, HeldBy::By::kInPlace, HeldBy::By::kSaved}) {
    TensorStory story;
    story.type = {DType::kFloat32, Dims(40, 1000)};
    story.shares = Shares::kInPlace;
    story.name = story.storage = story.op = story.node = name;
    story.born = {1, Phase::kForward, name};
    story.dies = Instant{2, Phase::kBackward, name};
    story.held_by = {{by, name, name, name, name, Instant{1, {}, name}}};
    why.tensors.push_back(story);
  }
  return why;
}

// Nothing in an estimate is trusted to be short, to be text or to be small.
Estimate HostileEstimate(const std::string& name) {
  Estimate e = SampleEstimate();
  e.model.path = name;
  e.dims = {{name, 512}, {name + "2", std::numeric_limits<int64_t>::max()}};
  e.batch = std::numeric_limits<int64_t>::max();
  e.peak_node = name;
  e.peak_phase = name;
  e.breakdown[0].kind = name;
  e.breakdown.back().low = 1023 * kMiB;
  e.breakdown.back().high = 1023 * kGiB;
  for (LargeTensor& tensor : e.largest) tensor.name = tensor.born = tensor.dies = name;
  e.largest[0].type.dims = Dims(40, 1000);
  e.assumptions = {name, "a " + name + " b"};
  e.warnings = {{name, name}};
  e.notes = {name};
  e.step_events = {
      {.allocations = 1, .frees = 1, .largest = name, .peak = {1, Phase::kBackward, name}}};
  return e;
}

}  // namespace

TEST_CASE("tensors are told together where all of them is alike") {
  const LargeTensor tensor = {"a", {DType::kFloat32, {4}}, 16, Kind::kActivation, "x", "y"};
  std::vector<LargeTensor> all(7, tensor);
  all[1].dies = "";
  all[2].born = "";
  all[3].kind = Kind::kTemporary;
  all[4].type.dims = {2, 2};
  all[5].name = "b";
  const std::vector<TensorGroup> groups = Groups(all, 10);
  REQUIRE(groups.size() == 6);
  CHECK(groups[0].count == 2);
}

TEST_CASE("what the file has lost gives a range beside the answer") {
  Estimate e = SampleEstimate();
  e.range = {{1 * kGiB, "--dropout 0"}, {2 * kGiB + 1, "--dropout 0.1"}};
  CHECK(Report(e).find("nvidia-smi will show about 539 MiB, 1024 to 2049 by what the file has "
                       "lost.\n") != std::string::npos);
}

TEST_CASE("a board that shares its memory has no nvidia-smi that shows it") {
  const auto shown = [](const char* name, bool shares_memory, Verdict verdict) {
    Estimate e = SampleEstimate();
    JudgedTarget judged;
    judged.target.name = judged.target.device.name = name;
    judged.target.shares_memory = shares_memory;
    judged.judgement.verdict = verdict;
    judged.judgement.usable_bytes = kGiB;
    judged.judgement.used_bytes = 500 * kMiB;
    e.targets = {judged};
    const std::string report = Report(e);
    const size_t begin = report.find("\n\n", report.find("total ")) + 2;
    return report.substr(begin, report.find('\n', begin) - begin);
  };
  CHECK(shown("Jetson Nano 4GB", true, Verdict::kFits) ==
        "tegrastats or jtop will show about 500 MiB more than before the run.");
  CHECK(shown("Jetson Nano 4GB", true, Verdict::kOom) ==
        "With room for it, tegrastats or jtop would show about 500 MiB more than before");
  CHECK(shown("GB10 (DGX Spark)", true, Verdict::kFits) ==
        "free will show about 500 MiB more than before the run.");
  CHECK(shown("Tesla T4", false, Verdict::kTight) == "nvidia-smi will show about 500 MiB.");
}

TEST_CASE("a card that gets full has one total: what the run takes on it") {
  Estimate e = SampleEstimate();
  JudgedTarget judged;
  judged.target.name = "t4";
  judged.judgement.usable_bytes = kGiB;
  judged.judgement.used_bytes = e.device_bytes;
  e.targets = {judged};
  CHECK(Report(e).find(", adamw: 539.0 MiB on the device\n\nWhere the bytes go\n") !=
        std::string::npos);
  for (const Verdict verdict : {Verdict::kTight, Verdict::kOom}) {
    e.targets[0].judgement.verdict = verdict;
    e.targets[0].judgement.used_bytes = 500 * kMiB;
    const std::string report = Report(e);
    const std::string head = report.substr(0, report.find("\n\n"));
    CHECK(head.find(" on t4: 500.0 MiB of 1.00 GiB") != std::string::npos);
    CHECK(head.find("539.0 MiB") == std::string::npos);
    CHECK(report.find("\nWhere the bytes go, on a card with room for all of them\n") !=
          std::string::npos);
    CHECK(report.find(" about 500 MiB.\n") != std::string::npos);
    const std::string page = ToMarkdown(e, {});
    CHECK(page.find("539.0 MiB on the device") == std::string::npos);
    CHECK(page.find("## Where the bytes go, on a card") != std::string::npos);
  }
}

TEST_CASE("dimensions are whole, on a line of their own where they need it") {
  Estimate e = SampleEstimate();
  e.model.path = "models/segmentation.onnx";
  e.dims = {{"seq", 512}};
  CHECK(Report(e).find("\nsegmentation.onnx, batch 32, seq=512, fp32, adamw: 539.0 MiB on the "
                       "device\n") == 0);
  e.dims = {{"height", 640}, {"width", 640}};
  CHECK(Report(e).find("\nmodels/segmentation.onnx: 539.0 MiB on the device\n"
                       "  batch 32, height=640, width=640, fp32, adamw\n\n") == 0);
  CHECK(ToText(e, {.quiet = true}) == "models/segmentation.onnx: 539.0 MiB on the device\n");
}

TEST_CASE("a report begins with the answer and then says why") {
  CHECK(Report(SampleEstimate()) == R"(
models/lenet.onnx, batch 32, fp32, adamw: 539.0 MiB on the device

Where the bytes go
  context          515.0 MiB   95.6%  ███████████████  measured  420.0–620.0 MiB
  cached            18.0 MiB    3.3%  ▌                modelled
  activations       4.00 MiB    0.7%  ▏                modelled
  rounding          1.06 MiB    0.2%  ▏                modelled
  optimizer state  482.1 KiB    0.1%  ▏                exact
  parameters       241.0 KiB    0.1%  ▏                exact
  gradients        241.0 KiB    0.0%  ▏                exact
  total            539.0 MiB  100.0%

nvidia-smi will show about 539 MiB.
The peak is in step 2, backward, at /conv1/Conv.

Step by step
  step  after forward  after backward  after step  peak allocated  peak reserved
     1       5.00 MiB        1.00 MiB    2.00 MiB        5.00 MiB       22.0 MiB
     2       5.00 MiB        1.00 MiB    2.00 MiB        6.00 MiB       24.0 MiB

Largest tensors at the peak
      588.0 KiB  float32[32, 6, 28, 28]  /conv1/Conv
                 activations, /conv1/Conv → /relu
  2 × 187.5 KiB  float32[120, 400]       fc1.weight
                 optimizer state, step → end
      187.5 KiB  float32[120, 400]       fc1.weight
                 parameters, setup → end
       98.0 KiB  float32[32, 1, 28, 28]  x
                 inputs, setup → /conv1/Conv

Assumptions
  - The loss is cross-entropy over the first output of floats: a file does not
    say what it was trained with.

Warnings
  OF102  2 operators have no row (Frobnicate, Twist): all that they read and
         make is kept until the backward pass has gone by.
)");
}

TEST_CASE("what is not the default stands below the answer") {
  Estimate estimate = SampleEstimate();
  estimate.alloc_conf = "expandable_segments:True";
  estimate.settings.optimizer_impl = OptimizerImpl::kFused;
  estimate.settings.clip_grad = true;
  estimate.settings.out_of_place = {"*/Add"};
  estimate.settings.loop = {
      .zero_grad = ZeroGrad::kKeep, .hold_outputs = true, .prefetch = 2, .accumulate = 4};
  estimate.settings.freeze = {"layer1.*", "*.bias"};
  const std::vector<std::string> lines = Lines(ToText(estimate, {}));
  CHECK(lines[1] == "with optimizer-impl fused, clip-grad, zero-grad keep, accumulate 4, freeze");
  CHECK(lines[2] == "     layer1.*, freeze *.bias, hold-outputs, prefetch 2, out-of-place */Add,");
  CHECK(lines[3] == "     alloc-conf expandable_segments:True");
  CHECK(lines[4].empty());
  estimate.settings.mode = Mode::kEval;  // what is not trained has no optimizer
  estimate.settings.loop.drop_batch = true;
  estimate.settings.loop.same_batch = true;
  estimate.settings.cublas = {.text = ":16:8", .bytes = 16 * 8 * kKiB};
  const std::vector<std::string> evaluated = Lines(ToText(estimate, {}));
  CHECK(evaluated[1] ==
        "with hold-outputs, drop-batch, same-batch, prefetch 2, out-of-place */Add,");
  CHECK(evaluated[2] == "     cublas-conf :16:8, alloc-conf expandable_segments:True");
}

TEST_CASE("how the file was read stands there, too") {
  Estimate estimate = SampleEstimate();
  estimate.settings.loss = Loss::kMse;
  estimate.settings.loss_output = "aux";
  estimate.settings.batch_norm = BatchNormUse::kKeep;
  estimate.settings.dropout = 0;
  estimate.settings.placed_dropouts = {{"fc", 0.2}};
  estimate.settings.in_place = InPlaceUse::kNever;
  estimate.settings.assumed = {.conv_bias = true, .in_place_dropout = true, .tied_head = false};
  const std::vector<std::string> lines = Lines(ToText(estimate, {}));
  CHECK(lines[1] == "with loss mse, loss-output aux, dropout 0, dropout fc=0.2, batch-norm keep,");
  CHECK(lines[2] ==
        "     in-place never, assume conv-bias=yes, assume in-place-dropout=yes, assume");
  CHECK(lines[3] == "     tied-head=no");
}

TEST_CASE("tensors of a list's blocks are one line, what has most together first") {
  Estimate e = SampleEstimate();
  const TensorType type = {DType::kFloat32, {4, 8}};
  e.largest = {{"fc", type, 100 * kKiB, Kind::kActivation, "fc", "loss"}};
  for (const char* number : {"0", "3", "11", "12"}) {
    const std::string block = std::string("layers.") + number;
    e.largest.push_back(
        {block + ".conv", type, 40 * kKiB, Kind::kActivation, block + "/conv", block + "/relu"});
  }
  e.largest.push_back({"layers.2.conv", type, 40 * kKiB, Kind::kGradient, "layers.2/conv", ""});
  const std::string report = Report(e);
  const size_t at = report.find("Largest tensors at the peak\n");
  CHECK(report.substr(at, report.find("\n\n", at) - at) == R"(Largest tensors at the peak
  4 × 40.0 KiB  float32[4, 8]  layers.*.conv
                activations, layers.*/conv → layers.*/relu
     100.0 KiB  float32[4, 8]  fc
                activations, fc → loss
      40.0 KiB  float32[4, 8]  layers.2.conv
                gradients, layers.2/conv → end)");
}

TEST_CASE("what is made between operators has its phase") {
  Estimate e = SampleEstimate();
  e.largest = {{"w.exp_avg",
                {DType::kFloat32, {4}},
                16,
                Kind::kOptimizerState,
                "",
                "",
                Phase::kOptimizer,
                Phase::kForward}};
  CHECK(Report(e).find("optimizer state, optimizer → forward\n") != std::string::npos);
}

TEST_CASE("ASCII, colours and fewer rows") {
  Estimate e = SampleEstimate();
  e.model.path = "modèles/lenet.onnx";
  e.breakdown[0].bytes += 17 * kMiB;
  e.breakdown[6].bytes -= 17 * kMiB;
  e.assumptions = {};
  e.steps = {};
  CHECK(Report(e, {.rows = 2, .ascii = true, .color = true}) ==
        "\n"
        "mod?les/lenet.onnx, batch 32, fp32, adamw: 539.0 MiB on the device\n"
        "\n"
        "Where the bytes go\n"
        "  context          515.0 MiB   95.6%  \033[36m###############\033[0m  measured  "
        "420.0-620.0 MiB\n"
        "  parameters        17.2 MiB    3.2%  \033[36m#\033[0m                exact\n"
        "  activations       4.00 MiB    0.7%  \033[36m#\033[0m                modelled\n"
        "  rounding          1.06 MiB    0.2%  \033[36m#\033[0m                modelled\n"
        "  cached            1.00 MiB    0.2%  \033[36m#\033[0m                modelled\n"
        "  optimizer state  482.1 KiB    0.1%  \033[36m#\033[0m                exact\n"
        "  gradients        241.0 KiB    0.0%  \033[36m#\033[0m                exact\n"
        "  total            539.0 MiB  100.0%\n"
        "\n"
        "nvidia-smi will show about 539 MiB.\n"
        "The peak is in step 2, backward, at /conv1/Conv.\n"
        "\n"
        "Largest tensors at the peak\n"
        "      588.0 KiB  float32[32, 6, 28, 28]  /conv1/Conv\n"
        "                 activations, /conv1/Conv -> /relu\n"
        "  2 x 187.5 KiB  float32[120, 400]       fc1.weight\n"
        "                 optimizer state, step -> end\n"
        "\n"
        "Warnings\n"
        "  \033[33mOF102\033[0m  2 operators have no row (Frobnicate, Twist): all that they read "
        "and\n"
        "         make is kept until the backward pass has gone by.\n");
}

TEST_CASE("eval has neither an optimizer nor a backward pass") {
  Estimate e;
  e.model.path = "lenet.onnx";
  e.settings.mode = Mode::kEval;
  e.settings.precision = Precision::kBf16;
  e.dims = {{"seq", 512}};
  e.device_bytes = 3 * kGiB;
  e.breakdown = {{"activations", 3 * kGiB, Basis::kModelled, {}, {}}};
  e.steps = {{}};
  e.steps[0].peak = {1 * kGiB, 2 * kGiB, 3 * kGiB};
  CHECK(Report(e) == R"(
lenet.onnx, batch 1, seq=512, bf16, eval: 3.00 GiB on the device

Where the bytes go
  activations  3.00 GiB  100.0%  ████████████████████  modelled
  total        3.00 GiB  100.0%

nvidia-smi will show about 3072 MiB.

Step by step
  step  peak exact  peak allocated  peak reserved
     1    1.00 GiB        2.00 GiB       3.00 GiB
)");
}

TEST_CASE("-q is the first line, -v adds details and notes") {
  Estimate e = SampleEstimate();
  e.step_events = {{.allocations = 1,
                    .frees = 0,
                    .largest = "/conv1/Conv",
                    .largest_bytes = 602112,
                    .peak_allocated_bytes = 5 * kMiB,
                    .peak = {1, Phase::kOptimizer, ""}},
                   {.allocations = 0,
                    .frees = 12,
                    .peak_allocated_bytes = 6 * kMiB,
                    .peak = {2, Phase::kBackward, "/conv1/Conv"}}};
  CHECK(ToText(e, {.quiet = true}) ==
        "models/lenet.onnx, batch 32, fp32, adamw: 539.0 MiB on the device\n");
  CHECK(ToText(e, {.verbose = true}) == ToText(e) + R"(
Details
  - model: opset 17, 12 nodes, 61706 parameters (241.0 KiB), buffers 0 B
  - run: train, loss cross-entropy, pytorch-2.11
  - peak in bytes: exact 5242880, allocated 6291456, reserved 25165824, device
    565182464

Events
  step 1: 1 allocations, 0 frees
    largest: 588.0 KiB, /conv1/Conv
    peak: 5.00 MiB allocated, optimizer
  step 2: 0 allocations, 12 frees
    peak: 6.00 MiB allocated, backward, at /conv1/Conv

Notes
  - 4 external tensors were not read
)");
}

TEST_CASE("where a tensor was asked for, its life takes the place of the tables") {
  Estimate e = SampleEstimate();
  e.why = WhyAnswer{.asked = "x", .absent = "a number on the host"};
  CHECK(Report(e) == R"(
models/lenet.onnx, batch 32, fp32, adamw: 539.0 MiB on the device

nvidia-smi will show about 539 MiB.
The peak is in step 2, backward, at /conv1/Conv.

x
  a number on the host.

Warnings
  OF102  2 operators have no row (Frobnicate, Twist): all that they read and
         make is kept until the backward pass has gone by.
)");
  CHECK(ToText(e, {.quiet = true}) == ToText(SampleEstimate(), {.quiet = true}));
}

TEST_CASE("the framework is told where it is not the default") {
  Estimate e = SampleEstimate();
  CHECK(ToText(e).find("framework") == std::string::npos);
  e.settings.framework = Frameworks().back();
  CHECK(ToText(e).find("\nwith framework pytorch-2.15\n") != std::string::npos);
  CHECK(ToText(e, {.verbose = true}).find("cross-entropy, pytorch-2.15\n") != std::string::npos);
}

TEST_CASE("the first line names what was asked") {
  Estimate e;
  e.model.path = "m.onnx";
  e.settings.optimizer = Optimizer::kNone;
  CHECK(ToText(e, {.quiet = true}) == "m.onnx, batch 1, fp32, no optimizer: 0 B on the device\n");
  e.model.path = "/data/" + std::string(100, 'a') + "/m.onnx";
  CHECK(ToText(e, {.quiet = true}) == "m.onnx, batch 1, fp32, no optimizer: 0 B on the device\n");
}

TEST_CASE("what a breakdown leaves is a row of its own") {
  Estimate e = SampleEstimate();
  e.device_bytes += 7 * kMiB;
  CHECK(ToText(e).find("  unexplained       7.00 MiB    1.3%") != std::string::npos);
}

TEST_CASE("the rows of the breakdown add up to its total") {
  // Thirds, sevenths and a row that is much smaller than a tenth of a percent.
  for (const int64_t unit : {int64_t{1}, int64_t{1000}, int64_t{123456789}}) {
    for (int rows = 1; rows <= 11; ++rows) {
      CAPTURE(unit);
      CAPTURE(rows);
      Estimate e;
      for (int i = 0; i < rows; ++i) {
        e.breakdown.push_back({"k" + std::to_string(i), unit * (i == 3 ? 1 : 7 + i), {}, {}, {}});
        e.device_bytes += e.breakdown.back().bytes;
      }
      double shares = 0;
      for (const std::string& line : Lines(ToText(e))) {
        double share = 0;
        if (std::sscanf(line.c_str(), "  k%*d %*f %*s %lf%%", &share) == 1) shares += share;
      }
      CHECK(shares == doctest::Approx(100).epsilon(1e-9));
    }
  }
}

TEST_CASE("no line is wider than 80 columns or ends in spaces") {
  std::string han;
  for (int i = 0; i < 300; ++i) han += "卷";
  const std::string names[] = {"",
                               "x",
                               std::string(500, 'n'),
                               han,
                               "a\xff\xfe\xc3" + std::string(200, '\x80'),
                               "a\nb\tc",
                               "\033[2J" + std::string(90, ' '),
                               std::string(5000, '\0')};
  for (const std::string& name : names) {
    for (const bool ascii : {false, true}) {
      CAPTURE(name);
      Estimate e = HostileEstimate(name);
      std::string text = ToText(e, {.ascii = ascii, .verbose = true});
      e.why = HostileAnswer(name);
      text += ToText(e, {.rows = 2, .ascii = ascii});
      e.why = WhyAnswer{.asked = name, .absent = name};
      text += ToText(e, {.ascii = ascii});
      for (const std::string& line : Lines(text)) {
        CAPTURE(line);
        CHECK(CodePoints(line) <= 80);
        CHECK(Columns(line) <= 80);
        CHECK(line.find('\033') == std::string::npos);
        CHECK(!line.ends_with(' '));
      }
      if (ascii) CHECK(text.find_first_of("\x80\xc2\xe2\xef\xff") == std::string::npos);
    }
  }
}

TEST_CASE("long names are cut in their middle, at letters") {
  struct Row {
    std::string text;
    size_t columns;
    std::string cut;
  };
  const Row rows[] = {{"abcdef", 6, "abcdef"},     {"abcdefg", 6, "ab…efg"},
                      {"abcdefg", 1, "…"},         {"äöüßäöü", 4, "ä…öü"},
                      {"卷积网络", 8, "卷积网络"}, {"卷积网络", 7, "卷…络"}};
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(CutMiddle(row.text, row.columns, "…") == row.cut);
  }
}

TEST_CASE("text from files is made harmless") {
  struct Row {
    std::string text;
    std::string clean;
    std::string ascii;
  };
  const Row rows[] = {{"conv1", "conv1", "conv1"},
                      {"\033[2J\n", "?[2J?", "?[2J?"},
                      {"größe", "größe", "gr??e"},
                      {"a\xff", "a\xEF\xBF\xBD", "a?"},
                      {"\xc0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD", "??"},  // longer than needed
                      {"\xed\xa0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", "???"},  // surrogate
                      {"\xe2\x80\xae", "?", "?"},                       // right to left
                      {"\xe5\x8d", "\xEF\xBF\xBD\xEF\xBF\xBD", "??"}};  // cut short
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(Clean(row.text, false) == row.clean);
    CHECK(Clean(row.text, true) == row.ascii);
  }
}

TEST_CASE("sentences wrap under their lead") {
  CHECK(Wrap("- ", "aa bb cc", 7) == "- aa bb\n  cc\n");
  CHECK(Wrap("- ", "aaaaaaaa b", 7) == "- aaaaa\n  aaa b\n");
  CHECK(TrimLines(Wrap("- ", "", 7) + "a  \n") == "-\na\n");
}

TEST_CASE("a bar fills its share and shows even the smallest") {
  CHECK(Bar(1, 4, kUnicodeGlyphs) == "████");
  CHECK(Bar(0.5, 3, kUnicodeGlyphs) == "█▌");
  CHECK(Bar(1e-9, 4, kUnicodeGlyphs) == "▏");
  CHECK(Bar(0, 4, kUnicodeGlyphs).empty());
  CHECK(Bar(0.5, 3, kAsciiGlyphs) == "##");
  CHECK(Bar(1e-9, 4, kAsciiGlyphs) == "#");
}

}  // namespace onnxfit::report_text_test
