#include "estimator/training/training.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/fx_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit::training_test {
namespace {

TEST_CASE("a training step keeps an activation until the last gradient that reads it") {
  const TrainingSettings settings = {
      .optimizer = Optimizer::kSgd, .in_place = InPlaceUse::kNever, .steps = 1};
  CHECK(TraceText(kTwoLayers, settings) == R"(
setup     +w1:128 +w2:64
forward   +x:256 +labels:128 +h:512 +cuBLAS workspace:8519680 +a:512 -h +y:128 +log_probabilities:128 +loss:4 +loss.total_weight:4 -y
backward  +loss.grad:4 +log_probabilities.grad:128 -loss.total_weight +y.grad:128 -log_probabilities.grad -log_probabilities +w2.grad:64 +cuBLAS workspace:8519680 +a.grad:512 -y.grad +h.grad:512 -a.grad -a +w1.grad:128 -h.grad -loss.grad
optimizer
)");
}

TEST_CASE("AdamW makes its state in the first step and a list of roots in each") {
  const std::string text = TraceText(kTwoLayers, {.optimizer = Optimizer::kAdamW, .steps = 2});
  const std::string first =
      "optimizer +w1.exp_avg:128 +w1.exp_avg_sq:128 +w2.exp_avg:64 "
      "+w2.exp_avg_sq:64 +optimizer temporary:128 +optimizer temporary:64 "
      "-optimizer temporary -optimizer temporary\n";
  const std::string second =
      "optimizer +optimizer temporary:128 +optimizer temporary:64 "
      "-optimizer temporary -optimizer temporary\n";
  CHECK(text.find(first) != std::string::npos);
  CHECK(text.ends_with(second));
}

TEST_CASE("the new batch is there before the old one goes, then the gradients go") {
  const std::string text = TraceText(kTwoLayers, {.optimizer = Optimizer::kSgd, .steps = 2});
  CHECK(text.find("forward   +x:256 +labels:128 -x -labels -w1.grad -w2.grad +h:512") !=
        std::string::npos);
}

TEST_CASE("the third step repeats the second") {
  const std::string text = TraceText(kTwoLayers, {.steps = 3});
  const size_t second = text.find("\nforward", text.find("\nforward") + 1);
  const size_t third = text.find("\nforward", second + 1);
  REQUIRE(third != std::string::npos);
  CHECK(text.substr(second, third - second) + "\n" == text.substr(third));
}

TEST_CASE("inference keeps nothing but the result") {
  const TrainingSettings settings = {
      .mode = Mode::kEval, .in_place = InPlaceUse::kNever, .steps = 2};
  CHECK(TraceText(kTwoLayers, settings) == R"(
setup     +w1:128 +w2:64
forward   +x:256 +labels:128 +h:512 +cuBLAS workspace:8519680 +a:512 -h +y:128 -a
forward   +x:256 +labels:128 -x -labels +h:512 +a:512 -h +y:128 -a -y
)");
}

// matmul asks of the weight whether it requires a gradient, and not whether gradients are on.
TEST_CASE("inference copies what a weight's product cannot read in rows") {
  const TrainingSettings settings = {.mode = Mode::kEval, .loss = Loss::kNone, .steps = 1};
  const auto product = [&](const char* operand) {
    return TraceText(std::string(R"(net (float[16, 4, 3] x, float[4, 8] v) => (float[16, 3, 8] y)
                     < float[4, 8] w = ["location": "none"] > {
                       t = Transpose <perm = [0, 2, 1]> (x)
                       y = MatMul (t, )") +
                         operand + ") }",
                     settings);
  };
  constexpr std::string_view kCopy = "+y.clone:768 ";  // 16 * 3 * 4 * 4
  CHECK(product("w").find(kCopy) != std::string::npos);
  CHECK(product("v").find(kCopy) == std::string::npos);
}

TEST_CASE("a call writes over an input that nobody reads, saved or holds") {
  struct Row {
    const char* name;
    const char* body;
    const char* forward;  // what one forward pass of inference or training allocates
    Mode mode;
  };
  const Row rows[] = {
      {"relu of a product", "h = MatMul (x, w) y = Relu (h)", "+h:128 ", Mode::kTrain},
      {"relu of the batch, which the loop holds", "r = Relu (x) y = MatMul (r, w)",
       "+r:128 +y:128 ", Mode::kTrain},
      {"relu of what a product saved",
       "h = MatMul (x, w) k = MatMul (h, w) r = Relu (h) y = Add (k, r)",
       "+h:128 +k:128 +r:128 +log", Mode::kTrain},
      {"relu of a result that its maker saved", "h = MatMul (x, w) s = Sigmoid (h) y = Relu (s)",
       "+h:128 +s:128 -h +y:128 ", Mode::kTrain},
      {"the same in inference", "h = MatMul (x, w) s = Sigmoid (h) y = Relu (s)",
       "+h:128 +s:128 -h +y:128 -s\n", Mode::kEval},
      {"hardswish saves a clone", "h = MatMul (x, w) y = HardSwish (h)", "+h:128 +h:128 ",
       Mode::kTrain},
      {"the first operand of a sum", "h = MatMul (x, w) k = MatMul (x, w) y = Add (h, k)",
       "+h:128 +k:128 -k ", Mode::kTrain},
      {"a sum that broadcasts", "h = MatMul (v, w) y = Add (h, x)", "+h:32 +y:128 -h ",
       Mode::kTrain},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const std::string text = TraceText(
        "net (float[4, 8] x, float[1, 8] v) => (float[4, 8] y) "
        "< float[8, 8] w = [\"location\": \"none\"] > { " +
            std::string(row.body) + " }",
        {.optimizer = Optimizer::kSgd,
         .mode = row.mode,
         .in_place = row.mode == Mode::kTrain ? InPlaceUse::kAlways : InPlaceUse::kAuto,
         .steps = 1});
    std::string forward = text.substr(text.find("+labels:"));
    forward = forward.substr(forward.find(' ') + 1);
    const std::string workspace = "+cuBLAS workspace:8519680 ";
    if (const size_t at = forward.find(workspace); at != std::string::npos) {
      forward.erase(at, workspace.size());
    }
    CHECK_MESSAGE(forward.starts_with(row.forward), text);
  }
}

TEST_CASE("the loop may be written otherwise") {
  struct Row {
    const char* name;
    LoopSettings loop;
    const char* expected;  // in the trace of two steps
  };
  const Row rows[] = {
      {"gradients go between forward and backward",
       {.zero_grad = ZeroGrad::kBeforeBackward},
       "-y -loss\nbackward  -w1.grad -w2.grad +loss.grad:4"},
      {"gradients go as soon as the optimizer has stepped",
       {.zero_grad = ZeroGrad::kAfterStep},
       "optimizer -w1.grad -w2.grad\n"},
      {"gradients stay, later ones are added in place",
       {.zero_grad = ZeroGrad::kKeep},
       "+w2.grad:64 +a.grad:512 -y.grad -w2.grad +h.grad:512"},
      {"the old outputs live until the model has returned, the new ones longer",
       {.hold_outputs = true},
       "forward   +x:256 +labels:128 -x -labels -w1.grad -w2.grad +h:512 +a:512 -h +y:128 -y "
       "+log_probabilities:128 +loss:4 +loss.total_weight:4 -loss\n"},
      {"the old batch is gone before the new one is there",
       {.drop_batch = true},
       "forward   -x -labels +x:256 +labels:128 -w1.grad -w2.grad +h:512"},
      {"one batch is there before the first step, and stays",
       {.same_batch = true},
       "setup     +w1:128 +w2:64 +x:256 +labels:128\nforward   +h:512"},
      {"no batch comes in a later step",
       {.same_batch = true},
       "forward   -w1.grad -w2.grad +h:512"},
      {"batches wait on the device",
       {.prefetch = 2},
       "setup     +w1:128 +w2:64 +x:256 +labels:128 +x:256 +labels:128\n"
       "forward   +x:256 +labels:128 +h:512"},
      {"micro-batches: the loss is divided when the loss function has returned",
       {.accumulate = 2},
       "+loss.total_weight:4 -y +loss / micro-batches:4 -loss -loss / micro-batches\n"
       "backward  +loss.grad:4 +loss.grad:4 +log_probabilities.grad:128 -loss.grad"},
      {"micro-batches: no step between them, the second gradients are added in place",
       {.accumulate = 2},
       "+w1.grad:128 -h.grad -loss.grad\nforward   +x:256 +labels:128 -x -labels +h:512"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const std::string text = TraceText(kTwoLayers, {.optimizer = Optimizer::kSgd,
                                                    .in_place = InPlaceUse::kNever,
                                                    .loop = row.loop,
                                                    .steps = 2});
    CHECK_MESSAGE(text.find(row.expected) != std::string::npos, text);
  }
}

TEST_CASE("what a benchmark's step has made is gone before the next one") {
  const auto text = [](bool is_benchmark) {
    return TraceText(kTwoLayers, {.mode = Mode::kEval,
                                  .loss = Loss::kNone,
                                  .in_place = InPlaceUse::kNever,
                                  .loop = {.same_batch = is_benchmark},
                                  .steps = 2});
  };
  CHECK_MESSAGE(text(true).find("-a -y\nforward   +h:512") != std::string::npos, text(true));
  CHECK_MESSAGE(text(false).find("-a -y\nforward") == std::string::npos, text(false));
}

TEST_CASE("where no other batch comes nothing is done with the next one") {
  const auto run = [](const LoopSettings& loop, bool mixup) {
    return TraceText(kTwoLayers, {.mixup = mixup, .loop = loop});
  };
  CHECK_THROWS_WITH(run({.same_batch = true, .prefetch = 1}, false),
                    "--same-batch: expected no --prefetch beside it");
  CHECK_THROWS_WITH(run({.drop_batch = true, .same_batch = true}, false),
                    "--same-batch: expected no --drop-batch beside it");
  CHECK_THROWS_WITH(run({.library = LoopLibrary::kTrainer, .same_batch = true}, false),
                    "--same-batch: expected no --loop beside it");
  CHECK_THROWS_WITH(run({.same_batch = true}, true), "--same-batch: expected no --mixup beside it");
}

TEST_CASE("what is frozen has no gradient, and a frozen beginning keeps nothing") {
  struct Row {
    std::vector<std::string> freeze;
    const char* expected;  // in the trace of one step
  };
  const Row rows[] = {
      // The product that is wanted takes the workspace.
      {{"w1"},
       "+y.grad:128 -log_probabilities.grad -log_probabilities +w2.grad:64 "
       "+cuBLAS workspace:8519680 -y.grad -a -loss.grad\n"},
      {{"w2"},
       "+a.grad:512 +cuBLAS workspace:8519680 -y.grad +h.grad:512 -a.grad -a "
       "+w1.grad:128 -h.grad -loss.grad\n"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.expected);
    const std::string text = TraceText(kTwoLayers, {.optimizer = Optimizer::kSgd,
                                                    .in_place = InPlaceUse::kNever,
                                                    .freeze = row.freeze,
                                                    .steps = 1});
    CHECK_MESSAGE(text.find(row.expected) != std::string::npos, text);
  }
}

// Steps of a batch norm's backward: the gradients of x, weight and bias, [2, 2, 4, 4] and [2].
TEST_CASE("cuDNN's batch norm makes all gradients, and drops what nobody wants") {
  struct Row {
    std::vector<std::string> freeze;
    Precision precision;
    const char* expected;
  };
  const Row rows[] = {
      {{"w"}, Precision::kFp32, "+h.grad:256 +g.grad:8 +b.grad:8 -h.grad -y.grad"},
      {{"w", "g"}, Precision::kFp32, "+h.grad:256 +g.grad:8 +b.grad:8 -h.grad -g.grad -y.grad"},
      {{"g", "b"}, Precision::kFp32, "+h.grad:256 +g.grad:8 +b.grad:8 -g.grad -b.grad -y.grad"},
      {{"w", "g"}, Precision::kBf16, "+b.grad:4 -y.grad"},  // not cuDNN's
      {{"w", "g"}, Precision::kFp16, "+b.grad:4 -y.grad"},  // nor with a weight of 16 bits
  };
  for (const Row& row : rows) {
    CAPTURE(row.expected);
    const std::string text = TraceText(
        R"(net (float[2, 2, 4, 4] x) => (float[2, 2, 4, 4] y)
           < float[2, 2, 1, 1] w = ["location": "none"], float[2] g = ["location": "none"],
             float[2] b = ["location": "none"], float[2] m = {0, 0}, float[2] v = {1, 1} > {
             h = Conv (x, w)
             y = BatchNormalization (h, g, b, m, v)
           })",
        {.precision = row.precision,
         .optimizer = Optimizer::kSgd,
         .freeze = row.freeze,
         .steps = 1});
    CHECK_MESSAGE(text.find(row.expected) != std::string::npos, text);
  }
}

// Of [N, C] the native kernel makes only what is wanted (_select_batch_norm_backend: cuDNN takes
// three dimensions and more).
TEST_CASE("a batch norm of vectors is not cuDNN's") {
  const std::string text = TraceText(
      R"(net (float[4, 2] x) => (float[4, 2] y)
         < float[2, 2] w = ["location": "none"], float[2] g = ["location": "none"],
           float[2] b = ["location": "none"], float[2] m = {0, 0}, float[2] v = {1, 1} > {
           h = MatMul (x, w)
           y = BatchNormalization (h, g, b, m, v)
         })",
      {.optimizer = Optimizer::kSgd, .freeze = {"w", "g"}, .steps = 1});
  CHECK_MESSAGE(text.find("+b.grad:8 -y.grad") != std::string::npos, text);
}

// loss/loss_utils.py of transformers: logits.float().
TEST_CASE("a causal loss takes logits of 16 bits in fp32") {
  const auto text = [](Precision precision) {
    return TraceText(R"(net (float[2, 3, 8] x) => (float[2, 3, 10] y)
                        < float[8, 10] w = ["location": "none"] > { y = MatMul (x, w) })",
                     {.precision = precision, .loss = Loss::kCausalLm, .steps = 1});
  };
  CHECK(text(Precision::kBf16).find("+logits.float:240 ") != std::string::npos);
  CHECK(text(Precision::kFp32).find("logits.float") == std::string::npos);
}

// What autograd does not save, nobody clones.
TEST_CASE("in inference what works in place makes nothing") {
  const auto made = [](Mode mode) {
    const std::string text = TraceText(R"(net (float[16, 4] x) => (float[16, 8] y)
                     < float[4, 8] w = ["location": "none"] > {
                       h = MatMul (x, w) y = HardSwish (h) })",
                                       {.mode = mode, .in_place = InPlaceUse::kAlways, .steps = 1});
    return text.find("+h:512", text.find("+h:512") + 1) != std::string::npos;
  };
  CHECK(made(Mode::kTrain));  // the clone that its backward reads
  CHECK_FALSE(made(Mode::kEval));
}

