// Where the figures come from: out-of-memory messages of PyTorch 2 on Linux, which say what the
// process holds, what PyTorch allocated of it and what it reserved beyond; and nvidia-smi's
// figures of processes that allocated nothing.  Windows tells no figure of a process: the one from
// there is of a server without a display, what is neither free nor PyTorch's.  All load kernels
// lazily, as PyTorch does since 1.13 (pytorch/pytorch#86509).  Left out are ranks of several
// (NCCL's buffers are in theirs), processes with captured graphs or allocators of their own, and
// messages whose size is that of several cards ("11.66 GiB" is a GeForce RTX 3060's and an RTX 3080
// Ti's).
#include "estimator/base/contexts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "estimator/base/bytes.h"

namespace onnxfit {
namespace {

constexpr bool kBare = false;
constexpr bool kRan = true;

// What cudaMemGetInfo counted beyond the allocator's segments, by python -m onnxfit measure.
constexpr char kMeasuredH200[] = "benchmarks/real_cards/contributed/h200.json.xz";

constexpr ContextReport kReports[] = {
    {"gtx1080", 106, kBare, "BayraktarLab/cell2location#398"},
    {"gtx1080", 137, kRan, "BayraktarLab/cell2location#398"},
    {"rtx2080ti", 197, kRan, "lllyasviel/FramePack#369"},
    {"rtx3070", 179, kBare, "meta-llama/codellama#82", "torch 2.1"},  // its layers are made
    {"rtx3080", 257, kRan, "bcmi/libcom#54"},                         // of 9.77 GiB
    {"rtx3080-laptop", 205, kRan,
     "https://www.oxen.ai/blog/grpo-vram-requirements-for-the-gpu-poor"},
    {"rtx4060-laptop", 109, kRan, "robbyant-research/MagicQuill#126", "torch 2.1"},
    {"rtx4060-laptop", 115, kRan, "ESRSchao/EdgeRegNet#2"},
    {"rtx4090", 473, kRan, "pinokiofactory/flux-webui#11"},
    {"rtx4090", 504, kRan, "3DTopia/Phidias-Diffusion#8", "torch 2.1"},
    {"rtx4090", 416, kRan, "eosphoros-ai/DB-GPT-Hub#248"},
    {"rtx4090", 452, kRan, "chatchat-space/Langchain-Chatchat#3992", "torch 2.1"},  // of 23.65 GiB
    {"rtx4090", 522, kRan, "pytorch/pytorch#16417"},                                // the same
    {"rtx4090", 495, kRan, "pytorch/torchchat#1341", "torch 2.6+cu121, driver 560.35.03"},
    {"rtx5080", 336, kRan, "Tencent-Hunyuan/Hunyuan3D-2#238"},
    {"rtx5090", 595, kRan, "Wan-Video/Wan2.1#465"},
    {"rtx5090", 619, kRan, "TrajectoryCrafter/TrajectoryCrafter#20"},
    {"a4000", 210, kRan, "DengKaiCQ/VGGT-Long#6"},
    {"rtx6000-ada", 426, kBare, "unslothai/unsloth-zoo#1053", "torch 2.10.0+cu130"},
    {"rtx6000-ada", 429, kRan, "DINGYANB/MTVCrafter#21"},
    {"p4", 82, kRan, "lllyasviel/Fooocus#2661"},
    {"p100", 303, kRan, "andimarafioti/florence2-finetuning#17"},
    {"t4", 99, kRan, "hpcaitech/Open-Sora#697"},
    {"t4", 123, kRan, "AlphaGPU/leetgpu-challenges#52"},
    {"t4", 128, kRan, "facebookresearch/tribev2#28"},
    {"t4", 135, kRan, "Zheng-Chong/CatVTON#133"},
    {"t4", 136, kRan, "Farzad-R/Finetune-LLAVA-NEXT#2"},
    {"t4", 137, kRan, "tsugumi-sys/SA-ConvLSTM-Pytorch#22", "torch 2.1"},
    {"t4", 139, kRan, "lllyasviel/FramePack#608", "torch 2.6, Windows Server 2022"},
    {"t4", 140, kRan, "ragntune/code-llama-finetune#3", "torch 2.1"},
    {"t4", 141, kRan, "FoundationVision/GenerateU#10", "torch 2.1"},  // of 14.75 GiB
    {"a10", 224, kBare, "zai-org/CogVLM#236"},                        // the same
    {"l4", 235, kRan, "ArcInstitute/evo2#190"},
    {"l40", 507, kRan, "QwenLM/Qwen3-VL#2097", "CUDA 12.8"},
    {"a100-40gb", 414, kBare, "awslabs/keys_values#92"},
    {"a100-40gb", 501, kRan, "TianheWu/CoSeR#10"},
    {"a100-80gb", 503, kRan, "lianqi1008/Control-GIC#6"},
    {"a100-80gb", 512, kRan, "Kwai-Keye/Keye#11"},  // of 79.14 GiB
    {"a100-80gb-pcie", 409, kRan, "HiDream-ai/VAREdit#6"},
    {"a800-80gb", 525, kRan, "hpcaitech/Open-Sora#535", "torch 2.1"},
    {"h100-nvl", 676, kRan, "ali-vilab/VACE#56"},
    {"h200", 527, kBare, kMeasuredH200, "torch 2.11.0+cu130, driver 580.159.04"},
    {"h200", 751, kRan, kMeasuredH200, "torch 2.11.0+cu130, driver 580.159.04"},  // gpt2, fp32
    {"h200", 771, kRan, kMeasuredH200, "torch 2.11.0+cu130, driver 580.159.04"},  // resnet50, fp32
    {"b200", 712, kRan, "stas00/ml-engineering:debug/pytorch.md"},
};

int64_t ThreadsOf(const DeviceProfile& device) {
  return device.multiprocessors * device.threads_per_multiprocessor;
}

// A report and the card that it is about.
struct SeenOn {
  const ContextReport* report = nullptr;
  const DeviceProfile* device = nullptr;
};

std::vector<SeenOn> SeenOnCards(std::span<const Card> cards) {
  std::vector<SeenOn> seen;
  for (const ContextReport& report : kReports) {
    for (const Card& card : cards) {
      if (card.alias == report.alias) seen.push_back({&report, &card.device});
    }
  }
  return seen;
}

// The same chip with the same number of multiprocessors: what an A100 of 40 GB takes, that of 80
// GB takes.
bool IsSameChip(const DeviceProfile& a, const DeviceProfile& b) {
  return a.compute_capability == b.compute_capability && a.compute_capability > 0 &&
         a.multiprocessors == b.multiprocessors;
}

std::vector<const ContextReport*> ReportsOn(const Card& card, const std::vector<SeenOn>& seen) {
  std::vector<const ContextReport*> reports;
  for (const auto& [report, device] : seen) {
    if (IsSameChip(*device, card.device)) reports.push_back(report);
  }
  return reports;
}

int64_t MiddleOf(std::vector<int64_t> mibs) {
  const auto middle = mibs.begin() + static_cast<std::ptrdiff_t>(mibs.size() / 2);
  std::nth_element(mibs.begin(), middle, mibs.end());
  return *middle;
}

// The middle of `middle`, from the least to the most of `all`, in MiB.
ContextBytes RangeOf(const std::vector<int64_t>& middle, const std::vector<int64_t>& all,
                     Basis basis) {
  const auto [low, high] = std::minmax_element(all.begin(), all.end());
  const int64_t mib = MiddleOf(middle);
  return {mib * kMiB, std::min(mib, *low) * kMiB, std::max(mib, *high) * kMiB, basis};
}

// What processes that ran something hold beyond those that did not, on a chip that has reports of
// both; 0 elsewhere.
int64_t KernelBytes(const Card& card) {
  std::vector<int64_t> bare;
  std::vector<int64_t> ran;
  for (const ContextReport* report : ReportsOn(card, SeenOnCards(Cards()))) {
    (report->has_kernels ? ran : bare).push_back(report->mib);
  }
  if (bare.empty() || ran.empty()) return 0;
  return std::max<int64_t>(0, MiddleOf(ran) - MiddleOf(bare)) * kMiB;
}

int64_t ClampedThreads(const DeviceProfile& device, const std::vector<SeenOn>& seen) {
  const auto fewer = [](const SeenOn& a, const SeenOn& b) {
    return ThreadsOf(*a.device) < ThreadsOf(*b.device);
  };
  const auto [least, most] = std::minmax_element(seen.begin(), seen.end(), fewer);
  return std::clamp(ThreadsOf(device), ThreadsOf(*least->device), ThreadsOf(*most->device));
}

// By the reports of cards of its generation or its size, scaled to its threads.
ContextBytes ByRule(const DeviceProfile& device, const std::vector<SeenOn>& seen) {
  const int64_t threads = ClampedThreads(device, seen);
  std::vector<int64_t> same;
  std::vector<int64_t> alike;
  std::vector<int64_t> alike_ran;
  for (const auto& [report, card] : seen) {
    const int64_t its_threads = ThreadsOf(*card);
    const int64_t scaled = report->mib * threads / its_threads;
    if (report->has_kernels && card->compute_capability == device.compute_capability) {
      same.push_back(scaled);
    }
    if (its_threads * 2 < threads || its_threads > threads * 2) continue;
    alike.push_back(scaled);
    if (report->has_kernels) alike_ran.push_back(scaled);
  }
  return RangeOf(same.empty() ? alike_ran : same, alike, Basis::kAssumed);
}

// By the reports of its own chip, else by the rule.
ContextBytes ContextOf(const Card& card, const std::vector<SeenOn>& on_cards) {
  if (card.shares_memory) return SharedRuntime();
  const ContextBytes rule = ByRule(card.device, on_cards);
  std::vector<int64_t> all;
  std::vector<int64_t> ran;
  for (const ContextReport* report : ReportsOn(card, on_cards)) {
    all.push_back(report->mib);
    if (report->has_kernels) ran.push_back(report->mib);
  }
  if (ran.empty()) return rule;
  ContextBytes seen = RangeOf(ran, all, Basis::kMeasured);
  if (ran.size() > 1) return seen;
  seen.low = std::min(seen.low, rule.low);
  seen.high = std::max(seen.high, rule.high);
  return seen;
}

}  // namespace

std::span<const ContextReport> ContextReports() { return kReports; }

ContextBytes ContextByRule(const DeviceProfile& device, std::span<const Card> cards) {
  return ByRule(device, SeenOnCards(cards));
}

void SetContexts(std::span<Card> cards) {
  const std::vector<SeenOn> seen = SeenOnCards(cards);
  for (Card& card : cards) card.device.context = ContextOf(card, seen);
}

ContextBytes ContextOfSlice(const DeviceProfile& slice, const Card& whole) {
  const auto scaled = [&](int64_t bytes) {
    return bytes / kMiB * ThreadsOf(slice) / ThreadsOf(whole.device) * kMiB;
  };
  const ContextBytes& its = whole.device.context;
  const int64_t kernels = KernelBytes(whole);
  return {scaled(its.bytes - kernels) + kernels, scaled(its.low), its.high, Basis::kAssumed};
}

std::string ContextEvidence(const Card& card) {
  std::vector<std::string_view> sources;
  for (const ContextReport* report : ReportsOn(card, SeenOnCards(Cards()))) {
    const bool is_new = std::ranges::find(sources, report->source) == sources.end();
    if (is_new) sources.push_back(report->source);
  }
  return fmt::format("{}", fmt::join(sources, ", "));
}

// An article of 2022 on a Jetson Nano: net.to(device) adds 1585 MiB of resident libraries and
// kernels; another text has 1.4 GiB for a small network, and blames cuDNN for the first 600 MB.
// NVIDIA says "at least 600 MB" of cuDNN's libraries on a Xavier NX (2021,
// forums.developer.nvidia.com/t/183109); there ONNX Runtime takes 1450 MiB more with CUDA than
// without (JetPack 4.4, microsoft/onnxruntime#14038).  Nothing was found of PyTorch on an Orin.
ContextBytes SharedRuntime() { return {1434 * kMiB, 600 * kMiB, 1585 * kMiB, Basis::kAssumed}; }

}  // namespace onnxfit
