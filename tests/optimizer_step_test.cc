#include "estimator/optimizers/optimizer_step.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/fit/estimate.h"
#include "estimator/optimizers/hidden_matrices.h"
#include "estimator/optimizers/muon_batches.h"
#include "estimator/workspaces/cusolver_workspaces.h"
#include "tests/trace_helpers.h"

namespace onnxfit::optimizer_step_test {
namespace {

// Two parameters, whose tensors tell themselves by their bytes: w of 192 (a row of it 48, a
// column 32, the mean of its rows 8), b of 16, scalars of 4.
constexpr char kMatrixAndVector[] = R"(
  net (float[2, 3, 6] x) => (float[2, 3, 4] y)
  < float[2, 6, 4] w = ["location": "none"], float[4] b = ["location": "none"] > {
    h = MatMul (x, w)
    y = Add (h, b)
  })";

// What `phase` of step `step` allocates and frees, by bytes: "+192 -192".
std::string BytesOf(const TrainingSettings& settings, int32_t step, Phase phase,
                    const char* net = kMatrixAndVector) {
  const Trace trace = Train(Build(net, settings).program, settings);
  std::string text;
  bool inside = false;
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kPhase) inside = event.id == step && event.phase == phase;
    const bool made = event.type == Event::Type::kAlloc;
    if (!inside || (!made && event.type != Event::Type::kFree)) continue;
    const int64_t bytes = trace.buffers[Index(event.id)].bytes;
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", made ? '+' : '-', bytes);
  }
  return text;
}

// All by recorded events: torch 2.11.0, lion-pytorch 0.2.5, bitsandbytes 0.50.2, transformers
// 5.17.0, schedulefree 1.4.1.
TEST_CASE("each implementation holds its own temporaries") {
  struct Row {
    Optimizer optimizer;
    OptimizerImpl impl;
    std::string_view first;  // the states that the first step makes before all else
    std::string_view every;  // what every step does
  };
  constexpr auto kForeach = OptimizerImpl::kForeach;
  constexpr auto kForLoop = OptimizerImpl::kForLoop;
  constexpr auto kFused = OptimizerImpl::kFused;
  constexpr std::string_view kMoments = "+192 +192 +16 +16";
  constexpr std::string_view kList = "+192 +16 -16 -192";
  constexpr std::string_view kRootAndQuotient = "+192 +192 -192 +16 +16 -192 -16 -16";
  constexpr std::string_view kOneByOne = "+192 +16 -192 -16";
  const Row rows[] = {
      {Optimizer::kSgd, kForeach, "", ""},
      {Optimizer::kSgd, kForLoop, "", ""},
      {Optimizer::kSgd, kFused, "", ""},
      {Optimizer::kSgdMomentum, kForeach, "+192 +16", ""},
      {Optimizer::kSgdMomentum, kForLoop, "+192 +16", ""},
      {Optimizer::kSgdMomentum, kFused, "+192 +16", ""},
      {Optimizer::kAdam, kForeach, kMoments, kList},
      {Optimizer::kAdam, kForLoop, kMoments, kRootAndQuotient},
      {Optimizer::kAdam, kFused, "+4 +192 +192 +4 +16 +16", ""},
      {Optimizer::kAdamW, kForeach, kMoments, kList},
      {Optimizer::kAdamW, kForLoop, kMoments, kRootAndQuotient},
      {Optimizer::kAdamW, kFused, "+4 +192 +192 +4 +16 +16", ""},
      {Optimizer::kRmsprop, kForeach, "+192 +16", kList},
      {Optimizer::kRmsprop, kForLoop, "+192 +16", kOneByOne},
      {Optimizer::kAdagrad, kForeach, "", "+192 +16 +192 +16 -16 -192 -16 -192"},
      {Optimizer::kAdagrad, kForLoop, "", kOneByOne},
      {Optimizer::kAdafactor, kForeach, "+48 +32 +16",
       "+4 -4 +48 -48 +32 -32 +192 +8 -8 +4 -4 +4 -4 +16 -16 +16 -192 +4 -4 -16"},
      {Optimizer::kAdafactor, kForLoop, "+48 +32 +16",
       "+4 -4 +48 +32 +192 +8 -8 +4 -4 +4 -4 +16 +16 -192 +4 -4 -48 -32 -16 -16"},
      {Optimizer::kAdamW8bit, kForLoop, kMoments, ""},
      {Optimizer::kPagedAdamW32bit, kForLoop, kMoments, ""},
      {Optimizer::kLion8bit, kForLoop, "+192 +16", ""},
      {Optimizer::kLion32bit, kForLoop, "+192 +16", ""},
      {Optimizer::kScheduleFreeSgd, kForeach, "+192 +16", ""},
      {Optimizer::kTimmLion, kForeach, "+192 +16", kList},
      {Optimizer::kNAdam, kForeach, kMoments, kList},
      {Optimizer::kNAdam, kForLoop, kMoments, kRootAndQuotient},
      {Optimizer::kRAdam, kForeach, kMoments, kList},
      {Optimizer::kAdamax, kForeach, kMoments, kList},
      {Optimizer::kAdamax, kForLoop, kMoments, "+192 -192 +16 -16"},
      {Optimizer::kAdEMAMix32bit, kForLoop, "+384 +192 +32 +16", ""},
      {Optimizer::kRmsprop8bit, kForLoop, "+192 +16", ""},
      {Optimizer::kTorchaoAdamW8bit, kForLoop, kMoments, ""},
      {Optimizer::kAdadelta, kForeach, kMoments, "+192 +16 +192 +16 -16 -192 -16 -192"},
      {Optimizer::kAdadelta, kForLoop, kMoments, "+192 +192 +16 -192 +16 -192 -16 -16"},
      {Optimizer::kAsgd, kForeach, "+4 +4 +4 +192 +4 +4 +4 +16",
       "+192 +16 -16 -192 +192 +16 -16 -192 +4 +4 +4 +4 -4 -4 -4 -4"},
      {Optimizer::kScheduleFreeAdamW, kForeach, kMoments, kList},
      {Optimizer::kScheduleFreeAdamW, kForLoop, kMoments, kOneByOne},
  };
  for (const Row& row : rows) {
    CAPTURE(ToString(row.optimizer));
    CAPTURE(ToString(row.impl));
    const TrainingSettings settings = {
        .optimizer = row.optimizer, .optimizer_impl = row.impl, .loss = Loss::kMse, .steps = 2};
    const std::string gap = row.first.empty() || row.every.empty() ? "" : " ";
    CHECK(BytesOf(settings, 1, Phase::kOptimizer) ==
          fmt::format("{}{}{}", row.first, gap, row.every));
    CHECK(BytesOf(settings, 2, Phase::kOptimizer) == row.every);
  }
}

