#include "cli/options.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "cli/flags.h"
#include "estimator/base/bytes.h"
#include "estimator/base/cards.h"
#include "estimator/report/layout.h"
#include "tests/parsed_options.h"
#include "tests/working_folder.h"

namespace onnxfit::options_test {
namespace {

// An environment variable for as long as it lives.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* text) : name_(name) { setenv(name, text, 1); }
  ~ScopedVariable() { unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
};

}  // namespace

TEST_CASE("without flags there are the defaults") {
  const Options options = Parse({"m.onnx"});
  CHECK(options.action == Action::kRun);
  CHECK(options.model == "m.onnx");
  CHECK(!options.request.binding.batch);
  CHECK(options.request.binding.dims.empty());
  CHECK(options.request.settings.precision == Precision::kFp32);
  CHECK(options.request.settings.optimizer == Optimizer::kAdamW);
  CHECK(!options.request.settings.optimizer_impl);
  CHECK(!options.request.settings.clip_grad);
  CHECK(!options.request.settings.ema);
  CHECK(options.request.settings.mode == Mode::kTrain);
  CHECK(options.request.settings.loss == Loss::kCrossEntropy);
  CHECK(!options.request.overhead_bytes);
  CHECK(options.format == Format::kText);
  CHECK(options.text.rows == 8);
  CHECK(options.color == ColorMode::kAuto);
  CHECK(options.output.empty());
}

TEST_CASE("a library's loop has its defaults, unless flags say otherwise") {
  CHECK_FALSE(Parse({"m.onnx", "--loop", "accelerate"}).request.settings.clip_grad);
  CHECK(Parse({"m.onnx", "--loop", "trainer"}).request.settings.clip_grad);
  CHECK_FALSE(Parse({"m.onnx", "--clip-grad=no", "--loop", "trainer"}).request.settings.clip_grad);
  const auto zeroes = [](const std::vector<std::string>& arguments) {
    return Parse(arguments).request.settings.loop.zero_grad;
  };
  CHECK(zeroes({"m.onnx", "--loop", "lightning"}) == ZeroGrad::kBeforeBackward);
  CHECK(zeroes({"m.onnx", "--zero-grad", "keep", "--loop", "lightning"}) == ZeroGrad::kKeep);
}

TEST_CASE("timm's loop smooths labels of classes, holds outputs and loads ahead") {
  const TrainingSettings timm = Parse({"m.onnx", "--loop", "timm"}).request.settings;
  CHECK(timm.label_smoothing);
  CHECK(timm.loop.hold_outputs);
  CHECK(timm.loop.prefetch == 1);
  const auto smooths = [](const std::vector<std::string>& arguments) {
    return Parse(arguments).request.settings.label_smoothing;
  };
  CHECK_FALSE(smooths({"m.onnx", "--loop", "timm", "--label-smoothing=no"}));
  CHECK_FALSE(smooths({"m.onnx", "--loop", "timm", "--loss", "mse"}));
  CHECK(smooths({"m.onnx", "--loop", "trainer", "--label-smoothing"}));
}

TEST_CASE("ultralytics' loop has the defaults of its configuration") {
  const TrainingSettings plain = Parse({"m.onnx", "--loop", "ultralytics"}).request.settings;
  CHECK(plain.precision == Precision::kAmpFp16);
  CHECK(plain.optimizer == Optimizer::kMuSgd);
  CHECK(plain.optimizer_args == kWeightDecay);
  CHECK(plain.clip_grad);
  CHECK(plain.ema);
  CHECK(plain.channels_last);
  CHECK(plain.loop.accumulate == 2);
  const auto parse = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"m.onnx", "--loop", "ultralytics"});
    return Parse(more).request.settings;
  };
  CHECK(parse({"-p", "fp32"}).precision == Precision::kFp32);
  CHECK(parse({"-o", "sgdm"}).optimizer_args == (kWeightDecay | kNesterov));
  CHECK_FALSE(parse({"--ema=no"}).ema);
  // round(64 / batch)
  CHECK(parse({"-b", "42"}).loop.accumulate == 2);
  CHECK(parse({"-b", "43"}).loop.accumulate == 1);
  CHECK(parse({"-b", "32,64"}).loop.accumulate == 2);
  CHECK(parse({"-b", "32", "--accumulate", "1"}).loop.accumulate == 1);
}

TEST_CASE("groups of parameters are the loop's unless others are asked for") {
  const auto groups = [](const std::vector<std::string>& arguments) {
    return Parse(arguments).request.settings.param_groups;
  };
  CHECK(groups({"m.onnx", "--loop", "timm"}) == ParamGroups::kOfLoop);
  CHECK(groups({"m.onnx", "--param-groups", "one"}) == ParamGroups::kOne);
  CHECK(Parse({"m.onnx", "--loop", "timm", "--mixup"}).request.settings.mixup);
}

