#include "estimator/base/framework.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>
#include <string>
#include <string_view>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "tests/parsed_options.h"
#include "tests/trace_helpers.h"

namespace onnxfit::framework_test {
namespace {

const FrameworkProfile& Framework(std::string_view name) {
  for (const FrameworkProfile& framework : Frameworks()) {
    if (framework.name == name) return framework;
  }
  FAIL("no profile ", name);
  return DefaultFramework();
}

// What the phases of two steps do to workspaces: C is cuBLAS's 8519680 bytes, L cublasLt's 1 MiB.
std::string Workspaces(std::string_view text, std::string_view framework) {
  const TrainingSettings settings = {
      .framework = Framework(framework), .optimizer = Optimizer::kSgd, .steps = 2};
  const Trace trace = Train(Build(text, settings).program, settings);
  std::string found;
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kPhase && event.phase == Phase::kForward && event.id > 1) {
      found += " |";
    }
    if (event.type == Event::Type::kPhase && event.phase == Phase::kBackward) found += " /";
    const bool made = event.type == Event::Type::kAlloc;
    if (!made && event.type != Event::Type::kFree) continue;
    const Buffer& buffer = trace.buffers[Index(event.id)];
    if (trace.labels[Index(buffer.label)].find("workspace") == std::string::npos) continue;
    const int64_t lt_bytes = 1 * kMiB;
    CHECK((buffer.bytes == 8519680 || buffer.bytes == lt_bytes));
    found += fmt::format(" {}{}", made ? '+' : '-', buffer.bytes == lt_bytes ? 'L' : 'C');
  }
  return found.substr(found.find_first_not_of(' '));
}

// [rows, summed] times [summed, columns], and a bias.
std::string Linear(int rows, int summed, int columns) {
  return fmt::format(R"(
    net (float[{0}, {1}] x) => (float[{0}, {2}] y)
    < float[{2}, {1}] w = ["location": "none"], float[{2}] b = ["location": "none"] > {{
      y = Gemm <transB = 1> (x, w, b)
    }})",
                     rows, summed, columns);
}

// How many buffers of 256 KiB live where the first backward begins.
int LiveAtBackward(const Trace& trace) {
  int live = 0;
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kPhase && event.phase == Phase::kBackward) break;
    const bool made = event.type == Event::Type::kAlloc;
    if (!made && event.type != Event::Type::kFree) continue;
    if (trace.buffers[Index(event.id)].bytes == 256 * kKiB) live += made ? 1 : -1;
  }
  return live;
}

}  // namespace

// Events of nn.Linear(64, 48), forward and backward, recorded with each version.
TEST_CASE("each version holds the workspaces of its libraries in its own way") {
  constexpr std::pair<std::string_view, std::string_view> kRows[] = {
      {"pytorch-1.10", "+L -L / | +L -L /"},
      {"pytorch-1.13", "+L -L / | +L -L /"},
      {"pytorch-2.0", "+L +C -L / +C | +L -L /"},
      {"pytorch-2.1", "+L +C -L / +C | +L -L /"},
      {"pytorch-2.2", "+L +C -L / +C | +L -L /"},
      {"pytorch-2.3", "+L +C -L / +C | +L -L /"},
      {"pytorch-2.4", "+L +C -L / +C | +L -L /"},
      {"pytorch-2.5", "+L +C -L / +C | +L -L /"},
      {"pytorch-2.6", "+L +C -L / +C | +L -L /"},
      {"pytorch-2.7", "+L +C -L / +C | +L -L /"},
      {"pytorch-2.8", "+L +C -L / +C | +L -L /"},
      {"pytorch-2.9", "+C +L / +C | /"},
      {"pytorch-2.10", "+C +L / +C | /"},
      {"pytorch-2.11", "+C +L / +C | /"},
      {"pytorch-2.12", "+C / +C | /"},
      {"pytorch-2.13", "+C / +C | /"},
      {"pytorch-2.14", "+C / +C | /"},
      {"pytorch-2.15", "+L -L / +C -C | +L -L / +C -C"},
  };
  REQUIRE(std::size(kRows) == Frameworks().size());
  for (const auto& row : kRows) {
    const std::string_view framework = row.first;
    CAPTURE(framework);
    CHECK(Workspaces(Linear(16, 64, 48), framework) == row.second);
  }
}