// By timm 1.0.31: the first step of Adopt makes states; Lamb divides all gradients by their norm,
// and finds the norms of what decays.
TEST_CASE("timm's Adopt begins with its second step, and its Lamb with norms") {
  TrainingSettings settings = {.optimizer = Optimizer::kTimmAdopt, .loss = Loss::kMse, .steps = 2};
  CHECK(BytesOf(settings, 1, Phase::kOptimizer) == "+192 +192 +16 +16");
  CHECK(BytesOf(settings, 2, Phase::kOptimizer) == "+192 +16 +192 +16 -16 -192 -16 -192");
  settings.optimizer = Optimizer::kTimmLamb;
  const std::string norm = "+8 +4 +4 -8 +8 +4 -8 +4 -4 -4 -4 ";
  const std::string lists = "+192 +16 +192 +16 +192 +16 ";
  CHECK(BytesOf(settings, 2, Phase::kOptimizer) == norm + lists + "-16 -192 -16 -192 -16 -192 -4");
  settings.optimizer_args = kWeightDecay;
  CHECK(BytesOf(settings, 2, Phase::kOptimizer).starts_with(norm + lists + "+8 +4 +4 -8 +8 +4"));
}

// As torch 2.11.0+cu130 asked for on an H200.
TEST_CASE("what cuSOLVER asks for") {
  struct Row {
    int64_t side;
    int64_t bytes;
  };
  const Row rows[] = {{32, 12436},    {33, 16848},    {100, 61152},     {512, 1124416},
                      {513, 4996504}, {640, 7143820}, {1024, 17429388}, {8192, 1078035340}};
  for (const auto& [side, bytes] : rows) CHECK(EighWorkspaceBytes(side) == bytes);
  CHECK(QrWorkspaceBytes(64) == 3145856);
  CHECK(QrWorkspaceBytes(1024) == 6291584);
}

// By prodigyopt 1.1.2: two loops over the parameters, the first of which makes states.
TEST_CASE("Prodigy estimates its distance before it updates") {
  const TrainingSettings settings = {
      .optimizer = Optimizer::kProdigy, .loss = Loss::kMse, .steps = 2};
  const std::string sums = "+192 +4 -4 -192 +192 +4 -4 -192 +16 +4 -4 -16 +16 +4 -4 -16";
  CHECK(BytesOf(settings, 2, Phase::kOptimizer) == sums + " +192 +16 -192 -16");
  CHECK(BytesOf(settings, 1, Phase::kOptimizer).starts_with("+192 +192 +192 +192 +192 +4"));
}

// By ultralytics 8.4.190: vectors are stepped first; a tensor of three dimensions is none of
// Muon's.
TEST_CASE("MuSGD makes updates of matrices orthogonal, and holds its names from group to group") {
  constexpr char kNet[] = R"(
    net (float[2, 3, 6] x) => (float[2, 3, 4] y)
    < float[6, 4] w = ["location": "none"], float[4] bias = ["location": "none"] > {
      h = MatMul (x, w)
      y = Add (h, bias)
    })";
  const TrainingSettings settings = {
      .optimizer = Optimizer::kMuSgd, .loss = Loss::kMse, .steps = 2};
  // The bias's update is there until the matrix's own is.
  const std::string ahead = "+16 +96 ";
  const std::string batch = "+96 +48 +2 +2 -2 -2 +32 +32 +48 -48 ";
  const std::string iteration = "+32 -32 +32 -32 +48 -48 ";
  const std::string casts = "-32 -32 +48 -48 +96 -48 -96 ";
  CHECK(BytesOf(settings, 2, Phase::kOptimizer, kNet) == ahead + batch + iteration + iteration +
                                                             iteration + iteration + casts +
                                                             "-96 -16 +96 -96 -96");
}