TEST_CASE("prelu makes both gradients in the output's shape") {
  const std::string text = TraceText(
      R"(net (float[4, 8] x) => (float[4, 8] y)
         < float[8, 8] w = ["location": "none"], float[8] s = ["location": "none"] > {
           h = MatMul (x, w)
           y = PRelu (h, s)
         })",
      {.optimizer = Optimizer::kSgd, .freeze = {"s"}, .steps = 1});
  CHECK_MESSAGE(text.find("+h.grad:128 +y.view.grad:128 -y.view.grad -y.grad") != std::string::npos,
                text);
}

// h is saved by the product that makes k: only when w2 is frozen may the sum take it.
TEST_CASE("freezing does not make an operator work in place") {
  const char* text = R"(net (float[4, 8] x) => (float[4, 8] y)
    < float[8, 8] w1 = ["location": "none"], float[8, 8] w2 = ["location": "none"] > {
      h = MatMul (x, w1)
      k = MatMul (h, w2)
      y = Add (h, k)
    })";
  for (const std::vector<std::string>& freeze : {{}, std::vector<std::string>{"w2"}}) {
    CAPTURE(freeze.size());
    const std::string trace = TraceText(text, {.freeze = freeze, .steps = 1});
    CHECK_MESSAGE(trace.find("+k:128 +y:128") != std::string::npos, trace);
  }
}