TEST_CASE("every flag reaches its place") {
  const Options options = Parse({"estimate",
                                 "-b",
                                 "32",
                                 "--dim",
                                 "seq=512",
                                 "--dim=past=3",
                                 "--shape",
                                 "ids=2x512",
                                 "-pbf16",
                                 "-o",
                                 "sgd",
                                 "--mode",
                                 "eval",
                                 "--loss",
                                 "mse",
                                 "--loss-output",
                                 "logits",
                                 "--overhead",
                                 "450MiB",
                                 "-f",
                                 "json",
                                 "--output",
                                 "o.json",
                                 "--force",
                                 "-n",
                                 "3",
                                 "-q",
                                 "-v",
                                 "--ascii",
                                 "--color=always",
                                 "--exit-zero",
                                 "--zero-grad",
                                 "keep",
                                 "--hold-outputs",
                                 "--drop-batch",
                                 "--same-batch",
                                 "--cublas-conf=:16:8",
                                 "--prefetch",
                                 "2",
                                 "--accumulate",
                                 "4",
                                 "--eval-batch=6",
                                 "--eval-keep",
                                 "5",
                                 "--attention",
                                 "eager",
                                 "--out-of-place",
                                 "*/Add",
                                 "--freeze",
                                 "layer1.*",
                                 "--freeze=*.bias",
                                 "--checkpoint",
                                 "auto",
                                 "--checkpoint-reentrant",
                                 "--lora",
                                 "8:q_proj,*.fc?",
                                 "--lora-dropout=0.05",
                                 "--dora",
                                 "--quantize",
                                 "nf4:fc",
                                 "--loop=accelerate",
                                 "--optimizer-impl=fused",
                                 "--optimizer-args=weight_decay",
                                 "--clip-grad",
                                 "--ema",
                                 "--optimizer-in-backward",
                                 "--strategy=zero-redundancy",
                                 "--world",
                                 "4",
                                 "--ddp-views",
                                 "--note",
                                 "labels are pictures",
                                 "--note=a guess",
                                 "--why",
                                 "h",
                                 "m.onnx"});
  CHECK(options.model == "m.onnx");
  CHECK(options.request.binding.batch == 32);
  CHECK(options.request.binding.dims == std::map<std::string, int64_t>{{"past", 3}, {"seq", 512}});
  CHECK(options.request.binding.inputs == std::map<std::string, Dims>{{"ids", {2, 512}}});
  CHECK(options.request.settings.precision == Precision::kBf16);
  CHECK(options.request.settings.optimizer == Optimizer::kSgd);
  CHECK(options.request.settings.optimizer_impl == OptimizerImpl::kFused);
  CHECK(options.request.settings.optimizer_args == kWeightDecay);
  CHECK(options.request.settings.loop.library == LoopLibrary::kAccelerate);
  CHECK(options.request.settings.clip_grad);
  CHECK(options.request.settings.ema);
  CHECK(options.request.settings.optimizer_in_backward);
  CHECK(options.request.assumptions == std::vector<std::string>{"labels are pictures", "a guess"});
  CHECK(options.request.settings.ranks.strategy == Strategy::kZeroRedundancy);
  CHECK(options.request.settings.ranks.world == 4);
  CHECK(options.request.settings.ranks.gradients_as_views);
  CHECK(options.request.settings.out_of_place == std::vector<std::string>{"*/Add"});
  CHECK(options.request.settings.attention == AttentionUse::kEager);
  CHECK(options.request.settings.mode == Mode::kEval);
  CHECK(options.request.settings.loss == Loss::kMse);
  CHECK(options.request.settings.loss_output == "logits");
  CHECK(options.request.overhead_bytes == 450 * kMiB);
  CHECK(options.format == Format::kJson);
  CHECK(options.output == "o.json");
  CHECK(options.force);
  CHECK(options.text.rows == 3);
  CHECK(options.text.quiet);
  CHECK(options.text.verbose);
  CHECK(options.request.details);
  CHECK(options.request.why == "h");
  CHECK(options.text.ascii);
  CHECK(options.color == ColorMode::kAlways);
  CHECK(options.exit_zero);
  CHECK(options.request.settings.loop.zero_grad == ZeroGrad::kKeep);
  CHECK(options.request.settings.loop.hold_outputs);
  CHECK(options.request.settings.loop.drop_batch);
  CHECK(options.request.settings.loop.same_batch);
  CHECK(options.request.settings.cublas.text == ":16:8");
  CHECK(options.request.settings.cublas.bytes == 16 * 8 * 1024);
  CHECK(options.request.settings.loop.prefetch == 2);
  CHECK(options.request.settings.loop.accumulate == 4);
  CHECK(options.request.settings.evaluation.batch == 6);
  CHECK(options.request.settings.evaluation.keep == 5);
  CHECK(options.request.settings.freeze == std::vector<std::string>{"layer1.*", "*.bias"});
  CHECK(options.request.settings.checkpoint == std::vector<std::string>{"auto"});
  CHECK(options.request.settings.checkpoint_reentrant);
  CHECK(options.request.settings.lora.rank == 8);
  CHECK(options.request.settings.lora.targets == std::vector<std::string>{"q_proj", "*.fc?"});
  CHECK(options.request.settings.lora.dropout == 0.05);
  CHECK(options.request.settings.lora.dora);
  CHECK(options.request.settings.quantize.kind == Quantization::kNf4);
  CHECK(options.request.settings.quantize.targets == std::vector<std::string>{"fc"});
}

TEST_CASE("a compiled model has neither checkpoints nor ranks nor packed weights") {
  CHECK(Parse({"m.onnx", "--compile=inductor"}).request.settings.compile == Compiling::kInductor);
  CHECK(Parse({"m.onnx", "--compile=as-eager"}).request.settings.compile == Compiling::kAsEager);
  CHECK(ErrorOf({"m.onnx", "--compile=inductor", "--checkpoint=auto"}) ==
        "--compile: expected without --checkpoint, beside which compiled code is not known here "
        "(try: "
        "--compile none)");
  CHECK(
      ErrorOf({"m.onnx", "--compile=inductor", "--strategy=ddp"}) ==
      "--compile: expected without --strategy, beside which compiled code is not known here (try: "
      "--compile none)");
  CHECK(
      ErrorOf({"m.onnx", "--compile=as-eager", "--quantize=nf4"}) ==
      "--compile: expected without --quantize, beside which compiled code is not known here (try: "
      "--compile none)");
}

TEST_CASE("what a version of PyTorch does not have is refused") {
  CHECK(ErrorOf({"m.onnx", "--framework=pytorch-1.13", "--compile=inductor"}) ==
        "--compile: expected pytorch-2.0 or later, which has torch.compile, found --framework "
        "pytorch-1.13");
  CHECK(ErrorOf({"m.onnx", "--framework=pytorch-1.13", "--cublas-conf=:16:8"}) ==
        "--cublas-conf: expected pytorch-2.0 or later, which has cuBLAS's workspaces in "
        "PyTorch's memory, found --framework pytorch-1.13");
  CHECK(ErrorOf({"m.onnx", "--framework=pytorch-2.3", "--strategy=fsdp"}) ==
        "--strategy: expected pytorch-2.4 or later, which has fully_shard, found --framework "
        "pytorch-2.3");
  CHECK(ErrorOf({"m.onnx", "--framework=pytorch-2.3", "--strategy=pipeline"}) ==
        "--strategy: expected pytorch-2.4 or later, which has torch.distributed.pipelining, found "
        "--framework pytorch-2.3");
  Parse({"m.onnx", "--framework=pytorch-2.0", "--compile=inductor"});
  Parse({"m.onnx", "--framework=pytorch-2.4", "--strategy=fsdp"});
  Parse({"m.onnx", "--framework=pytorch-1.13", "--strategy=ddp"});
}