TEST_CASE(
    "matrices of as many columns and one scale are a batch, unless a few rows are filled up") {
  const auto batches = [](const std::vector<Dims>& dims) {
    std::vector<TensorType> types;
    for (const Dims& d : dims) types.push_back({DType::kFloat32, d});
    return MuonBatchesOf(types);
  };
  using Batches = std::vector<MuonBatch>;
  CHECK(batches({{4, 8}, {2, 8}, {3, 8}}) == Batches{{3, 4, 8}});
  CHECK(batches({{4, 2, 3, 3}, {8, 18}}) == Batches{{2, 8, 18}});
  CHECK(batches({{16, 8}, {32, 16}, {32, 8}}) == Batches{{1, 16, 8}, {1, 32, 16}, {1, 32, 8}});
  CHECK(batches({{2, 64}, {40, 64}}) == Batches{{1, 40, 64}, {1, 2, 64}});
}

// By nikhilvyas/SOAP's soap.py.
TEST_CASE("SOAP finds bases in its first step, and works in them from the second on") {
  constexpr char kNet[] = R"(
    net (float[2, 3, 6] x) => (float[2, 3, 4] y)
    < float[6, 4] w = ["location": "none"] > { y = MatMul (x, w) })";
  TrainingSettings settings = {.optimizer = Optimizer::kSoap, .loss = Loss::kMse, .steps = 2};
  const std::string states = "+96 +96 +144 +64 ";
  const std::string products = "+144 +64 -144 ";
  CHECK(BytesOf(settings, 1, Phase::kOptimizer, kNet)
            .starts_with(states + products + "+144 +144 -144 +144 -144 +144 +24 +4"));
  CHECK(BytesOf(settings, 2, Phase::kOptimizer, kNet)
            .starts_with("+96 +96 -96 +96 -96 +96 +96 +96 -96 +96 -96 +96 +96 -96 "));
  settings.precision = Precision::kBf16;
  CHECK_THROWS_AS(BytesOf(settings, 1, Phase::kOptimizer, kNet), Error);
}

// By the statements of torch/optim/*.py, and peaks of eight networks each (benchmarks/ways).
TEST_CASE("what weight decay, Nesterov's momentum and amsgrad take") {
  struct Row {
    Optimizer optimizer;
    OptimizerImpl impl;
    uint8_t args;
    std::string_view first;
    std::string_view second;
  };
  constexpr auto kForeach = OptimizerImpl::kForeach;
  constexpr auto kForLoop = OptimizerImpl::kForLoop;
  constexpr uint8_t kBoth = kWeightDecay | kNesterov;
  const Row rows[] = {
      {Optimizer::kSgd, kForeach, kWeightDecay, "+192 +16 -16 -192", "+192 +16 -16 -192"},
      {Optimizer::kSgd, kForLoop, kWeightDecay, "+192 -192 +16 -16", "+192 -192 +16 -16"},
      {Optimizer::kSgd, OptimizerImpl::kFused, kWeightDecay, "", ""},
      {Optimizer::kSgdMomentum, kForeach, kNesterov, "+192 +16", ""},
      {Optimizer::kSgdMomentum, kForeach, kWeightDecay, "+192 +16 +192 +16 -16 -192",
       "+192 +16 -16 -192"},
      {Optimizer::kSgdMomentum, kForeach, kBoth, "+192 +16 +192 +16 -16 -192", "+192 +16 -16 -192"},
      {Optimizer::kSgdMomentum, kForLoop, kNesterov, "+192 +192 -192 +16 +16 -16",
       "+192 -192 +16 -16"},
      {Optimizer::kSgdMomentum, kForLoop, kWeightDecay, "+192 +192 -192 +16 +16 -16",
       "+192 -192 +16 -16"},
      {Optimizer::kSgdMomentum, kForLoop, kBoth, "+192 +192 +192 -192 -192 +16 +16 +16 -16 -16",
       "+192 +192 -192 -192 +16 +16 -16 -16"},
      {Optimizer::kAdam, kForeach, kWeightDecay,
       "+192 +192 +16 +16 +192 +16 -16 -192 +192 +16 "
       "-16 -192",
       "+192 +16 -16 -192 +192 +16 -16 -192"},
      {Optimizer::kAdamW, kForeach, kWeightDecay, "+192 +192 +16 +16 +192 +16 -16 -192",
       "+192 +16 -16 -192"},
      {Optimizer::kAdamW, kForeach, kAmsgrad, "+192 +192 +192 +16 +16 +16 +192 +16 -16 -192",
       "+192 +16 -16 -192"},
      {Optimizer::kAdamW, OptimizerImpl::kFused, kAmsgrad, "+4 +192 +192 +192 +4 +16 +16 +16", ""},
      {Optimizer::kNAdam, kForeach, kWeightDecay,
       "+192 +192 +16 +16 +192 +16 +192 +16 -16 -192 -16 -192",
       "+192 +16 +192 +16 -16 -192 -16 -192"},
      {Optimizer::kRAdam, kForeach, kWeightDecay,
       "+192 +192 +16 +16 +192 +16 -16 -192 +192 +16 -16 -192",
       "+192 +16 -16 -192 +192 +16 -16 -192"},
      {Optimizer::kAdamax, kForeach, kWeightDecay, "+192 +192 +16 +16 +192 +16 -16 -192",
       "+192 +16 -16 -192"},
      {Optimizer::kRmsprop, kForeach, kWeightDecay, "+192 +16 +192 +16 +192 +16 -16 -192 -16 -192",
       "+192 +16 +192 +16 -16 -192 -16 -192"},
      {Optimizer::kAdagrad, kForeach, kWeightDecay, "+192 +16 +192 +16 -16 -192 -16 -192",
       "+192 +16 +192 +16 -16 -192 -16 -192"},
  };
  for (const Row& row : rows) {
    CAPTURE(ToString(row.optimizer));
    CAPTURE(ToString(row.impl));
    CAPTURE(OptimizerArgsText(row.args));
    const TrainingSettings settings = {.optimizer = row.optimizer,
                                       .optimizer_impl = row.impl,
                                       .optimizer_args = row.args,
                                       .loss = Loss::kMse,
                                       .steps = 2};
    CHECK(BytesOf(settings, 1, Phase::kOptimizer) == row.first);
    CHECK(BytesOf(settings, 2, Phase::kOptimizer) == row.second);
  }
}

