#include "estimator/fit/target.h"

#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/base/warnings.h"

namespace onnxfit {
namespace {

// An article of 2022 on training LeNet on a Jetson Nano with a desktop: 900 MB in use before
// the program starts.  Without one about half of that, which nobody measured.
constexpr Share kOperatingSystem = {.what = "operating system and desktop",
                                    .bytes = 900'000'000,
                                    .low = 450'000'000,
                                    .high = 900'000'000,
                                    .basis = Basis::kAssumed};

std::string NameOf(const TargetRequest& request) {
  if (!request.memory_bytes) return std::string(request.card->alias);
  const std::string size = FormatBytes(*request.memory_bytes);
  return request.card ? fmt::format("{} with {}", request.card->alias, size) : size;
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
      return warn("what CUDA shows of it was not seen: derived from what nvidia-smi shows");
    case TotalSource::kName:
      return warn("no size of it was seen: derived from what it is sold with");
  }
  return {};
}

void ShareWithCpu(Target& target) {
  target.shares.push_back(kOperatingSystem);
  target.warnings.push_back(
      {warning::kSharedMemory,
       fmt::format("{} shares its memory with the CPU: the operating system is taken as {}, the "
                   "runtime (libraries, kernels) as {}; swap holds no GPU memory",
                   target.device.name, FormatBytes(kOperatingSystem.bytes),
                   FormatBytes(target.device.context.bytes))});
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
  Target target = {.name = NameOf(request), .device = DefaultDevice()};
  const Card* card = request.card;
  if (card != nullptr) target.device = card->device;
  target.total_bytes = request.memory_bytes.value_or(card ? card->total_bytes : 0);
  if (card != nullptr && !request.memory_bytes) target.warnings = TotalWarnings(*card);
  if (const auto given = request.overhead_bytes) {
    target.device.context = {*given, *given, *given, Basis::kAssumed};
  }
  if (card != nullptr && card->shares_memory) ShareWithCpu(target);
  if (const int64_t others = request.reserved_for_others; others > 0) {
    target.shares.push_back(
        {"other programs (--reserve)", others, others, others, Basis::kAssumed});
  }
  const bool is_typed =
      request.memory_bytes || request.overhead_bytes || request.reserved_for_others > 0;
  if (is_typed && !request.is_one_of_many) CheckRoom(target);
  return target;
}

}  // namespace onnxfit
