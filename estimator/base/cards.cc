// Where the figures come from.  Sizes: a list of 101 cards collected from public logs
// (deviceQuery, nvidia-smi, banners and out-of-memory messages of programs), undated; its
// youngest cards are of 2025.  Those added later have their source beside them.  Compute
// capabilities, multiprocessors and sizes sold: the makers' public specifications; of AMD's cards
// the compute units, and no compute capability.
#include "estimator/base/cards.h"

#include "estimator/base/bytes.h"
#include "estimator/base/contexts.h"
#include "estimator/base/device.h"

namespace onnxfit {
namespace {

// 0 is not seen.
struct Row {
  std::string_view alias;
  std::string_view name;  // without "NVIDIA"; of boards with several GPUs, one of these
  std::string_view family;
  std::string_view memory_type;
  int64_t sold_gib;
  int compute_capability;  // times ten
  int64_t multiprocessors;
  int64_t linux_mib = 0;    // CUDA's total, the smallest seen there; kEccRows has those with ECC on
  int64_t windows_mib = 0;  // the same there
  int64_t smi_mib = 0;      // nvidia-smi's total, the largest seen
  int64_t exact_bytes = 0;  // CUDA's total in bytes, where that is less than linux_mib
  int64_t slow_mib = 0;     // of the total, what lies behind a narrower bus
};

constexpr Row kRows[] = {
    {"k520", "GRID K520 (per GPU)", "cloud", "GDDR5", 4, 30, 8, 4096, 0, 4095, 4294770688},
    {"k80", "Tesla K80 (per GPU)", "datacenter", "GDDR5", 12, 37, 13, 11441},
    {"titanx", "GeForce GTX TITAN X (Maxwell)", "consumer", "GDDR5", 12, 52, 24, 12202, 0, 12287},
    // TensorFlow's banners: "Total memory: 3.94GiB", on Windows 4.00GiB.  NVIDIA, January 2015: of
    // its 4 GB, 0.5 GB have an eighth of the bus.
    {"gtx970", "GeForce GTX 970", "consumer", "GDDR5", 4, 52, 13, 4034, 4096, 0, 0, 512},
    {"gtx1050", "GeForce GTX 1050", "consumer", "GDDR5", 2, 61, 5, 0, 2048},
    {"gtx1050ti", "GeForce GTX 1050 Ti", "consumer", "GDDR5", 4, 61, 6, 0, 4096},
    {"gtx1060-3gb", "GeForce GTX 1060 3GB", "consumer", "GDDR5", 3, 61, 9, 3010},
    {"gtx1060", "GeForce GTX 1060 6GB", "consumer", "GDDR5", 6, 61, 10, 6063},
    {"gtx1070", "GeForce GTX 1070", "consumer", "GDDR5", 8, 61, 15, 8112, 8192},
    {"gtx1080", "GeForce GTX 1080", "consumer", "GDDR5X", 8, 61, 20, 8116},
    {"gtx1080ti", "GeForce GTX 1080 Ti", "consumer", "GDDR5X", 11, 61, 28, 11172, 11264},
    {"titanxp", "TITAN Xp", "consumer", "GDDR5X", 12, 61, 30, 12175},
    {"titanv", "TITAN V", "consumer", "HBM2", 12, 70, 80, 12064},
    {"titanrtx", "TITAN RTX", "consumer", "GDDR6", 24, 75, 72, 24212},
    {"gtx1650", "GeForce GTX 1650", "consumer", "GDDR5/GDDR6", 4, 75, 14, 3904, 4096},
    {"gtx1660s", "GeForce GTX 1660 SUPER", "consumer", "GDDR6", 6, 75, 22, 5745, 6144},
    {"gtx1660ti", "GeForce GTX 1660 Ti", "consumer", "GDDR6", 6, 75, 24},
    {"rtx2060", "GeForce RTX 2060", "consumer", "GDDR6", 6, 75, 30, 5918, 6144},
    {"rtx2060s", "GeForce RTX 2060 SUPER", "consumer", "GDDR6", 8, 75, 34, 7782},
    {"rtx2070", "GeForce RTX 2070", "consumer", "GDDR6", 8, 75, 36, 7782, 8192},
    {"rtx2070s", "GeForce RTX 2070 SUPER", "consumer", "GDDR6", 8, 75, 40, 0, 8192},
    {"rtx2080", "GeForce RTX 2080", "consumer", "GDDR6", 8, 75, 46, 7974},
    {"rtx2080s", "GeForce RTX 2080 SUPER", "consumer", "GDDR6", 8, 75, 48, 7982, 8192},
    {"rtx2080ti", "GeForce RTX 2080 Ti", "consumer", "GDDR6", 11, 75, 68, 10823},
    {"rtx2050", "GeForce RTX 2050 Laptop", "laptop", "GDDR6", 4, 86, 16, 0, 4096},
    {"rtx3050-6gb", "GeForce RTX 3050 6GB", "consumer", "GDDR6", 6, 86, 18, 5803},
    {"rtx3050-laptop", "GeForce RTX 3050 Laptop", "laptop", "GDDR6", 4, 86, 16, 3895, 4096, 0,
     4084137984},
    {"rtx3050ti-laptop", "GeForce RTX 3050 Ti Laptop", "laptop", "GDDR6", 4, 86, 20, 3799, 4096},
    {"rtx3060", "GeForce RTX 3060 12GB", "consumer", "GDDR6", 12, 86, 28, 11909, 12288, 12288},
    {"rtx3060-laptop", "GeForce RTX 3060 Laptop", "laptop", "GDDR6", 6, 86, 30, 0, 6144},
    {"rtx3060ti", "GeForce RTX 3060 Ti", "consumer", "GDDR6", 8, 86, 38, 0, 8192},
    {"rtx3070", "GeForce RTX 3070", "consumer", "GDDR6", 8, 86, 46, 7753, 8192},
    {"rtx3070ti", "GeForce RTX 3070 Ti", "consumer", "GDDR6X", 8, 86, 48, 0, 8191},
    {"rtx3080", "GeForce RTX 3080 10GB", "consumer", "GDDR6X", 10, 86, 68, 10009, 10240},
    {"rtx3080-12gb", "GeForce RTX 3080 12GB", "consumer", "GDDR6X", 12, 86, 70, 12117},
    {"rtx3080-laptop", "GeForce RTX 3080 Laptop 16GB", "laptop", "GDDR6", 16, 86, 48, 16110},
    {"rtx3080ti", "GeForce RTX 3080 Ti", "consumer", "GDDR6X", 12, 86, 80, 11909},
    {"rtx3090", "GeForce RTX 3090", "consumer", "GDDR6X", 24, 86, 82, 24122, 24576, 24576},
    // Ultralytics' banners under Linux: 24142 and 24139 MiB, two in one machine.
    {"rtx3090ti", "GeForce RTX 3090 Ti", "consumer", "GDDR6X", 24, 86, 84, 24139, 0, 24564},
    {"rtx4050-laptop", "GeForce RTX 4050 Laptop", "laptop", "GDDR6", 6, 89, 20, 0, 6140},
    // Ultralytics' banner: "CUDA:0 (NVIDIA GeForce RTX 4060, 7807MiB)", rounded.
    {"rtx4060", "GeForce RTX 4060", "consumer", "GDDR6", 8, 89, 24, 7806},
    {"rtx4060-laptop", "GeForce RTX 4060 Laptop", "laptop", "GDDR6", 8, 89, 24, 7806},
    {"rtx4060ti", "GeForce RTX 4060 Ti 8GB", "consumer", "GDDR6", 8, 89, 34, 7806},
    // 15.57 GiB of a log of PyTorch.
    {"rtx4060ti-16gb", "GeForce RTX 4060 Ti 16GB", "consumer", "GDDR6", 16, 89, 34, 15943},
    {"rtx4070", "GeForce RTX 4070", "consumer", "GDDR6X", 12, 89, 46, 11994, 12282},
    // nvidia-smi in logs, as of the 5070 Ti; of CUDA's total none was found.
    {"rtx4070s", "GeForce RTX 4070 SUPER", "consumer", "GDDR6X", 12, 89, 56, 0, 0, 12282},
    {"rtx4070ti", "GeForce RTX 4070 Ti", "consumer", "GDDR6X", 12, 89, 60, 11889, 12282},
    {"rtx4070-laptop", "GeForce RTX 4070 Laptop", "laptop", "GDDR6", 8, 89, 36, 7806, 8188},
    {"rtx4080", "GeForce RTX 4080", "consumer", "GDDR6X", 16, 89, 76, 0, 16376},
    {"rtx4080s", "GeForce RTX 4080 SUPER", "consumer", "GDDR6X", 16, 89, 80, 15944, 16375},
    {"rtx4080-laptop", "GeForce RTX 4080 Laptop", "laptop", "GDDR6", 12, 89, 58, 0, 12282},
    {"rtx4090", "GeForce RTX 4090", "consumer", "GDDR6X", 24, 89, 128, 24081, 24564, 24564},
    // 15.99 GiB of logs of PyTorch under Windows' Linux (WSL).
    {"rtx4090-laptop", "GeForce RTX 4090 Laptop", "laptop", "GDDR6", 16, 89, 76, 0, 16373, 16376},
    {"rtx5060-laptop", "GeForce RTX 5060 Laptop", "laptop", "GDDR7", 8, 120, 26, 0, 8151},
    {"rtx5060ti", "GeForce RTX 5060 Ti 16GB", "consumer", "GDDR7", 16, 120, 36, 15848},
    {"rtx5070", "GeForce RTX 5070", "consumer", "GDDR7", 12, 120, 48, 0, 12227, 12227},
    {"rtx5070ti", "GeForce RTX 5070 Ti", "consumer", "GDDR7", 16, 120, 70, 0, 0, 16303},
    {"rtx5080", "GeForce RTX 5080", "consumer", "GDDR7", 16, 120, 84, 15821},
    {"rtx5090", "GeForce RTX 5090", "consumer", "GDDR7", 32, 120, 170, 32102, 0, 32607},
    // Linux: ollama's "23.4 GiB total", rounded.  Windows: Orpheus-FastAPI#84 and nvidia-smi.
    {"rtx5090-laptop", "GeForce RTX 5090 Laptop", "laptop", "GDDR7", 24, 120, 82, 23910, 24463},
    // Without a log of any: NVIDIA's data sheets have their sizes and CUDA cores, 128 of which are
    // a multiprocessor (of Turing's 64).
    {"a1000", "RTX A1000", "workstation", "GDDR6", 8, 86, 18},
    {"a2000", "RTX A2000", "workstation", "GDDR6", 6, 86, 26, 5796},
    // DengKaiCQ/VGGT-Long#6: 15.61 GiB of an out-of-memory message.
    {"a4000", "RTX A4000", "workstation", "GDDR6", 16, 86, 48, 15984},
    {"a4500", "RTX A4500", "workstation", "GDDR6", 20, 86, 56},
    {"a5000", "RTX A5000", "workstation", "GDDR6", 24, 86, 64, 24138},
    {"a5500", "RTX A5500", "workstation", "GDDR6", 24, 86, 80},
    // 47.40 GiB of a report of a training; Ultralytics' banner has 48677 MiB.
    {"a6000", "RTX A6000", "workstation", "GDDR6", 48, 86, 84, 48537, 0, 49140},
    {"rtx2000-ada", "RTX 2000 Ada Generation", "workstation", "GDDR6", 16, 89, 22},
    {"rtx2000-ada-laptop", "RTX 2000 Ada Laptop", "laptop", "GDDR6", 8, 89, 24},
    {"rtx3500-ada-laptop", "RTX 3500 Ada Laptop", "laptop", "GDDR6", 12, 89, 40},
    {"rtx4000-ada", "RTX 4000 Ada Generation", "workstation", "GDDR6", 20, 89, 48},
    {"rtx4000-ada-laptop", "RTX 4000 Ada Laptop", "laptop", "GDDR6", 12, 89, 58},
    {"rtx4500-ada", "RTX 4500 Ada Generation", "workstation", "GDDR6", 24, 89, 60},
    {"rtx5000-ada", "RTX 5000 Ada Generation", "workstation", "GDDR6", 32, 89, 100},
    {"rtx5000-ada-laptop", "RTX 5000 Ada Laptop", "laptop", "GDDR6", 16, 89, 76},
    {"rtx6000-ada", "RTX 6000 Ada Generation", "workstation", "GDDR6", 48, 89, 142, 48497, 0,
     49140},
    {"rtxpro6000", "RTX PRO 6000 Blackwell", "workstation", "GDDR7", 96, 120, 188, 97250, 0, 97887},
    // 7.80 GiB of a message.
    {"quadro-rtx4000", "Quadro RTX 4000", "workstation", "GDDR6", 8, 75, 36, 7987, 0, 8192},
    {"quadro-rtx5000", "Quadro RTX 5000", "workstation", "GDDR6", 16, 75, 48},
    {"quadro-rtx6000", "Quadro RTX 6000", "workstation", "GDDR6", 24, 75, 72, 22497},
    // Ultralytics' banner: 48380 MiB.
    {"quadro-rtx8000", "Quadro RTX 8000", "workstation", "GDDR6", 48, 75, 72, 48380},
    {"p6000", "Quadro P6000", "workstation", "GDDR5X", 24, 61, 30},
    // 7.43 GiB of TensorFlow's banners and of PyTorch's messages, with ECC on.
    {"p4", "Tesla P4", "datacenter", "GDDR5", 8, 61, 20, 7608},
    {"p40", "Tesla P40", "datacenter", "GDDR5", 24, 61, 30, 24443},
    {"p100", "Tesla P100-PCIE-16GB", "datacenter", "HBM2", 16, 60, 56, 16280, 0, 16384},
    {"t4", "Tesla T4", "datacenter", "GDDR6", 16, 75, 40, 14918, 0, 15360},
    {"v100-16gb", "Tesla V100-SXM2-16GB", "datacenter", "HBM2", 16, 70, 80, 16130, 0, 16160},
    {"v100-32gb", "Tesla V100-SXM2-32GB", "datacenter", "HBM2", 32, 70, 80, 32494},
    {"a2", "A2", "datacenter", "GDDR6", 16, 86, 10},
    {"a10", "A10", "datacenter", "GDDR6", 24, 86, 72, 22516, 0, 23028, 23609475072},
    {"a10g", "A10G", "datacenter", "GDDR6", 24, 86, 80, 22518, 0, 23028},
    {"a16", "A16 (per GPU)", "datacenter", "GDDR6", 16, 86, 10},
    {"a30", "A30", "datacenter", "HBM2", 24, 80, 56, 0, 0, 24576},
    {"a40", "A40", "datacenter", "GDDR6", 48, 86, 84, 45496, 0, 46068},
    {"l4", "L4", "datacenter", "GDDR6", 24, 89, 58, 22563, 0, 23034},
    {"l40", "L40", "datacenter", "GDDR6", 48, 89, 142, 0, 0, 46068},
    {"l40s", "L40S", "datacenter", "GDDR6", 48, 89, 142, 45495, 0, 46068},
    {"l20", "L20", "datacenter", "GDDR6", 48, 89, 92, 0, 0, 46068},
    {"a100-40gb", "A100-SXM4-40GB", "datacenter", "HBM2", 40, 80, 108, 40339, 0, 40960},
    {"a100-80gb", "A100-SXM4-80GB", "datacenter", "HBM2e", 80, 80, 108, 81038},
    {"a100-80gb-pcie", "A100 80GB PCIe", "datacenter", "HBM2e", 80, 80, 108, 81154},
    {"a800-80gb", "A800 80GB PCIe", "datacenter", "HBM2e", 80, 80, 108, 81051},
    {"h100", "H100 80GB HBM3 (SXM)", "datacenter", "HBM3", 80, 90, 132, 81082, 0, 81559},
    {"h100-pcie", "H100 PCIe", "datacenter", "HBM2e", 80, 90, 114, 81008, 0, 81559},
    {"h100-nvl", "H100 NVL", "datacenter", "HBM3", 94, 90, 132, 95324, 0, 95830},
    // nvidia-smi in logs of trainings; of CUDA's total none was found.
    {"h800", "H800", "datacenter", "HBM3", 80, 90, 132, 0, 0, 81559},
    // Lightning-AI/litgpt#1892: 94.88 GiB of an out-of-memory message, 97871 MiB of nvidia-smi.
    {"gh200", "GH200 480GB", "datacenter", "HBM3", 96, 90, 132, 97157, 0, 97871},
    {"h20", "H20", "datacenter", "HBM3", 96, 90, 78, 97285},
    {"h200", "H200", "datacenter", "HBM3e", 141, 90, 132, 143155, 0, 143771},
    {"b200", "B200", "datacenter", "HBM3e", 180, 100, 148, 182620, 0, 183359},
    {"b300", "B300 SXM6", "datacenter", "HBM3e", 288, 103, 148, 274104},
    {"gb200", "GB200 (per GPU)", "datacenter", "HBM3e", 186, 100, 152, 0, 0, 189471},
    {"gb10", "GB10 (DGX Spark)", "edge", "LPDDR5X", 128, 121, 48, 124549},
    {"mi250x", "AMD Instinct MI250X GCD", "datacenter", "HBM2e", 64, 0, 110, 65520},
    {"mi300x", "AMD Instinct MI300X", "datacenter", "HBM3", 192, 0, 304, 196592},
    {"jetson-nano", "Jetson Nano 4GB", "jetson", "LPDDR4", 4, 53, 1, 3956},
    {"jetson-nano-2gb", "Jetson Nano 2GB", "jetson", "LPDDR4", 2, 53, 1, 1972},
    {"jetson-tx2", "Jetson TX2 8GB", "jetson", "LPDDR4", 8, 62, 2, 7842},
    {"jetson-tx2-4gb", "Jetson TX2 4GB", "jetson", "LPDDR4", 4, 62, 2, 3829, 0, 0, 4014751744},
    {"jetson-xavier-nx", "Jetson Xavier NX 8GB", "jetson", "LPDDR4x", 8, 72, 6, 7764, 0, 0,
     8140709888},
    {"jetson-agx-xavier", "Jetson AGX Xavier 16GB", "jetson", "LPDDR4x", 16, 72, 8, 15692},
    {"jetson-orin-nano", "Jetson Orin Nano 8GB", "jetson", "LPDDR5", 8, 87, 8, 7290},
    {"jetson-orin-nx", "Jetson Orin NX 16GB", "jetson", "LPDDR5", 16, 87, 8, 15388},
    {"jetson-agx-orin-32gb", "Jetson AGX Orin 32GB", "jetson", "LPDDR5", 32, 87, 14, 30697},
    {"jetson-agx-orin", "Jetson AGX Orin 64GB", "jetson", "LPDDR5", 64, 87, 16, 62841, 0, 0,
     65893089280},
    {"jetson-thor", "Jetson Thor (T5000)", "jetson", "LPDDR5X", 128, 110, 20, 125492},
};

// ECC keeps its bits in the memory itself where that is GDDR5 or GDDR6: a sixteenth of it (NVIDIA's
// CUDA C++ Best Practices Guide, "ECC": 6.25 %).  HBM and GDDR7 have room of their own for them:
// nvidia-smi has 97887 MiB of an RTX PRO 6000 with it on and with it off.
constexpr int64_t kEccParts = 16;

// Cards whose rows above were seen with ECC off.  Of all others that have it, a T4, A10, A40, L4,
// L40S, Quadro RTX 6000 or K80, they were seen with it on.
struct EccRow {
  std::string_view alias;
  int64_t linux_mib = 0;  // CUDA's total with ECC on, the smallest seen; 0 where nobody told it
  int64_t smi_mib = 0;    // nvidia-smi's, the same
};

constexpr EccRow kEccRows[] = {
    {"a2000", 0, 5754},  // nvidia-smi in a table of measurements: "RTX A2000, 5754MB VRAM"
    // gpu-burn's "15090 MB of memory" and nvidia-smi -q of one card, driver 535, 2026.
    {"a4000", 15090, 15352},
    {"a5000", 22721, 23028},        // YOLOv9's banner, torch 2.2.0; nvidia-smi of another
    {"a6000", 45619, 46068},        // 44.55 GiB of a report with torch 2.5.1; nvidia-smi of others
    {"rtx6000-ada", 45496, 46068},  // DINGYANB/MTVCrafter#21: 44.43 GiB of a message
    {"quadro-rtx8000", 0, 46080},   // nvidia-smi, driver 595
    {"p40", 22917, 22919},          // TensorFlow's banners: "totalMemory: 22.38GiB"
};

// What comes of CUDA's total where it was not seen: `part` of `whole`.
struct Ratio {
  int64_t part = 1;
  int64_t whole = 1;