// What autograd adds up, and where.
TEST_CASE("gradients that meet are added into the first one where nobody sees it") {
  struct Row {
    const char* name;
    const char* text;
    const char* expected;  // in the trace
  };
  const Row rows[] = {
      {"two uses: the sum is in place",
       R"(net (float[4, 8] x) => (float[4, 8] y) < float[8, 8] w = ["location": "none"] > {
            h = MatMul (x, w)
            a = Relu (h)
            b = Sigmoid (h)
            y = Mul (a, b)
          })",
       "+b.grad:128 +a.grad:128 -y.grad +h.grad:128 -b.grad -b +h.grad:128 -a.grad -a -h.grad +w"},
      {"a sum hands one gradient to both: the second use makes a new tensor",
       R"(net (float[4, 8] x) => (float[4, 8] y) < float[8, 8] w = ["location": "none"] > {
            h = MatMul (x, w)
            y = Add (h, h)
          })",
       "+sum of gradients:128 -y.grad"},
      {"what the engine has summed up is a view: a new tensor, too",
       R"(net (float[4, 8] x) => (float[4, 8] y)
          < float[8, 8] w = ["location": "none"], float[8] b = ["location": "none"] > {
            h = MatMul (x, w)
            k = Add (h, b)
            y = Add (k, b)
          })",
       "+b.grad:32 -y.grad +sum of gradients:32 -b.grad -b.grad"},
      {"but not what keeps its dimensions",
       R"(net (float[4, 8] x) => (float[4, 8] y)
          < float[8, 8] w = ["location": "none"], float[1, 8] b = ["location": "none"] > {
            h = MatMul (x, w)
            k = Add (h, b)
            y = Add (k, b)
          })",
       "+b.grad:32 +b.grad:32 -b.grad +w.grad"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const std::string text = TraceText(row.text, {.optimizer = Optimizer::kSgd, .steps = 1});
    CHECK_MESSAGE(text.find(row.expected) != std::string::npos, text);
  }
}

