#include "estimator/base/cards.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "estimator/base/bytes.h"
#include "estimator/base/device.h"

namespace onnxfit::cards_test {
namespace {

const Card& Get(std::string_view alias) {
  for (const Card& card : Cards()) {
    if (card.alias == alias) return card;
  }
  REQUIRE_MESSAGE(false, "no card ", alias);
  return Cards()[0];
}

// The alias of the card that is found, "" where there is none.
std::string Found(std::string_view typed) {
  const Card* card = FindCard(typed);
  return card == nullptr ? "" : std::string(card->alias);
}

std::string Suggested(std::string_view typed, size_t most = 3) {
  std::string text;
  for (const std::string_view alias : SuggestCards(typed, most)) {
    text += text.empty() ? "" : " ";
    text += alias;
  }
  return text;
}

}  // namespace

TEST_CASE("every card has what an answer needs") {
  CHECK(Cards().size() == 126);
  std::set<std::string_view> aliases;
  std::set<std::string_view> names;
  for (const Card& card : Cards()) {
    CAPTURE(card.alias);
    CHECK(aliases.insert(card.alias).second);
    CHECK(names.insert(card.device.name).second);
    CHECK(card.total_bytes > 0);
    CHECK(card.total_bytes <= card.sold_bytes);
    CHECK(card.total_bytes > card.sold_bytes * 85 / 100);
    CHECK(card.device.multiprocessors > 0);
    CHECK(card.device.context.low > 0);
    CHECK(card.device.context.low <= card.device.context.bytes);
    CHECK(card.device.context.bytes <= card.device.context.high);
    const bool is_amd = card.device.name.starts_with("AMD");
    CHECK((card.device.compute_capability >= 30) == !is_amd);
    CHECK((card.device.compute_capability == 0) == is_amd);
  }
}

TEST_CASE("families and memory are those of the table") {
  const std::set<std::string_view> known = {"consumer", "laptop", "workstation", "datacenter",
                                            "cloud",    "jetson", "edge"};
  for (const Card& card : Cards()) {
    CAPTURE(card.alias);
    CHECK(known.count(card.family) == 1);
    CHECK(card.shares_memory == (card.family == "jetson" || card.family == "edge"));
  }
}

TEST_CASE("a total is the smallest that CUDA showed") {
  CHECK(Get("t4").total_bytes == 14918 * kMiB);
  CHECK(Get("rtx3090").total_bytes == 24122 * kMiB);
  CHECK(Get("rtx3090ti").total_bytes == 24139 * kMiB);
  CHECK(Get("p100").total_bytes == 16280 * kMiB);
  CHECK(Get("quadro-rtx4000").total_bytes == 7987 * kMiB);
  CHECK(Get("jetson-nano-2gb").total_bytes == 1972 * kMiB);
  CHECK(Get("jetson-nano").total_bytes == 3956 * kMiB);
  CHECK(Get("k520").total_bytes == 4294770688);  // of 4096 MiB, rounded
  CHECK(Get("a10").total_bytes == 23609475072);
  CHECK(Get("gh200").total_bytes == 97157 * kMiB);  // 94.88 GiB of a message
  CHECK(Get("gtx970").total_bytes == 4034 * kMiB);
  CHECK(Get("gtx970").slow_bytes == 512 * kMiB);
  CHECK(Get("t4").slow_bytes == 0);
  CHECK(Get("a4000").without_ecc_bytes == 15984 * kMiB);  // 15.61 GiB of a message
  CHECK(Get("p4").total_bytes == 7608 * kMiB);            // 7.43 GiB of a banner
  CHECK(Get("t4").total_source == TotalSource::kSeen);
  CHECK(Get("k520").total_source == TotalSource::kSeen);
}

TEST_CASE("a total that nobody saw on Linux says how it came about") {
  struct Case {
    const char* alias;
    int64_t mib;
    TotalSource source;
  };
  constexpr Case kCases[] = {
      {"rtx3060ti", 8192, TotalSource::kSeenWindows},
      {"rtx5070", 12227, TotalSource::kSeenWindows},
      {"a30", 24576 * 11909 / 12288, TotalSource::kNvidiaSmi},  // a GeForce RTX 3060's ratio
      {"gb200", 183627, TotalSource::kNvidiaSmi},
      {"h800", 81559 * 11909 / 12288, TotalSource::kNvidiaSmi},
      {"rtx4090-laptop", 16373, TotalSource::kSeenWindows},
      {"gtx1660ti", 6144 * 14918 / 16384, TotalSource::kName},  // a Tesla T4's
      {"rtx5000-ada", 32768 * 14918 / 16384, TotalSource::kName},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.alias);
    CHECK(Get(c.alias).total_bytes == c.mib * kMiB);
    CHECK(Get(c.alias).total_source == c.source);
  }
}

