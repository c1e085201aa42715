#include "estimator/fit/study.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "estimator/base/cards.h"
#include "estimator/base/device.h"
#include "estimator/fit/batch_runs.h"
#include "estimator/fit/predict.h"
#include "estimator/onnx/loader.h"
#include "tests/blocks_with_norms.h"
#include "tests/paths.h"

namespace onnxfit::study_test {
namespace {

// A model's file, or its text.
Graph Model(const std::string& name) {
  if (name.front() == '\n') return ParseGraph(name);
  return LoadGraph(std::string(kSourceDir) + "/models/" + name);
}

// Two outputs that a loss could take, and an input that may be the labels.
constexpr const char* kTwoOutputs = R"(
    <ir_version: 8, opset_import: ["" : 17]>
    heads (float[N, 4] x, int64[N] y) => (float[N, 8] a, float[N, 2] b, int64[N] z)
    < float[4, 8] w1 = ["location": "none"], float[4, 2] w2 = ["location": "none"] > {
      a = MatMul(x, w1)
      b = MatMul(x, w2)
      z = Abs(y)
    })";

// A convolution of four samples where the batch is two: trying its plans was measured.
constexpr const char* kBenchmarkedLayer = R"(
    <ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 2, 128, 7, 7] x) => (float[M, 128, 7, 7] y)
    < float[128, 128, 3, 3] w = ["location": "none"] > {
      s = Constant <value_ints = [-1, 128, 7, 7]> ()
      r = Reshape (x, s)
      y = Conv <pads = [1, 1, 1, 1]> (r, w)
    })";

constexpr const char* kInHalf = R"(
    <ir_version: 8, opset_import: ["" : 17]>
    net (float16[N, 4] x) => (float16[N, 8] y)
    < float16[4, 8] w = ["location": "none"] > {
      y = MatMul(x, w)
    })";

// What a study can answer wrongly: the program, and what its run asks for.
std::string TextOf(const Prediction& prediction) {
  return ToString(prediction.program) + ToString(prediction.trace);
}

struct Row {
  const char* field;
  const char* model;  // where it matters: its file, or its text
  std::function<void(TrainingSettings&)> change;
};

TrainingSettings InPipeline(const PipelineSettings& pipeline) {
  TrainingSettings settings;
  settings.loop.accumulate = 2;
  settings.ranks = {.strategy = Strategy::kPipeline, .world = 2, .pipeline = pipeline};
  return settings;
}