TEST_CASE("which optimizers copy gradients to decay, and what others take") {
  const auto copies = [](Optimizer optimizer) {
    return CopiesGradientsToDecay(optimizer, {}, DefaultFramework());
  };
  CHECK(copies(Optimizer::kSgdMomentum));
  CHECK(copies(Optimizer::kRmsprop));
  CHECK_FALSE(copies(Optimizer::kAdam));
  CHECK_FALSE(copies(Optimizer::kAdamW));
  CHECK(ArgsTaken(Optimizer::kSgd, kNesterov | kWeightDecay) == kWeightDecay);
  CHECK(ArgsTaken(Optimizer::kLion, kAmsgrad | kWeightDecay) == kWeightDecay);
  CHECK(ArgsTaken(Optimizer::kAdamW, kAmsgrad) == kAmsgrad);
}

// min_8bit_size is 4096: that many elements are in 8 bits, with a scale for 256 of them.
// The states that `optimizer` makes of a matrix [64, columns].
std::string StatesOf(int64_t columns, Optimizer optimizer) {
  const std::string text =
      TraceText(fmt::format("net (float[2, 64] x) => (float[2, {0}] y) < float[64, {0}] w = "
                            "[\"location\": \"none\"] > {{ y = MatMul (x, w) }}",
                            columns),
                {.optimizer = optimizer, .loss = Loss::kMse, .steps = 1});
  return text.substr(text.find("optimizer"));
}

TEST_CASE("tensors from 4096 elements on have their states in 8 bits") {
  const auto states = [](int64_t columns) { return StatesOf(columns, Optimizer::kAdamW8bit); };
  CHECK_MESSAGE(states(64).find("w.state1:4096 ") != std::string::npos, states(64));
  CHECK_MESSAGE(states(64).find("w.absmax1:64 ") != std::string::npos, states(64));
  CHECK_MESSAGE(states(63).find("w.state1:16128 ") != std::string::npos, states(63));
}

// name2qmap has two of 256 values in fp32, on the device from the first such tensor on.
TEST_CASE("states in 8 bits share the tables by which they are read") {
  const std::string states = StatesOf(64, Optimizer::kAdamW8bit);
  CHECK_MESSAGE(states.find("qmap1:1024 +w.qmap2:1024 +w.state1:4096 ") != std::string::npos,
                states);
  CHECK(StatesOf(63, Optimizer::kAdamW8bit).find("qmap") == std::string::npos);
  const std::string lion = StatesOf(64, Optimizer::kLion8bit);
  CHECK_MESSAGE(lion.find("qmap1:1024 +w.state1:4096 +w.absmax1:64") != std::string::npos, lion);
}

// _get_state_double_buffer of bitsandbytes' AdEMAMix, whose scales come first.
TEST_CASE("AdEMAMix has two averages in one tensor") {
  const std::string states = StatesOf(64, Optimizer::kAdEMAMix8bit);
  CHECK_MESSAGE(states.find("w.qmap2:1024 +w.absmax1:128 +w.absmax2:64 +w.state1:8192 "
                            "+w.state2:4096") != std::string::npos,
                states);
  const std::string paged = StatesOf(1563, Optimizer::kPagedAdEMAMix8bit);
  CHECK(paged.find("state") == std::string::npos);
  CHECK_MESSAGE(paged.find("w.absmax1:3128 +w.absmax2:1564") != std::string::npos, paged);
}

