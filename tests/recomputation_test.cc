// Activations that backward computes again: torch.utils.checkpoint(use_reentrant=False).
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "estimator/base/warnings.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/predict.h"
#include "estimator/memory/timeline.h"
#include "estimator/program/checkpointed_spans.h"
#include "tests/checkpointed_net.h"
#include "tests/paths.h"
#include "tests/trace_helpers.h"

namespace onnxfit::recomputation_test {
namespace {

constexpr int64_t kValue = 256 * 64 * 4;  // of kTwoBlocks

Timeline TrainedWith(const std::vector<std::string>& checkpoint) {
  TrainingSettings settings;
  settings.optimizer = Optimizer::kSgd;
  settings.checkpoint = checkpoint;
  return Replay(Train(Build(kTwoBlocks, settings).program, settings));
}

TEST_CASE("a block under a checkpoint keeps its inputs alone until backward needs the rest") {
  const StepFigures plain = TrainedWith({}).steps[1];
  const StepFigures one = TrainedWith({"h.0"}).steps[1];
  const StepFigures both = TrainedWith({"auto"}).steps[1];
  const auto kept = [](const StepFigures& step) { return step.after_forward.requested_bytes; };
  CHECK(kept(plain) - kept(one) == kValue);  // the sigmoid's result
  CHECK(kept(plain) - kept(both) == 2 * kValue);
  CHECK(both.after_backward == plain.after_backward);
  CHECK(both.peak.exact_bytes < plain.peak.exact_bytes);
}

TEST_CASE("what is computed again stops with the last call that saves anything") {
  // Of h.0: its first product and the sigmoid, whose results live until they have been read; the
  // second product saves the sigmoid's result, so that it is made again, too, and goes at once.
  TrainingSettings settings;
  settings.optimizer = Optimizer::kSgd;
  settings.checkpoint = {"h.0"};
  const Trace trace = Train(Build(kTwoBlocks, settings).program, settings);
  int64_t of_sigmoid = 0;
  int64_t of_head = 0;
  for (const Event& event : trace.events) {
    if (event.type != Event::Type::kAt) continue;
    const std::string& label = trace.labels[static_cast<size_t>(event.id)];
    of_sigmoid += label == "/h.0/act/Sigmoid" ? 1 : 0;
    of_head += label == "/head/MatMul" ? 1 : 0;
  }
  CHECK(of_head == 2 * settings.steps);     // forward and backward
  CHECK(of_sigmoid == 3 * settings.steps);  // and once more
}

TEST_CASE("every=2 takes the second block, the fourth …") {
  const Program program = Build(kTwoBlocks, {}).program;
  const std::vector<CallSpan> all = CheckpointedSpans(program, {"auto"});
  REQUIRE(all.size() == 2);
  CHECK(CheckpointedSpans(program, {"every=2"}) == std::vector<CallSpan>{all[1]});
  CHECK(CheckpointedSpans(program, {"every=1"}) == all);
  CHECK(CheckpointedSpans(program, {"every=3"}).empty());
}

// Nothing that the first block is given asks for gradients: its result asks for none, nor does what
// the second makes of it.
TEST_CASE("a reentrant checkpoint keeps what it was given, and runs in a backward of its own") {
  TrainingSettings settings;
  settings.optimizer = Optimizer::kSgd;
  settings.checkpoint = {"h.1"};
  settings.checkpoint_reentrant = true;
  const Timeline one = Replay(Train(Build(kTwoBlocks, settings).program, settings));
  const StepFigures plain = TrainedWith({}).steps[1];
  CHECK(plain.after_forward.requested_bytes - one.steps[1].after_forward.requested_bytes == kValue);
  CHECK(one.steps[1].after_backward == plain.after_backward);
  settings.checkpoint = {"auto"};
  const Timeline both = Replay(Train(Build(kTwoBlocks, settings).program, settings));
  CHECK(plain.after_backward.requested_bytes - both.steps[1].after_backward.requested_bytes ==
        4 * 64 * 64 * 4);  // gradients of both blocks
}

// "forward to /fc/MatMul": by allocation of `label`, in which phase it is made and at which
// operator it is freed.
std::string TextOfLives(const Trace& trace, std::string_view label) {
  std::map<int32_t, std::string> made;
  std::string text;
  std::string phase;
  std::string at;
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kPhase) {
      phase = event.phase == Phase::kForward ? "forward" : "backward";
    } else if (event.type == Event::Type::kAt) {
      at = trace.labels[Index(event.id)];
    } else if (event.type == Event::Type::kAlloc) {
      if (LabelText(trace, trace.buffers[Index(event.id)].label) == label) made[event.id] = phase;
    } else if (event.type == Event::Type::kFree && made.contains(event.id)) {
      text += made.at(event.id) + " to " + at + "; ";
      made.erase(event.id);
    }
  }
  for (const auto& [id, begun] : made) text += begun + " to the end; ";
  return text;
}