TEST_CASE("a broadcast operand's gradient is summed up by the engine") {
  const std::string text = TraceText(
      R"(net (float[4, 8] x) => (float[4, 8] y)
         < float[8, 8] w = ["location": "none"], float[8] b = ["location": "none"] > {
           h = MatMul (x, w)
           y = Add (h, b)
         })",
      {.optimizer = Optimizer::kSgd, .steps = 1});
  // The sum for b, then the product's gradient of w reads the same incoming one.
  CHECK_MESSAGE(text.find("+b.grad:32") != std::string::npos, text);
}

// The gradient of a sum overlaps itself; each product copies it.
TEST_CASE("a matrix that no product can read is copied for each") {
  const std::string text =
      TraceText(R"(net (float[4, 8] x) => (float[4] y)
      < float[8, 8] w = ["location": "none"], float[8, 6] v = ["location": "none"] > {
        axes = Constant <value = int64[1] {1}> ()
        h = MatMul (x, w) k = MatMul (h, v) y = ReduceSum <keepdims = 0> (k, axes)
      })",
                {.optimizer = Optimizer::kNone, .loss = Loss::kMse, .steps = 1});
  for (const char* copied :
       {"+v.grad:192 +MatMul #2.scratch:96 +cuBLAS workspace:8519680 -MatMul #2.scratch ",
        "+h.grad:128 +MatMul #2.scratch:96 -MatMul #2.scratch "}) {
    CHECK_MESSAGE(text.find(copied) != std::string::npos, text);
  }
}

