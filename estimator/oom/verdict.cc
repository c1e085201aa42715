#include "estimator/oom/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/oom/formats.h"

namespace onnxfit {
namespace {

constexpr std::string_view kNames[] = {"IMPOSSIBLE", "SPILLED",  "OTHER PROCESS", "CONTRADICTORY",
                                       "FRAGMENTED", "CAPACITY", "UNKNOWN",       "NOT MEMORY"};

// No card has more: NVIDIA's B300 has 288 GB, AMD's MI355X the same.
constexpr double kLargestCard = 1024.0 * static_cast<double>(kGiB);

constexpr double kOthersShare = 0.2;
constexpr double kOthersBytes = 1.5 * static_cast<double>(kGiB);
constexpr double kFragmentedShare = 0.1;  // of what is reserved
constexpr double kPartlyShare = 0.05;

// What is free is handed out in whole pages of 2 MiB, and only what lies in one piece serves: a
// remainder below one large segment of PyTorch's allocator is no proof that there was room.
constexpr double kUselessRest = 20.0 * static_cast<double>(kMiB);

std::optional<Amount> AmountOf(const std::optional<PrintedBytes>& size) {
  if (!size) return std::nullopt;
  return Amount{static_cast<double>(size->bytes), static_cast<double>(size->error),
                ToString(*size)};
}

Amount Times(const Amount& a, double factor) { return {a.bytes * factor, a.error * factor}; }

// Whether a > b: for the numbers as they are (0), or for any (1) or all (-1) that round to them.
bool Exceeds(const Amount& a, const Amount& b, int lean) {
  return a.bytes - b.bytes + lean * (a.error + b.error) > 0;
}

// Absent where the two contradict each other: no bytes are below zero.  Less than rounding is 0.
std::optional<Amount> Difference(const std::optional<Amount>& a, const std::optional<Amount>& b) {
  if (!a || !b) return std::nullopt;
  Amount difference = *a - *b;
  if (difference.bytes < -difference.error) return std::nullopt;
  difference.bytes = std::max(difference.bytes, 0.0);
  return difference;
}

// reserved = allocated + cached: two say the third.
void CompleteReserved(OomFacts& facts) {
  if (!facts.reserved && facts.allocated && facts.cached) {
    facts.reserved = *facts.allocated + *facts.cached;
  }
  if (!facts.cached) facts.cached = Difference(facts.reserved, facts.allocated);
}

// What a table lists beside a message without numbers; absent where it lists none.
std::optional<Amount> SumOf(const std::vector<OtherProcess>& others) {
  if (others.empty()) return std::nullopt;
  Amount sum;
  for (const OtherProcess& other : others) sum = sum + *AmountOf(other.bytes);
  return sum;
}

// What Apple's driver allows is the card; others' memory is told, not what is free.
void ReadMps(const OomMessage& message, OomFacts& facts) {
  facts.others = AmountOf(message.Size(OomField::kOther));
  facts.total = std::exchange(facts.allowed, std::nullopt);
  if (facts.total && facts.total->bytes <= 0) facts.total.reset();
  if (!facts.total || !facts.allocated || !facts.others) return;
  facts.free = *facts.total - *facts.allocated - *facts.others;
  facts.free->bytes = std::max(facts.free->bytes, 0.0);
}

// All that is allocated, by anybody, and what is free are the card.
void ReadPaddle(OomFacts& facts) {
  if (!facts.total && facts.used && facts.free) facts.total = *facts.used + *facts.free;
}

// The most that Intel's drivers give in one allocation, unless it is asked for without that limit
// (intel/compute-runtime, programmers-guide/ALLOCATIONS_GREATER_THAN_4GB.md).
constexpr double kLargestOfXpu = 4.0 * static_cast<double>(kGiB);

// Whether so much was asked for in one piece while as much was there.
bool IsLargerThanXpuGives(const OomFacts& facts) {
  if (!facts.tried || !facts.total) return false;
  const Amount held = facts.reserved.value_or(Amount{});
  const Amount rest = facts.free ? *facts.free : *facts.total - held;
  return !Exceeds(Amount{kLargestOfXpu, 0}, *facts.tried, -1) && !Exceeds(*facts.tried, rest, 0);
}

// As much is free as was asked for, and less can be reserved at once.
bool IsInPieces(const OomFacts& facts) {
  return facts.tried && facts.free && facts.allowed && !Exceeds(*facts.tried, *facts.free, 0) &&
         Exceeds(*facts.tried, *facts.allowed, 0);
}

// A mapping for each tensor that processes share: the last number of its file's name counts them
// (torch/csrc, NewProcessWideShmHandle), and a process may have 65530 (vm.max_map_count).
bool IsShortOfMappings(const OomMessage& message) {
  constexpr int64_t kNearLimit = 50'000;
  constexpr int64_t kLittle = kMiB;  // no machine's RAM is so full
  const auto& tried = message.Size(OomField::kTried);
  return message.count >= kNearLimit || (tried && tried->bytes <= kLittle);
}

OomResource ResourceOf(const OomMessage& message, const OomFacts& facts) {
  const std::string_view name = message.format->name;
  if (name == "xpu" && IsLargerThanXpuGives(facts)) return OomResource::kBuffer;
  if (name == "xla-tpu-reserve" && IsInPieces(facts)) return OomResource::kBuffer;
  if (name == "pytorch-mmap" && IsShortOfMappings(message)) return OomResource::kMappings;
  return ReadingOf(*message.format).resource;
}

// What this process holds of what it is allowed: 0 where the limit is one on a single buffer.
Amount HeldOf(const OomFacts& facts) {
  if (facts.resource == OomResource::kBuffer) return {};
  if (facts.reserved) return *facts.reserved;
  return facts.allocated.value_or(Amount{});
}

// As much is free on the card as was asked for: so it is the limit, if it can be within rounding
// ("1.05 GiB allowed" may be 1070 MiB).
bool IsLimited(const OomFacts& facts) {
  if (!facts.allowed || !facts.tried) return false;
  if (facts.resource == OomResource::kBuffer) return true;
  if (facts.free && Exceeds(*facts.tried, *facts.free, 0)) return false;
  return Exceeds(HeldOf(facts) + *facts.tried, *facts.allowed, facts.free ? 1 : 0);
}

// AMD's cards have these, less what firmware takes: 15.98 of 16 GiB, a W7900 with ECC 44.98.
constexpr double kAmdGib[] = {4,  6,  8,  10, 12, 16,  20,  24,  32, 36,
                              45, 48, 64, 80, 96, 128, 192, 256, 288};

// A GPU within the processor: HIP shows as its total a part of RAM, which no card has.
bool SharesRam(const OomMessage& message, const OomFacts& facts) {
  constexpr double kLess = 0.015;
  if (!message.IsOfHip() || !facts.total) return false;
  const double gib = facts.total->bytes / static_cast<double>(kGiB);
  return std::ranges::none_of(
      kAmdGib, [&](double size) { return gib <= size && gib >= size * (1 - kLess); });
}

bool IsImpossible(const OomFacts& facts, int lean) {
  if (!facts.tried || facts.shares_ram) return false;
  if (facts.total) return Exceeds(*facts.tried, *facts.total, lean);
  return facts.tried->bytes > kLargestCard;
}

// What is counted as allocated is more than the driver says that the process has: some of it was
// unmapped, as vLLM's sleep mode and pools of one's own do.
bool IsGivenBack(const OomMessage& message, const OomFacts& facts) {
  const auto process = AmountOf(message.Size(OomField::kProcess));
  return process && facts.allocated && Exceeds(*facts.allocated, *process, -1);
}

bool IsMoreFreeThanAll(const OomFacts& facts) {
  return facts.free && facts.total && Exceeds(*facts.free, *facts.total, -1);
}

// A plan that was made beforehand needs more than there is.
bool NeedsMore(const OomFacts& facts) {
  const auto& there = facts.free ? facts.free : facts.total ? facts.total : facts.allowed;
  return facts.needed && there && Exceeds(*facts.needed, *there, 0);
}

// Apple's memory is the host's anyway.
bool IsSpilled(const OomMessage& message, const OomFacts& facts, int lean) {
  const OomFamily family = message.format->family;
  if (family != OomFamily::kPyTorch && family != OomFamily::kTorchAsync) return false;
  if (IsGivenBack(message, facts)) return false;
  return facts.allocated && facts.total && Exceeds(*facts.allocated, *facts.total, lean);
}

bool IsOthers(const OomFacts& facts, int lean) {
  if (!facts.others || !facts.total || !facts.free || facts.limited) return false;
  if (Exceeds(*facts.others, *facts.total, 0)) return false;  // a mistake of who counted
  const Amount share = Times(*facts.total, kOthersShare);
  const Amount least = share.bytes > kOthersBytes ? share : Amount{kOthersBytes, 0};
  return Exceeds(*facts.others, least, lean);
}

bool IsFragmented(const OomFacts& facts, int lean) {
  if (!facts.tried || !facts.cached || !facts.reserved) return false;
  return !Exceeds(*facts.tried, *facts.cached, -lean) &&
         Exceeds(*facts.cached, Times(*facts.reserved, kFragmentedShare), lean);
}

bool IsPartlyFragmented(const OomFacts& facts, int lean) {
  if (!facts.tried || !facts.cached || !facts.reserved || !facts.free) return false;
  if (facts.limited) return false;  // what is free is not this process'
  return !Exceeds(*facts.tried, *facts.free + *facts.cached, -lean) &&
         !Exceeds(Times(*facts.reserved, kPartlyShare), *facts.cached, -lean);
}

// A warning with figures: what is used is nearly all that there is.
bool IsNearlyFull(const OomMessage& message, const OomFacts& facts) {
  const bool is_warning = message.format->rank == OomRank::kWarning;
  return is_warning && (facts.allocated || facts.used) && (facts.allowed || facts.total);
}

OomJudgement JudgeLeaning(const OomMessage& message, const OomFacts& facts, int lean) {
  if (!IsMemory(facts.resource)) return {.verdict = OomVerdict::kNotMemory};
  if (!facts.tried) {
    if (facts.used && IsOthers(facts, lean)) return {.verdict = OomVerdict::kOtherProcess};
    const bool is_full = NeedsMore(facts) || IsNearlyFull(message, facts) ||
                         (ReadingOf(*message.format).is_full && message.doubted.empty());
    return {.verdict = is_full ? OomVerdict::kCapacity : OomVerdict::kUnknown};
  }
  if (IsMoreFreeThanAll(facts) || IsGivenBack(message, facts)) {
    return {.verdict = OomVerdict::kContradictory};
  }
  if (facts.resource == OomResource::kBuffer || facts.resource == OomResource::kOnChip) {
    return {.verdict = OomVerdict::kCapacity};
  }
  if (IsImpossible(facts, lean)) return {.verdict = OomVerdict::kImpossible};
  if (IsSpilled(message, facts, lean)) return {.verdict = OomVerdict::kSpilled};
  if (IsOthers(facts, lean)) return {.verdict = OomVerdict::kOtherProcess};
  if (!Contradictions(message, facts).empty()) return {.verdict = OomVerdict::kContradictory};
  if (IsFragmented(facts, lean)) return {.verdict = OomVerdict::kFragmented};
  if (IsPartlyFragmented(facts, lean)) {
    return {.verdict = OomVerdict::kFragmented, .partly = true};
  }
  return {.verdict = OomVerdict::kCapacity};
}

// Parts that are more than the card.
void AddSums(const OomMessage& message, const OomFacts& f, std::vector<std::string>& sentences) {
  if (!f.total || !f.reserved || !f.free) return;
  const Amount parts = *f.reserved + *f.free;
  if (!Exceeds(parts, *f.total, -1)) return;
  const auto& printed = message.Size(OomField::kCached);
  if (!printed || !f.allocated) {
    sentences.push_back(fmt::format("{} reserved and {} free are more than the card's {}",
                                    ToString(*f.reserved), ToString(*f.free), ToString(*f.total)));
    return;
  }
  sentences.push_back(
      fmt::format("its parts add up to {}, the card has {}", ToString(parts), ToString(*f.total)));
  if (message.format->name != "pytorch-0.4.1" || !Exceeds(*f.allocated, *f.cached, 0)) return;
  sentences.push_back(fmt::format("{} as all that is reserved would be less than the {} allocated",
                                  ToString(*f.cached), ToString(*f.allocated)));
}

}  // namespace

std::string_view ToString(OomVerdict verdict) { return kNames[static_cast<size_t>(verdict)]; }

Amount operator+(const Amount& a, const Amount& b) {
  return {a.bytes + b.bytes, a.error + b.error};
}

Amount operator-(const Amount& a, const Amount& b) {
  return {a.bytes - b.bytes, a.error + b.error};
}

std::string ToString(const Amount& amount) {
  return amount.printed.empty() ? FormatBytes(amount.rounded()) : amount.printed;
}

std::optional<Amount> OomFacts::Room() const {
  if (!limited) return free;
  Amount room = *allowed - HeldOf(*this);
  room.bytes = std::max(room.bytes, 0.0);
  return room;
}

std::optional<Amount> OomFacts::Short() const {
  const auto& there = free ? free : total ? total : allowed;
  if (!tried && needed && there && needed->bytes > there->bytes) return *needed - *there;
  const auto room = Room();
  if (!tried || !room || tried->bytes <= room->bytes) return std::nullopt;
  return *tried - *room;
}

OomFacts FactsOf(const OomMessage& message) {
  const auto get = [&](OomField field) { return AmountOf(message.Size(field)); };
  OomFacts facts = {.tried = get(OomField::kTried),
                    .total = get(OomField::kTotal),
                    .free = get(OomField::kFree),
                    .allowed = get(OomField::kAllowed),
                    .allocated = get(OomField::kAllocated),
                    .reserved = get(OomField::kReserved),
                    .cached = get(OomField::kCached),
                    .needed = get(OomField::kPlan),
                    .used = get(OomField::kUsed),
                    .temporaries = get(OomField::kTemporaries)};
  CompleteReserved(facts);
  const auto process = get(OomField::kProcess);
  facts.context = Difference(process, facts.reserved);
  const auto& mine = process ? process : facts.reserved;
  if (facts.total && facts.free && mine) {
    facts.others = Difference(Difference(facts.total, facts.free), mine);
  }
  if (!facts.tried && !facts.others) facts.others = SumOf(message.others);
  if (message.format->family == OomFamily::kMps) ReadMps(message, facts);
  if (message.format->family == OomFamily::kPaddle) ReadPaddle(facts);
  facts.resource = ResourceOf(message, facts);
  if (message.format->name.starts_with("xpu") && facts.resource == OomResource::kBuffer) {
    facts.allowed = Amount{kLargestOfXpu, 0};
  }
  facts.shares_ram = SharesRam(message, facts);
  facts.limited = IsLimited(facts);
  return facts;
}

std::vector<std::string> Contradictions(const OomMessage& message, const OomFacts& f) {
  std::vector<std::string> sentences;
  const Amount useless = {kUselessRest, 0};
  if (IsGivenBack(message, f)) {
    sentences.push_back(fmt::format("{} allocated are more than the {} that this process has",
                                    ToString(*f.allocated),
                                    ToString(*message.Size(OomField::kProcess))));
    sentences.emplace_back(
        "nothing was spilled: a pool was given back to the card and is still counted, as by vLLM's "
        "sleep mode");
  }
  if (IsMoreFreeThanAll(f)) {
    sentences.push_back(
        fmt::format("{} free are more than all of {}", ToString(*f.free), ToString(*f.total)));
  }
  if (f.tried && f.free && !f.limited && !Exceeds(*f.tried + useless, *f.free, 1)) {
    sentences.push_back(
        fmt::format("{} were asked for while {} were free", ToString(*f.tried), ToString(*f.free)));
    if (message.format->family == OomFamily::kTheano) {
      sentences.emplace_back("no piece of what is free was large enough, or others took it");
    }
  }
  const bool is_told = IsGivenBack(message, f);
  if (!is_told && f.reserved && f.allocated && Exceeds(*f.allocated, *f.reserved, -1)) {
    sentences.push_back(fmt::format("{} allocated are more than the {} reserved",
                                    ToString(*f.allocated), ToString(*f.reserved)));
  }
  const bool is_below_limit = f.allowed && f.allocated && f.tried && !f.free && !f.limited &&
                              !Exceeds(*f.allocated + *f.tried, *f.allowed, 1);
  if (is_below_limit) {
    sentences.push_back(fmt::format("{} held and {} asked are below the limit, {}",
                                    ToString(*f.allocated), ToString(*f.tried),
                                    ToString(*f.allowed)));
  }
  if (f.others && f.total && Exceeds(*f.others, *f.total, -1)) {
    sentences.push_back(
        fmt::format("others would hold {} of {}", ToString(*f.others), ToString(*f.total)));
    sentences.emplace_back("the count of macOS is wrong: the limit can be lifted, see below");
  }
  AddSums(message, f, sentences);
  return sentences;
}

OomJudgement Judge(const OomMessage& message, const OomFacts& facts) {
  OomJudgement judgement = JudgeLeaning(message, facts, 0);
  for (const int lean : {-1, 1}) {
    const OomVerdict other = JudgeLeaning(message, facts, lean).verdict;
    const bool is_known = std::find(judgement.may_be.begin(), judgement.may_be.end(), other) !=
                          judgement.may_be.end();
    if (other != judgement.verdict && !is_known) judgement.may_be.push_back(other);
  }
  return judgement;
}

}  // namespace onnxfit
