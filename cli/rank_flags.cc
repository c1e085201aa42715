// The flags that say how ranks share the work, a topic of help.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "cli/flags.h"
#include "cli/values.h"
#include "estimator/base/error.h"

namespace onnxfit {
namespace {

constexpr int64_t kMostRanks = 1 << 20;
constexpr int64_t kMostBucket = int64_t{1} << 40;  // elements

void SetShardedModules(const Typed& typed, Options& options) {
  AddModules(typed, options.request.settings.ranks.fsdp_modules);
}

// "4", "4:head".
void SetTensorParallel(const Typed& typed, Options& options) {
  RankSettings& ranks = options.request.settings.ranks;
  const size_t colon = typed.text.find(':');
  ranks.shares_head = colon != typed.text.npos;
  if (ranks.shares_head && typed.text.substr(colon) != ":head") {
    throw Error({.where = typed.place,
                 .text = "expected a number of ranks, or N:head, found " + Quoted(typed.text)});
  }
  ranks.tensor_parallel =
      ParseWhole({.place = typed.place, .text = typed.text.substr(0, colon)}, 1, kMostRanks);
}

}  // namespace

std::vector<Flag> RankFlags() {
  constexpr std::string_view kGroup = kRanksGroup;
  return {
      {"--strategy", "", "S", kGroup,
       Choices(kStrategies) +
           ": what the first of --world ranks has under DistributedDataParallel, with "
           "ZeroRedundancyOptimizer beside it, with DeepSpeed's ZeRO (zero1 to zero3), or under "
           "fully_shard (FSDP2), hybrid: over a mesh of replicas, each of --shard-world ranks; or "
           "what a stage of a "
           "pipeline has, of --world stages",
       "single",
       [](const Typed& t, Options& o) {
         o.request.settings.ranks.strategy = ParseChoice(t, kStrategies);
       }},
      {"--world", "", "N", kGroup,
       "ranks that train together with --strategy, with a batch each, or stages of a pipeline; "
       "auto, in estimate with one "
       "--gpu: as few of 1, 2, 4, ... 1024 as fit",
       "8",
       [](const Typed& t, Options& o) {
         o.finds_world = t.text == "auto";
         if (!o.finds_world) o.request.settings.ranks.world = ParseWhole(t, 1, kMostRanks);
       }},
      {"--tensor-parallel", "", "N[:head]", kGroup,
       "ranks that share linear layers of attention and feed-forward blocks, columns of one and "
       "rows of the next (ColwiseParallel and RowwiseParallel); head: and lm_head, whose features "
       "are gathered, as plans of transformers have it",
       "1", SetTensorParallel},
      {"--sequence-parallel", "", "", kGroup,
       "those ranks have a part of the tokens each where layers are whole: norms, dropouts and "
       "sums between them (SequenceParallel)",
       "",
       [](const Typed& t, Options& o) { o.request.settings.ranks.shares_tokens = ParseSwitch(t); }},
      {"--ddp-views", "", "", kGroup,
       "gradients are parts of DDP's buckets (gradient_as_bucket_view)", "",
       [](const Typed& t, Options& o) {
         o.request.settings.ranks.gradients_as_views = ParseSwitch(t);
       }},
      {"--ddp-static-graph", "", "", kGroup, "DistributedDataParallel(static_graph=True)", "",
       [](const Typed& t, Options& o) { o.request.settings.ranks.static_graph = ParseSwitch(t); }},
      {"--no-sync", "", "", kGroup,
       "gradients of all but the last batch of --accumulate stay with their rank (DDP's no_sync, "
       "FSDP2's set_requires_gradient_sync)",
       "", [](const Typed& t, Options& o) { o.request.settings.ranks.no_sync = ParseSwitch(t); }},
      {"--shard-world", "", "N", kGroup, "ranks that share one replica of fsdp-hybrid", "8",
       [](const Typed& t, Options& o) {
         o.request.settings.ranks.shard_world = ParseWhole(t, 1, kMostRanks);
       }},
      {"--fsdp-modules", "", "GLOB", kGroup,
       "fully_shard is put on each module of that name, then on the whole model; auto: the blocks "
       "that repeat; repeatable",
       "auto", SetShardedModules, true},
      {"--fsdp-keep", "", "", kGroup,
       "parameters stay whole between forward and backward (reshard_after_forward=False)", "",
       [](const Typed& t, Options& o) { o.request.settings.ranks.fsdp_keep = ParseSwitch(t); }},
      {"--fsdp-reshard", "", "N", kGroup,
       "so many ranks share each module's parameters between forward and backward, the whole "
       "model's, too (reshard_after_forward=N)",
       "",
       [](const Typed& t, Options& o) {
         o.request.settings.ranks.fsdp_reshard = ParseWhole(t, 1, kMostRanks);
       }},
      {"--fsdp-offload", "", "", kGroup,
       "shards, gradients and optimizer are the host's (CPUOffloadPolicy)", "",
       [](const Typed& t, Options& o) { o.request.settings.ranks.fsdp_offload = ParseSwitch(t); }},
      {"--fsdp-policy", "", "P", kGroup,
       "bf16: MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)", "",
       [](const Typed& t, Options& o) {
         if (t.text != "bf16") Refuse(t, "bf16");
         o.request.settings.ranks.fsdp_policy = true;
       }},
      {"--reduce-bucket", "", "N", kGroup, "elements of a bucket of DeepSpeed's (zero1 to zero3)",
       "500000000",
       [](const Typed& t, Options& o) {
         o.request.settings.ranks.reduce_bucket = ParseWhole(t, 1, kMostBucket);
       }},
      {"--prefetch-bucket", "", "N", kGroup,
       "elements that are gathered ahead (zero3: stage3_prefetch_bucket_size)", "50000000",
       [](const Typed& t, Options& o) {
         o.request.settings.ranks.prefetch_bucket = ParseWhole(t, 0, kMostBucket);
       }},
      {"--persistence-threshold", "", "N", kGroup,
       "elements of the largest parameter that stays whole between steps (zero3: "
       "stage3_param_persistence_threshold)",
       "100000",
       [](const Typed& t, Options& o) {
         o.request.settings.ranks.persistence_threshold = ParseWhole(t, 0, kMostBucket);
       }},
      {"--overlap-comm", "", "", kGroup,
       "two of DeepSpeed's buckets take turns, reduced on a stream of their own (zero1, zero2)", "",
       [](const Typed& t, Options& o) { o.request.settings.ranks.overlap_comm = ParseSwitch(t); }},
      {"--zero-offload", "", "", kGroup,
       "parameters in 32 bits and optimizer are the host's (offload_optimizer; zero1 to zero3)", "",
       [](const Typed& t, Options& o) { o.request.settings.ranks.zero_offload = ParseSwitch(t); }},
      {"--schedule", "", "S", kGroup,
       Choices(kSchedules) +
           ": in which order a stage of a pipeline runs its --accumulate micro-batches",
       "1f1b",
       [](const Typed& t, Options& o) {
         o.request.settings.ranks.pipeline.schedule = ParseChoice(t, kSchedules);
       }},
      {"--stage", "", "K", kGroup,
       "the stage of a pipeline that is estimated, from 0 [the one that takes most]", "",
       [](const Typed& t, Options& o) {
         o.request.settings.ranks.pipeline.stage = ParseWhole(t, 0, kMostRanks - 1);
       }},
      {"--split-at", "", "MODULE", kGroup,
       "a module with which a stage of a pipeline begins; repeatable [blocks that repeat, shared "
       "evenly]",
       "",
       [](const Typed& t, Options& o) { AddModules(t, o.request.settings.ranks.pipeline.begins); },
       true},
      {"--drop-outputs", "", "", kGroup,
       "the last stage of a pipeline keeps no outputs (schedule.step(return_outputs=False))", "",
       [](const Typed& t, Options& o) {
         o.request.settings.ranks.pipeline.drops_outputs = ParseSwitch(t);
       }},
  };
}

}  // namespace onnxfit