void HoldForGood(Program& program, std::string_view value) {
  for (AtenCall& call : program.calls) {
    std::erase_if(call.dies,
                  [&](NameId name) { return program.values[Index(name)].name == value; });
  }
}

// Of the second block the sigmoid's result, too, which the caller holds and nobody reads behind it:
// zeros stand for its gradient.
TEST_CASE("a reentrant checkpoint makes zeros for results without a gradient") {
  TrainingSettings settings;
  settings.optimizer = Optimizer::kSgd;
  settings.checkpoint = {"h.1"};
  settings.checkpoint_reentrant = true;
  const auto gradients_of_sigmoid = [&](const Program& program) {
    const Trace trace = Train(program, settings);
    return std::ranges::count_if(trace.events, [&](const Event& event) {
      if (event.type != Event::Type::kAlloc) return false;
      return LabelText(trace, trace.buffers[Index(event.id)].label) == "e.grad";
    });
  };
  Program program = Build(kTwoBlocks, settings).program;
  const int64_t read = gradients_of_sigmoid(program);
  HoldForGood(program, "e");
  CHECK(gradients_of_sigmoid(program) == read + settings.steps);
}

// "self.a = act(x)" in the first block, which its second run binds anew.
TEST_CASE("an attribute holds what was computed last") {
  TrainingSettings settings;
  settings.optimizer = Optimizer::kSgd;
  settings.checkpoint = {"auto"};
  Program program = Build(kTwoBlocks, settings).program;
  HoldForGood(program, "b");
  const StatementId line = program.source.Read(1, "self.a = act(x)");
  AtenCall& sigmoid = program.calls[1];
  sigmoid.frames.assign(program.modules.DepthOf(sigmoid.module), line);
  const Trace trace = Train(program, settings);
  std::string runs;  // of the sigmoid, the bytes that are freed in the end
  for (size_t id = 0; id < trace.buffers.size(); ++id) {
    if (LabelText(trace, trace.buffers[id].label) != "b") continue;
    const bool is_freed = std::ranges::any_of(trace.events, [&](const Event& event) {
      return event.type == Event::Type::kFree && Index(event.id) == id;
    });
    runs += is_freed ? "freed " : "held ";
  }
  CHECK(runs == "freed freed freed freed freed held ");  // two a step
}

// "dict[0] = act(x)", which the second run binds anew, and which lives as long as a module that was
// given the dict may run again.
TEST_CASE("a dict holds what was computed last until all that were given it have run") {
  TrainingSettings settings;
  settings.optimizer = Optimizer::kSgd;
  settings.steps = 1;
  settings.checkpoint = {"h.0.*"};
  Program program = Build(kTwoBlocks, settings).program;
  const NameId sigmoid = program.calls[1].outputs[0];
  for (AtenCall& call : program.calls) std::erase(call.dies, sigmoid);
  program.calls.back().dies.push_back(sigmoid);
  CHECK(TextOfLives(Train(program, settings), "b") ==
        "forward to /h.0/out/MatMul; backward to /h.0/act/Sigmoid; ");
  program.stored = {{.values = {sigmoid}, .owner = program.modules.Enter({"h.0"})}};
  CHECK(TextOfLives(Train(program, settings), "b") ==
        "forward to /h.0/act/Sigmoid; backward to /h.0/fc/MatMul; ");
}

