#include "estimator/oom/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/oom/formats.h"
#include "estimator/oom/log_lines.h"

namespace onnxfit {
namespace {

constexpr std::string_view kFieldNames[kOomFields] = {
    "tried",         "total",   "free",  "allowed",    "allocated",   "reserved", "cached",
    "private_pools", "process", "other", "parameters", "temporaries", "plan",     "used"};

constexpr size_t kNearHead =
    80;  // letters between a hit and the head of the message that it is part of
constexpr size_t kGap = 400;  // letters without a number that we know end a message
constexpr size_t kQuoted = 600;
constexpr int64_t kMostHeld = int64_t{1} << 50;  // 1 PiB: no machine has more memory

bool EndsWith(std::string_view text, size_t end, std::string_view part) {
  return text.substr(0, end).ends_with(part);
}

// `part` at `begin`, or as much of it as is left of the text; where somebody cut a message off in
// the middle of one, eight letters will do.
bool BeginsWith(std::string_view text, size_t begin, std::string_view part) {
  constexpr size_t kEnough = 8;
  const std::string_view rest = text.substr(begin, std::min(part.size(), kEnough));
  return part.substr(0, rest.size()) == rest;
}

bool TakesBareBytes(OomFamily family) {
  return family == OomFamily::kTheano || family == OomFamily::kOnnxRuntime ||
         family == OomFamily::kTensorFlow || family == OomFamily::kLlamaCpp ||
         family == OomFamily::kRam;
}

bool IsAlnum(char c) { return IsDigit(c) || (ToLower(c) >= 'a' && ToLower(c) <= 'z'); }

// Whether the number at `at` has a sign: "-7.14", and neither "GPU-0" nor "a - 2".
bool IsNegative(const Letters& letters, size_t at) {
  if (at == 0 || letters.written[at - 1] != '-' || letters.gap[at] != 0) return false;
  return at == 1 || letters.gap[at - 1] != 0 || !IsAlnum(letters.written[at - 2]);
}

// What was asked for or planned may be absurd, and macOS counts what others hold wrongly; memory
// that is there or is held cannot be.
int64_t MostOf(OomField field) {
  const bool is_held = field != OomField::kTried && field != OomField::kOther &&
                       (field < OomField::kParameters || field == OomField::kUsed);
  return is_held ? kMostHeld : kMostBytes;
}

// Nobody asks for nothing, and no card is of 0 bytes.
int64_t LeastOf(OomField field) {
  return field == OomField::kTried || field == OomField::kTotal ? 1 : 0;
}

}  // namespace

bool CanBe(OomField field, int64_t bytes) {
  return bytes >= LeastOf(field) && bytes <= MostOf(field);
}

namespace {

// 17179869184.00 GiB, or 2^64, as the limit of a process that has none.
bool IsNoLimit(OomField field, int64_t bytes) {
  return field == OomField::kAllowed && bytes > MostOf(field);
}

// Reads the numbers of a message of one family, one after the other.
class NumberReader {
 public:
  NumberReader(const Letters& letters, OomFamily family) : letters_(letters), family_(family) {}

  // Reads from `begin` up to `limit`, or to a long gap.  Returns the place behind the last number.
  size_t Read(size_t begin, size_t limit, OomMessage& message) {
    size_t last = begin;
    const std::string_view written = std::string_view(letters_.written).substr(0, limit);
    for (size_t at = begin; at < std::min(limit, last + kGap);) {
      if (!IsDigit(written[at])) {
        ++at;
        continue;
      }
      const auto size = ReadSize(written.substr(at));
      if (Take(at, *size, message)) last = at + size->letters;
      at += size->letters;
    }
    return last;
  }

 private:
  bool Take(size_t at, const ReadSizeResult& size, OomMessage& message) {
    const size_t begin = at - (IsNegative(letters_, at) ? 1 : 0);
    for (const OomPhrase& phrase : OomPhrases()) {
      if (phrase.family != family_ || !EndsWith(letters_.lower, begin, phrase.before)) continue;
      if (!BeginsWith(letters_.lower, at + size.letters, phrase.after)) continue;
      const bool is_size = phrase.value == OomPhrase::Value::kSize;
      if (is_size && !size.has_unit && !TakesBareBytes(family_)) continue;
      PrintedBytes read = size.size;
      if (begin < at) read.bytes = -std::max<int64_t>(read.bytes, 1);
      Put(phrase, read, letters_.Sentence(begin, at + size.letters, kQuoted), message);
      return true;
    }
    return false;
  }

  // `text` is the number as written.
  void Put(const OomPhrase& phrase, const PrintedBytes& size, const std::string& text,
           OomMessage& message) {
    switch (phrase.value) {
      case OomPhrase::Value::kPid:
        pid_ = size.bytes;
        break;
      case OomPhrase::Value::kListed:
        if (CanBe(OomField::kProcess, size.bytes)) message.others.push_back({pid_, size});
        break;
      case OomPhrase::Value::kGpu:
        if (!message.gpu && size.bytes >= 0) message.gpu = size.bytes;
        break;
      case OomPhrase::Value::kSize:
        PutSize(phrase.field, size, text, message);
        break;
      case OomPhrase::Value::kNothing:
        break;
    }
  }

