#include "estimator/oom/beside.h"

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/base/text.h"
#include "estimator/oom/log_lines.h"
#include "estimator/oom/pattern.h"

namespace onnxfit {
namespace {

constexpr size_t kLongest = 400;                      // letters of a line of a table
constexpr std::string_view kBlanks = " \t\n\v\f\r|";  // and what tables are drawn of
constexpr std::string_view kOfDeepSpeed = "CPU Virtual Memory:";

std::vector<std::string_view> WordsIn(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && !IsSpace(text[end])) ++end;
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::optional<int64_t> NumberOf(std::string_view word) {
  const Decimal decimal = ReadDecimal(word);
  if (decimal.letters == 0 || decimal.letters != word.size() || decimal.places > 0) {
    return std::nullopt;
  }
  return decimal.whole;
}

// "7.7G", "521M", "15Gi", "0B": units are of 1024; without any the number is of `unit`.
std::optional<PrintedBytes> SizeIn(std::string_view word, int64_t unit) {
  constexpr std::string_view kUnits = "kmgtp";
  const Decimal decimal = ReadDecimal(word);
  if (decimal.letters == 0) return std::nullopt;
  const char letter = decimal.letters < word.size() ? ToLower(word[decimal.letters]) : '\0';
  if (letter == 'b') return SizeOf(decimal, 1);
  const size_t power = letter == '\0' ? std::string_view::npos : kUnits.find(letter);
  if (power != std::string_view::npos) unit = int64_t{1} << (10 * (power + 1));
  const PrintedBytes size = SizeOf(decimal, unit);
  return CanBe(OomField::kUsed, size.bytes) ? std::optional(size) : std::nullopt;
}

// "8559MiB / 10989MiB" in a line; gpustat writes "15836 / 16130 MB".
struct UsedOfTotal {
  PrintedBytes used;
  PrintedBytes total;
};
std::optional<UsedOfTotal> ReadUsedOfTotal(std::string_view line) {
  for (size_t slash = line.find(" / "); slash != std::string_view::npos;
       slash = line.find(" / ", slash + 1)) {
    std::string_view before = Trimmed(line.substr(0, slash), kBlanks);
    std::string_view behind = Trimmed(line.substr(slash + 3), kBlanks);
    if (before.ends_with("MiB")) before.remove_suffix(3);
    size_t begin = before.size();
    while (begin > 0 && IsDigit(before[begin - 1])) --begin;
    const Decimal used = ReadDecimal(before.substr(begin));
    const Decimal total = ReadDecimal(behind);
    if (used.letters == 0 || total.letters == 0 || used.value > total.value) continue;
    behind = Trimmed(behind.substr(total.letters), kBlanks);
    if (!behind.starts_with("MiB") && !behind.starts_with("MB")) continue;
    const PrintedBytes all = SizeOf(total, kMiB);
    if (CanBe(OomField::kTotal, all.bytes)) return UsedOfTotal{SizeOf(used, kMiB), all};
  }
  return std::nullopt;
}

// What of nvidia-smi's layout tells lines apart.
constexpr std::string_view kTypes[] = {"C", "G", "C+G"};

class BesideReader {
 public:
  MachineBeside Read(std::string_view log) {
    for (size_t begin = 0; begin < log.size();) {
      const size_t end = std::min(log.find('\n', begin), log.size());
      if (end - begin <= kLongest) ReadLine(ReadLogLine(log.substr(begin, end - begin)).text);
      begin = end + 1;
    }
    std::ranges::sort(machine_.cards, {}, &CardBeside::index);
    return std::move(machine_);
  }

 private:
  void ReadLine(std::string_view line) {
    if (line.find(kOfDeepSpeed) != std::string_view::npos) {
      ReadDeepSpeed(line);
    } else if (line.starts_with('|')) {
      ReadTable(line);
    } else if (line.starts_with('[')) {
      ReadGpustat(line);
    } else if (line.find("Mem") != std::string_view::npos) {
      ReadFree(line);
      ReadTop(line);
      ReadMeminfo(line);
    } else if (line.find("Swap") != std::string_view::npos) {
      ReadSwap(line);
      ReadMeminfo(line);
    } else if (line.find("free -") != std::string_view::npos) {
      ReadCommand(line);
    } else {
      ReadLargeAlloc(line);
    }
  }

  // A card has two lines: its name, and what of it is in use.
  void ReadTable(std::string_view line) {
    const auto words = WordsIn(Trimmed(line, kBlanks));
    if (words.empty()) return;
    if (const auto numbers = ReadUsedOfTotal(line)) {
      if (card_) PutCard({*card_, numbers->used, numbers->total});
      card_.reset();
      return;
    }
    const auto number = NumberOf(words[0]);
    if (!number) return;
    card_ = number;
    ReadProcess(*number, words);
  }

  // "0  N/A  N/A  18382  C  python3  15503MiB"
  void ReadProcess(int64_t card, const std::vector<std::string_view>& words) {
    if (words.size() < 4 || !words.back().ends_with("MiB")) return;
    const auto type = std::ranges::find_first_of(words, kTypes);
    if (type == words.end() || type - words.begin() < 2 || words.end() - type < 2) return;
    const auto pid = NumberOf(*(type - 1));
    const auto bytes = SizeIn(words.back(), kMiB);
    if (!pid || !bytes) return;
    const std::string_view name = words.end() - type > 2 ? *(type + 1) : "";
    machine_.processes.push_back({card, *pid, std::string(name), *bytes});
    card_.reset();
  }