// What the first step makes of a table that is the head's weight too, and of a matrix: 4096
// elements each.
std::string StatesOfEmbedding(Optimizer optimizer, LoopLibrary library) {
  const std::string text = TraceText(
      R"(
    net (int64[2, 3] i) => (float[2, 3, 64] y)
    < float[64, 64] table = ["location": "none"], float[64, 64] w = ["location": "none"] > {
      e = Gather (table, i)
      h = MatMul (e, w)
      t = Transpose <perm = [1, 0]> (table)
      y = MatMul (h, t)
    })",
      {.optimizer = optimizer, .loss = Loss::kMse, .loop = {.library = library}, .steps = 1});
  std::string states;
  for (size_t at = 0; (at = text.find('+', at)) != std::string::npos; ++at) {
    const std::string made = text.substr(at, text.find_first_of(" \n", at) - at);
    const bool is_state = made.find(".state") != std::string::npos ||
                          made.find(".absmax") != std::string::npos ||
                          made.find(".qmap") != std::string::npos;
    if (is_state) states += (states.empty() ? "" : " ") + made;
  }
  return states;
}

// transformers' Trainer registers {"optim_bits": 32} for the weight of each nn.Embedding.
TEST_CASE("the Trainer keeps states of embeddings in 32 bits") {
  const auto states = [](Optimizer optimizer) {
    return StatesOfEmbedding(optimizer, LoopLibrary::kTrainer);
  };
  CHECK(states(Optimizer::kAdamW8bit) ==
        "+table.state1:16384 +table.state2:16384 +w.qmap1:1024 +w.qmap2:1024 +w.state1:4096 "
        "+w.state2:4096 +w.absmax1:64 +w.absmax2:64");
  const std::string moment = "+table.state1:16384 +w.qmap1:1024 +w.state1:4096 +w.absmax1:64";
  CHECK(states(Optimizer::kLion8bit) == moment);
  CHECK(states(Optimizer::kPagedLion8bit) == moment);
  CHECK(states(Optimizer::kRmsprop8bit) == moment);
  CHECK(states(Optimizer::kAdEMAMix8bit).starts_with("+table.state1:32768 +table.state2:16384 "));
  CHECK(states(Optimizer::kLion32bit) == "+table.state1:16384 +w.state1:16384");
}

TEST_CASE("other loops have states of embeddings in the optimizer's bits") {
  CHECK(StatesOfEmbedding(Optimizer::kLion8bit, LoopLibrary::kAccelerate) ==
        "+table.qmap1:1024 +table.state1:4096 +table.absmax1:64 +w.state1:4096 +w.absmax1:64");
}

// By Inductor's code of torchao's step: w has 64 * 64 elements in 16 blocks of 256, 32 of 128.
TEST_CASE("torchao's moments are found in fp32 before they are packed") {
  CHECK(StatesOf(64, Optimizer::kTorchaoAdamW8bit) ==
        "optimizer +w.exp_avg:4096 +w.exp_avg.scale:64 +w.exp_avg.qmap:1024 +w.exp_avg_sq:4096 "
        "+w.exp_avg_sq.scale:64 +w.exp_avg_sq.qmap:1024 +optimizer temporary:64 +optimizer "
        "temporary:64 +optimizer temporary:16384 +optimizer temporary:16384 -optimizer temporary "
        "-optimizer temporary -optimizer temporary -optimizer temporary\n");
  const std::string in_4_bits = StatesOf(64, Optimizer::kTorchaoAdamW4bit);
  CHECK_MESSAGE(
      in_4_bits.starts_with("optimizer +w.exp_avg:2048 +w.exp_avg.scale:128 +w.exp_avg.qmap:64 "),
      in_4_bits);
  CHECK_MESSAGE(in_4_bits.find("temporary:32768 +optimizer temporary:32768") != std::string::npos,
                in_4_bits);
  CHECK(StatesOf(64, Optimizer::kTorchaoAdamWFp8).find("qmap") == std::string::npos);
  CHECK(StatesOf(63, Optimizer::kTorchaoAdamW8bit) ==
        "optimizer +w.exp_avg:16128 +w.exp_avg_sq:16128\n");
}

// get_state_buffer: F.get_paged from 1e5 elements on, which is cudaMallocManaged.
TEST_CASE("paged states of large tensors are not the allocator's") {
  const std::string small = StatesOf(1562, Optimizer::kPagedAdamW32bit);  // 99968 elements
  CHECK_MESSAGE(small.find("w.state1:399872 +w.state2:399872") != std::string::npos, small);
  CHECK(StatesOf(1563, Optimizer::kPagedAdamW32bit).find("state") == std::string::npos);
  const std::string in_8_bits = StatesOf(1563, Optimizer::kPagedAdamW8bit);
  CHECK(in_8_bits.find("state1") == std::string::npos);
  CHECK_MESSAGE(in_8_bits.find("w.absmax1:1564 +w.absmax2:1564") != std::string::npos, in_8_bits);
}