TEST_CASE("of a card that was seen with ECC on and off the smaller total counts") {
  struct Case {
    const char* alias;
    int64_t on_mib;
    int64_t off_mib;
    TotalSource source;
  };
  constexpr Case kCases[] = {
      {"a4000", 15090, 15984, TotalSource::kSeen},
      {"a5000", 22721, 24138, TotalSource::kSeen},
      {"a6000", 45619, 48537, TotalSource::kSeen},
      {"rtx6000-ada", 45496, 48497, TotalSource::kSeen},
      {"p40", 22917, 24443, TotalSource::kSeen},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.alias);
    CHECK(Get(c.alias).total_bytes == c.on_mib * kMiB);
    CHECK(Get(c.alias).without_ecc_bytes == c.off_mib * kMiB);
    CHECK(Get(c.alias).total_source == c.source);
  }
  // Seen by nvidia-smi alone: a sixteenth less.
  CHECK(Get("quadro-rtx8000").total_bytes == 48380 * kMiB / 16 * 15);
  CHECK(Get("a2000").total_bytes == 5796 * kMiB / 16 * 15);
  CHECK(Get("a2000").total_source == TotalSource::kWithoutEcc);
}

TEST_CASE("ECC takes a sixteenth of GDDR5 and GDDR6, and none of other memory") {
  for (const Card& card : Cards()) {
    if (card.without_ecc_bytes == 0) continue;
    CAPTURE(card.alias);
    CHECK((card.memory_type == "GDDR5" || card.memory_type == "GDDR6"));
    const double left =
        static_cast<double>(card.total_bytes) / static_cast<double>(card.without_ecc_bytes);
    CHECK(left >= 15.0 / 16 - 1e-9);  // what was derived is no more than what was seen
    CHECK(left < 0.945);
  }
  // nvidia-smi has the same total of it with ECC on and off.
  CHECK(Get("rtxpro6000").without_ecc_bytes == 0);
  // Every card of makers' lists that has ECC in GDDR5 or GDDR6 was seen with it on, or is above.
  for (const Card& card : Cards()) {
    const bool is_gddr = card.memory_type == "GDDR5" || card.memory_type == "GDDR6";
    const bool has_ecc = card.family == "datacenter" ||
                         (card.family == "workstation" && card.alias != "quadro-rtx4000");
    if (!is_gddr || !has_ecc) continue;
    CAPTURE(card.alias);
    CHECK(card.total_bytes <= card.sold_bytes / 16 * 15);
  }
}

TEST_CASE("no card was seen with less of its size than the derived ones are given") {
  const auto share = [](const Card& card) {
    return static_cast<double>(card.total_bytes) / static_cast<double>(card.sold_bytes);
  };
  for (const Card& card : Cards()) {
    if (card.total_source != TotalSource::kSeen || card.shares_memory) continue;
    CAPTURE(card.alias);
    CHECK(share(card) >= share(Get("gtx1660ti")) - 1e-6);
  }
}