  // The first number of a meaning holds, if it can be.
  static void PutSize(OomField field, const PrintedBytes& size, const std::string& text,
                      OomMessage& message) {
    std::optional<PrintedBytes>& known = message.Size(field);
    if (known || IsNoLimit(field, size.bytes)) return;
    if (CanBe(field, size.bytes)) {
      known = size;
    } else {
      message.doubted.push_back({field, text});
    }
  }

  const Letters& letters_;
  const OomFamily family_;
  int64_t pid_ = 0;
};

// A shell says "Killed" as a line of its own, or "train.sh: line 21:  7915 Killed  python …": the
// word alone is anything.  It stands behind a bar of progress, too, or dots: "1/3
// [00:10<00:20]Killed", "Collecting...Killed".
bool IsShellsKilled(const Letters& letters, size_t head, size_t size) {
  const size_t behind = head + size;
  const bool begins = head == 0 || letters.gap[head] == '\n';
  const bool ends = behind == letters.gap.size() || letters.gap[behind] == '\n';
  const bool follows_pid = head > 0 && letters.gap[head] == ' ' &&
                           IsDigit(letters.written[head - 1]) && behind < letters.gap.size() &&
                           letters.gap[behind] != 0;
  const std::string_view before = std::string_view(letters.written).substr(0, head);
  const bool is_cut = before.ends_with("...") || before.ends_with("…") || before.ends_with("it]") ||
                      before.ends_with("/s]") || before.ends_with("?]");
  return ((begins || is_cut) && ends) || follows_pid;
}

// Whether the words at `head` are the message, and not merely the same words.
bool Holds(const OomMessage& message, const Letters& letters, size_t head) {
  const OomFormat& format = *message.format;
  if (format.head == "killed") return IsShellsKilled(letters, head, format.head.size());
  if (format.rank == OomRank::kState) return message.Size(OomField::kTotal).has_value();
  if (format.rank != OomRank::kFailure) return true;
  return message.Size(OomField::kTried) ||
         std::any_of(message.doubted.begin(), message.doubted.end(),
                     [](const DoubtedNumber& d) { return d.field == OomField::kTried; });
}

// A message of PyTorch that says how much its process holds says all of it.
bool IsCut(const OomMessage& message) {
  if (message.format->family != OomFamily::kPyTorch) return false;
  if (message.format->rank != OomRank::kFailure || !message.doubted.empty()) return false;
  const bool has_reserved = message.Size(OomField::kReserved) || message.Size(OomField::kCached);
  return !message.Size(OomField::kAllocated) || !has_reserved;
}

// Where the words begin that lead to a head: "torch.OutOfMemoryError: CUDA out of memory".  They
// may begin in the line before, if a terminal broke the line between them.
size_t SentenceBegin(const Letters& letters, size_t head) {
  constexpr size_t kSomeWords = 11;  // "outofmemory"
  size_t begin = head;
  while (begin > 0 && head - begin < kNearHead) {
    if (letters.gap[begin] == '\n' && head - begin >= kSomeWords) break;
    --begin;
  }
  // A word is quoted as a whole, unless somebody left out all blanks.
  for (size_t i = 0; i < kNearHead && begin > 0 && letters.gap[begin] == 0; ++i) --begin;
  return begin;
}

// The words that belong to the last number are still quoted.
size_t SentenceEnd(const Letters& letters, size_t last) {
  const std::string& text = letters.written;
  for (size_t at = last; at < std::min(text.size(), last + kNearHead + 1); ++at) {
    const bool is_point = text[at] == '.' && !(at + 1 < text.size() && IsDigit(text[at + 1]));
    if (is_point || text[at] == ')') return at + 1;
  }
  return last;
}

// Whether a word begins at `at`: "OUT_OF_MEMORY" is none within "CUDA_ERROR_OUT_OF_MEMORY".
bool BeginsWord(const Letters& letters, size_t at) {
  const auto is_letter = [&](size_t i) {
    return IsAlnum(letters.lower[i]) || letters.lower[i] == '_';
  };
  return at == 0 || letters.gap[at] != 0 || !IsAlnum(letters.lower[at]) || !is_letter(at - 1);
}

constexpr size_t kSameLine = 120;  // letters from a hit to what belongs to it

// Whether a head at `at` belongs to the hit: it covers it, or begins a little behind, for the name
// of an exception goes before its text.  What tells of RAM stands beside other messages, so that
// only what is in the same line belongs to it.
bool BelongsToHit(const OomFormat& format, const Letters& letters, size_t at) {
  if (at <= letters.place && at + format.head.size() >= letters.place) return true;
  if (at > letters.place + kSameLine) return false;
  if (format.family != OomFamily::kRam && at <= letters.place + kNearHead / 2) return true;
  const auto begin = letters.gap.begin();
  return std::find(begin + static_cast<std::ptrdiff_t>(letters.place),
                   begin + static_cast<std::ptrdiff_t>(at) + 1,
                   '\n') == begin + static_cast<std::ptrdiff_t>(at) + 1;
}

struct PatternHit {
  OomMessage message;
  size_t begin = 0;  // of letters
  size_t end = 0;