TEST_CASE("a workspace of a call comes after its result and goes before the next allocation") {
  const TrainingSettings settings = {
      .framework = Framework("pytorch-2.15"), .in_place = InPlaceUse::kAlways, .steps = 1};
  const std::string text = TraceText(kTwoLayers, settings);
  CHECK_MESSAGE(
      text.find("+h:512 +cuBLAS workspace:8519680 -cuBLAS workspace +y:128 +cuBLAS "
                "workspace:8519680 -cuBLAS workspace +log_probabilities:128") != std::string::npos,
      text);
  CHECK_MESSAGE(text.find("+w2.grad:64 +cuBLAS workspace:8519680 -cuBLAS workspace +a.grad:512 "
                          "+cuBLAS workspace:8519680 -cuBLAS workspace") != std::string::npos,
                text);
}

// torch.addmm (c, x, w) with c [16, 48], recorded the same way.
TEST_CASE("cublasLt adds a bias, and no matrix") {
  constexpr char kGemm[] = R"(
    net (float[16, 64] x) => (float[16, 48] y)
    < float[48, 64] w = ["location": "none"], float[16, 48] c = ["location": "none"] > {
      y = Gemm <transB = 1> (x, w, c)
    })";
  CHECK(Workspaces(kGemm, "pytorch-2.11") == "+C / +C | /");
}

// Recorded the same way: F.linear of 1, 2, 3 and 64 rows, summands and columns.
TEST_CASE("cublasLt takes no product of a single row of weights or column") {
  struct Row {
    std::string_view framework;
    int rows, summed, columns;
    std::string_view expected;
  };
  const Row rows[] = {
      {"pytorch-2.11", 16, 1, 48, "+C / +C | /"},
      {"pytorch-2.11", 16, 64, 1, "+C / +C | /"},
      {"pytorch-2.11", 1, 64, 48, "+C +L / +C | /"},
      {"pytorch-2.9", 1, 64, 48, "+C +L / +C | /"},
      {"pytorch-2.10", 1, 64, 48, "+C / +C | /"},  // nor of one row of data
      {"pytorch-2.10", 2, 2, 2, "+C +L / +C | /"},
      {"pytorch-2.15", 16, 64, 1, "+C -C / +C -C | +C -C / +C -C"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.framework);
    CAPTURE(row.rows);
    CHECK(Workspaces(Linear(row.rows, row.summed, row.columns), row.framework) == row.expected);
  }
}

// Where a weight is frozen, the gradient before it must not pay for it.
TEST_CASE("only a gradient that is made takes a workspace") {
  constexpr char kFrozen[] = R"(
    net (float[4, 8] x) => (float[4, 6] y)
    < float[8, 8] w1 = ["location": "none"], float[6, 8] w2 = ["location": "none"],
      float[6] b2 = ["location": "none"] > {
      h = MatMul (x, w1)
      y = Gemm <transB = 1> (h, w2, b2)
    })";
  const TrainingSettings settings = {
      .framework = Framework("pytorch-2.15"), .freeze = {"w2"}, .steps = 1};
  const std::string text = TraceText(kFrozen, settings);
  CHECK_MESSAGE(text.find("+h.grad:128 +cuBLAS workspace:8519680 -cuBLAS workspace +b2.grad:24 ") !=
                    std::string::npos,
                text);
}