// A cast to fp32 is made each time: torch.autocast keeps those of fp32 alone.
TEST_CASE("of a leaf of 16 bits no cast is kept") {
  const auto casts = [](const std::string& op) {
    TrainingSettings settings;
    settings.optimizer = Optimizer::kSgd;
    settings.precision = Precision::kAmpBf16;
    settings.checkpoint = {"h.1"};
    settings.checkpoint_reentrant = true;
    settings.steps = 1;
    const std::string net = R"(
      net (float[64, 64] x) => (float[64, 64] y)
      < float[64, 64] "h.0.weight" = ["location": "none"],
        float[64, 64] "head.weight" = ["location": "none"] > {
        ["/h.0/fc/MatMul"] a = MatMul (x, "h.0.weight")
        ["/h.1/one"] b = OP (a)
        ["/h.1/two"] c = OP (a)
        ["/h.1/add"] d = Add (b, c)
        y = MatMul (d, "head.weight")
      })";
    const std::string named = std::regex_replace(net, std::regex("OP"), op);
    const Trace trace = Train(Build(named, settings).program, settings);
    return std::ranges::count_if(trace.buffers, [&](const Buffer& buffer) {
      return LabelText(trace, buffer.label) == "a.cast";
    });
  };
  CHECK(casts("Softmax") == 4);  // two a run
}

// "position_bias = torch.zeros(": of a sigmoid here, as far as its line tells.
TEST_CASE("what a library asks gradients for keeps its own as long as it lives") {
  TrainingSettings settings;
  settings.optimizer = Optimizer::kSgd;
  Program program = Build(R"(
    net (float[256, 64] x) => (float[256, 2] y)
    < float[64, 2] "h.0.weight" = ["location": "none"],
      float[64, 2] "h.1.weight" = ["location": "none"] > {
      ["/bias/Sigmoid"] b = Sigmoid (x)
      ["/h.0/fc/MatMul"] c = MatMul (b, "h.0.weight")
      ["/h.1/fc/MatMul"] d = MatMul (b, "h.1.weight")
      y = Add (c, d)
    })",
                          settings)
                        .program;
  const auto after_backward = [&](const std::vector<std::string>& checkpoint) {
    settings.checkpoint = checkpoint;
    return Replay(Train(program, settings)).steps[0].after_backward.requested_bytes;
  };
  const int64_t plain = after_backward({"auto"});
  AtenCall& sigmoid = program.calls[0];
  const auto write = [&](int64_t line, const char* file) {
    const StatementId id = program.source.Read(line, "position_bias = torch.zeros(", file);
    sigmoid.frames.assign(program.modules.DepthOf(sigmoid.module), id);
  };
  write(1, "transformers/models/umt5/modeling_umt5.py");  // that one does not ask
  CHECK(after_backward({"auto"}) == plain);
  write(2, "transformers/models/t5/modeling_t5.py");
  CHECK(after_backward({"auto"}) == plain + 2 * kValue);  // what asks, and its gradient
  CHECK(after_backward({"h.*"}) == plain);                // the library is not asked
}