  bool IsAnybodys() const { return onnxfit::IsAnybodys(*message.format); }

  // Numbers say more than words, a program's own words more than anybody's; else what comes first
  // does, of the same words the longer ones.
  bool SaysMoreThan(const PatternHit& other) const {
    const bool is_failure = message.format->rank == OomRank::kFailure;
    const bool other_is = other.message.format->rank == OomRank::kFailure;
    if (is_failure != other_is) return is_failure;
    if (IsAnybodys() != other.IsAnybodys()) return !IsAnybodys();
    const bool overlaps = begin < other.end && other.begin < end;
    return overlaps ? end - begin > other.end - other.begin : begin < other.begin;
  }
};

std::optional<PatternHit> ReadByPattern(const OomFormat& format, const Letters& letters) {
  const size_t first = letters.place - std::min(letters.place, format.head.size());
  const size_t limit = letters.place + kSameLine + format.head.size();
  const size_t head = std::string_view(letters.lower).substr(0, limit).find(format.head, first);
  if (head == std::string::npos || !BelongsToHit(format, letters, head)) return std::nullopt;
  if (!BeginsWord(letters, head)) return std::nullopt;
  PatternHit hit = {.message = {.format = &format, .process = letters.process}, .begin = head};
  const auto behind = MatchPattern(*format.pattern, letters, head, hit.message);
  if (!behind) return std::nullopt;
  hit.end = *behind;
  return hit;
}

OomMessage MessageOf(PatternHit hit, const Letters& letters, size_t& end) {
  if (hit.IsAnybodys()) ReadLooseNumbers(letters, hit.message);
  hit.message.text =
      letters.Sentence(SentenceBegin(letters, hit.begin), SentenceEnd(letters, hit.end), kQuoted);
  end = letters.at[hit.end - 1] + 1;
  return std::move(hit.message);
}

std::optional<OomMessage> ReadAs(const OomFormat& format, const Letters& letters, size_t& end) {
  // Signs, states and what tells of RAM stand beside other messages: theirs is the hit itself.
  const bool is_hit = format.family == OomFamily::kRam || format.rank == OomRank::kState;
  const size_t near = is_hit ? format.head.size() : kNearHead;
  const size_t first = letters.place - std::min(letters.place, near);
  const size_t head = letters.lower.find(format.head, first);
  if (head == std::string::npos || head > letters.place + kNearHead / 2) return std::nullopt;
  OomMessage message = {.format = &format, .process = letters.process};
  const size_t behind = head + format.head.size();
  // The next message of the same kind is another one.
  const size_t limit = std::min(letters.lower.find(format.head, behind), letters.lower.size());
  size_t last = std::max(behind, NumberReader(letters, format.family).Read(head, limit, message));
  const size_t furthest = std::min(limit, last + kGap);
  const size_t mark = letters.lower.find(format.mark, first);
  if (mark == std::string::npos || mark + format.mark.size() > furthest) return std::nullopt;
  ReadDetails(letters, head, furthest, message);
  if (!Holds(message, letters, head)) return std::nullopt;
  const size_t marked = mark + format.mark.size();
  if (marked > last && marked - last < kNearHead) last = marked;  // of the same sentence
  message.cut = IsCut(message);
  message.text =
      letters.Sentence(SentenceBegin(letters, head), SentenceEnd(letters, last), kQuoted);
  end = letters.at[last - 1] + 1;
  return message;
}

}  // namespace

bool OomMessage::IsOfHip() const {
  std::string letters = text;  // a terminal may have broken the line in a word
  std::erase_if(letters, IsSpace);
  return letters.find("HIPoutofmemory") != std::string::npos ||
         letters.find("HIPerror") != std::string::npos;
}

bool OomMessage::IsBeside(std::string_view name) const {
  return std::ranges::find(also, name) != also.end();
}

std::string_view ToString(OomField field) { return kFieldNames[static_cast<size_t>(field)]; }

std::optional<OomMessage> ReadOomMessage(const Letters& letters, size_t& end) {
  std::optional<PatternHit> best;
  std::optional<OomMessage> sign;
  for (const OomFormat& format : OomFormats()) {
    if (format.pattern != nullptr) {
      auto hit = ReadByPattern(format, letters);
      if (hit && (!best || hit->SaysMoreThan(*best))) best = std::move(hit);
      continue;
    }
    if (best) break;  // what follows are other programs' words alone
    size_t its_end = 0;
    auto message = ReadAs(format, letters, its_end);
    if (!message || (sign && format.rank >= OomRank::kSign)) continue;
    end = its_end;
    if (format.rank != OomRank::kSign) return message;
    sign = std::move(message);  // "Killed" may stand behind what says why
  }
  const bool is_sign = best && best->message.format->rank >= OomRank::kSign;
  if (!best || (sign && is_sign && best->IsAnybodys())) return sign;
  return MessageOf(std::move(*best), letters, end);
}

}  // namespace onnxfit