TEST_CASE("cuBLAS's workspace has 32 MiB on some cards") {
  struct Row {
    std::string_view framework;
    std::string_view large;  // compute capabilities, times ten
  };
  constexpr Row kRows[] = {
      {"pytorch-2.0", "90 "},
      {"pytorch-2.6", "90 "},
      {"pytorch-2.11", "90 "},
      {"pytorch-2.12", "90 100 103 120 121 "},
      {"pytorch-2.13", "90 100 103 120 121 "},
      {"pytorch-2.14", "90 100 103 110 120 121 "},
      {"pytorch-2.15", "90 100 103 110 120 121 "},
  };
  for (const Row& row : kRows) {
    CAPTURE(row.framework);
    std::string large;
    for (const int capability : {75, 80, 86, 89, 90, 100, 103, 110, 120, 121}) {
      const DeviceProfile device = {
          .name = "card", .context = {}, .compute_capability = capability};
      const int64_t bytes = CublasWorkspaceBytes(Framework(row.framework), device);
      CHECK((bytes == 8519680 || bytes == 32 * kMiB));
      if (bytes == 32 * kMiB) large += fmt::format("{} ", capability);
    }
    CHECK(large == row.large);
  }
}

// F.scaled_dot_product_attention without dropout: memory-efficient in fp32, flash in 16 bits.
TEST_CASE("attention has its seeds on the device in some versions") {
  constexpr char kAttention[] = R"(
    net (float[1, 2, 3, 8] q, float[1, 3, 2, 8] k, float[1, 2, 3, 8] v) => (float[1, 2, 3, 8] y) {
      c = Constant <value = float {0.5}> ()
      qc = Mul (q, c)
      t = Transpose <perm = [0, 2, 3, 1]> (k)
      kc = Mul (t, c)
      s = MatMul (qc, kc)
      w = Softmax (s)
      y = MatMul (w, v)
    })";
  struct Row {
    std::string_view framework;
    Precision precision;
    std::string_view expected;
  };
  constexpr Row kRows[] = {
      {"pytorch-2.6", Precision::kFp32, ""},       {"pytorch-2.6", Precision::kBf16, ""},
      {"pytorch-2.7", Precision::kFp32, ""},       {"pytorch-2.7", Precision::kBf16, "16 8 "},
      {"pytorch-2.13", Precision::kFp32, ""},      {"pytorch-2.14", Precision::kFp32, "8 8 "},
      {"pytorch-2.15", Precision::kBf16, "16 8 "},
  };
  for (const Row& row : kRows) {
    CAPTURE(row.framework);
    const TrainingSettings settings = {.framework = Framework(row.framework),
                                       .precision = row.precision,
                                       .mode = Mode::kEval,
                                       .steps = 1};
    const Trace trace = Train(Build(kAttention, settings).program, settings);
    std::string seeds;
    for (const Buffer& buffer : trace.buffers) {
      const bool is_seed = trace.labels[Index(buffer.label)].find(".rng") != std::string::npos;
      if (is_seed) seeds += fmt::format("{} ", buffer.bytes);
    }
    CHECK(seeds == row.expected);
  }
}

// F.scaled_dot_product_attention of [2, 2, 100, 32] in 16 bits, recorded with 2.0.1, 2.1.2, 2.2.2.
TEST_CASE("flash attention 1 pads rows to 16 and knows where samples begin") {
  constexpr char kAttention[] = R"(
    net (float[2, 2, 100, 32] q, float[2, 100, 2, 32] k, float[2, 2, 100, 32] v)
    => (float[2, 2, 100, 32] y) {
      c = Constant <value = float {0.5}> ()
      qc = Mul (q, c)
      t = Transpose <perm = [0, 2, 3, 1]> (k)
      kc = Mul (t, c)
      s = MatMul (qc, kc)
      w = Softmax (s)
      y = MatMul (w, v)
    })";
  constexpr std::pair<std::string_view, std::string_view> kRows[] = {
      {"pytorch-2.0", "12 12 1792 "}, {"pytorch-2.1", "12 12 1792 "}, {"pytorch-2.2", "1600 "}};
  for (const auto& row : kRows) {
    CAPTURE(row.first);
    const TrainingSettings settings = {.framework = Framework(row.first),
                                       .precision = Precision::kBf16,
                                       .mode = Mode::kEval,
                                       .steps = 1};
    const Trace trace = Train(Build(kAttention, settings).program, settings);
    std::string found;
    for (const Buffer& buffer : trace.buffers) {
      const std::string& label = trace.labels[Index(buffer.label)];
      const bool is_aux = label.ends_with(" of samples") || label.ends_with(".logsumexp");
      if (is_aux) found += fmt::format("{} ", buffer.bytes);
    }
    CHECK(found == row.second);
  }
}