TEST_CASE("what is said of managed memory has the Trainer's embeddings in 32 bits") {
  const Graph graph = ParseGraph(R"(
    net (int64[2, 3] i) => (float[2, 3, 64] y) < float[2048, 64] table = ["location": "none"] > {
      y = Gather (table, i)
    })");
  const auto says = [&](LoopLibrary library, int64_t bytes) {
    const EstimateRequest request = {.settings = {.optimizer = Optimizer::kPagedLion8bit,
                                                  .loss = Loss::kMse,
                                                  .loop = {.library = library}}};
    const std::string start = FormatBytes(bytes) + " of optimizer state are in managed memory";
    return std::ranges::any_of(
        MakeEstimate(graph, request).assumptions,
        [&](const std::string& assumption) { return assumption.starts_with(start); });
  };
  CHECK(says(LoopLibrary::kPlain, 2048 * 64));
  CHECK(says(LoopLibrary::kTrainer, 2048 * 64 * 4));
}

// By events of transformers 5.17.0: update, which a parameter leaves, goes when the next one's is
// there; state["RMS"] is a tensor that each step makes anew.
TEST_CASE("Adafactor of transformers holds an update from one parameter to the next") {
  const TrainingSettings settings = {
      .optimizer = Optimizer::kAdafactorTransformers, .loss = Loss::kMse, .steps = 2};
  const std::string square = " +192 +192 -192 ";
  const std::string factored = "+48 -48 +32 -32 +8 +48 -8 +32 +192 -48 -32 -192";
  const std::string clipped = " +4 +4 -4 +4 -4 -4 ";
  const std::string vector = " +16 +16 -16 -192 +16 -16" + clipped + "+16 -16 -16";
  CHECK(BytesOf(settings, 1, Phase::kOptimizer) ==
        "+48 +32 +4 +4 -4" + square + factored + clipped + "+192 -192 +16 +4 +4 -4" + vector);
  CHECK(BytesOf(settings, 2, Phase::kOptimizer) ==
        "+4 +4 -4 -4" + square + factored + clipped + "+192 -192 +4 +4 -4 -4" + vector);
}

TEST_CASE("Adafactor of transformers works in fp32 whatever the parameter is") {
  const std::string text = BytesOf({.precision = Precision::kBf16,
                                    .optimizer = Optimizer::kAdafactorTransformers,
                                    .loss = Loss::kMse,
                                    .steps = 2},
                                   2, Phase::kOptimizer);
  CHECK_MESSAGE(text.starts_with("+192 +192 +4 +4 -4 -4 +192 +192 -192 "), text);
}

// The tutorial's hook: AdamW(foreach=False) of one parameter, whose gradient goes behind it.
TEST_CASE("an optimizer in backward steps a parameter as soon as its gradient is there") {
  const TrainingSettings settings = {.optimizer_in_backward = true, .loss = Loss::kMse, .steps = 2};
  const auto of_matrix = [&](int32_t step) {
    const std::string text = BytesOf(settings, step, Phase::kBackward);
    return text.substr(text.rfind("+192 +192 -192"));
  };
  CHECK(BytesOf(settings, 1, Phase::kBackward).find("+16 +16 +16 +16 -16 -16 -16") !=
        std::string::npos);
  CHECK(BytesOf(settings, 2, Phase::kBackward).find("+16 +16 +16 -16 -16 -16") !=
        std::string::npos);
  CHECK(of_matrix(2).starts_with("+192 +192 -192 -192 -192"));
  CHECK(BytesOf(settings, 2, Phase::kOptimizer).empty());
}

TEST_CASE("what waits for all gradients cannot be with an optimizer in backward") {
  const auto train = [](Precision precision, bool clip) {
    BytesOf({.precision = precision,
             .clip_grad = clip,
             .optimizer_in_backward = true,
             .loss = Loss::kMse},
            1, Phase::kBackward);
  };
  CHECK_THROWS_WITH_AS(train(Precision::kFp32, true),
                       "--optimizer-in-backward: expected no --clip-grad, which waits for all "
                       "gradients",
                       Error);
  CHECK_THROWS_WITH_AS(train(Precision::kAmpFp16, false),
                       "--optimizer-in-backward: expected no GradScaler (-p amp-fp16), which waits "
                       "for all gradients (try: -p amp-bf16)",
                       Error);
  CHECK_NOTHROW(train(Precision::kAmpBf16, false));
}

TEST_CASE("an optimizer in backward loops over its parameter, which some rows do not know") {
  const TrainingSettings settings = {
      .optimizer = Optimizer::kRAdam, .optimizer_in_backward = true, .loss = Loss::kMse};
  CHECK_THROWS_WITH_AS(BytesOf(settings, 1, Phase::kBackward),
                       "--optimizer-in-backward: expected an optimizer whose loop over parameters "
                       "(foreach=False) is known here, found radam (try: -o adamw)",
                       Error);
}