// Every field of TrainingSettings.
const Row kRows[] = {
    {"framework", "lenet.onnxtxt", [](TrainingSettings& s) { s.framework = Frameworks().front(); }},
    {"device", "lenet.onnxtxt", [](TrainingSettings& s) { s.device.compute_capability = 90; }},
    {"device.multiprocessors", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) { s.device.multiprocessors = 8; }},
    {"precision", "lenet.onnxtxt", [](TrainingSettings& s) { s.precision = Precision::kAmpBf16; }},
    {"keeps_types", kInHalf, [](TrainingSettings& s) { s.keeps_types = true; }},
    {"optimizer", "lenet.onnxtxt", [](TrainingSettings& s) { s.optimizer = Optimizer::kSgd; }},
    {"optimizer_impl", "lenet.onnxtxt",
     [](TrainingSettings& s) { s.optimizer_impl = OptimizerImpl::kFused; }},
    {"param_groups", "lenet.onnxtxt",
     [](TrainingSettings& s) { s.param_groups = ParamGroups::kMatrices; }},
    {"galore.rank", kBlocksWithNorms,
     [](TrainingSettings& s) {
       s.optimizer = Optimizer::kGaLore;
       s.galore.rank = 8;
     }},
    {"galore.targets", kBlocksWithNorms,
     [](TrainingSettings& s) {
       s.optimizer = Optimizer::kGaLore;
       s.galore.targets = {"head"};
     }},
    {"optimizer_args", "lenet.onnxtxt", [](TrainingSettings& s) { s.optimizer_args = kAmsgrad; }},
    {"clip_grad", "lenet.onnxtxt", [](TrainingSettings& s) { s.clip_grad = true; }},
    {"ema", "lenet.onnxtxt", [](TrainingSettings& s) { s.ema = true; }},
    {"ranks.strategy", "lenet.onnxtxt",
     [](TrainingSettings& s) { s.ranks.strategy = Strategy::kDdp; }},
    {"channels_last", "lenet.onnxtxt", [](TrainingSettings& s) { s.channels_last = true; }},
    {"device.without_cudnn", kBenchmarkedLayer,
     [](TrainingSettings& s) { s.device.without_cudnn = false; }},
    {"cudnn_benchmark", kBenchmarkedLayer,
     [](TrainingSettings& s) {
       s.device.compute_capability = 90;
       s.device.without_cudnn = false;
       s.cudnn_benchmark = true;
     }},
    {"trial_room_bytes", kBenchmarkedLayer,
     [](TrainingSettings& s) {
       s.device.compute_capability = 90;
       s.device.without_cudnn = false;
       s.cudnn_benchmark = true;
       s.trial_room_bytes = 30 << 20;
     }},
    {"cuda_graphs", "lenet.onnxtxt",
     [](TrainingSettings& s) {
       s.compile = Compiling::kAsEager;
       s.cuda_graphs = true;
     }},
    {"cublas", "lenet.onnxtxt",
     [](TrainingSettings& s) { s.cublas = {.text = ":0:0", .bytes = 0}; }},
    {"optimizer_in_backward", "lenet.onnxtxt",
     [](TrainingSettings& s) { s.optimizer_in_backward = true; }},
    {"mode", "lenet.onnxtxt", [](TrainingSettings& s) { s.mode = Mode::kEval; }},
    {"loss", "lenet.onnxtxt", [](TrainingSettings& s) { s.loss = Loss::kMse; }},
    {"label_smoothing", "lenet.onnxtxt", [](TrainingSettings& s) { s.label_smoothing = true; }},
    {"mixup", "lenet.onnxtxt", [](TrainingSettings& s) { s.mixup = true; }},
    {"loss_output", kTwoOutputs, [](TrainingSettings& s) { s.loss_output = "b"; }},
    {"labels", kTwoOutputs, [](TrainingSettings& s) { s.labels = "y"; }},
    {"in_place", "vgg_small.onnxtxt", [](TrainingSettings& s) { s.in_place = InPlaceUse::kNever; }},
    {"out_of_place", "vgg_small.onnxtxt", [](TrainingSettings& s) { s.out_of_place = {"*"}; }},
    {"batch_norm", "mobilenet_v2.script.onnx",
     [](TrainingSettings& s) { s.batch_norm = BatchNormUse::kKeep; }},
    {"dropout", "t5_small.script.onnx", [](TrainingSettings& s) { s.dropout = 0; }},
    {"placed_dropouts", "t5_small.script.onnx",
     [](TrainingSettings& s) {
       s.placed_dropouts = {{"*", 0}};
     }},
    {"assumed.conv_bias", "mobilenet_v2.script.onnx",
     [](TrainingSettings& s) { s.assumed.conv_bias = true; }},
    {"assumed.in_place_dropout", "vgg16.script.onnx",
     [](TrainingSettings& s) { s.assumed.in_place_dropout = true; }},
    {"assumed.tied_head", "t5_small.script.onnx",
     [](TrainingSettings& s) { s.assumed.tied_head = false; }},
    {"attention", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) { s.attention = AttentionUse::kEager; }},
    {"loop.library", "lenet.onnxtxt",
     [](TrainingSettings& s) { s.loop.library = LoopLibrary::kTrainer; }},
    {"loop.zero_grad", "lenet.onnxtxt",
     [](TrainingSettings& s) { s.loop.zero_grad = ZeroGrad::kKeep; }},
    {"loop.hold_outputs", "lenet.onnxtxt", [](TrainingSettings& s) { s.loop.hold_outputs = true; }},
    {"loop.drop_batch", "lenet.onnxtxt", [](TrainingSettings& s) { s.loop.drop_batch = true; }},
    {"loop.same_batch", "lenet.onnxtxt", [](TrainingSettings& s) { s.loop.same_batch = true; }},
    {"loop.prefetch", "lenet.onnxtxt", [](TrainingSettings& s) { s.loop.prefetch = 1; }},
    {"loop.accumulate", "lenet.onnxtxt", [](TrainingSettings& s) { s.loop.accumulate = 2; }},
    {"freeze", "resnet18.train.onnx", [](TrainingSettings& s) { s.freeze = {"layer1*"}; }},
    {"checkpoint", "resnet18.train.onnx", [](TrainingSettings& s) { s.checkpoint = {"auto"}; }},
    {"checkpoint_reentrant", "resnet18.train.onnx",
     [](TrainingSettings& s) {
       s.checkpoint = {"auto"};
       s.checkpoint_reentrant = true;
     }},
    {"compile", "gpt2.dynamo.onnx", [](TrainingSettings& s) { s.compile = Compiling::kInductor; }},
    {"lora.rank", "gpt2.dynamo.onnx", [](TrainingSettings& s) { s.lora.rank = 8; }},
    {"lora.targets", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) { s.lora = {.rank = 8, .targets = {"c_fc"}}; }},
    {"lora.dropout", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) { s.lora = {.rank = 8, .dropout = 0.1}; }},
    {"lora.dora", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) { s.lora = {.rank = 8, .dora = true}; }},
    {"quantize.kind", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) { s.quantize.kind = Quantization::kNf4; }},
    {"quantize.targets", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) { s.quantize = {.kind = Quantization::kNf4, .targets = {"c_fc"}}; }},
    {"ranks.strategy", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) { s.ranks.strategy = Strategy::kFsdp; }},
    {"ranks.fsdp_modules", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) {
       s.ranks = {.strategy = Strategy::kFsdp, .fsdp_modules = {"every=2"}};
     }},
    {"ranks.fsdp_keep", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) { s.ranks = {.strategy = Strategy::kFsdp, .fsdp_keep = true}; }},
    {"ranks.reduce_bucket", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) { s.ranks = {.strategy = Strategy::kZero2, .reduce_bucket = 1000}; }},
    {"ranks.overlap_comm", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) { s.ranks = {.strategy = Strategy::kZero2, .overlap_comm = true}; }},
    {"ranks.zero_offload", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) { s.ranks = {.strategy = Strategy::kZero2, .zero_offload = true}; }},
    {"ranks.prefetch_bucket", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) {
       s.ranks = {.strategy = Strategy::kZero3, .prefetch_bucket = 1000};
     }},
    {"ranks.persistence_threshold", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) {
       s.ranks = {.strategy = Strategy::kZero3, .persistence_threshold = 0};
     }},
    {"ranks.static_graph", "lenet.onnxtxt",
     [](TrainingSettings& s) { s.ranks = {.strategy = Strategy::kDdp, .static_graph = true}; }},
    {"ranks.no_sync", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) {
       s.ranks = {.strategy = Strategy::kFsdp, .no_sync = true};
       s.loop.accumulate = 2;
     }},
    {"ranks.shard_world", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) { s.ranks = {.strategy = Strategy::kFsdpHybrid, .shard_world = 4}; }},
    {"ranks.tensor_parallel", "t5_small.script.onnx",
     [](TrainingSettings& s) { s.ranks.tensor_parallel = 2; }},
    {"ranks.pipeline.schedule", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) { s = InPipeline({.schedule = Schedule::kGPipe}); }},
    {"ranks.pipeline.stage", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) { s = InPipeline({.stage = 1}); }},
    {"ranks.pipeline.begins", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) { s = InPipeline({.begins = {"*.h.3"}}); }},
    {"ranks.pipeline.drops_outputs", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) { s = InPipeline({.stage = 1, .drops_outputs = true}); }},
    {"ranks.shares_head", "t5_small.script.onnx",
     [](TrainingSettings& s) {
       s.ranks = {.tensor_parallel = 2, .shares_head = true};
       s.assumed.tied_head = false;
     }},
    {"ranks.shares_tokens", kBlocksWithNorms,
     [](TrainingSettings& s) { s.ranks = {.tensor_parallel = 2, .shares_tokens = true}; }},
    {"ranks.fsdp_reshard", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) { s.ranks = {.strategy = Strategy::kFsdp, .fsdp_reshard = 4}; }},
    {"ranks.fsdp_offload", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) { s.ranks = {.strategy = Strategy::kFsdp, .fsdp_offload = true}; }},
    {"ranks.fsdp_policy", "gpt2.dynamo.onnx",
     [](TrainingSettings& s) { s.ranks = {.strategy = Strategy::kFsdp, .fsdp_policy = true}; }},
    {"evaluation.batch", "lenet.onnxtxt", [](TrainingSettings& s) { s.evaluation.batch = 2; }},
    {"evaluation.keep", "lenet.onnxtxt",
     [](TrainingSettings& s) { s.evaluation = {.batch = 2, .keep = 2}; }},
    {"is_evaluation", "lenet.onnxtxt",
     [](TrainingSettings& s) {
       s.mode = Mode::kEval;
       s.is_evaluation = true;
     }},
    {"steps", "lenet.onnxtxt", [](TrainingSettings& s) { s.steps = 5; }},
};