// Two blocks with adapters behind a frozen embedding of that name, 512 × 64 values; OTHER, if it is
// given, embeds the same again for the second.
Prediction Adapted(const std::string& embedding, const std::string& checkpoint, bool reentrant,
                   const std::string& other = "", LoopLibrary library = LoopLibrary::kPlain) {
  EstimateRequest request;
  request.settings.loop.library = library;
  request.settings.optimizer = Optimizer::kSgd;
  request.settings.checkpoint = {checkpoint};
  request.settings.checkpoint_reentrant = reentrant;
  request.settings.lora = {.rank = 4, .targets = {"*.fc"}};
  const std::string net = R"(
    net (int64[8, 64] x) => (float[8, 64, 64] y)
    < float[100, 64] "EMBED.weight" = ["location": "none"],
      float[64, 64] "h.0.fc.weight" = ["location": "none"],
      float[64, 64] "h.1.fc.weight" = ["location": "none"] > {
      ["/EMBED/Gather"] e = Gather ("EMBED.weight", x)
      ["/h.0/fc/MatMul"] a = MatMul (e, "h.0.fc.weight")
      ["/h.0/act/Sigmoid"] b = Sigmoid (a)
      ["/h.1/fc/MatMul"] c = MatMul (b, "h.1.fc.weight")
      ["/h.1/act/Sigmoid"] y = Sigmoid (c)
    })";
  std::string named = std::regex_replace(net, std::regex("EMBED"), embedding);
  if (!other.empty()) {
    named = std::regex_replace(named, std::regex(R"(\(b, "h.1)"), R"((j, "h.1)");
    named = std::regex_replace(named, std::regex(R"(    \["/h.1/fc)"),
                               "    [\"/OTHER/Gather\"] o = Gather (\"OTHER.weight\", x)\n"
                               "    j = Add (b, o)\n$&");
    named =
        std::regex_replace(named, std::regex(" > \\{"),
                           ",\n  float[100, 64] \"OTHER.weight\" = [\"location\": \"none\"] > {");
    named = std::regex_replace(named, std::regex("OTHER"), other);
  }
  return Predict(ParseGraph(named), request);
}

// h.0 is given what the input embedding makes: a leaf where it is one that libraries return.
TEST_CASE("a reentrant checkpoint trains nothing without an argument that asks for gradients") {
  const auto warnings = [](const std::string& embedding) {
    std::string text;
    for (const Warning& warned : Adapted(embedding, "h.*", true).warnings) {
      if (warned.code == warning::kNotTrainable) text += warned.text;
    }
    return text;
  };
  CHECK(warnings("embed_tokens").empty());
  CHECK(warnings("stem").starts_with("4 of 4 trained parameters get no gradient"));
  CHECK(warnings("stages.0.patch_embeddings").starts_with("4 of 4"));
}

TEST_CASE("inference trains nothing, and is not warned of it") {
  EstimateRequest request;
  request.settings.mode = Mode::kEval;
  request.settings.checkpoint = {"auto"};
  request.settings.checkpoint_reentrant = true;
  CHECK(Predict(ParseGraph(kTwoBlocks), request).warnings.empty());
}

TEST_CASE("a library that puts checkpoints itself asks for gradients of tokens") {
  const auto after_backward = [](const std::string& embedding, const std::string& checkpoint) {
    const Trace trace = Adapted(embedding, checkpoint, false).trace;
    return Replay(trace).steps[0].after_backward.requested_bytes;
  };
  const int64_t plain = after_backward("embed_tokens", "h.*");
  constexpr int64_t kTokens = 8 * 64 * 64 * 4;
  CHECK(after_backward("embed_tokens", "auto") == plain + 2 * kTokens);  // and their gradient
  CHECK(after_backward("stem", "auto") == plain);
}

TEST_CASE("the Trainer detaches the loss, and what its graph held goes when backward returns") {
  const auto after_backward = [](const std::string& embedding) {
    const Trace trace = Adapted(embedding, "auto", false, "", LoopLibrary::kTrainer).trace;
    return Replay(trace).steps[1].after_backward.requested_bytes;
  };
  CHECK(after_backward("embed_tokens") == after_backward("stem"));  // but for the loss
}

TEST_CASE("a model in the model has an input embedding of its own") {
  const auto after_backward = [](const std::string& other) {
    const Trace trace = Adapted("encoder.embed_tokens", "auto", false, other).trace;
    return Replay(trace).steps[0].after_backward.requested_bytes;
  };
  constexpr int64_t kTokens = 8 * 64 * 64 * 4;
  CHECK(after_backward("decoder.embed_tokens") == after_backward("decoder.wpe") + 2 * kTokens);
}

// h.1 is given what a transposition sees of h.0's product.
TEST_CASE("an argument's gradient lies in memory as the argument does") {
  const auto copies = [](const std::string& between) {
    TrainingSettings settings;
    settings.optimizer = Optimizer::kSgd;
    settings.checkpoint = {"h.1"};
    settings.checkpoint_reentrant = true;
    const std::string net = R"(
      net (float[64, 64] x) => (float[64, 64] y)
      < float[64, 64] "h.0.weight" = ["location": "none"],
        float[64, 64] "h.1.weight" = ["location": "none"] > {
        ["/h.0/fc/MatMul"] a = MatMul (x, "h.0.weight")
        b = BETWEEN (a)
        ["/h.1/Softmax"] c = Softmax (b)
        y = MatMul (c, "h.1.weight")
      })";
    const std::string named = std::regex_replace(net, std::regex("BETWEEN"), between);
    const Trace trace = Train(Build(named, settings).program, settings);
    return std::ranges::count_if(trace.buffers, [&](const Buffer& buffer) {
      return LabelText(trace, buffer.label) == "sum of gradients";
    });
  };
  CHECK(copies("Sigmoid") == 0);
  CHECK(copies("Transpose") == 3);  // one a step
}