TEST_CASE("FSDP's flags reach their places, and its policy casts the model") {
  const TrainingSettings settings = Parse({"m.onnx", "--strategy=fsdp", "--fsdp-modules=h.*",
                                           "--fsdp-keep", "--fsdp-policy=bf16"})
                                        .request.settings;
  CHECK(settings.ranks.strategy == Strategy::kFsdp);
  CHECK(settings.ranks.fsdp_modules == std::vector<std::string>{"h.*"});
  CHECK(settings.ranks.fsdp_keep);
  CHECK(settings.precision == Precision::kBf16);
}

TEST_CASE("meshes of ranks reach their places") {
  const RankSettings ranks =
      Parse({"m.onnx", "--strategy=fsdp-hybrid", "--world=16", "--shard-world=4",
             "--fsdp-reshard=2", "--fsdp-offload", "--accumulate=2", "--no-sync"})
          .request.settings.ranks;
  CHECK(ranks.strategy == Strategy::kFsdpHybrid);
  CHECK(SharingRanks(ranks) == 4);
  CHECK(ranks.fsdp_reshard == 2);
  CHECK(ranks.fsdp_offload);
  CHECK(ranks.no_sync);
  CHECK(Parse({"m.onnx", "--strategy=ddp", "--ddp-static-graph"})
            .request.settings.ranks.static_graph);
  CHECK(
      Parse({"m.onnx", "--strategy=zero2", "--overlap-comm"}).request.settings.ranks.overlap_comm);
  CHECK(
      Parse({"m.onnx", "--strategy=zero3", "--zero-offload"}).request.settings.ranks.zero_offload);
}

TEST_CASE("ranks that share layers reach their place, and refuse what is not known beside them") {
  const Options options = Parse({"m.onnx", "--tensor-parallel=4", "--checkpoint=auto"});
  CHECK(options.request.settings.ranks.tensor_parallel == 4);
  CHECK(ErrorOf({"m.onnx", "--tensor-parallel=2", "--lora=8"}) ==
        "--tensor-parallel: expected without --lora, beside which it is not known here");
  CHECK(ErrorOf({"m.onnx", "--tensor-parallel=2", "-o", "muon"})
            .starts_with("--tensor-parallel: expected an optimizer of PyTorch's"));
  CHECK(ErrorOf({"m.onnx", "--tensor-parallel=0"}).starts_with("--tensor-parallel: "));
  CHECK(Parse({"m.onnx", "--tensor-parallel=4:head"}).request.settings.ranks.shares_head);
  CHECK(Parse({"m.onnx", "--tensor-parallel=4", "--sequence-parallel"})
            .request.settings.ranks.shares_tokens);
  CHECK(ErrorOf({"m.onnx", "--sequence-parallel"}).find("--tensor-parallel") != std::string::npos);
  CHECK(ErrorOf({"m.onnx", "--tensor-parallel=1", "--sequence-parallel"}) ==
        "--sequence-parallel: expected --tensor-parallel of 2 ranks or more, found 1");
  CHECK(ErrorOf({"m.onnx", "--tensor-parallel=1:head"}) ==
        "--tensor-parallel: expected 2 ranks or more, found 1");
  CHECK(ErrorOf({"m.onnx", "--tensor-parallel=2", "--strategy=fsdp", "--devices=4xt4"})
            .starts_with("--devices: expected no --tensor-parallel"));
  CHECK(ErrorOf({"m.onnx", "--tensor-parallel=4:all"}) ==
        "--tensor-parallel: expected a number of ranks, or N:head, found '4:all'");
}

TEST_CASE("devices are the cards of all ranks") {
  const Options options = Parse({"m.onnx", "--strategy=fsdp", "--devices=4xt4,2xa100-40gb,t4"});
  CHECK(options.request.settings.ranks.world == 7);
  REQUIRE(options.targets.cards.size() == 2);
  CHECK(options.targets.cards[0] == FindCard("t4"));
  CHECK(options.targets.cards[1] == FindCard("a100-40gb"));
  // A machine of four cards, two of eight.
  const Options rented = Parse({"m.onnx", "--strategy=ddp", "--devices=p3.8xlarge,2xp3.16xlarge"});
  CHECK(rented.request.settings.ranks.world == 4 + 2 * 8);
  CHECK(rented.targets.cards.size() == 1);
  CHECK(ErrorOf({"m.onnx", "--strategy=ddp", "--devices=p3"})
            .starts_with("--devices: expected one machine, as those called so differ"));
  CHECK(ErrorOf({"m.onnx", "--devices=4xt4"}) ==
        "--devices: expected beside --strategy, which is missing");
  CHECK(ErrorOf({"m.onnx", "--strategy=ddp", "--devices=4xt4", "--world=4"}) ==
        "--devices: expected no --world: it counts the ranks");
  CHECK(ErrorOf({"m.onnx", "--strategy=ddp", "--devices=0xt4"}).starts_with("--devices: "));
  CHECK(ErrorOf({"m.onnx", "--strategy=ddp", "--devices=4xnothing"})
            .starts_with("--devices: expected a card, found 'nothing'"));
}

TEST_CASE("a library zeroes gradients in its own place") {
  CHECK(ErrorOf({"m.onnx", "--loop=trainer", "--zero-grad=keep"})
            .starts_with("--zero-grad: expected a loop that does not drop gradients behind each"));
  CHECK(
      Parse({"m.onnx", "--loop=accelerate", "--zero-grad=keep"}).request.settings.loop.zero_grad ==
      ZeroGrad::kKeep);
}

TEST_CASE("groups of ranks are of one size") {
  const auto error = [](const std::vector<std::string>& words) {
    std::vector<std::string> all = {"m.onnx"};
    all.insert(all.end(), words.begin(), words.end());
    return ErrorOf(all);
  };
  CHECK(error({"--strategy=fsdp-hybrid", "--world=6", "--shard-world=4"}) ==
        "--shard-world: expected a divisor of --world 6, found 4");
  CHECK(error({"--strategy=fsdp", "--world=8", "--fsdp-reshard=3"}) ==
        "--fsdp-reshard: expected a divisor of the 8 ranks that share the model, found 3");
  CHECK(error({"--strategy=fsdp", "--fsdp-reshard=4", "--fsdp-keep"}) ==
        "--fsdp-reshard: expected no --fsdp-keep");
  CHECK(error({"--strategy=fsdp-hybrid", "--world=auto", "--gpu=t4"}) ==
        "--world: auto: expected ranks that all share the model, at all times");
  CHECK(error({"--strategy=fsdp", "--shard-world=4"}) ==
        "--shard-world: expected with --strategy fsdp-hybrid, found fsdp");
  CHECK(error({"--strategy=fsdp", "--no-sync"}) ==
        "--no-sync: expected beside --accumulate, which is missing");
}