  int64_t Of(int64_t mib) const { return mib * part / whole; }
};

// LPDDR is the CPU's memory.
constexpr bool SharesMemory(const Row& row) { return row.memory_type.starts_with("LPDDR"); }
constexpr int64_t SoldMib(const Row& row) { return row.sold_gib * 1024; }
constexpr int64_t SmiMib(const Row& row) { return row.smi_mib; }

// The smallest of CUDA's total to `whole_mib` that any card with memory of its own was seen with.
constexpr Ratio SmallestRatio(int64_t (*whole_mib)(const Row&)) {
  Ratio smallest;
  for (const Row& row : kRows) {
    const Ratio found = {row.linux_mib, whole_mib(row)};
    if (found.part == 0 || found.whole == 0 || SharesMemory(row)) continue;
    if (found.part * smallest.whole < smallest.part * found.whole) smallest = found;
  }
  return smallest;
}

constexpr Ratio kOfSmi = SmallestRatio(SmiMib);    // 0.969: a GeForce RTX 3060's
constexpr Ratio kOfSold = SmallestRatio(SoldMib);  // 0.911: a Tesla T4's

struct Total {
  int64_t bytes = 0;
  TotalSource source = TotalSource::kSeen;
};

constexpr Total TotalOf(const Row& row) {
  if (row.exact_bytes > 0) return {row.exact_bytes, TotalSource::kSeen};
  if (row.linux_mib > 0) return {row.linux_mib * kMiB, TotalSource::kSeen};
  if (row.windows_mib > 0) return {row.windows_mib * kMiB, TotalSource::kSeenWindows};
  if (row.smi_mib > 0) return {kOfSmi.Of(row.smi_mib) * kMiB, TotalSource::kNvidiaSmi};
  return {kOfSold.Of(SoldMib(row)) * kMiB, TotalSource::kName};
}

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; of AMD's compute
// units the CDNA 3 instruction set reference: 32 waves of 64.
constexpr int64_t ThreadsOf(int compute_capability) {
  constexpr int kFewer[] = {86, 87, 89, 110, 120, 121};
  for (const int capability : kFewer) {
    if (compute_capability == capability) return 1536;
  }
  return compute_capability == 75 ? 1024 : 2048;
}

constexpr const EccRow* EccOf(const Row& row) {
  for (const EccRow& ecc : kEccRows) {
    if (ecc.alias == row.alias) return &ecc;
  }
  return nullptr;
}

// What is left with ECC on of a card whose total with it off is `without_bytes`.
constexpr Total TotalWithEcc(const EccRow& row, int64_t without_bytes) {
  if (row.linux_mib > 0) return {row.linux_mib * kMiB, TotalSource::kSeen};
  return {without_bytes - without_bytes / kEccParts, TotalSource::kWithoutEcc};
}

// Whether ECC is on, a program cannot know beforehand: the smaller total counts.
Card CardOf(const Row& row) {
  const Total without = TotalOf(row);
  const EccRow* ecc = EccOf(row);
  const Total total = ecc == nullptr ? without : TotalWithEcc(*ecc, without.bytes);
  return {.alias = row.alias,
          .family = row.family,
          .memory_type = row.memory_type,
          .sold_bytes = row.sold_gib * kGiB,
          .total_bytes = total.bytes,
          .total_source = total.source,
          .without_ecc_bytes = ecc == nullptr ? 0 : without.bytes,
          .slow_bytes = row.slow_mib * kMiB,
          .shares_memory = SharesMemory(row),
          .device = {.name = std::string(row.name),
                     .compute_capability = row.compute_capability,
                     .multiprocessors = row.multiprocessors,
                     .threads_per_multiprocessor = ThreadsOf(row.compute_capability)}};
}

std::vector<Card> AllCards() {
  std::vector<Card> cards;
  for (const Row& row : kRows) cards.push_back(CardOf(row));
  SetContexts(cards);
  return cards;
}

}  // namespace

std::span<const Card> Cards() {
  static const std::vector<Card> cards = AllCards();
  return cards;
}

}  // namespace onnxfit