TEST_CASE("without gradients attention keeps no sums of exponentials") {
  TrainingSettings settings;
  settings.optimizer = Optimizer::kSgd;
  const Program program = Build(R"(
    <ir_version: 10, opset_import: ["": 23]>
    net (float[2, 4, 64, 16] q) => (float[2, 4, 64, 16] y)
    < float[16, 16] "h.0.weight" = ["location": "none"],
      float[16, 16] "h.1.weight" = ["location": "none"] > {
      ["/h.0/fc/MatMul"] a = MatMul (q, "h.0.weight")
      ["/h.1/fc/MatMul"] b = MatMul (a, "h.1.weight")
      ["/h.1/Attention"] y = Attention (b, a, a)
    })",
                                settings)
                              .program;
  const auto sums = [&](bool reentrant) {
    settings.checkpoint = {"h.1"};
    settings.checkpoint_reentrant = reentrant;
    const Trace trace = Train(program, settings);
    return std::ranges::count_if(trace.buffers, [&](const Buffer& buffer) {
      return LabelText(trace, buffer.label).ends_with(".logsumexp");
    });
  };
  CHECK(sums(false) == 2 * settings.steps);  // and once more, in backward
  CHECK(sums(true) == settings.steps);
}

TEST_CASE("a parameter's name holds it for good, whatever is computed again") {
  EstimateRequest request = {.details = true};
  request.settings.checkpoint = {"auto"};
  const Prediction prediction = Predict(ParseGraph(kTwoBlocks), request);
  for (const NameId parameter : prediction.program.parameters) {
    const auto held = std::ranges::find_if(prediction.holders, [&](const Holder& holder) {
      return holder.type == Holder::Type::kName && holder.id == parameter;
    });
    REQUIRE(held != prediction.holders.end());
    CHECK(held->until == Holder::kForGood);
  }
}

// PyTorch 2.11.0's own statistics: transformers 5.17's gradient_checkpointing_enable(
// {"use_reentrant": False}) of GPT-2 (512 tokens), and torchvision 0.26's resnet50 with
// checkpoint(…, use_reentrant=False) around each layerN.M; AdamW, batch 4, three steps.
struct Run {
  const char* model;
  Precision precision;
  Peak peak;
};
const Run kRuns[] = {
    {"gpt2.dynamo.onnx", Precision::kFp32, {2837236744, 2839505920, 3867148288}},
    {"gpt2.dynamo.onnx", Precision::kAmpBf16, {2705433100, 2711870464, 3867148288}},
    {"resnet50.train.onnx", Precision::kFp32, {553963344, 566149120, 671088640}},
    {"resnet50.train.onnx", Precision::kAmpBf16, {531849964, 543517184, 576716800}},
};

TEST_CASE("peaks are PyTorch's, to the byte") {
  for (const Run& run : kRuns) {
    CAPTURE(run.model);
    const Graph graph = LoadModel(std::string(kSourceDir) + "/models/" + run.model);
    EstimateRequest request = {.binding = {.batch = 4}};
    request.settings.precision = run.precision;
    request.settings.checkpoint = {"auto"};
    CHECK(MakeEstimate(graph, request).peak == run.peak);
  }
}

}  // namespace
}  // namespace onnxfit::recomputation_test
