#include "estimator/oom/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "estimator/oom/formats.h"
#include "estimator/oom/log_lines.h"
#include "estimator/oom/programs.h"

namespace onnxfit {
namespace {

constexpr size_t kAhead = 2000;  // letters: a message that lists thirty processes
constexpr size_t kLongestPrefix = 4096;
constexpr size_t kMostRead = 8;  // messages of a process that are read; others are counted
constexpr size_t kMostProcesses = 1024;
constexpr int64_t kMostPlaces = 8192;  // that are looked at closely

using Messages = std::vector<OomMessage>;

// What one prefix of lines has said.
struct Found {
  Messages messages;
  int64_t unread = 0;
  size_t end = 0;  // of the last message, in the log
};

// The name of an exception and its text, in one line, are one message.
bool HasNumbers(const OomMessage& message) {
  const OomRank rank = message.format->rank;
  return rank == OomRank::kFailure || rank == OomRank::kWarning || rank == OomRank::kNumbers;
}

// "killed" is a common word: of those that end at `place` only what a shell may have said is looked
// at, at a line's begin, or behind a number, a bracket or a colon ("7915 Killed", "signal:
// Killed"), and "is killed", which goes on with "by signal".
bool IsCommonWord(std::string_view log, size_t place) {
  constexpr std::string_view kWord = "killed";
  if (place < kWord.size()) return false;
  size_t at = place - kWord.size();
  for (size_t i = 0; i < kWord.size(); ++i) {
    if (ToLower(log[at + i]) != kWord[i]) return false;
  }
  while (at > 0 && (log[at - 1] == ' ' || log[at - 1] == '\t')) --at;
  if (at == 0) return false;
  constexpr std::string_view kBefore = "\n\r:]>|)m";  // m: of "OOMKilled", and of colours
  const char before = ToLower(log[at - 1]);
  if (log.substr(0, at).ends_with("...") || log.substr(0, at).ends_with("…")) return false;
  const bool is_passive = at > 1 && before == 's' && (log[at - 2] == 'i' || IsSpace(log[at - 2]));
  return !is_passive && !IsDigit(before) && kBefore.find(before) == std::string_view::npos;
}

using MessageReader = std::optional<OomMessage> (*)(const Letters& letters, size_t& end);

// What a program says of a failure that it goes on from: the failure is a part of the warning.  And
// what Docker knows of a process that was killed, which says more.  NVIDIA/TensorRT, the builder's
// log: it skips what it has no memory to try; distributed, worker_memory.py: a worker that pauses
// says more than one whose memory is much.
struct Survived {
  std::string_view failure;
  std::string_view warning;
};
constexpr Survived kSurvived[] = {
    {"dask-high", "dask-paused"},        {"exit-137", "docker-killed"},
    {"exit-137", "kubernetes-killed"},   {"killed", "docker-killed"},
    {"tensorrt-oom", "tensorrt-tactic"}, {"tensorrt-runtime", "tensorrt-tactic"},
    {"tensorrt", "tensorrt-tactic"},     {"tensorrt-7", "tensorrt-tactic"}};

bool WasSurvived(const OomMessage& message, const OomMessage& warning) {
  return std::ranges::any_of(kSurvived, [&](const Survived& row) {
    return row.warning == warning.format->name &&
           (row.failure == message.format->name || message.format == warning.format);
  });
}

class LogReader {
 public:
  // `read` reads the message around a place that `search` leads to.
  LogReader(std::string_view log, const PhraseSearch& search, MessageReader read)
      : log_(log), search_(search), read_(read) {}

  bool is_whole() const { return places_ <= kMostPlaces; }

  // By prefix, in its order.
  std::map<std::string, Found> Read() {
    size_t from = 0;
    PhraseSearch::State state = 0;  // a longer phrase may end behind one that is part of it
    while (const auto end = search_.FindEnd(log_, from, state)) {
      from = *end;
      Visit(*end);
    }
    return std::move(found_);
  }