TEST_CASE("types are the file's unless a precision, or fp32 weights, are named") {
  const auto keeps = [](std::vector<std::string> words) {
    words.insert(words.begin(), "m.onnx");
    return Parse(words).request.settings.keeps_types;
  };
  CHECK(keeps({}));
  CHECK(keeps({"-p", "amp-bf16"}));
  CHECK_FALSE(keeps({"-p", "bf16"}));
  CHECK_FALSE(keeps({"-p", "fp32"}));
  CHECK_FALSE(keeps({"--fp32-weights"}));
  CHECK_FALSE(keeps({"-p", "amp-bf16", "--fp32-weights"}));
  CHECK_THROWS_WITH_AS(keeps({"-p", "bf16", "--fp32-weights"}),
                       "--fp32-weights: expected fp32, amp-bf16 or amp-fp16 beside it, found bf16 "
                       "(try: -p amp-bf16)",
                       Error);
}

TEST_CASE("a flag about another one is not taken alone") {
  const auto refused = [](const std::vector<std::string>& words, const char* text) {
    CHECK_THROWS_WITH_AS(Parse(words), text, Error);
  };
  refused({"m", "--lora-dropout", "0.1"},
          "--lora-dropout: expected beside --lora, which is missing");
  refused({"m", "--dora"}, "--dora: expected beside --lora, which is missing");
  refused({"m", "--checkpoint-reentrant"},
          "--checkpoint-reentrant: expected beside --checkpoint, which is missing");
  refused({"m", "--world", "4"}, "--world: expected beside --strategy, which is missing");
  CHECK(Parse({"m.onnx", "--strategy=zero3", "--persistence-threshold=0"})
            .request.settings.ranks.persistence_threshold == 0);
  CHECK(Parse({"m.onnx", "--strategy=zero2", "--reduce-bucket=5000000"})
            .request.settings.ranks.reduce_bucket == 5'000'000);
  refused(
      {"m", "--strategy", "zero-redundancy", "--reduce-bucket", "8"},
      "--reduce-bucket: expected with --strategy zero1 or zero2 or zero3, found zero-redundancy");
  refused({"m", "--strategy", "zero2", "--prefetch-bucket", "8"},
          "--prefetch-bucket: expected with --strategy zero3, found zero2");
  refused({"m", "--strategy", "ddp", "--fsdp-keep"},
          "--fsdp-keep: expected with --strategy fsdp or fsdp-hybrid, found ddp");
  refused({"m", "--strategy", "fsdp", "--fsdp-policy", "bf16", "-p", "amp-bf16"},
          "--fsdp-policy: expected a model in fp32, which it casts, found -p amp-bf16");
  refused({"m", "--strategy", "fsdp", "--fsdp-policy", "bf16", "-p", "fp32,bf16"},
          "--fsdp-policy: expected a model in fp32, which it casts, found a list of 2 precisions "
          "(try: without --precision)");
  refused({"m", "--strategy", "fsdp", "--ddp-views"},
          "--ddp-views: expected with --strategy ddp or zero-redundancy, found fsdp");
  refused({"m", "--ddp-views"}, "--ddp-views: expected beside --strategy, which is missing");
  CHECK(Parse({"m", "--lora", "8", "--lora-dropout", "0.1"}).request.settings.lora.dropout == 0.1);
}

TEST_CASE("lists and ranges are axes of a table, a single value is none") {
  const Options options = Parse({"m", "-b", "64,8:24:8", "--dim", "seq=128:512:256", "--dim",
                                 "past=3", "-p", "fp32,amp-bf16", "-o", "sgd,adamw"});
  CHECK(options.sweep.batches == std::vector<int64_t>{64, 8, 16, 24});
  CHECK(options.sweep.dims == std::vector<SweptDim>{{"seq", {128, 384}}});
  CHECK(options.sweep.precisions == std::vector<Precision>{Precision::kFp32, Precision::kAmpBf16});
  CHECK(options.sweep.optimizers == std::vector<Optimizer>{Optimizer::kSgd, Optimizer::kAdamW});
  CHECK(options.request.binding.dims == std::map<std::string, int64_t>{{"past", 3}});
  CHECK(!options.request.binding.batch);

  const Options single = Parse({"m", "-b", "8:8:8", "--dim", "a=b=2:3:4", "-p", "bf16"});
  CHECK(single.sweep.empty());
  CHECK(single.request.binding.batch == 8);
  CHECK(single.request.binding.dims == std::map<std::string, int64_t>{{"a=b", 2}});
  CHECK(Parse({"m", "-b", "1:10000:1"}).sweep.batches.size() == 10000);
}

TEST_CASE("max-batch takes lists of all but the batch") {
  const Options options = Parse({"max-batch", "m", "-p", "fp32,bf16", "--dim", "seq=1,2"});
  CHECK(CountCombinations(options.sweep) == 4);
}

TEST_CASE("a list may come from the environment, where a log without a model ignores it") {
  const ScopedVariable batch("ONNXFIT_BATCH", "8,16");
  CHECK(Parse({"m"}).sweep.batches == std::vector<int64_t>{8, 16});
  CHECK(Parse({"m", "-b", "4"}).sweep.empty());
  CHECK(Parse({"explain-oom", "train.log"}).log == "train.log");
}

TEST_CASE("--dropout takes places, the later ones win") {
  using Placed = std::vector<PlacedDropout>;
  struct Row {
    std::vector<std::string> given;
    std::optional<double> everywhere;
    Placed placed;
  };
  const Row rows[] = {
      {{}, std::nullopt, {}},
      {{"auto"}, std::nullopt, {}},
      {{"0.1"}, 0.1, {}},
      {{"0", "classifier=0.1", "*/attn=0"}, 0, {{"classifier", 0.1}, {"*/attn", 0}}},
      {{"a=b=0.2"}, std::nullopt, {{"a=b", 0.2}}},
      {{"classifier=0.1", "0.2"}, 0.2, {}},
      {{"0.2", "auto"}, std::nullopt, {}},
  };
  for (const Row& row : rows) {
    std::vector<std::string> words = {"m.onnx"};
    for (const std::string& given : row.given) words.insert(words.end(), {"--dropout", given});
    const Options options = Parse(words);
    CHECK(options.request.settings.dropout == row.everywhere);
    CHECK(options.request.settings.placed_dropouts == row.placed);
  }
}

