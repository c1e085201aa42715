#include "estimator/base/device.h"

#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/base/cards.h"

namespace onnxfit {
namespace {

// Of 40 or 80 GB: no answer without a card depends on its size.
DeviceProfile A100() {
  DeviceProfile device = FindCard("a100-40gb")->device;
  device.name = "A100";
  return device;
}

}  // namespace

const DeviceProfile& DefaultDevice() {
  static const DeviceProfile device = A100();
  return device;
}

// What follows is what CUDA was seen to take of cards.
namespace {

constexpr std::string_view kA100Reports =
    "CoSeR#10, awslabs/keys_values#92 (bare), Control-GIC#6, Mask2DiT#4, Keye#11";
constexpr std::string_view k48GbReport = "cell2location#398, a card of 44.46 GiB";

// The reports are issues on GitHub with messages of PyTorch 2.  Those of A100 and H100 cards of
// 80 GB cannot be told apart, and those of 40 GB agree with them.
constexpr SeenContext kSeen[] = {
    {"gtx1080", 137, 106, 137, "cell2location#398"},
    {"rtx2080ti", 197, 197, 197, "FramePack#369"},
    {"rtx3060", 287, 287, 287, "FireRedTTS2#17"},
    {"rtx3070", 196, 196, 196, "vllm#12529, a card of 7.75 GiB"},
    {"rtx4090", 500, 471, 500, "flux-webui#11, Phidias#8"},
    {"rtx5090", 595, 595, 595, "Wan2.1#465"},
    {"a4000", 210, 210, 210, "VGGT-Long#6"},
    {"a6000", 317, 317, 317, k48GbReport},
    {"rtx6000-ada", 429, 429, 429, "MTVCrafter#21"},
    {"p4", 82, 82, 82, "Fooocus#2661"},
    {"p100", 303, 303, 303, "florence2-finetuning#17"},
    {"t4", 135, 99, 141,
     "hpcaitech/Open-Sora#697, GenerateU#10, Finetune-LLAVA-NEXT#2, CatVTON#133, leetgpu#52"},
    {"a40", 317, 317, 317, k48GbReport},
    {"a100-40gb", 503, 414, 512, kA100Reports},
    {"a100-80gb", 503, 414, 512, kA100Reports},
    {"a100-80gb-pcie", 503, 414, 512, kA100Reports},
    {"h100", 503, 414, 512, kA100Reports},
};

// Through what was seen on cards of 20 to 170 multiprocessors, which lies up to 101 MiB below
// the line (Tesla T4) and 123 MiB above it (GeForce RTX 3060).  Beyond, as at the ends.
constexpr int64_t kFixedMib = 80;
constexpr int64_t kMibEach = 3;
constexpr int64_t kFewest = 20;
constexpr int64_t kMost = 170;
constexpr int64_t kMibBelow = 110;
constexpr int64_t kMibAbove = 140;

// One report's figures are rounded to 0.01 GiB.
constexpr int64_t kMibRounded = 10;

}  // namespace

std::span<const SeenContext> SeenContexts() { return kSeen; }

ContextBytes ContextByRule(int64_t multiprocessors) {
  const int64_t mib = kFixedMib + kMibEach * std::clamp(multiprocessors, kFewest, kMost);
  return {mib * kMiB, (mib - kMibBelow) * kMiB, (mib + kMibAbove) * kMiB, Basis::kAssumed};
}

// An article of 2022 on a Jetson Nano: net.to(device) adds 1585 MiB of resident libraries and
// kernels; another text has 1.4 GiB for a small network, and blames cuDNN for the first 600 MB.
ContextBytes SharedRuntime() { return {1434 * kMiB, 600 * kMiB, 1585 * kMiB, Basis::kAssumed}; }

const SeenContext* FindSeenContext(std::string_view alias) {
  for (const SeenContext& seen : kSeen) {
    if (seen.alias == alias) return &seen;
  }
  return nullptr;
}

ContextBytes ContextOf(std::string_view alias, int64_t multiprocessors) {
  const SeenContext* seen = FindSeenContext(alias);
  if (seen == nullptr) return ContextByRule(multiprocessors);
  const int64_t rounded = seen->low_mib == seen->high_mib ? kMibRounded : 0;
  return {seen->mib * kMiB, (seen->low_mib - rounded) * kMiB, (seen->high_mib + rounded) * kMiB,
          Basis::kMeasured};
}

std::string CudaVersionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace onnxfit
