#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cli/options.h"
#include "estimator/base/error.h"
#include "tests/temp_folder.h"

namespace onnxfit::training_arguments_test {
namespace {

Options Parse(const std::string& json, std::vector<std::string> flags = {}) {
  const TempFolder folder;
  flags.insert(flags.begin(), {"m.onnx", "--training-args", folder.Write("args.json", json)});
  return ParseOptions(flags);
}

TEST_CASE("arguments of the Trainer are flags") {
  const Options options = Parse(R"({"per_device_train_batch_size": 8, "bf16": true,
      "gradient_accumulation_steps": 4, "gradient_checkpointing": true, "optim": "adamw_torch",
      "max_grad_norm": 1.0, "fsdp": [], "deepspeed": null, "lr_scheduler_type": "linear"})");
  const TrainingSettings& settings = options.request.settings;
  CHECK(settings.loop.library == LoopLibrary::kTrainer);
  CHECK(settings.loop.accumulate == 4);
  CHECK(settings.precision == Precision::kAmpBf16);
  CHECK(settings.checkpoint == std::vector<std::string>{"auto"});
  CHECK(settings.optimizer_impl == OptimizerImpl::kForeach);
  CHECK(settings.clip_grad);
  CHECK(options.request.binding.batch == 8);
}

TEST_CASE("what recomputation is told is read where it is asked for") {
  const auto told = [](const std::string& enabled, const std::string& arguments) {
    return Parse(R"({"gradient_checkpointing": )" + enabled +
                 R"(, "gradient_checkpointing_kwargs": )" + arguments + "}");
  };
  const auto is_reentrant = [](const Options& options) {
    return options.request.settings.checkpoint_reentrant;
  };
  CHECK(is_reentrant(told("true", R"({"use_reentrant": true})")));
  CHECK_FALSE(is_reentrant(told("true", R"({"use_reentrant": false, "every_n_layers": 1})")));
  CHECK_FALSE(is_reentrant(told("false", R"({"use_reentrant": true})")));
  CHECK_THROWS_WITH_AS(told("true", R"({"every_n_layers": 2})"),
                       doctest::Contains("gradient_checkpointing_kwargs.every_n_layers"), Error);
  CHECK_THROWS_AS(told("true", R"({"offload": true})"), Error);
  CHECK_THROWS_AS(told("true", R"({"use_reentrant": "yes"})"), Error);
  CHECK_THROWS_AS(told("true", "[1]"), Error);
}

TEST_CASE("arguments of an optimizer may have blanks between them") {
  const Options options =
      Parse(R"({"optim": "sgd", "optim_args": "momentum = 0.9, nesterov=true"})");
  CHECK(options.request.settings.optimizer == Optimizer::kSgdMomentum);
  CHECK(options.request.settings.optimizer_args == kNesterov);
}

TEST_CASE("GaLore is told its rank by the Trainer, and its layers by their names") {
  const auto told = [](const std::string& others) {
    return Parse(R"({"optim": "galore_adamw", "optim_target_modules": )" + others + "}");
  };
  const auto targets = [&](const std::string& modules) {
    return told(modules).request.settings.galore.targets;
  };
  using Names = std::vector<std::string>;
  const Options options =
      told(R"(["attn", "mlp"], "optim_args": "rank=64, update_proj_gap=100, scale=0.10")");
  CHECK(options.request.settings.optimizer == Optimizer::kGaLore);
  CHECK(options.request.settings.galore.rank == 64);
  CHECK(options.request.settings.galore.targets == Names{"attn", "mlp"});
  CHECK(told(R"(["attn"])").request.settings.galore.rank == 128);
  CHECK(targets(R"("all_linear")") == Names{"all-linear"});
  CHECK(targets(R"([".*.attn.*", ".*\\.mlp\\.fc1"])") == Names{"*?attn*", "*.mlp.fc1"});
  CHECK(targets(R"(".*q_proj")") == Names{"*q_proj"});
  CHECK_THROWS_WITH_AS(targets(R"(".*(q|k)_proj")"), doctest::Contains("--galore"), Error);
  CHECK_THROWS_WITH_AS(told(R"(["attn"], "optim_args": "proj_type=right")"),
                       doctest::Contains("expected proj_type=std"), Error);
  CHECK_THROWS_WITH_AS(Parse(R"({"optim": "galore_adamw"})"),
                       doctest::Contains("optim_target_modules"), Error);
  CHECK_THROWS_WITH_AS(Parse(R"({"optim": "galore_adamw_layerwise"})"),
                       doctest::Contains("found 'galore_adamw_layerwise'"), Error);
}

TEST_CASE("a mode compiles, whose graphs are its own") {
  const auto settings = [](const std::string& mode) {
    return Parse(R"({"torch_compile_mode": ")" + mode + "\"}").request.settings;
  };
  CHECK(settings("reduce-overhead").cuda_graphs);
  CHECK(settings("reduce-overhead").compile == Compiling::kInductor);
  CHECK_FALSE(settings("default").cuda_graphs);
}

TEST_CASE("what is not known is refused, however deep it lies") {
  CHECK_THROWS_WITH_AS(Parse(R"({"deepspeed": {"zero_optimization": {"stage": 3}}})"),
                       doctest::Contains("deepspeed.zero_optimization"), Error);
  CHECK_THROWS_AS(Parse(R"({"parallelism_config": {"tp": {"size": 2}}})"), Error);
  CHECK_THROWS_AS(Parse(R"({"eval_on_start": true})"), Error);
}

TEST_CASE("weight decay matters where it is not zero") {
  const auto args = [](const std::string& decay) {
    return Parse(R"({"optim": "sgd", "weight_decay": )" + decay + "}")
        .request.settings.optimizer_args;
  };
  CHECK(args("0.01") == kWeightDecay);
  CHECK(args("0.0") == 0);
}