TEST_CASE("a card without kernels is told apart") {
  const DeviceProfile p100 = {.name = "P100", .context = {}, .compute_capability = 60};
  CHECK(WhyUnsupported(Framework("pytorch-2.6"), p100).empty());
  CHECK(WhyUnsupported(Framework("pytorch-2.11"), p100) ==
        "pytorch-2.11 runs on cards of compute capability 7.5 or more, P100 has 6.0");
  const DeviceProfile mi300x = {.name = "MI300X", .context = {}};
  CHECK(WhyUnsupported(Framework("pytorch-2.11"), mi300x) ==
        "MI300X has no compute capability: it runs pytorch-2.11's build for ROCm, and the figures "
        "are of CUDA's kernels and workspaces");
  for (const FrameworkProfile& framework : Frameworks()) {
    CHECK(WhyUnsupported(framework, DefaultDevice()).empty());
  }
}

// Its own and that of the loss.
TEST_CASE("before 1.11 softmax and log_softmax keep their inputs, too") {
  constexpr std::string_view kText = R"(
    net (float[256, 256] x) => (float[256, 256] y)
    < float[256, 256] w = ["location": "none"] > {
      product = MatMul (x, w)
      probabilities = OPERATOR <axis = -1> (product)
      y = MatMul (probabilities, w)
    })";
  const auto live = [&](const char* name, std::string_view framework) {
    std::string text(kText);
    text.replace(text.find("OPERATOR"), 8, name);
    const TrainingSettings settings = {
        .framework = Framework(framework), .optimizer = Optimizer::kSgd, .steps = 1};
    return LiveAtBackward(Train(Build(text, settings).program, settings));
  };
  for (const char* name : {"Softmax", "LogSoftmax"}) {
    CHECK(live(name, "pytorch-1.10") == live(name, "pytorch-2.6") + 2);
  }
}

// Recorded with 1.13.1 to 2.5.1.
TEST_CASE("before 2.2 a mean keeps its input") {
  constexpr std::string_view kText = R"(
    net (float[256, 256] x) => (float[256, 1] y)
    < float[256, 256] w = ["location": "none"] > {
      product = MatMul (x, w)
      y = ReduceMean <axes = [1]> (product)
    })";
  const auto live = [&](std::string_view framework) {
    const TrainingSettings settings = {.framework = Framework(framework),
                                       .optimizer = Optimizer::kSgd,
                                       .loss = Loss::kMse,
                                       .steps = 1};
    return LiveAtBackward(Train(Build(kText, settings).program, settings));
  };
  CHECK(live("pytorch-1.13") == live("pytorch-2.2") + 1);
  CHECK(live("pytorch-2.1") == live("pytorch-2.2") + 1);
  CHECK(live("pytorch-2.11") == live("pytorch-2.2"));
}

// What is alive beside the parameter, its gradient and its two moments, by AdamW's events.
TEST_CASE("AdamW of 2.0 holds two lists, 1.13's loop a tensor or two") {
  const auto temporaries = [](std::string_view framework) {
    const TrainingSettings settings = {.framework = Framework(framework), .steps = 1};
    const Trace trace = Train(Build(Linear(16, 64, 48), settings).program, settings);
    int64_t bytes = 0;
    for (const Buffer& buffer : trace.buffers) {
      const bool is_one = trace.labels[Index(buffer.label)] == "optimizer temporary";
      if (is_one) bytes += buffer.bytes;
    }
    return bytes;
  };
  constexpr int64_t kParameters = (64 * 48 + 48) * 4;
  CHECK(temporaries("pytorch-2.1") == kParameters);
  CHECK(temporaries("pytorch-2.0") == 2 * kParameters);
  CHECK(temporaries("pytorch-1.13") == 2 * kParameters);
}