EstimateRequest With(const std::function<void(TrainingSettings&)>& change) {
  EstimateRequest request = {.binding = {.batch = 2}};
  if (change) change(request.settings);
  return request;
}

}  // namespace

TEST_CASE("whatever was asked before, another setting gets the answer of a fresh study") {
  for (const Row& row : kRows) {
    const std::string field = row.field;
    CAPTURE(field);
    const Graph graph = Model(row.model);
    const EstimateRequest changed = With(row.change);
    const Study study(graph);
    const std::string before = TextOf(*study.Predicted(With({})));
    const std::string fresh = TextOf(Predict(graph, changed));
    const bool matters = before != fresh;
    CHECK(matters);  // else the row asks nothing
    const bool is_fresh = TextOf(*study.Predicted(changed)) == fresh;
    CHECK(is_fresh);
  }
}

TEST_CASE("every field has a row above") {
  const TrainingSettings settings;
  // A field more does not compile: give it a row here, and one in study.cc.
  const auto& [framework, choice, device, cublas, precision, keeps_types, optimizer, impl, args,
               groups, clip, ema, in_backward, mode, loss, smoothing, mixup, output, labels,
               channels_last, benchmarks, trial_room, in_place, out_of_place, batch_norm, dropout,
               placed, assumed, attention, loop, freeze, checkpoint, reentrant, compile, graphs,
               lora, quantize, galore, ranks, evaluation, is_evaluation, steps] = settings;
  const auto& [config, workspace_bytes] = cublas;
  const auto& [quantization, quantized_layers] = quantize;
  const auto& [projected_rank, projected_layers] = galore;
  const auto& [rank, targets, lora_dropout, dora] = lora;
  const auto& [conv_bias, in_place_dropout, tied_head] = assumed;
  const auto& [library, zero_grad, hold_outputs, drop_batch, same_batch, prefetch, accumulate] =
      loop;
  const auto& [strategy, world, views, is_static, no_sync, sharing, sharded, keep, reshard, offload,
               policy, bucket, overlap, on_host, pipeline, parallel, head, tokens, ahead,
               persists] = ranks;
  const auto& [evaluated, kept] = evaluation;
  CHECK(evaluated == kept);
  CHECK(workspace_bytes == rank);
  CHECK(projected_rank > rank);
  CHECK(choice.basis == FrameworkBasis::kUnasked);  // nothing is made otherwise by it
  CHECK_FALSE(is_evaluation);
  CHECK_FALSE(keeps_types);
  CHECK(steps > accumulate);
  CHECK(world > steps);
  CHECK(parallel == 1);
  CHECK_FALSE(head);
  CHECK_FALSE(on_host);
  CHECK_FALSE(tokens);
  CHECK_FALSE(pipeline.stage.has_value());
  CHECK(bucket > ahead);
  CHECK(ahead > persists);
  CHECK(persists > world);
  CHECK_FALSE(conv_bias);
  CHECK(groups == ParamGroups::kOfLoop);
  CHECK(rank == 0);
  CHECK_FALSE(dora);
  CHECK_FALSE(reentrant);
  CHECK(compile == Compiling::kNone);
  CHECK_FALSE(graphs);
  CHECK_FALSE(channels_last);
  CHECK(quantization == Quantization::kNone);
  CHECK(library == LoopLibrary::kPlain);
}