TEST_CASE("Lion makes the state of a parameter just before it updates it") {
  const TrainingSettings settings = {.optimizer = Optimizer::kLion, .loss = Loss::kMse};
  CHECK(BytesOf(settings, 1, Phase::kOptimizer) == "+192 +192 +192 -192 -192 +16 +16 +16 -16 -16");
  CHECK(BytesOf(settings, 2, Phase::kOptimizer) == "+192 +192 -192 -192 +16 +16 -16 -16");
}

// torch/optim/_muon.py by events of torch 2.11.0: five iterations in bf16, whose products are
// square, of the shorter side; AdamW steps behind it.
TEST_CASE("Muon steps hidden matrices, AdamW the others") {
  const TrainingSettings settings = {.optimizer = Optimizer::kMuon, .loss = Loss::kMse, .steps = 2};
  const std::string again = " +32 -32 +32 -32 +64 -64";
  const std::string matrix =
      "+128 +64 +2 +2 -2 -2 +32 +32 +64 -64" + again + again + again + again + " -32 -32 -128 -64";
  CHECK(BytesOf(settings, 1, Phase::kOptimizer, kTwoLayers) ==
        "+128 " + matrix + " +64 +64 +64 -64");
  CHECK(BytesOf(settings, 2, Phase::kOptimizer, kTwoLayers) == matrix + " +64 -64");
}

TEST_CASE("hidden is a matrix that is no table of an embedding, nor the last layer's") {
  const Program program = Build(R"(
    net (int64[2, 3] i) => (float[2, 3, 5] y)
    < float[7, 4] table = ["location": "none"], float[4, 4] w = ["location": "none"],
      float[4] b = ["location": "none"], float[4, 5] head = ["location": "none"] > {
      e = Gather (table, i)
      h = MatMul (e, w)
      s = Add (h, b)
      y = MatMul (s, head)
    })",
                                {})
                              .program;
  std::string hidden;
  const std::vector<bool> are = AreHiddenMatrices(program);
  for (size_t i = 0; i < are.size(); ++i) {
    if (are[i]) hidden += program.values[Index(program.parameters[i])].name;
  }
  CHECK(hidden == "w");
}

TEST_CASE("a table of an embedding is one where it is the head's weight too") {
  const Program program = Build(R"(
    net (int64[2, 3] i) => (float[2, 3, 7] y)
    < float[7, 4] table = ["location": "none"], float[4, 4] w = ["location": "none"] > {
      e = Gather (table, i)
      h = MatMul (e, w)
      t = Transpose <perm = [1, 0]> (table)
      y = MatMul (h, t)
    })",
                                {})
                              .program;
  CHECK(AreEmbeddingTables(program) == std::vector<bool>{true, false});
}

TEST_CASE("Adagrad's states are there before the first step, the averaged model after them") {
  const TrainingSettings settings = {
      .optimizer = Optimizer::kAdagrad, .ema = true, .loss = Loss::kMse, .steps = 2};
  CHECK(BytesOf(settings, 0, Phase::kSetup) == "+192 +16 +192 +16 +192 +16");
}

TEST_CASE("the scaler's scalars") {
  struct Row {
    const char* name;
    OptimizerImpl impl;
    bool clip;
    std::string_view expected;
  };
  // The norms of two gradients: a partial sum for the one chunk of each, two norms, their
  // stack, its norm; then the coefficient.
  constexpr std::string_view kClip = "+8 +4 +4 -8 +8 +4 -8 -4 -4 +4 +4 +4 -4 -4 +4 -4 -4 -4";
  constexpr std::string_view kUnscale = "+8 +8 -8 +4 -8 +4 +4 +4 -4 -4 -4";
  const Row rows[] = {
      {"step() unscales", OptimizerImpl::kForeach, false, "{unscale} -4"},
      {"clipping needs it before", OptimizerImpl::kForeach, true, "{unscale} {clip} -4"},
      {"a fused kernel unscales itself", OptimizerImpl::kFused, false,
       "+4 +4 +4 +4 -4 -4 -4 +4 +4 -4 -4 -4"},
      {"unless clipping did", OptimizerImpl::kFused, true, "{unscale} {clip} +4 -4 -4"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const TrainingSettings settings = {.precision = Precision::kAmpFp16,
                                       .optimizer = Optimizer::kSgd,
                                       .optimizer_impl = row.impl,
                                       .clip_grad = row.clip,
                                       .loss = Loss::kMse};
    CHECK(BytesOf(settings, 2, Phase::kOptimizer) == fmt::format(fmt::runtime(row.expected),
                                                                 fmt::arg("unscale", kUnscale),
                                                                 fmt::arg("clip", kClip)));
  }
}

TEST_CASE("partial sums of the norms are as many as the largest gradient has chunks") {
  constexpr char kLarge[] = R"(
    net (float[1, 2] x) => (float[1, 65537] y)
    < float[2, 65537] w = ["location": "none"], float[65537] b = ["location": "none"] > {
      h = MatMul (x, w)
      y = Add (h, b)
    })";
  const std::string text =
      TraceText(kLarge, {.optimizer = Optimizer::kSgd, .clip_grad = true, .steps = 1});
  // 131074 elements are 3 chunks of 65536: 2 gradients x 3 x 4 bytes.
  CHECK(text.find("optimizer +clip_grad_norm:24 +clip_grad_norm:4 +clip_grad_norm:4 ") !=
        std::string::npos);
  // 3 and 2 chunks, and where each gradient's begin: 3 x 8 bytes.
  const std::string later = TraceText(kLarge, {.framework = Frameworks().back(),
                                               .optimizer = Optimizer::kSgd,
                                               .clip_grad = true,
                                               .steps = 1});
  CHECK(later.find("optimizer +clip_grad_norm:24 +clip_grad_norm:20 +clip_grad_norm:4 "
                   "+clip_grad_norm:4 -clip_grad_norm -clip_grad_norm +clip_grad_norm:8 ") !=
        std::string::npos);
}