TEST_CASE("--alloc-conf keeps what was given and what it means") {
  CHECK(Parse({"m.onnx"}).request.alloc_conf.conf == AllocatorConf());
  const Options options = Parse({"m.onnx", "--alloc-conf", "expandable_segments:True"});
  CHECK(options.request.alloc_conf.text == "expandable_segments:True");
  CHECK(options.request.alloc_conf.conf.expandable_segments);
}

TEST_CASE("the model may stand anywhere") {
  struct Row {
    Args args;
    const char* model;
  };
  const Row rows[] = {{{"estimate", "m.onnx", "-b", "8"}, "m.onnx"},
                      {{"-b", "8", "estimate", "m.onnx"}, "m.onnx"},
                      {{"-q", "m.onnx"}, "m.onnx"},
                      {{"-"}, "-"},
                      {{"estimate", "-", "-b", "8"}, "-"},
                      {{"estimate", "estimate"}, "estimate"},
                      {{"--", "-q.onnx"}, "-q.onnx"},
                      {{"[a,b].onnx"}, "[a,b].onnx"}};
  for (const Row& row : rows) {
    CAPTURE(row.model);
    CHECK(Parse(row.args).model == row.model);
  }
}

TEST_CASE("what cannot be meant is refused in one sentence") {
  struct Row {
    Args args;
    const char* error;
  };
  const std::string digits(100000, '9');
  const Row rows[] = {
      {{}, "expected a model file, found none (try: onnxfit MODEL.pt2, or MODEL.onnx)"},
      {{"estimate"}, "expected a model file, found none (try: onnxfit MODEL.pt2, or MODEL.onnx)"},
      {{"a.onnx", "b.onnx"}, "expected one model file, found 'a.onnx' and 'b.onnx'"},
      {{"estimate", "a.onnx", "b.onnx"}, "expected one model file, found 'a.onnx' and 'b.onnx'"},
      {{"estimat"},
       "expected a command or a model file, found 'estimat' (did you mean 'estimate'?)"},
      {{"estimat", "m.onnx"},
       "expected a command or a model file, found 'estimat' (did you mean 'estimate'?)"},
      {{"min-batch", "m.onnx"},
       "expected a command or a model file, found 'min-batch' (did you mean 'max-batch'?)"},
      {{"max-batch", "m.onnx", "-b", "8"},
       "--batch: expected with estimate, verify, diff, explain-oom, report or annotate, found with "
       "max-batch"},

      {{"m", "--batch", "0"}, "--batch: expected a whole number from 1, found '0'"},
      {{"m", "--batch", "x"}, "--batch: expected a whole number from 1, found 'x'"},
      {{"m", "-b", "-3"}, "--batch: expected a whole number from 1, found '-3'"},
      {{"m", "-b", "+3"}, "--batch: expected a whole number from 1, found '+3'"},
      {{"m", "-b", "8.0"}, "--batch: expected a whole number from 1, found '8.0'"},
      {{"m", "-b", " 8"}, "--batch: expected a whole number from 1, found ' 8'"},
      {{"m", "-b"}, "--batch: expected a whole number from 1, found nothing"},
      {{"m", "-b", "--mode", "eval"}, "--batch: expected a whole number from 1, found nothing"},
      {{"m", "-b", "1,x"}, "--batch: expected a whole number from 1, found 'x'"},
      {{"m", "-b", "1,,8"}, "--batch: expected a value at both sides of each comma, found '1,,8'"},
      {{"m", "-b", "8,"}, "--batch: expected a value at both sides of each comma, found '8,'"},
      {{"m", "-b", "8,16,8"}, "--batch: '8' is given twice"},
      {{"m", "-b", "8:16:4,12"}, "--batch: '12' is given twice"},
      {{"m", "-b", "8:64"}, "--batch: expected first:last:step such as 8:64:8, found '8:64'"},
      {{"m", "-b", "8:64:8:8"},
       "--batch: expected first:last:step such as 8:64:8, found '8:64:8:8'"},
      {{"m", "-b", "8:64:0"}, "--batch: expected a range with a step from 1, found '8:64:0'"},
      {{"m", "-b", "8:4:1"}, "--batch: expected a range that ends at 8 or later, found '8:4:1'"},
      {{"m", "-b", "0:4:1"}, "--batch: expected a whole number from 1, found '0'"},
      {{"m", "-b", "8::1"}, "--batch: expected a whole number from 1, found nothing"},
      {{"m", "-b", "1:10001:1"},
       "--batch: expected at most 10000 values, found 10001 in '1:10001:1' (try: a larger step)"},
      {{"m", "-b", "1:9223372036854775807:1"},
       "--batch: expected at most 10000 values, found 9223372036854775807 in "
       "'1:9223372036854775807:1' (try: a larger step)"},
      {{"m", "-b", "1:101:1", "--dim", "seq=1:100:1", "-p", "fp32"},
       "expected at most 10000 combinations, found 10100 (101 of --batch, 100 of --dim 'seq')"},
      {{"m", "-b", "1:73:1", "--dim", "seq=1:137:1"},
       "expected at most 10000 combinations, found 10001 (73 of --batch, 137 of --dim 'seq')"},
      {{"m", "-b", "1:9999:1", "--dim", "a=1:9999:1", "--dim", "b=1:9999:1", "--dim", "c=1:9999:1",
        "--dim", "d=1:9999:1"},
       "expected at most 10000 combinations, found more than 2^63 (9999 of --batch, 9999 of --dim "
       "'a', 9999 of --dim 'b', 9999 of --dim 'c', 9999 of --dim 'd')"},
      {{"m", "-b", "8,16", "-p", "fp32,bf16", "--why", "x"},
       "--why: expected one run, found a table of 4 (2 of --batch, 2 of --precision) (try: one "
       "value for --batch)"},
      {{"m", "-b", "8,16", "--tree"},
       "--tree: expected one run, found a table of 2 (2 of --batch) (try: one value for --batch)"},
      {{"m", "--timeline", "-f", "csv"},
       "--timeline: expected with text, markdown or json, found with another --format"},
      {{"m", "--tree", "-f", "svg"},
       "--tree: expected with text, markdown or json, found with another --format"},
      {{"m", "--why", "x", "-f", "perfetto"},
       "--why: expected text or json, found a file for another tool"},
      {{"explain-oom", "--model", "m", "-b", "8,16"},
       "--batch: expected one value with explain-oom, found 2"},
      {{"m", "-b", "1", "-b", "8"}, "--batch: expected one value, found '1' and '8'"},
      {{"m", "--batch", "99999999999999999999"},
       "--batch: expected a whole number below 2^63, found '99999999999999999999'"},
      {{"m", "-b", digits},
       "--batch: expected a whole number below 2^63, found "
       "'9999999999999999999…99999999999999999999'"},

      {{"m", "--precision", "fp23"},
       "--precision: expected fp32, amp-fp16, amp-bf16, bf16, fp16 or fp64, found 'fp23' (did you "
       "mean 'fp32'?)"},
      {{"m", "-p", "quaternion"},
       "--precision: expected fp32, amp-fp16, amp-bf16, bf16, fp16 or fp64, found 'quaternion'"},
      {{"m", "-p", "fp32,bf61"},
       "--precision: expected fp32, amp-fp16, amp-bf16, bf16, fp16 or fp64, found 'bf61' (did you "
       "mean 'bf16'?)"},
      {{"m", "-p", "fp32,bf16,fp32"}, "--precision: 'fp32' is given twice"},
      {{"m", "-o", "sgd,"},
       "--optimizer: expected a value at both sides of each comma, found 'sgd,'"},
      {{"m", "--mode", "train,eval"},
       "--mode: expected train, eval or generate, found 'train,eval' (try: one value at a time)"},
      {{"m", "--dropout", "1.5"},
       "--dropout: expected auto, a probability below 1, or one for a place, such as "
       "classifier=0.1, found '1.5'"},
      {{"m", "--dropout", "fc=x"},
       "--dropout: expected auto, a probability below 1, or one for a place, such as "
       "classifier=0.1, found 'fc=x'"},
      {{"m", "--assume", "bias=yes"},
       "--assume: expected conv-bias=yes, in-place-dropout=yes, tied-head=yes, or the same with "
       "no, "
       "found 'bias=yes'"},
      {{"m", "--in-place", "maybe"},
       "--in-place: expected auto, always, known or never, found 'maybe'"},
      {{"m", "--zero-grad", "none"},
       "--zero-grad: expected before-forward, before-backward, after-step or keep, found 'none'"},
      {{"m", "--hold-outputs=maybe"}, "--hold-outputs: expected yes or no, found 'maybe'"},
      {{"m", "--prefetch", "-1"}, "--prefetch: expected a whole number from 0 to 1024, found '-1'"},
      {{"m", "--prefetch", "99999999999999999999"},
       "--prefetch: expected a whole number from 0 to 1024, found '99999999999999999999'"},
      {{"m", "--accumulate", "0"},
       "--accumulate: expected a whole number from 1 to 1024, found '0'"},
      {{"m", "--eval-keep", "2"},
       "--eval-keep: expected a batch of evaluation beside it (try: --eval-batch N)"},
      {{"m", "--eval-batch", "2", "--strategy", "fsdp"},
       "--eval-batch: expected no --strategy fsdp"},
      {{"m", "--accumulate", "1025"},
       "--accumulate: expected a whole number from 1 to 1024, found '1025'"},
      {{"m", "--freeze"}, "--freeze: expected names of parameters such as layer1.*, found nothing"},
      {{"m", "--batch-norm", "fold"}, "--batch-norm: expected auto, keep or restore, found 'fold'"},
      {{"m", "-o", "adamv"},
       "--optimizer: expected one of 44 names, found 'adamv' (did you mean adam, adamw or nadam?) "
       "(try: onnxfit --help optimizer)"},
      {{"m", "--param-groups", "matrices", "-o", "muon"},
       "--param-groups: expected an optimizer that takes all parameters, found muon (try: -o "
       "adamw)"},
      {{"m", "--param-groups", "timm", "--strategy", "zero-redundancy"},
       "--param-groups: expected one group with --strategy zero-redundancy, which gives ranks "
       "their shares "
       "by "
       "group, found timm (try: --param-groups one)"},
      {{"m", "--param-groups", "one", "-o", "musgd"},
       "--param-groups: expected ultralytics, whose musgd is, found one"},
      {{"m", "--strategy", "fsdp", "--world", "8", "-o", "soap"},
       "--strategy: expected ddp, or none, with soap, found fsdp"},
      {{"m", "--strategy", "zero2", "-o", "galore"},
       "--strategy: expected ddp, or none, with galore, found zero2"},
      {{"m", "--galore", "64"},
       "--galore: expected beside -o galore, which is missing (try: -o galore)"},
      {{"m", "-o", "galore", "--galore", "64:"},
       "--galore: expected a rank and parts of layers' names: 128:attn,mlp, found '64:'"},
      {{"m", "-o", "galore", "--lora", "8"},
       "--lora: expected without -o galore, which trains the layers themselves (try: -o adamw)"},
      {{"m", "-o", "galore", "--param-groups", "matrices"},
       "--param-groups: expected galore's own, found matrices"},
      {{"m", "--mixup"},
       "--mixup: expected --loop timm with its own loss, and no --labels or --eval-batch (try: "
       "--loop timm)"},
      {{"m", "--label-smoothing", "--loss", "mse"},
       "--label-smoothing: expected a loss of classes, found mse (try: --loss cross-entropy)"},
      {{"m", "--optimizer-args", "dampening"},
       "--optimizer-args: expected weight_decay, nesterov or amsgrad, found 'dampening'"},
      {{"m", "-o", "adam,sgd", "--optimizer-args", "amsgrad"},
       "--optimizer-args: expected what sgd takes, found amsgrad (try: -o adam or adamw)"},
      {{"m", "--optimizer-impl", "loop"},
       "--optimizer-impl: expected foreach, for-loop or fused, found 'loop'"},
      {{"m", "--clip-grad=1.0"}, "--clip-grad: expected yes or no, found '1.0'"},
      {{"m", "--mode", "training"}, "--mode: expected train, eval or generate, found 'training'"},
      {{"m", "-f", "html"}, "--format: expected text, json, markdown or csv, found 'html'"},
      {{"m", "--color", "aut"},
       "--color: expected auto, always or never, found 'aut' (did you mean 'auto'?)"},

      {{"m", "--optimiser", "sgd"}, "unknown flag '--optimiser' (did you mean '--optimizer'?)"},
      {{"m", "--optimiser=sgd"}, "unknown flag '--optimiser' (did you mean '--optimizer'?)"},
      {{"m", "-x"}, "unknown flag '-x' (try: onnxfit --help)"},

      {{"m", "--dim", "seq"}, "--dim: expected NAME=N such as seq=512, found 'seq'"},
      {{"m", "--dim", "=5"}, "--dim: expected NAME=N such as seq=512, found '=5'"},
      {{"m", "--dim"}, "--dim: expected NAME=N such as seq=512, found nothing"},
      {{"m", "--dim", "seq=0"}, "--dim seq: expected a whole number from 1, found '0'"},
      {{"m", "--dim", "seq="}, "--dim seq: expected a whole number from 1, found nothing"},
      {{"m", "--dim", "seq=9:1:2"},
       "--dim seq: expected a range that ends at 9 or later, found '9:1:2'"},
      {{"m", "--dim", "seq=1,1"}, "--dim seq: '1' is given twice"},
      {{"m", "--dim", "seq=1", "--dim", "seq=2"}, "--dim: 'seq' is given twice"},
      {{"m", "--dim", "seq=1,2", "--dim", "seq=3"}, "--dim: 'seq' is given twice"},
      {{"m", "--dim", "seq=3", "--dim", "seq=1,2"}, "--dim: 'seq' is given twice"},
      {{"m", "--shape", "x=2xq"}, "--shape x: expected sizes such as 2x512, found '2xq'"},
      {{"m", "--shape", "x=2x"}, "--shape x: expected sizes such as 2x512, found '2x'"},
      {{"m", "--shape", "x="}, "--shape x: expected sizes such as 2x512, found nothing"},
      {{"m", "--shape", "x=2x0"}, "--shape x: expected a whole number from 1, found '0'"},
      {{"m", "--shape", "2x3"}, "--shape: expected IN=SIZES such as input_ids=2x512, found '2x3'"},

      {{"m", "-n", "few"}, "-n: expected a whole number from 0, found 'few'"},
      {{"m", "--output", ""}, "--output: expected the path of a file, found nothing"},
      {{"m", "--why"}, "--why: expected the name of a tensor or a node, found nothing"},
      {{"m", "--loss-output"}, "--loss-output: expected the name of an output, found nothing"},
      {{"m", "--overhead", "big"},
       "--overhead: expected a size, found 'big' (try: 8GiB or 512MiB)"},
      {{"m", "--force=maybe"}, "--force: expected yes or no, found 'maybe'"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.error);
    CHECK(ErrorOf(row.args) == row.error);
  }
}

