#include "estimator/fit/target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/contexts.h"
#include "estimator/base/device.h"
#include "estimator/base/warnings.h"

namespace onnxfit {
namespace {

// An article of 2022 on training LeNet on a Jetson Nano with a desktop: 900 MB in use before
// the program starts.  Others have 1.5 GB with a desktop, 300 to 500 MB without
// (JetPack 4.4, microsoft/onnxruntime#4259).
Share OperatingSystem() {
  return {.what = "operating system and desktop",
          .bytes = 900'000'000,
          .low = 300'000'000,
          .high = 1'500'000'000,
          .basis = Basis::kAssumed};
}

Warnings TotalWarnings(const Card& card) {
  const auto warn = [&](std::string_view what) -> Warnings {
    return {{warning::kUnseenTotal, fmt::format("{}: {}", card.device.name, what)}};
  };
  switch (card.total_source) {
    case TotalSource::kSeen:
      return {};
    case TotalSource::kSeenWindows:
      return warn("its size was seen on Windows alone; Linux shows up to 7 % less");
    case TotalSource::kNvidiaSmi:
      return warn(card.slice_of.empty()
                      ? "what CUDA shows of it was not seen: derived from what nvidia-smi shows"
                      : "what CUDA shows of it was not seen: taken as what nvidia-smi lists");
    case TotalSource::kName:
      return warn("no size of it was seen: derived from what it is sold with");
    case TotalSource::kWithoutEcc:
      return warn("what CUDA shows of it with ECC on was not seen: derived from its size without");
  }
  return {};
}

void WarnOfSlowMemory(const Card& card, Warnings& warnings) {
  if (card.slow_bytes == 0) return;
  warnings.push_back({warning::kSlowMemory,
                      fmt::format("{}: the last {} of its memory are slow: a run that takes more "
                                  "than {} may use them",
                                  card.device.name, FormatBytes(card.slow_bytes),
                                  FormatBytes(card.total_bytes - card.slow_bytes))});
}

// Whether it is on, nvidia-smi says: "ECC Mode", "Current".
void WarnOfEcc(const Card& card, Warnings& warnings) {
  if (card.without_ecc_bytes == 0) return;
  warnings.push_back({warning::kWithEcc,
                      fmt::format("{}: taken as {}, its size with ECC on; with ECC off CUDA shows "
                                  "{} of it",
                                  card.device.name, FormatBytes(card.total_bytes),
                                  FormatBytes(card.without_ecc_bytes))});
}

// The answer is about one process on one card.
void WarnOfOtherCards(const RentedMachine& machine, Warnings& warnings) {
  if (machine.cards == 1) return;
  const std::string has = machine.cards == 0
                              ? fmt::format("machines called {} have up to several", machine.name)
                              : fmt::format("{} has {}", machine.name, machine.cards);
  warnings.push_back({warning::kOneOfSeveral,
                      has + " of these cards: the answer is for one, which one process has"});
}

void ShareWithCpu(Target& target) {
  const Share system = OperatingSystem();
  target.shares.push_back(system);
  target.warnings.push_back(
      {warning::kSharedMemory,
       fmt::format("{} shares its memory with the CPU: the operating system is taken as {}, the "
                   "runtime (libraries, kernels) as {}; swap holds no GPU memory",
                   target.device.name, FormatBytes(system.bytes),
                   FormatBytes(target.device.context.bytes))});
}

Target TargetOf(const Card& card) {
  Target target = {.name = std::string(card.alias),
                   .device = card.device,
                   .total_bytes = card.total_bytes,
                   .shares_memory = card.shares_memory,
                   .warnings = TotalWarnings(card)};
  WarnOfSlowMemory(card, target.warnings);
  WarnOfEcc(card, target.warnings);
  return target;
}

// What the card says of itself; from its row, if it has one, the names and the context.
Target TargetOf(const DetectedGpu& gpu) {
  const std::string own(WithoutMaker(gpu.name));
  Target target = {.name = own,
                   .device = {.name = own,
                              .compute_capability = gpu.compute_capability,
                              .multiprocessors = gpu.multiprocessors,
                              .threads_per_multiprocessor = gpu.threads_per_multiprocessor},
                   .total_bytes = gpu.total_bytes,
                   .shares_memory = gpu.shares_memory};
  target.device.context = gpu.shares_memory ? SharedRuntime() : ContextByRule(target.device);
  if (const Card* row = FindCard(gpu.name)) {
    target.name = row->alias;
    target.device.name = row->device.name;
    target.device.context = row->device.context;
  }
  return target;
}

Target StartOf(const TargetRequest& request) {
  if (request.detected != nullptr) return TargetOf(*request.detected);
  if (request.card != nullptr) return TargetOf(*request.card);
  return {.device = DefaultDevice()};
}

// The same card with another memory, of which nobody has any yet.
void Resize(Target& target, int64_t bytes) {
  const std::string size = FormatBytes(bytes);
  target.name = target.name.empty() ? size : fmt::format("{} with {}", target.name, size);
  target.total_bytes = bytes;
  target.warnings.clear();
}

// "other processes (python, Xorg)", each name once; "other processes or the driver" where nobody
// tells any.
std::string OthersText(const std::vector<GpuProcess>& others) {
  std::vector<std::string> names;
  for (const GpuProcess& process : others) {
    const bool is_new = std::find(names.begin(), names.end(), process.name) == names.end();
    if (is_new && !process.name.empty()) names.push_back(process.name);
  }
  if (others.empty()) return "other processes or the driver";
  if (names.empty()) return "other processes";
  return fmt::format("other processes ({})", fmt::join(names, ", "));
}

int64_t ToldBytes(const std::vector<GpuProcess>& others) {
  int64_t bytes = 0;
  for (const GpuProcess& process : others) bytes += process.bytes.value_or(0);
  return bytes;
}

// What is neither free nor this process'.  Where nobody tells what this process has, what is more
// than a context can be; where the CPU has a share, what others are told to hold: the rest is the
// operating system's.
Share OthersOn(const DetectedGpu& gpu, const ContextBytes& context) {
  const int64_t used = gpu.total_bytes - gpu.free_bytes;
  const int64_t told = ToldBytes(gpu.others);
  const auto share = [&](int64_t bytes, int64_t low, int64_t high, Basis basis) -> Share {
    return {OthersText(gpu.others), std::max(told, bytes), std::max(told, low),
            std::max(told, high), basis};
  };
  if (gpu.shares_memory) return share(told, told, told, Basis::kMeasured);
  if (gpu.process_bytes) {
    const int64_t rest = used - *gpu.process_bytes;
    return share(rest, rest, rest, Basis::kMeasured);
  }
  if (used <= context.high) return share(told, told, told, Basis::kMeasured);
  return share(used - context.bytes, used - context.high, used - context.low, context.basis);
}

// Of a size that somebody typed: a card of the table that is too small is an answer.
void CheckRoom(const Target& target) {
  if (target.capacity_bytes() > 0) return;
  int64_t needed = target.device.context.bytes;
  for (const Share& share : target.shares) needed = CheckedAdd(needed, share.bytes);
  throw Error({.where = target.name,
               .text = fmt::format("expected more than the {} that the context{}, found {}",
                                   FormatBytes(needed),
                                   target.shares.empty() ? " takes" : " and others take",
                                   FormatBytes(target.total_bytes)),
               .hint = target.shares.empty() ? "--overhead SIZE" : "a smaller --reserve"});
}

}  // namespace

int64_t Target::usable_bytes() const {
  int64_t others = 0;
  for (const Share& share : shares) others = CheckedAdd(others, share.bytes);
  return std::max<int64_t>(0, total_bytes - others);
}

int64_t Target::capacity_bytes() const { return usable_bytes() - device.context.bytes; }

int64_t Target::least_capacity_bytes() const {
  int64_t taken = device.context.high;
  for (const Share& share : shares) taken = CheckedAdd(taken, share.high);
  return total_bytes - taken;
}

Target MakeTarget(const TargetRequest& request) {
  Target target = StartOf(request);
  if (SharedCalibration measured = FindCalibration(request.calibrations, target.device.name)) {
    target.device = Calibrated(std::move(target.device), std::move(measured));
  }
  target.is_listed = request.is_listed;
  if (request.memory_bytes) Resize(target, *request.memory_bytes);
  if (request.machine) WarnOfOtherCards(*request.machine, target.warnings);
  std::optional<Share> others;
  if (request.detected != nullptr && !request.memory_bytes) {
    others = OthersOn(*request.detected, target.device.context);
  }
  if (const auto given = request.overhead_bytes) {
    target.device.context = {*given, *given, *given, Basis::kAssumed};
  }
  if (target.shares_memory) ShareWithCpu(target);
  if (others && others->bytes > 0) target.shares.push_back(*std::move(others));
  if (const int64_t bytes = request.reserved_for_others; bytes > 0) {
    target.shares.push_back({"other programs (--reserve)", bytes, bytes, bytes, Basis::kAssumed});
  }
  const bool is_typed =
      request.memory_bytes || request.overhead_bytes || request.reserved_for_others > 0;
  if (is_typed && !request.is_one_of_many) CheckRoom(target);
  return target;
}

// What follows sets a card of this machine beside the table.
namespace {

// What the table calls it: "GeForce RTX 4060 Laptop" of "NVIDIA GeForce RTX 4060 Laptop GPU".
std::string PlainName(std::string_view name) {
  constexpr std::string_view kEnd = " GPU";
  std::string_view plain = WithoutMaker(name);
  if (plain.ends_with(kEnd)) plain.remove_suffix(kEnd.size());
  return std::string(plain);
}

// "rtx4060-laptop" of the same.
std::string GuessedAlias(const std::string& plain_name) {
  std::istringstream words(plain_name);
  std::string alias;
  for (std::string word; words >> word;) {
    for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (word == "geforce" || word == "tesla") continue;
    alias += word == "laptop" ? "-laptop" : word;
  }
  return alias;
}

// Makers count whole GiB, of which the card shows less.
int64_t GuessedGib(const DetectedGpu& gpu) {
  return RoundUp(gpu.smi_bytes.value_or(gpu.total_bytes), kGiB) / kGiB;
}

// The table's columns from the first to the size sold.
std::string NamesAndSize(const CardAtHand& card) {
  if (const Card* row = card.row) {
    return fmt::format(R"("{}", "{}", "{}", "{}", {})", row->alias, row->device.name, row->family,
                       row->memory_type, row->sold_bytes / kGiB);
  }
  const std::string name = PlainName(card.gpu.name);
  return fmt::format(R"("{}", "{}", "?", "?", {})", GuessedAlias(name), name, GuessedGib(card.gpu));
}

}  // namespace

CardAtHand LookUp(DetectedGpu gpu) {
  CardAtHand card = {.gpu = std::move(gpu)};
  card.row = FindCard(card.gpu.name);
  if (card.gpu.why_unusable.empty()) card.target = MakeTarget({.detected = &card.gpu});
  return card;
}

std::string TableRow(const CardAtHand& card) {
  const DetectedGpu& gpu = card.gpu;
  std::string row = fmt::format("{{{}, {}, {}, {}", NamesAndSize(card), gpu.compute_capability,
                                gpu.multiprocessors, gpu.total_bytes / kMiB);
  if (gpu.smi_bytes) row += fmt::format(", 0, {}", *gpu.smi_bytes / kMiB);
  return row + "},";
}

}  // namespace onnxfit