TEST_CASE("before 2.0 zero_grad() keeps gradients unless it is told otherwise") {
  const auto zero_grad = [](std::vector<std::string> arguments) {
    return ParseOptions(arguments).request.settings.loop.zero_grad;
  };
  CHECK(zero_grad({"m.onnx", "--framework", "pytorch-1.13"}) == ZeroGrad::kKeep);
  CHECK(zero_grad({"m.onnx", "--framework", "pytorch-2.0"}) == ZeroGrad::kBeforeForward);
  CHECK(zero_grad({"m.onnx", "--framework", "pytorch-1.13", "--zero-grad", "before-forward"}) ==
        ZeroGrad::kBeforeForward);
}

TEST_CASE("names are known, and the default is one of them") {
  std::set<std::string_view> names;
  for (const FrameworkProfile& framework : Frameworks()) {
    CAPTURE(framework.name);
    CHECK(names.insert(framework.name).second);
    const Options options = ParseOptions(
        std::vector<std::string>{"m.onnx", "--framework", std::string(framework.name)});
    CHECK(options.request.settings.framework.name == framework.name);
  }
  CHECK(DefaultFramework().name == "pytorch-2.11");
  CHECK(ErrorOf({"m.onnx", "--framework", "pytorch-2.51"})
            .starts_with("--framework: expected one of 18 names, found 'pytorch-2.51' (did you "
                         "mean pytorch-2.1, "));
}

// What setting the option answers in each version.
TEST_CASE("an option that a version does not have is refused") {
  struct Row {
    const char* option;
    std::string_view first;  // the version that has it, oldest first
  };
  constexpr Row kRows[] = {
      {"max_split_size_mb:64", "pytorch-1.10"},
      {"backend:native", "pytorch-2.0"},
      {"expandable_segments:True", "pytorch-2.1"},
      {"release_lock_on_cudamalloc:True", "pytorch-2.2"},
      {"per_process_memory_fraction:0.5", "pytorch-2.10"},
      {"graph_capture_record_stream_reuse:True", "pytorch-2.9"},
      {"pinned_reserve_segment_size_mb:2", "pytorch-2.10"},
      {"large_segment_size_mb:32", "pytorch-2.11"},
      {"throw_on_cudamalloc_oom:True", "pytorch-2.12"},
      {"pinned_free_catch_all:True", "pytorch-2.12"},
      {"pinned_max_cached_size_mb:2", "pytorch-2.13"},
  };
  for (const Row& row : kRows) {
    CAPTURE(row.option);
    bool known = false;
    for (const FrameworkProfile& framework : Frameworks()) {
      CAPTURE(framework.name);
      known = known || framework.name == row.first;
      const std::string error = ErrorOf(
          {"m.onnx", "--alloc-conf", row.option, "--framework", std::string(framework.name)});
      CHECK(error.empty() == known);
    }
  }
  CHECK(ErrorOf({"m.onnx", "--alloc-conf=large_segment_size_mb:32", "--framework=pytorch-2.10"}) ==
        "--alloc-conf: expected an option of PYTORCH_ALLOC_CONF in pytorch-2.10, found "
        "'large_segment_size_mb'");
  CHECK(ErrorOf(
            {"m.onnx", "--alloc-conf=expandable_segments_reserve:1", "--framework=pytorch-2.15"}) ==
        "--alloc-conf expandable_segments_reserve: expected it left out (a bound of addresses is "
        "not modelled), found '1'");
}

}  // namespace onnxfit::framework_test