TEST_CASE("multiprocessors are those of public specifications") {
  struct Case {
    const char* alias;
    int64_t multiprocessors;
    int64_t threads;
  };
  constexpr Case kCases[] = {
      {"t4", 40, 1024},
      {"rtx3060", 28, 1536},
      {"rtx4090", 128, 1536},
      {"rtx5090", 170, 1536},
      {"a100-80gb", 108, 2048},
      {"h100", 132, 2048},
      {"h100-pcie", 114, 2048},
      {"b200", 148, 2048},
      {"b300", 148, 2048},
      {"gb10", 48, 1536},
      {"jetson-orin-nano", 8, 1536},
      {"jetson-thor", 20, 1536},
      {"jetson-nano", 1, 2048},
      {"k80", 13, 2048},
      {"mi300x", 304, 2048},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.alias);
    CHECK(Get(c.alias).device.multiprocessors == c.multiprocessors);
    CHECK(Get(c.alias).device.threads_per_multiprocessor == c.threads);
  }
}

TEST_CASE("the default device is an A100 of the table") {
  const DeviceProfile& device = DefaultDevice();
  CHECK(device.name == "A100");
  CHECK(device.context == ContextBytes{503 * kMiB, 409 * kMiB, 525 * kMiB, Basis::kMeasured});
  CHECK(device.compute_capability == 80);
  CHECK(device.multiprocessors == 108);
  CHECK(device.threads_per_multiprocessor == 2048);
  CHECK(Get("a100-80gb").device.context == device.context);
}