TEST_CASE("the environment gives defaults, which flags overrule") {
  const ScopedVariable batch("ONNXFIT_BATCH", "16");
  const ScopedVariable output("ONNXFIT_LOSS_OUTPUT", "logits");
  const ScopedVariable rows("ONNXFIT_N", "2");
  const ScopedVariable ascii("ONNXFIT_ASCII", "1");
  const ScopedVariable empty("ONNXFIT_PRECISION", "");
  const ScopedVariable version("ONNXFIT_VERSION", "0.0.1");
  const Options options = Parse({"m.onnx"});
  CHECK(options.action == Action::kRun);
  CHECK(options.request.binding.batch == 16);
  CHECK(options.request.settings.loss_output == "logits");
  CHECK(options.text.rows == 2);
  CHECK(options.text.ascii);
  CHECK(Parse({"m.onnx", "-b", "4", "--ascii=no"}).request.binding.batch == 4);
  CHECK(!Parse({"m.onnx", "--ascii=no"}).text.ascii);
}

// Names that other tools have for it.
TEST_CASE("what people type from habit is understood as a near miss") {
  struct Row {
    Args args;
    const char* end;
  };
  const Row rows[] = {
      {{"m", "--batch-size", "32"}, "unknown flag '--batch-size' (did you mean '--batch'?)"},
      {{"m", "--batch-size=32"}, "unknown flag '--batch-size' (did you mean '--batch'?)"},
      {{"m", "-bs", "32"}, "unknown flag '-bs' (did you mean '--batch'?)"},
      {{"m", "--dtype", "fp16"}, "unknown flag '--dtype' (did you mean '--precision'?)"},
      {{"m", "-p", "half"}, "found 'half' (did you mean 'fp16'?)"},
      {{"m", "-p", "float16"}, "found 'float16' (did you mean 'fp16'?)"},
      {{"m", "-p", "BFloat16"}, "found 'BFloat16' (did you mean 'bf16'?)"},
      {{"m", "-p", "float32"}, "found 'float32' (did you mean 'fp32'?)"},
      {{"m", "-p", "float"}, "found 'float' (did you mean 'fp32'?)"},
      {{"m", "--gpu", "t4,l5"}, "found 'l5' (did you mean l4?) (try: onnxfit gpus)"},
      {{"m", "--gpu", "12GB"}, "--gpu: expected a card, found '12GB' (try: --memory 12GB)"},
      {{"check", "../net.onnx"},
       "../net.onnx: expected a config of checks, found a model (try: onnxfit init, or model = "
       "\"net.onnx\" below [[check]])"},
      {{"m.onnx", "--all-gpus"},
       "--all-gpus: expected with max-batch alone, found with estimate (try: onnxfit max-batch "
       "m.onnx)"},
      {{"none.onnx", "--seq", "512"},
       "--seq: expected with --params, which needs no file, found with 'none.onnx' (try: --dim "
       "NAME=512)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.end);
    CHECK(ErrorOf(row.args).ends_with(row.end));
  }
}

TEST_CASE("a length that is no number of a transformer is a dimension of the file") {
  const WorkingFolder folder;
  folder.Write("net.onnxtxt", R"(<ir_version: 8, opset_import: ["": 17]>
    net (float[N, tokens, 4] x) => (float[N, tokens, 4] y) { y = Relu (x) })");
  CHECK(ErrorOf({"net.onnxtxt", "-b", "2", "--seq", "512"}) ==
        "--seq: expected with --params, which needs no file, found with 'net.onnxtxt' (try: --dim "
        "tokens=512)");
}

TEST_CASE("an error says which variable it came from") {
  const ScopedVariable batch("ONNXFIT_BATCH", "many");
  CHECK(ErrorOf({"m.onnx"}) == "ONNXFIT_BATCH: expected a whole number from 1, found 'many'");
}

TEST_CASE("explain-oom has a log, and a model where one is named") {
  CHECK(Parse({"explain-oom"}).command == Command::kExplainOom);
  CHECK(Parse({"explain-oom"}).log == "-");
  CHECK(Parse({"explain-oom", "train.log"}).log == "train.log");
  CHECK(Parse({"explain-oom", "train.log"}).model.empty());
  const Options options = Parse({"explain-oom", "x.log", "--model", "m.onnx", "-b", "8"});
  CHECK(options.log == "x.log");
  CHECK(options.model == "m.onnx");
  CHECK(options.request.binding.batch == 8);
  CHECK(ErrorOf({"m.onnx", "--model", "n.onnx"}) ==
        "--model: expected with explain-oom alone, found with estimate");
  // What the environment says of models is not about a log without one.
  const ScopedVariable batch("ONNXFIT_BATCH", "16");
  CHECK(Parse({"explain-oom", "x.log"}).log == "x.log");
  CHECK(Parse({"explain-oom", "--help"}).command == Command::kExplainOom);
}

TEST_CASE("gpus takes filters, and flags of the report alone") {
  CHECK(Parse({"gpus"}).command == Command::kGpus);
  CHECK(Parse({"gpus"}).filters.empty());
  CHECK(Parse({"gpus", "rtx 30", ">=8GiB"}).filters == Args{"rtx 30", ">=8GiB"});
  CHECK(Parse({"gpus", "-f", "csv", "t4", "--ascii"}).format == Format::kCsv);
  CHECK(Parse({"gpus", "-f", "markdown"}).format == Format::kMarkdown);
  CHECK(Parse({"gpus", "-q"}).text.quiet);
  CHECK(ErrorOf({"gpus", "-b", "3"}) ==
        "--batch: expected with estimate, verify, diff, explain-oom, report or annotate, found "
        "with gpus");
  CHECK(ErrorOf({"gpus", "-v"}) ==
        "-v: expected with estimate, max-batch, verify, diff, explain-oom or run, found with gpus");
  CHECK(
      ErrorOf({"gpus", "-n", "3"}) ==
      "-n: expected with estimate, max-batch, verify, check, diff, explain-oom or run, found with "
      "gpus");
  const ScopedVariable batch("ONNXFIT_BATCH", "many");
  CHECK(Parse({"gpus", "t4"}).filters == Args{"t4"});
  CHECK(ErrorOf({"gpu"}) ==
        "expected a command or a model file, found 'gpu' (did you mean 'gpus'?)");
}

TEST_CASE("help and version go before all that is wrong") {
  CHECK(Parse({"--help"}).action == Action::kHelp);
  CHECK(Parse({"-h"}).action == Action::kHelp);
  CHECK(Parse({"help"}).action == Action::kHelp);
  CHECK(Parse({"help"}).command == Command::kEstimate);
  CHECK(Parse({"help", "max-batch"}).action == Action::kHelp);
  CHECK(Parse({"help", "max-batch"}).command == Command::kMaxBatch);
  CHECK(Parse({"estimate", "--batch", "x", "--help"}).action == Action::kHelp);
  CHECK(Parse({"--version"}).action == Action::kVersion);
}

TEST_CASE("help is on a topic, a flag or all, of a command") {
  struct Row {
    std::vector<std::string> args;
    Command command;
    std::string_view topic;
  };
  const Row rows[] = {
      {{"--help"}, Command::kEstimate, ""},
      {{"--help", "training"}, Command::kEstimate, "training"},
      {{"max-batch", "m.onnx", "-h", "card"}, Command::kMaxBatch, "card"},
      {{"help", "diff", "all"}, Command::kDiff, "all"},
      {{"explain-oom", "logs/train.log", "--help"}, Command::kExplainOom, ""},
  };
  for (const Row& row : rows) {
    const Options options = Parse(row.args);
    CHECK(options.command == row.command);
    CHECK(options.help_topic == row.topic);
  }
  CHECK(HelpText(Command::kEstimate, "clip-grad") ==
        "      --clip-grad         clip_grad_norm_ before each optimizer step\n");
  CHECK(HelpText(Command::kEstimate, "b").starts_with("  -b, --batch N"));
  CHECK(HelpText(Command::kEstimate, "ranks").starts_with("Several cards\n"));
  CHECK_THROWS_WITH(HelpText(Command::kEstimate, "trainin"),
                    "--help: expected training, generate, ranks, card, file, report, all or a "
                    "flag, found 'trainin' (did you mean 'training'?) (try: onnxfit --help)");
}

TEST_CASE("help fits a screen, and each flag that it leaves out has a topic") {
  constexpr std::string_view kTopicNames[] = {"training", "generate", "ranks",
                                              "card",     "file",     "report"};
  std::string topics;
  for (const std::string_view topic : kTopicNames) topics += HelpText(Command::kEstimate, topic);
  for (const Flag& flag : Flags()) {
    if (!IsOf(flag, Command::kEstimate)) continue;
    CHECK(topics.find(fmt::format("{} {}", flag.name, flag.value)) != std::string::npos);
  }
  const std::string help = HelpText(Command::kEstimate);
  CHECK(std::ranges::count(help, '\n') <= 50);
  CHECK(help.find("--loop L") != std::string::npos);
  CHECK(help.find("--ddp-views") == std::string::npos);
}

TEST_CASE("help names every flag and its variable fits the name") {
  const std::string help = HelpText(Command::kEstimate, "all");
  const std::string of_messages = HelpText(Command::kExplainOom, "all");
  for (const Flag& flag : Flags()) {
    CAPTURE(flag.help);
    const bool is_shown =
        help.find(fmt::format("{} {}", flag.name, flag.value)) != std::string::npos;
    const bool is_of_estimate = std::ranges::any_of(Flags(), [&](const Flag& other) {
      return other.name == flag.name && other.value == flag.value &&
             IsOf(other, Command::kEstimate);
    });
    CHECK(is_shown == is_of_estimate);
    CHECK((of_messages.find(flag.name) != std::string::npos || !IsOf(flag, Command::kExplainOom)));
    if (!IsOf(flag, Command::kEstimate)) continue;
    CHECK(help.find(flag.name) != std::string::npos);
    CHECK(help.find(flag.letter) != std::string::npos);
    CHECK(EnvironmentName(flag).size() > std::string("ONNXFIT_").size());
  }
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(Columns(line) <= 80);
    CHECK(!line.ends_with(' '));
  }
}

}  // namespace onnxfit::options_test
