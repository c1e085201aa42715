// What helps where the machine's RAM or its shared memory was the matter.
#include <fmt/format.h>

#include "estimator/oom/remedy_case.h"

namespace onnxfit {
namespace {

// torch/utils/data/dataloader.py: prefetch_factor is 2 where there are workers.
std::optional<Answer> FewerWorkers(const RemedyCase& c) {
  const bool is_shared = c.facts.resource == OomResource::kSharedMemory;
  if ((is_shared || c.facts.resource == OomResource::kMappings) && c.MayBePyTorch()) {
    return Answer{is_shared ? Help::kYes : Help::kMaybe,
                  "with 0 the training process loads, and nothing is handed over: slower"};
  }
  if (!c.MayBeLoading()) return std::nullopt;
  const bool is_worker =
      IsListed("dataloader-killed|dataloader-exited|nnunet", c.message.format->name);
  return Answer{is_worker ? Help::kYes : Help::kMaybe,
                "each is a process of its own, with its own copies and with 2 batches waiting "
                "(prefetch_factor); 0 loads in the training process"};
}

std::optional<Answer> SmallerLoaderBatch(const RemedyCase& c) {
  if (!c.MayBeLoading()) return std::nullopt;
  return Answer{
      Help::kMaybe,
      "num_workers x prefetch_factor batches wait in RAM; what they take on the card does "
      "not matter here"};
}

std::optional<Answer> NoPinning(const RemedyCase& c) {
  if (!c.MayBeLoading()) return std::nullopt;
  return Answer{Help::kMaybe,
                "pinned batches are copies beside the loader's, which cannot be swapped out"};
}

std::optional<Answer> MoreSharedMemory(const RemedyCase& c) {
  if (c.facts.resource != OomResource::kSharedMemory) return std::nullopt;
  return Answer{Help::kYes,
                "docker run --shm-size=8g, or --ipc=host; in Kubernetes an emptyDir of "
                "medium Memory at /dev/shm"};
}

std::optional<Answer> LoadInParts(const RemedyCase& c) {
  if (!c.IsOfHost() || !c.IsOfAllMemory() || !c.MayBePyTorch()) return std::nullopt;
  return Answer{Help::kMaybe,
                "np.memmap and an IterableDataset hold no whole data set; torch.load "
                "with mmap=True no second copy of the weights"};
}

std::optional<Answer> MoreRam(const RemedyCase& c) {
  const bool is_sign = c.message.format->rank == OomRank::kSign;
  const bool is_torch = c.family() == OomFamily::kHost;
  if (!c.IsOfHost() || !c.IsOfAllMemory() || (c.HasOwn() && !is_sign && !is_torch)) {
    return std::nullopt;
  }
  return Answer{c.Is(OomVerdict::kCapacity) && !c.HasOwn() ? Help::kYes : Help::kMaybe,
                "slurm: --mem; docker: --memory; Kubernetes: resources.limits.memory; Colab: a "
                "runtime with more RAM"};
}

// docs.kernel.org, sysctl/vm: max_map_count is 65530 unless told.
std::optional<Answer> MoreMappings(const RemedyCase& c) {
  if (c.facts.resource != OomResource::kMappings) return std::nullopt;
  return Answer{Help::kYes,
                "65530 unless told, in containers the host's; each tensor that processes share is "
                "one mapping"};
}

std::optional<Answer> FewerSharedTensors(const RemedyCase& c) {
  if (c.facts.resource != OomResource::kMappings || !c.MayBePyTorch()) return std::nullopt;
  return Answer{Help::kMaybe,
                "lists of small tensors that workers hand over or a data set keeps, as one tensor "
                "or NumPy array"};
}

constexpr RemedyRow kRemediesOfRam[] = {
    {"a higher vm.max_map_count (sysctl -w vm.max_map_count=262144)", MoreMappings},
    {"more shared memory", MoreSharedMemory},
    {"fewer DataLoader workers (num_workers)", FewerWorkers},
    {"fewer and larger shared tensors", FewerSharedTensors},
    {"more RAM", MoreRam},
    {"loading in parts", LoadInParts},
    {"a smaller batch, or prefetch_factor", SmallerLoaderBatch},
    {"pin_memory=False", NoPinning},
};

}  // namespace

std::span<const RemedyRow> RemediesOfRam() { return kRemediesOfRam; }

}  // namespace onnxfit