TEST_CASE("a card is found by its names") {
  struct Case {
    const char* typed;
    const char* alias;
  };
  constexpr Case kCases[] = {
      {"t4", "t4"},
      {"T4", "t4"},
      {"Tesla T4", "t4"},
      {"tesla-t4", "t4"},
      {"T4 16GB", "t4"},
      {"3060", "rtx3060"},
      {"rtx 3060", "rtx3060"},
      {"RTX3060", "rtx3060"},
      {"RTX_3060", "rtx3060"},
      {"nvidia rtx-3060", "rtx3060"},
      {"NVIDIA GeForce RTX 3060", "rtx3060"},
      {"RTX 3060 12GB", "rtx3060"},
      {"RTX 3060 12 GiB", "rtx3060"},
      {"NVIDIA GeForce RTX 3060 Ti", "rtx3060ti"},
      {"NVIDIA GeForce RTX 3060 Laptop GPU", "rtx3060-laptop"},
      {"rtx 3060 mobile", "rtx3060-laptop"},
      {"NVIDIA GeForce RTX 3080", "rtx3080"},
      {"3080 10gb", "rtx3080"},
      {"3080-12GB", "rtx3080-12gb"},
      {"NVIDIA GeForce RTX 3080 Laptop GPU", "rtx3080-laptop"},
      {"GeForce GTX 1080 Ti", "gtx1080ti"},
      {"NVIDIA GeForce RTX 3090 Ti", "rtx3090ti"},
      {"NVIDIA GeForce RTX 4070 SUPER", "rtx4070s"},
      {"NVIDIA GeForce RTX 5070 Ti", "rtx5070ti"},
      {"GTX 1060", "gtx1060"},
      {"GTX 1060 3GB", "gtx1060-3gb"},
      {"GeForce GTX 1660 SUPER", "gtx1660s"},
      {"2070 super", "rtx2070s"},
      {"NVIDIA TITAN RTX", "titanrtx"},
      {"NVIDIA TITAN Xp", "titanxp"},
      {"GeForce GTX TITAN X", "titanx"},
      {"GRID K520", "k520"},
      {"NVIDIA GeForce RTX 4090", "rtx4090"},
      {"rtx4090 24gb", "rtx4090"},
      {"NVIDIA RTX A4000", "a4000"},
      {"NVIDIA RTX 6000 Ada Generation", "rtx6000-ada"},
      {"RTX 6000 Ada", "rtx6000-ada"},
      {"Quadro RTX 6000", "quadro-rtx6000"},
      {"RTX 8000", "quadro-rtx8000"},
      {"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtxpro6000"},
      {"RTX PRO 6000", "rtxpro6000"},
      {"Tesla P100-PCIE-16GB", "p100"},
      {"P100", "p100"},
      {"Tesla V100-SXM2-16GB", "v100-16gb"},
      {"V100 32GB", "v100-32gb"},
      {"NVIDIA A10G", "a10g"},
      {"NVIDIA L4", "l4"},
      {"NVIDIA L40S", "l40s"},
      {"A100-SXM4-80GB", "a100-80gb"},
      {"NVIDIA A100-SXM4-40GB", "a100-40gb"},
      {"NVIDIA A100-PCIE-40GB", "a100-40gb"},
      {"A100 40GB", "a100-40gb"},
      {"NVIDIA A100 80GB PCIe", "a100-80gb-pcie"},
      {"NVIDIA H100 80GB HBM3", "h100"},
      {"H100 80GB", "h100"},
      {"NVIDIA H100 PCIe", "h100-pcie"},
      {"NVIDIA H200", "h200"},
      {"NVIDIA GB10", "gb10"},
      {"AMD Instinct MI250X", "mi250x"},
      {"mi300x", "mi300x"},
      {"Orin Nano", "jetson-orin-nano"},
      {"Jetson Nano", "jetson-nano"},
      {"Jetson Nano 2GB", "jetson-nano-2gb"},
      {"Jetson AGX Orin", "jetson-agx-orin"},
      {"NVIDIA Thor", "jetson-thor"},
      {"a100", ""},      // 40 or 80 GB
      {"V100", ""},      // 16 or 32 GB
      {"RTX 6000", ""},  // Quadro or Ada
      {"RTX 3060 8GB", ""},
      {"NVIDIA GeForce GTX 970", "gtx970"},
      {"NVIDIA GeForce RTX 4060", "rtx4060"},
      {"RTX 4060 Ti 16GB", "rtx4060ti-16gb"},
      {"NVIDIA GeForce RTX 4090 Laptop GPU", "rtx4090-laptop"},
      {"RTX 5090 Laptop", "rtx5090-laptop"},
      {"NVIDIA H800", "h800"},
      {"NVIDIA GH200 480GB", "gh200"},
      {"GH200", "gh200"},
      {"H100 SXM", "h100"},
      {"NVIDIA TITAN X (Pascal)", ""},
      {"GeForce RTX", ""},
      {"NVIDIA", ""},
      {"", ""},
      {"t", ""},
      {"\xC3\xA9", ""},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.typed);
    CHECK(Found(c.typed) == c.alias);
  }
}

TEST_CASE("every card is found by its alias and its name") {
  for (const Card& card : Cards()) {
    CHECK(Found(card.alias) == card.alias);
    CHECK(Found(card.device.name) == card.alias);
  }
}

TEST_CASE("what is no card gets its neighbours") {
  CHECK(Suggested("a100") == "a100-40gb a100-80gb a100-80gb-pcie");
  CHECK(Suggested("A100", 1) == "a100-40gb");
  CHECK(Suggested("a100", 9).ends_with("a1000"));
  CHECK(Suggested("v100") == "v100-16gb v100-32gb");
  CHECK(Suggested("RTX 6000") == "rtx6000-ada quadro-rtx6000");
  CHECK(Suggested("rtx309") == "rtx3090 rtx3090ti");
  CHECK(Suggested("rtx3909") == "rtx3090");
  CHECK(Suggested("RTX 4090 D", 1) == "rtx4090");
  CHECK(Suggested("Orin", 9).find("jetson-orin-nano") != std::string::npos);
  CHECK(Suggested("aws") == "");  // two letters off an A10
  CHECK(Suggested("t44") == "t4");
  CHECK(Suggested("") == "");
  CHECK(Suggested("toaster oven") == "");
  CHECK(Suggested("\xC3\xA9") == "");
}

}  // namespace onnxfit::cards_test