TEST_CASE("what a stage does not read is not asked for again") {
  const Graph graph = Model("lenet.onnxtxt");
  const Study study(graph);
  const auto prepared = study.Prepared(With({}));
  const auto predicted = study.Predicted(With({}));
  const auto other = With([](TrainingSettings& s) { s.optimizer = Optimizer::kSgd; });
  CHECK(study.Prepared(other) == prepared);
  CHECK(study.Predicted(other) != predicted);
  const auto card = With([](TrainingSettings& s) { s.device.name = "another of the kind"; });
  CHECK(study.Predicted(card) == predicted);
  CHECK(study.Programs(other) == study.Programs(With({})));
}

TEST_CASE("a run that is to be explained is a run of its own") {
  const Graph graph = Model("lenet.onnxtxt");
  const Study study(graph);
  EstimateRequest request = With({});
  CHECK(study.Predicted(request)->holders.empty());
  request.details = true;
  CHECK_FALSE(study.Predicted(request)->holders.empty());
}

TEST_CASE("programs are alike where names, calls and places are") {
  const Graph graph = Model("dropout_mlp.onnxtxt");
  const Program guessed = PrepareRun(graph, With({})).program;
  Program other = guessed;
  CHECK(RunAlike(guessed, other));
  other.calls[0].where += "x";
  CHECK_FALSE(RunAlike(guessed, other));
}

}  // namespace onnxfit::study_test