TEST_CASE("a fused Adagrad counts its steps on the device, where PyTorch has it") {
  TrainingSettings settings = {.framework = Frameworks().back(),
                               .optimizer = Optimizer::kAdagrad,
                               .optimizer_impl = OptimizerImpl::kFused,
                               .loss = Loss::kMse,
                               .steps = 2};
  CHECK(BytesOf(settings, 0, Phase::kSetup) == "+192 +16 +4 +192 +4 +16");
  CHECK(BytesOf(settings, 1, Phase::kOptimizer).empty());
  settings.framework = DefaultFramework();
  CHECK_THROWS_WITH_AS(BytesOf(settings, 0, Phase::kSetup),
                       "--optimizer-impl: expected foreach or for-loop for adagrad of "
                       "pytorch-2.11, found 'fused' (try: leave it out for PyTorch's own choice)",
                       Error);
}

TEST_CASE("an average of the model counts its updates on the device from the second on") {
  const TrainingSettings settings = {
      .optimizer = Optimizer::kSgd, .ema = true, .loss = Loss::kMse, .steps = 3};
  CHECK(BytesOf(settings, 1, Phase::kOptimizer).empty());
  CHECK(BytesOf(settings, 2, Phase::kOptimizer) == "+8 -8");
  CHECK(BytesOf(settings, 3, Phase::kOptimizer) == "+8 -8");
}

TEST_CASE("a buffer's copy has for a moment a tensor of one element") {
  const std::string text = TraceText(
      R"(net (float[2, 3, 4, 4] x) => (float[2, 3, 4, 4] y)
         < float[3] scale = ["location": "none"], float[3] bias = ["location": "none"],
           float[3] mean = ["location": "none"], float[3] variance = ["location": "none"] > {
           y, m, v = BatchNormalization <training_mode = 1> (x, scale, bias, mean, variance)
         })",
      {.optimizer = Optimizer::kSgd, .ema = true, .steps = 1});
  CHECK_MESSAGE(text.find("+scale.ema:12 +bias.ema:12 +mean.ema:12 +mean.ema:4 -mean.ema "
                          "+variance.ema:12 +variance.ema:4 -variance.ema") != std::string::npos,
                text);
}

TEST_CASE("Muon is there from 2.9 on") {
  const auto find = [](std::string_view version) {
    const auto framework = std::ranges::find(Frameworks(), version, &FrameworkProfile::name);
    REQUIRE(framework != Frameworks().end());
    FindOptimizerRule(Optimizer::kMuon, {}, *framework);
  };
  CHECK_NOTHROW(find("pytorch-2.9"));
  CHECK_THROWS_WITH_AS(find("pytorch-2.8"),
                       "--optimizer: expected one of pytorch-2.8's, found 'muon' (try: a later "
                       "version by --framework)",
                       Error);
}

TEST_CASE("PyTorch takes lists where it is not told, but for Adafactor") {
  CHECK(FindOptimizerRule(Optimizer::kAdamW, {}, DefaultFramework()).impl ==
        OptimizerImpl::kForeach);
  CHECK(FindOptimizerRule(Optimizer::kAdafactor, {}, DefaultFramework()).impl ==
        OptimizerImpl::kForLoop);
}

TEST_CASE("an implementation that an optimizer lacks is an error") {
  const auto error_of = [](Optimizer optimizer, OptimizerImpl impl) {
    try {
      FindOptimizerRule(optimizer, impl, DefaultFramework());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK(error_of(Optimizer::kRmsprop, OptimizerImpl::kFused) ==
        "--optimizer-impl: expected foreach or for-loop for rmsprop of pytorch-2.11, found 'fused' "
        "(try: leave it "
        "out for PyTorch's own choice)");
  CHECK(error_of(Optimizer::kLion, OptimizerImpl::kForeach) ==
        "--optimizer-impl: expected for-loop for lion of pytorch-2.11, found 'foreach' (try: leave "
        "it out for "
        "PyTorch's own choice)");
  CHECK(error_of(Optimizer::kNone, OptimizerImpl::kForeach) ==
        "--optimizer-impl: expected an optimizer, found none that could be 'foreach' (try: "
        "--optimizer adamw)");
}

}  // namespace
}  // namespace onnxfit::optimizer_step_test