TEST_CASE("a Trainer that evaluates has batches for it, and keeps what metrics are of") {
  const auto told = [](const std::string& strategy, const std::string& others) {
    return Parse(R"({"eval_strategy": ")" + strategy + "\"" + others + "}")
        .request.settings.evaluation;
  };
  CHECK(told("steps", R"(, "per_device_eval_batch_size": 16)").batch == 16);
  CHECK(told("epoch", "").batch == 8);
  CHECK(told("no", R"(, "per_device_eval_batch_size": 16)").batch == 0);
  CHECK(told("epoch", "").keep == 0);
  CHECK(told("epoch", R"(, "eval_accumulation_steps": 4)").keep == 4);
  CHECK(told("epoch", R"(, "eval_accumulation_steps": 4, "prediction_loss_only": true)").keep == 0);
}

TEST_CASE("a Trainer may compile the model") {
  CHECK(Parse(R"({"torch_compile": true})").request.settings.compile == Compiling::kInductor);
  CHECK(Parse(R"({"torch_compile": false})").request.settings.compile == Compiling::kNone);
}

TEST_CASE("the Trainer smooths labels by a factor that is not zero") {
  CHECK(Parse(R"({"label_smoothing_factor": 0.1})").request.settings.label_smoothing);
  CHECK_FALSE(Parse(R"({"label_smoothing_factor": 0.0})").request.settings.label_smoothing);
}

TEST_CASE("flags win over arguments of the Trainer") {
  const Options options =
      Parse(R"({"per_device_train_batch_size": 8, "max_grad_norm": 0})", {"-b", "2"});
  CHECK(options.request.binding.batch == 2);
  CHECK_FALSE(options.request.settings.clip_grad);
}

TEST_CASE("typed modules win over recomputation of the Trainer") {
  const Options options = Parse(R"({"gradient_checkpointing": true})", {"--checkpoint", "h.*"});
  CHECK(options.request.settings.checkpoint == std::vector<std::string>{"h.*"});
}

TEST_CASE("ranks of the Trainer are for flags to say") {
  CHECK_THROWS_WITH_AS(Parse(R"({"deepspeed": "ds.json"})"), doctest::Contains("--strategy"),
                       Error);
  CHECK_THROWS_AS(Parse(R"({"deepspeed": {"zero_optimization": 2, "stage": 3}})"), Error);
  CHECK_THROWS_AS(Parse(R"({"fsdp": ["full_shard"]})"), Error);
  CHECK_NOTHROW(Parse(R"({"fsdp": [], "deepspeed": null, "fsdp_config": {"min_num_params": 0}})"));
}

TEST_CASE("what no flag says is refused where it is set") {
  const auto refused = [](const std::string& json, const std::string& name) {
    CAPTURE(name);
    CHECK_THROWS_WITH_AS(Parse(json), doctest::Contains(name.c_str()), Error);
  };
  refused(R"({"use_liger_kernel": true})", "use_liger_kernel");
  refused(R"({"neftune_noise_alpha": 5.0})", "neftune_noise_alpha");
  refused(R"({"use_cpu": true})", "use_cpu");
  refused(R"({"use_cache": true})", "use_cache");
  refused(R"({"parallelism_config": {"tp_size": 2}})", "parallelism_config.tp_size");
  refused(R"({"activation_offloading": true})", "activation_offloading");
  refused(R"({"eval_strategy": "epoch", "predict_with_generate": true})", "predict_with_generate");
  CHECK_NOTHROW(Parse(R"({"use_liger_kernel": false, "neftune_noise_alpha": null, "use_cpu": false,
      "use_cache": false, "parallelism_config": null, "predict_with_generate": true,
      "include_for_metrics": [], "torch_empty_cache_steps": 4, "auto_find_batch_size": true,
      "average_tokens_across_devices": true})"));
}

TEST_CASE("what the Trainer's optimizer is given beside") {
  const auto told = [](const std::string& json) { return Parse(json).request.settings; };
  const TrainingSettings nesterov = told(
      R"({"optim": "sgd", "optim_args": "momentum=0.9, nesterov=true", "weight_decay": 0.01})");
  CHECK(nesterov.optimizer == Optimizer::kSgdMomentum);
  CHECK(nesterov.optimizer_args == (kWeightDecay | kNesterov));
  CHECK(told(R"({"optim": "sgd", "optim_args": "momentum=0"})").optimizer == Optimizer::kSgd);
  CHECK(told(R"({"optim": "adamw_torch", "optim_args": null})").optimizer == Optimizer::kAdamW);
  CHECK_THROWS_WITH_AS(told(R"({"optim": "rmsprop", "optim_args": "momentum=0.9"})"),
                       doctest::Contains("optim_args"), Error);
}

TEST_CASE("optimizers of the Trainer's that other libraries have") {
  const auto optimizer = [](const std::string& name) {
    return Parse(R"({"optim": ")" + name + "\"}").request.settings.optimizer;
  };
  CHECK(optimizer("ademamix_8bit") == Optimizer::kAdEMAMix8bit);
  CHECK(optimizer("rmsprop_bnb") == Optimizer::kRmsprop32bit);
  CHECK(optimizer("adamw_torch_4bit") == Optimizer::kTorchaoAdamW4bit);
  CHECK(optimizer("schedule_free_sgd") == Optimizer::kScheduleFreeSgd);
}

TEST_CASE("an optimizer that no flag is, is refused") {
  CHECK_THROWS_WITH_AS(Parse(R"({"optim": "lomo"})"), doctest::Contains("found 'lomo'"), Error);
  CHECK_THROWS_AS(Parse("[]"), Error);
}

}  // namespace
}  // namespace onnxfit::training_arguments_test