// Its storage is that of the errors, of which it is the mean.
TEST_CASE("a mean squared error is as large as the prediction") {
  const std::string text =
      TraceText(R"(net (float[4, 8] x) => (float[4, 8] y) < float[8, 8] w = ["location": "none"] > {
                     y = MatMul (x, w)
                   })",
                {.optimizer = Optimizer::kSgd, .loss = Loss::kMse, .steps = 1});
  CHECK_MESSAGE(text.find("+loss:128 +loss.scratch:128 -loss.scratch") != std::string::npos, text);
}

// Torch 2.11 events of 294,912 errors on an A100: 36 blocks' sums, then a semaphore.
TEST_CASE("many errors are summed by several blocks") {
  const std::string text = TraceText(
      R"(net (float[288, 1024] x) => (float[288, 1024] y) < float[1024] w = ["location": "none"] > {
           y = Mul (x, w)
         })",
      {.optimizer = Optimizer::kSgd, .loss = Loss::kMse, .steps = 1});
  CHECK_MESSAGE(text.find("+loss:1179648 +loss.scratch:1179648 +loss.scratch:144 +loss.scratch:4 "
                          "-loss.scratch -loss.scratch -loss.scratch") != std::string::npos,
                text);
}

// Of the input's order of dimensions: seen the other way round the gradient needs no copy.
TEST_CASE("a convolution's gradient lies as its input does") {
  const std::string text =
      TraceText(R"(net (float[2, 4, 4, 3] x) => (float[2, 4, 4, 5] y)
      < float[3, 3] m = ["location": "none"], float[5, 3, 1, 1] w = ["location": "none"] > {
        h = MatMul (x, m)
        t = Transpose <perm = [0, 3, 1, 2]> (h)
        y = Conv (t, w)
      })",
                {.optimizer = Optimizer::kNone, .loss = Loss::kMse, .steps = 1});
  CHECK_MESSAGE(text.find("+t.grad:384 +w.grad:60") != std::string::npos, text);
  CHECK_MESSAGE(text.find("-y.grad -h.mm +m.grad:36") != std::string::npos, text);
}