 private:
  void Visit(size_t place) {
    if (places_ > kMostPlaces || IsCommonWord(log_, place)) return;
    FindLine(place);
    const std::string& process = process_;
    if (found_.size() >= kMostProcesses && !found_.contains(process)) return;
    const auto known = found_.find(process);
    if (known != found_.end() && place <= known->second.end) return;
    if (known != found_.end() && known->second.messages.size() >= kMostRead) {
      ++known->second.unread;
      return;
    }
    ++places_;
    const Letters letters = ReadLetters(log_, place, kAhead);
    size_t end = 0;
    auto message = read_(letters, end);
    if (!message) return;
    message->place = place;
    message->line = LineOf(place - 1);
    Found& of = found_[process];
    const bool is_line = message->format->pattern != nullptr || !HasNumbers(*message);
    of.end = !is_line ? end : std::min(log_.find('\n', end), log_.size());
    Keep(std::move(*message), of);
  }

  // Words of any program's runtime are kept once: they would crowd out messages of others.
  // Of the machine's states the fullest one: they come every second, and would crowd out messages.
  // Of other figures the last one.
  static void Keep(OomMessage message, Found& of) {
    Messages& messages = of.messages;
    const auto is_same = [&](const OomMessage& m) { return m.format == message.format; };
    if (IsAnybodys(*message.format) && std::ranges::any_of(messages, is_same)) {
      ++of.unread;
      return;
    }
    const auto figures = std::find_if(messages.begin(), messages.end(), [&](const OomMessage& m) {
      return m.format == message.format && m.format->rank == OomRank::kNumbers &&
             m.format->pattern != nullptr;
    });
    if (figures != messages.end()) {
      *figures = std::move(message);
      return;
    }
    of.unread += static_cast<int64_t>(
        std::erase_if(messages, [&](const OomMessage& m) { return WasSurvived(m, message); }));
    const auto state = std::find_if(messages.begin(), messages.end(), [](const OomMessage& m) {
      return m.format->rank == OomRank::kState;
    });
    if (message.format->rank != OomRank::kState || state == messages.end()) {
      messages.push_back(std::move(message));
    } else if (message.Size(OomField::kFree)->bytes < state->Size(OomField::kFree)->bytes) {
      *state = std::move(message);
    }
  }

  // The process that wrote the line around the letter before `place`.
  // REQUIRES: places come in rising order.
  void FindLine(size_t place) {
    const size_t newline = log_.substr(seen_, place - 1 - seen_).rfind('\n');
    if (newline != std::string_view::npos || seen_ == 0) {
      const size_t begin = newline == std::string_view::npos ? 0 : seen_ + newline + 1;
      process_ = std::string(ReadLogLine(log_.substr(begin, kLongestPrefix)).process);
    }
    seen_ = place - 1;
  }

  // REQUIRES: places come in rising order.
  int64_t LineOf(size_t place) {
    line_ += std::count(log_.begin() + static_cast<std::ptrdiff_t>(counted_),
                        log_.begin() + static_cast<std::ptrdiff_t>(place), '\n');
    counted_ = place;
    return line_;
  }

