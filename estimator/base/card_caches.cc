// L2 and buses as NVIDIA's white papers and product pages have them (Kepler GK110 to Blackwell RTX,
// GP100, GV100, TU102, GA100, GA102, AD102, GH100), cut as the chips are: half a MiB and 32 bits a
// channel on Ampere's consumer cards, and so on.  As public outputs of deviceQuery show them:
// gtx1060, gtx1070, p100, rtx2050, rtx2060, a100-40gb.
#include "estimator/base/card_caches.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "estimator/base/cards.h"

namespace onnxfit {
namespace {

struct CacheRow {
  std::string_view alias;
  int l2_kib;
  int bus_bits;
};

constexpr CacheRow kCacheRows[] = {
    {"k520", 512, 256},
    {"k80", 1536, 384},
    {"titanx", 3072, 384},
    {"gtx970", 1792, 256},
    {"gtx1050", 1024, 128},
    {"gtx1050ti", 1024, 128},
    {"gtx1060-3gb", 1536, 192},
    {"gtx1060", 1536, 192},
    {"gtx1070", 2048, 256},
    {"gtx1080", 2048, 256},
    {"gtx1080ti", 2816, 352},
    {"titanxp", 3072, 384},
    {"titanv", 4608, 3072},
    {"titanrtx", 6144, 384},
    {"gtx1650", 1024, 128},
    {"gtx1660s", 1536, 192},
    {"gtx1660ti", 1536, 192},
    {"rtx2060", 3072, 192},
    {"rtx2060s", 4096, 256},
    {"rtx2070", 4096, 256},
    {"rtx2070s", 4096, 256},
    {"rtx2080", 4096, 256},
    {"rtx2080s", 4096, 256},
    {"rtx2080ti", 5632, 352},
    {"rtx2050", 1024, 64},
    {"rtx3050-6gb", 1536, 96},
    {"rtx3050-laptop", 2048, 128},
    {"rtx3050ti-laptop", 2048, 128},
    {"rtx3060", 3072, 192},
    {"rtx3060-laptop", 3072, 192},
    {"rtx3060ti", 4096, 256},
    {"rtx3070", 4096, 256},
    {"rtx3070ti", 4096, 256},
    {"rtx3080", 5120, 320},
    {"rtx3080-12gb", 6144, 384},
    {"rtx3080-laptop", 4096, 256},
    {"rtx3080ti", 6144, 384},
    {"rtx3090", 6144, 384},
    {"rtx3090ti", 6144, 384},
    {"rtx4050-laptop", 12288, 96},
    {"rtx4060", 24576, 128},
    {"rtx4060-laptop", 32768, 128},
    {"rtx4060ti", 32768, 128},
    {"rtx4060ti-16gb", 32768, 128},
    {"rtx4070", 36864, 192},
    {"rtx4070s", 49152, 192},
    {"rtx4070ti", 49152, 192},
    {"rtx4070-laptop", 32768, 128},
    {"rtx4080", 65536, 256},
    {"rtx4080s", 65536, 256},
    {"rtx4080-laptop", 49152, 192},
    {"rtx4090", 73728, 384},
    {"rtx4090-laptop", 65536, 256},
    {"rtx5060ti", 32768, 128},
    {"rtx5070", 49152, 192},
    {"rtx5070ti", 49152, 256},
    {"rtx5080", 65536, 256},
    {"rtx5090", 98304, 512},
    {"rtx5090-laptop", 65536, 256},
    {"a1000", 2048, 128},
    {"a2000", 3072, 192},
    {"a4000", 4096, 256},
    {"a5000", 6144, 384},
    {"a5500", 6144, 384},
    {"a6000", 6144, 384},
    {"rtx4500-ada", 49152, 192},
    {"rtx6000-ada", 98304, 384},
    {"rtxpro6000", 131072, 512},
    {"quadro-rtx4000", 4096, 256},
    {"quadro-rtx5000", 4096, 256},
    {"quadro-rtx6000", 6144, 384},
    {"quadro-rtx8000", 6144, 384},
    {"p6000", 3072, 384},
    {"p4", 2048, 256},
    {"p40", 3072, 384},
    {"p100", 4096, 4096},
    {"t4", 4096, 256},
    {"v100-16gb", 6144, 4096},
    {"v100-32gb", 6144, 4096},
    {"a2", 2048, 128},
    {"a10", 6144, 384},
    {"a10g", 6144, 384},
    {"a16", 2048, 128},
    {"a30", 24576, 3072},
    {"a40", 6144, 384},
    {"l4", 49152, 192},
    {"l40", 98304, 384},
    {"l40s", 98304, 384},
    {"l20", 98304, 384},
    {"a100-40gb", 40960, 5120},
    {"a100-80gb", 40960, 5120},
    {"a100-80gb-pcie", 40960, 5120},
    {"a800-80gb", 40960, 5120},
    {"h100", 51200, 5120},
    {"h100-pcie", 51200, 5120},
    {"h800", 51200, 5120},
    {"gh200", 61440, 6144},
    {"h20", 61440, 6144},
    {"h200", 61440, 6144},
    {"b200", 129536, 8192},
    {"gb10", 24576, 256},
    {"jetson-nano", 256, 64},
    {"jetson-agx-orin", 4096, 256},
    {"jetson-agx-orin-32gb", 4096, 256},
};

// Of a card without a row: those of another of its generation.
struct GenerationRow {
  int least_capability;  // times ten
  CardCaches caches;
};
constexpr GenerationRow kGenerations[] = {
    {120, {49152 << 10, 256}}, {100, {129536 << 10, 8192}}, {90, {51200 << 10, 5120}},
    {89, {32768 << 10, 128}},  {86, {4096 << 10, 256}},     {80, {40960 << 10, 5120}},
    {75, {4096 << 10, 256}},   {70, {6144 << 10, 4096}},    {0, {2048 << 10, 256}},
};

}  // namespace

CardCaches CachesOf(const DeviceProfile& device) {
  const Card* const card = FindCard(device.name);
  if (card != nullptr) {
    const std::string_view alias = card->slice_of.empty() ? card->alias : card->slice_of;
    const auto* const row =
        std::find_if(std::begin(kCacheRows), std::end(kCacheRows),
                     [&](const CacheRow& known) { return known.alias == alias; });
    if (row != std::end(kCacheRows)) return {row->l2_kib << 10, row->bus_bits};
  }
  return std::find_if(std::begin(kGenerations), std::end(kGenerations),
                      [&](const GenerationRow& row) {
                        return device.compute_capability >= row.least_capability;
                      })
      ->caches;
}

}  // namespace onnxfit