  // "[0] Tesla V100-SXM2-16GB | 44'C,   0 % | 15836 / 16130 MB |"
  void ReadGpustat(std::string_view line) {
    const size_t bracket = line.find(']');
    if (bracket == std::string_view::npos || line.find('|') == std::string_view::npos) return;
    const auto index = NumberOf(line.substr(1, bracket - 1));
    const auto numbers = ReadUsedOfTotal(line);
    if (index && numbers) PutCard({*index, numbers->used, numbers->total});
  }

  // A later table is that of a later time.
  void PutCard(const CardBeside& card) {
    const auto known = std::ranges::find(machine_.cards, card.index, &CardBeside::index);
    if (known == machine_.cards.end()) {
      machine_.cards.push_back(card);
      return;
    }
    *known = card;
    std::erase_if(machine_.processes,
                  [&](const ProcessBeside& process) { return process.card == card.index; });
  }

  // "free -m" counts MiB, "free -g" GiB, without either KiB.
  void ReadCommand(std::string_view line) {
    const std::string_view flag = line.substr(line.find("free -") + 6);
    if (flag.starts_with('m')) unit_ = kMiB;
    if (flag.starts_with('g')) unit_ = kGiB;
  }

  // What units have numbers without any, where no command says: no machine has 300,000 MiB less one
  // digit, nor 300 GiB in MiB.
  int64_t UnitOf(std::string_view word) const {
    constexpr int64_t kFewestKib = 400'000;
    constexpr int64_t kFewestMib = 300;
    const auto number = NumberOf(word);
    if (unit_ != 0 || !number) return std::max<int64_t>(unit_, kKiB);
    if (*number >= kFewestKib) return kKiB;
    return *number >= kFewestMib ? kMiB : kGiB;
  }

  // "Mem:  total  used  free  shared  buff/cache  available"
  void ReadFree(std::string_view line) {
    const auto words = WordsIn(line);
    if (words.size() < 4 || words[0] != "Mem:") return;
    swap_unit_ = UnitOf(words[1]);
    machine_.ram = SizeIn(words[1], swap_unit_);
    machine_.available = words.size() > 6 ? SizeIn(words[6], swap_unit_) : std::nullopt;
  }

  // "KiB Mem : 16314124 total,   213456 free", "MiB Mem :  15931.8 total"
  void ReadTop(std::string_view line) {
    const auto words = WordsIn(line);
    const bool is_top = words.size() > 4 && words[1] == "Mem" && words[4].starts_with("total");
    if (is_top) machine_.ram = SizeIn(words[3], words[0] == "KiB" ? kKiB : kMiB);
  }

  void ReadSwap(std::string_view line) {
    const auto words = WordsIn(line);
    if (words.size() < 3 || words[0] != "Swap:") return;
    machine_.swap = SizeIn(words[1], swap_unit_);
    machine_.swap_used = SizeIn(words[2], swap_unit_);
  }

  // "MemTotal:       16314124 kB"
  void ReadMeminfo(std::string_view line) {
    const auto words = WordsIn(line);
    if (words.size() != 3 || words[2] != "kB") return;
    if (words[0] == "MemTotal:") machine_.ram = SizeIn(words[1], kKiB);
    if (words[0] == "MemAvailable:") machine_.available = SizeIn(words[1], kKiB);
    if (words[0] == "SwapTotal:") machine_.swap = SizeIn(words[1], kKiB);
  }

  // deepspeed/runtime/utils.py, see_memory_usage: its GB are of 1024.
  void ReadDeepSpeed(std::string_view line) {
    const auto words = WordsIn(line.substr(line.find(kOfDeepSpeed) + kOfDeepSpeed.size()));
    if (words.size() < 7 || words[0] != "used" || words[4] != "percent") return;
    const Decimal used = ReadDecimal(words[2]);
    if (used.letters != words[2].size() || !words[3].starts_with("GB")) return;
    machine_.ram_used = SizeOf(used, kGiB);
    machine_.ram_share = words[6];
  }

  // "tcmalloc: large alloc 2400002048 bytes == 0x99a00000 @ …"
  void ReadLargeAlloc(std::string_view line) {
    constexpr std::string_view kWords = "large alloc ";
    const size_t at = line.find(kWords);
    if (at == std::string_view::npos || line.find("tcmalloc") > at) return;
    const auto size = SizeIn(line.substr(at + kWords.size()), 1);
    if (size && (!machine_.large || size->bytes > machine_.large->bytes)) machine_.large = size;
  }

  MachineBeside machine_;
  std::optional<int64_t> card_ = {};  // of the line before
  int64_t unit_ = 0;                  // that a command says; 0 without any
  int64_t swap_unit_ = kKiB;
};

}  // namespace

PrintedBytes CardBeside::Free() const {
  PrintedBytes free = total;
  free.bytes -= used.bytes;
  return free;
}

bool CardBeside::IsInUse() const { return used.bytes >= std::min(total.bytes / 5, 3 * kGiB / 2); }

const CardBeside* MachineBeside::CardOf(const OomMessage& message) const {
  if (cards.empty()) return nullptr;
  if (!message.gpu) return &cards[0];
  const auto card = std::ranges::find(cards, *message.gpu, &CardBeside::index);
  return card == cards.end() ? nullptr : &*card;
}

MachineBeside ReadBeside(std::string_view log) { return BesideReader().Read(log); }

}  // namespace onnxfit