  std::string_view log_;
  const PhraseSearch& search_;
  MessageReader read_;
  std::map<std::string, Found> found_;
  int64_t places_ = 0;
  size_t seen_ = 0;
  std::string process_;
  int64_t line_ = 1;
  size_t counted_ = 0;
};

// Messages without prefix by their card: training on several writes so.  Those that name no card
// go to the first one.
std::vector<Messages> SplitByCard(const Messages& messages) {
  std::map<int64_t, Messages> by_card;
  for (const OomMessage& message : messages) {
    const bool has_prefix = !message.process.empty();
    by_card[has_prefix ? 0 : message.gpu.value_or(-1)].push_back(message);
  }
  std::vector<Messages> split;
  for (auto& [card, of_card] : by_card) {
    if (card < 0 && by_card.size() > 1) continue;
    split.push_back(std::move(of_card));
  }
  const auto nameless = by_card.find(-1);
  if (nameless != by_card.end() && by_card.size() > 1) {
    split[0].insert(split[0].end(), nameless->second.begin(), nameless->second.end());
  }
  return split;
}

// Figures that are no message of a failure.
bool IsBeside(const OomMessage& message) {
  return message.format->rank == OomRank::kNumbers || message.format->rank == OomRank::kState;
}

bool HasNoSizes(const OomMessage& message) {
  return std::ranges::none_of(message.sizes, [](const auto& size) { return size.has_value(); });
}

// TensorFlow tells its limit and what is in use apart from the tensor that did not fit; Dask's
// workers warn of what they hold before they are ended, which says no more.  What a warning asked
// for is not what failed.
void AddNumbers(OomMessage& message, const Messages& messages) {
  const bool has_none = HasNoSizes(message);
  for (const OomMessage& other : messages) {
    const bool warns = has_none && other.format->rank == OomRank::kWarning;
    const bool is_its = ProgramOf(*other.format) == ProgramOf(*message.format);
    if (is_its && message.node.empty()) message.node = other.node;
    if (!is_its || (!IsBeside(other) && !warns)) continue;
    for (size_t i = 0; i < kOomFields; ++i) {
      const bool is_asked = warns && static_cast<OomField>(i) == OomField::kTried;
      if (!message.sizes[i] && !is_asked) message.sizes[i] = other.sizes[i];
    }
  }
}

// Smaller for what says more: by its rank, as a program's own words and not the system's, with
// numbers, first.
auto OrderOf(const OomMessage& message) {
  const bool has_sizes = message.Size(OomField::kTried) || message.Size(OomField::kAllocated) ||
                         message.Size(OomField::kUsed);
  return std::tuple(message.format->rank, IsAnybodys(*message.format), !has_sizes, message.line);
}

// The first message of the best rank; nullopt where there are numbers alone.
std::optional<ProcessOom> FirstOf(const Messages& messages, int64_t unread) {
  const auto first = std::ranges::min_element(messages, {}, OrderOf);
  if (first->format->rank == OomRank::kNumbers) return std::nullopt;
  const auto count = std::count_if(messages.begin(), messages.end(),
                                   [](const OomMessage& m) { return !IsBeside(m); });
  ProcessOom process = {.message = *first, .more = std::max<std::ptrdiff_t>(count - 1, 0) + unread};
  AddNumbers(process.message, messages);
  for (const OomMessage& other : messages) process.message.also.push_back(other.format->name);
  return process;
}

void AddProcesses(LogReader& reader, OomLog& read) {
  const std::map<std::string, Found> by_prefix = reader.Read();
  read.is_whole = reader.is_whole();
  for (const auto& [process, found] : by_prefix) {
    int64_t unread = found.unread;
    for (const Messages& messages : SplitByCard(found.messages)) {
      auto first = FirstOf(messages, unread);
      unread = 0;
      if (first) read.processes.push_back(std::move(*first));
    }
  }
}

// Whether anything says that memory ran out, and not only that a process ended.
bool HasFailure(const OomLog& read) {
  return std::ranges::any_of(read.processes, [](const ProcessOom& process) {
    return process.message.format->rank < OomRank::kSign;
  });
}

// Who tells that a process ended does not begin its lines as the process does: "auto_1  | …".
std::string LettersBefore(std::string_view log, size_t place) {
  constexpr size_t kBefore = 2000;
  const size_t begin = place - std::min(place, kBefore);
  std::string letters;
  for (const char letter : log.substr(begin, place - begin)) {
    if (!IsSpace(letter)) letters += ToLower(letter == '\\' ? '/' : letter);
  }
  return letters;
}

// The program whose words stand nearby: libraries and drivers do not say who called them.  Paths of
// Windows are those of others.
std::string_view AppAround(std::string_view log, const OomMessage& message) {
  constexpr size_t kBehind = 300;
  Letters letters = ReadLetters(log, message.place, kBehind);
  std::ranges::replace(letters.lower, '\\', '/');
  const OomProgram* program = ProgramIn(letters.lower);
  if (program == nullptr && message.format->rank == OomRank::kSign) {
    program = ProgramIn(LettersBefore(log, message.place));
  }
  return program == nullptr || program->name == ProgramOf(*message.format) ? "" : program->name;
}

// The log from some thousand lines in front of the first message to as many behind the last, where
// people paste tables: of a log of a gigabyte that is little.
std::string_view AroundMessages(std::string_view log, const OomLog& read) {
  constexpr size_t kAround = size_t{1} << 18;
  size_t first = log.size();
  size_t last = 0;
  for (const ProcessOom& process : read.processes) {
    first = std::min(first, process.message.place);
    last = std::max(last, process.message.place);
  }
  const size_t begin = log.rfind('\n', first - std::min(first, kAround)) + 1;  // npos + 1 is 0
  return log.substr(begin, last + kAround - std::min(begin, last + kAround));
}

// Who asked, and what tables beside the messages show.
void AddAround(std::string_view log, OomLog& read) {
  if (read.processes.empty()) return;
  const MachineBeside machine = ReadBeside(AroundMessages(log, read));
  for (ProcessOom& process : read.processes) {
    process.message.app = AppAround(log, process.message);
    process.machine = machine;
    AddMachine(machine, process.message);
  }
}

}  // namespace

OomLog ReadOomLog(std::string_view log) {
  OomLog read = {.lines = std::count(log.begin(), log.end(), '\n')};
  if (!log.empty() && log.back() != '\n') ++read.lines;
  static const PhraseSearch heads(OomHeads());
  LogReader reader(log, heads, ReadOomMessage);
  AddProcesses(reader, read);
  if (!HasFailure(read)) {
    static const PhraseSearch loose_heads(LooseHeads());
    LogReader loose(log, loose_heads, ReadLooseMessage);
    OomLog other = read;
    other.processes.clear();
    AddProcesses(loose, other);
    constexpr int64_t kSameSentence = 4;  // lines, as a terminal breaks them
    std::erase_if(other.processes, [&](const ProcessOom& process) {
      return std::ranges::any_of(read.processes, [&](const ProcessOom& known) {
        return std::abs(known.message.line - process.message.line) < kSameSentence;
      });
    });
    if (!other.processes.empty()) read.processes = std::move(other.processes);
  }
  if (!read.processes.empty()) AddAround(log, read);
  std::stable_sort(
      read.processes.begin(), read.processes.end(),
      [](const ProcessOom& a, const ProcessOom& b) { return a.message.line < b.message.line; });
  return read;
}

std::string OomFrameworks() {
  std::set<std::string_view> names;
  for (const OomFormat& format : OomFormats()) names.insert(ProgramOf(format));
  return fmt::format("{} programs, from PyTorch, JAX and CUDA to slurm and the kernel",
                     names.size());
}

namespace {

void AppendUtf8(std::string& text, uint32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0u | code >> 6);
    text += static_cast<char>(0x80u | (code & 0x3Fu));
  } else {  // halves of pairs are left as they are: nothing that is read holds any
    text += static_cast<char>(0xE0u | code >> 12);
    text += static_cast<char>(0x80u | (code >> 6 & 0x3Fu));
    text += static_cast<char>(0x80u | (code & 0x3Fu));
  }
}

}  // namespace

std::string FromUtf16(std::string_view bytes) {
  const bool little = bytes.starts_with("\xFF\xFE");
  if (!little && !bytes.starts_with("\xFE\xFF")) return "";
  std::string text;
  for (size_t i = 2; i + 1 < bytes.size(); i += 2) {
    const uint32_t first = static_cast<unsigned char>(bytes[i]);
    const uint32_t second = static_cast<unsigned char>(bytes[i + 1]);
    AppendUtf8(text, little ? first | second << 8u : second | first << 8u);
  }
  return text;
}

}  // namespace onnxfit