// Heads of more than 64 are summed up in tiles of 128 rows, 64 columns and 4 numbers.
TEST_CASE("the gradient of attention has a workspace by tiles") {
  const std::string text =
      TraceText(R"(net (float[1, 2, 37, 96] x) => (float[1, 2, 37, 96] y)
      < float[96, 96] w = ["location": "none"] > {
        c = Constant <value = float {0.5}> ()
        q = MatMul (x, w)
        qc = Mul (q, c)
        t = Transpose <perm = [0, 1, 3, 2]> (q)
        kc = Mul (t, c)
        s = MatMul (qc, kc)
        p = Softmax <axis = -1> (s)
        y = MatMul (p, q)
      })",
                {.optimizer = Optimizer::kNone, .loss = Loss::kMse, .steps = 1});
  const int64_t workspace = 4 * 2 * 1 * 2 * (128 * 64 + 4);  // bytes, heads, tiles
  CHECK_MESSAGE(text.find(".scratch:" + std::to_string(workspace) + " ") != std::string::npos,
                text);
}

// Indices are sorted by their bits: one pass for rows that 8 bits number, none for few indices.
TEST_CASE("the gradient of table[index] sorts") {
  const auto trace = [](const std::string& rows, const std::string& indices) {
    Graph graph =
        ParseGraph("net (int64[" + indices + "] i) => (float[" + indices + ", 2] y) < float[" +
                   rows + R"(, 2] t = ["location": "none"] > { y = Gather (t, i) })");
    const std::string fx = FxText("y", "index.Tensor", "%t, [%i]");
    Say(graph, 0, fx);
    const TrainingSettings settings = {
        .optimizer = Optimizer::kNone, .loss = Loss::kMse, .steps = 1};
    const std::string text = ToString(Train(Build(graph, settings).program, settings));
    return text.substr(text.find("+t.grad"));
  };
  const auto sorts = [&](const char* rows, const char* indices, const char* bytes) {
    const std::string text = trace(rows, indices);
    CHECK_MESSAGE(text.find(".scratch:" + std::string(bytes) + " ") != std::string::npos, text);
  };
  sorts("256", "2304", "1");
  sorts("256", "4096", "4607");
  sorts("257", "4096", "72191");
  CHECK(trace("5", "10").starts_with("+t.grad:40 +Gather #0.scratch:80 +Gather #0.scratch:80 -"));
}

// On a view autograd goes through CopySlices: more tensors of the gradient's size.
TEST_CASE("dropout in place takes more on a view") {
  const auto trace = [](const char* between) {
    return TraceText(
        std::string(R"(net (float[16, 4] x) => (float[16, 8] y)
        < float[4, 8] w = ["location": "none"] > {
          h = MatMul (x, w)
          )") +
            between + R"(
          p = Constant <value = float {0.5}> () t = Constant <value = bool {1}> ()
          y = Dropout (v, p, t)
        })",
        {.optimizer = Optimizer::kNone, .assumed = {.in_place_dropout = true}, .steps = 1});
  };
  const auto count = [](const std::string& text, const std::string& part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++found;
    return found;
  };
  CHECK(count(trace("v = Flatten (h)"), "+Dropout #4.scratch:512") == 3);
  CHECK(count(trace("v = Neg (h)"), ".scratch") == 0);
}

}  // namespace
}  // namespace onnxfit::training_test
