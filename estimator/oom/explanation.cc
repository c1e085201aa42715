#include "estimator/oom/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/oom/formats.h"
#include "estimator/oom/programs.h"

namespace onnxfit {
namespace {

constexpr std::string_view kPartNames[] = {
    "tensors", "cached", "in use", "context", "others", "others and context", "free", "not told"};

// --- The three lines ------------------------------------------------------------------------

// "8.74 GiB asked, 6.32 GiB free: 2.42 GiB short", as far as it is known.
std::string AskedAndFree(const OomFacts& facts, const OomReading& words) {
  std::string text = fmt::format("{}{}", ToString(*facts.tried), words.asked);
  const auto room = facts.Room();
  const auto lack = facts.Short();
  const auto& held = facts.reserved ? facts.reserved : facts.allocated;
  if (facts.resource == OomResource::kBuffer && facts.allowed) {
    text += fmt::format(", {} allowed in one piece", ToString(*facts.allowed));
    return lack ? text + fmt::format(": {} too much", ToString(*lack)) : text;
  }
  if (facts.limited && !held) {
    text += fmt::format(", {} allowed", ToString(*facts.allowed));
    return lack ? text + fmt::format(": {} too much", ToString(*lack)) : text;
  }
  if (facts.limited && !lack) {  // within rounding
    return text +
           fmt::format(", {} of {} allowed are held", ToString(*held), ToString(*facts.allowed));
  }
  if (!room && held) {
    const std::string of = facts.total ? fmt::format(" of {}", ToString(*facts.total)) : "";
    return text + fmt::format(", {}{} held", ToString(*held), of);
  }
  if (!room)
    return facts.allowed ? text + fmt::format(", {} allowed", ToString(*facts.allowed)) : text;
  text += fmt::format(", {} {}", ToString(*room), facts.limited ? "left of the limit" : words.free);
  return lack ? text + fmt::format(": {} short", ToString(*lack)) : text;
}

// What was asked for, where it is neither a card's memory nor RAM as a whole.
constexpr std::pair<OomResource, std::string_view> kAsked[] = {
    {OomResource::kPinned, " of pinned RAM asked"},
    {OomResource::kSharedMemory, " of shared memory (/dev/shm) asked"},
    {OomResource::kMappings, " asked, and one more mapping of memory (vm.max_map_count)"},
    {OomResource::kOnChip, " of a multiprocessor's memory asked"},
};

// The format's own words, in the place of those that fit most.
OomReading WordsOf(const OomFormat& format, OomResource resource) {
  OomReading words = ReadingOf(format);
  for (const auto& [of, asked] : kAsked) {
    if (of == resource && words.asked.empty()) words.asked = asked;
  }
  if (words.asked.empty()) words.asked = " asked";
  if (words.free.empty()) words.free = "free";
  return words;
}

// What a message says beside how much was asked: ": 59.49 GiB of 62.58 GiB in use".
std::string FiguresText(const OomFacts& f) {
  if (f.used && f.total) {
    return fmt::format(": {} of {} in use", ToString(*f.used), ToString(*f.total));
  }
  const auto& held = f.used ? f.used : f.allocated;
  if (held && f.allowed) {
    return fmt::format(": {} held, {} allowed", ToString(*held), ToString(*f.allowed));
  }
  if (f.allowed) return fmt::format(": {} allowed", ToString(*f.allowed));
  if (f.needed && f.free) {
    return fmt::format(": {} needed, {} free", ToString(*f.needed), ToString(*f.free));
  }
  if (f.needed) return fmt::format(": {} needed", ToString(*f.needed));
  if (f.free) return fmt::format(": {} free", ToString(*f.free));
  if (f.total) return fmt::format(": {} in all", ToString(*f.total));
  return held ? fmt::format(": {} held", ToString(*held)) : "";
}

// Whether figures belong to the headline: those of rows of words, limits that others know of, and
// what a table beside the message shows.
bool HasFigures(const OomExplanation& e) {
  return e.message.format->pattern != nullptr || e.facts.allowed || e.facts.used;
}

// Who says it, or who called the library that does.
std::string WhoText(const OomMessage& message) {
  const bool is_other = message.format->rank == OomRank::kLoose;
  return std::string(is_other && !message.app.empty() ? message.app : ProgramOf(*message.format));
}

std::string NoNumbers(const OomExplanation& e) {
  const OomMessage& message = e.message;
  const OomFormat& format = *message.format;
  const OomReading words = WordsOf(format, e.facts.resource);
  if (!words.headline.empty()) {
    return fmt::format("{}{}{}{}", words.headline, message.told.empty() ? "" : ": ", message.told,
                       HasFigures(e) ? FiguresText(e.facts) : "");
  }
  if (format.rank == OomRank::kLoose) {
    return fmt::format("{} says that memory ran out{}", WhoText(message), FiguresText(e.facts));
  }
  if (format.family == OomFamily::kJetson) return "an assertion in place of an out-of-memory error";
  if (format.rank == OomRank::kDisguise) return "probably out of memory, in disguise";
  return fmt::format("{} ran out of memory, without {}", ProgramOf(format),
                     message.doubted.empty() ? "numbers" : "saying how much was asked");
}

std::string ImpossibleLine(const OomExplanation& e) {
  const auto& total = e.facts.total;
  if (IsHostMemory(e.message.format->family)) {
    return fmt::format("{} asked of the machine's RAM{}", ToString(*e.facts.tried),
                       total ? ", which has " + ToString(*total) : "");
  }
  return fmt::format("{} asked of {}", ToString(*e.facts.tried),
                     total ? "a card of " + ToString(*total) : "one card: no card has that");
}

std::string SpilledLine(const OomExplanation& e) {
  return fmt::format("{} of tensors on a card of {}", ToString(*e.facts.allocated),
                     ToString(*e.facts.total));
}

std::string OthersLine(const OomExplanation& e) {
  if (!e.facts.tried) {
    return fmt::format("others hold {} of {}, as nvidia-smi shows", ToString(*e.facts.others),
                       ToString(*e.facts.total));
  }
  return fmt::format("others hold {}; {} asked, {} free", ToString(*e.facts.others),
                     ToString(*e.facts.tried), ToString(*e.facts.free));
}

std::string ContradictionLine(const OomExplanation& e) {
  return Contradictions(e.message, e.facts)[0];
}

std::string PiecesLine(const OomExplanation& e) {
  const std::string free =
      e.judgement.partly ? fmt::format(" and {} free", ToString(*e.facts.free)) : "";
  return fmt::format("{} asked, {} cached{} in pieces", ToString(*e.facts.tried),
                     ToString(*e.facts.cached), free);
}

// "21.95 GiB needed in all, 15.48 GiB there: 6.47 GiB short", of a plan made beforehand.
std::string NeededLine(const OomFacts& f) {
  std::string text = fmt::format("{} needed in all", ToString(*f.needed));
  if (f.temporaries && f.temporaries->bytes > 0) {
    text += fmt::format(", {} of it temporaries", ToString(*f.temporaries));
  }
  if (f.tried) return text + fmt::format("; {} asked", ToString(*f.tried));
  const auto lack = f.Short();
  if (!lack) return text;
  if (f.free) return text + fmt::format(", {} free: {} short", ToString(*f.free), ToString(*lack));
  return text + fmt::format(", {} {}: {} short", ToString(f.total ? *f.total : *f.allowed),
                            f.total ? "there" : "allowed", ToString(*lack));
}

std::string CapacityLine(const OomExplanation& e) {
  const bool has_headline = !ReadingOf(*e.message.format).headline.empty();
  if (e.facts.needed && (e.facts.tried || (e.facts.Short() && !has_headline))) {
    return NeededLine(e.facts);
  }
  if (!e.facts.tried) return NoNumbers(e);
  if (e.facts.resource == OomResource::kMappings && e.message.count > 0) {
    return fmt::format(
        "{} asked as mapping {} of this process, which may have 65530 "
        "(vm.max_map_count)",
        ToString(*e.facts.tried), e.message.count);
  }
  return AskedAndFree(e.facts, WordsOf(*e.message.format, e.facts.resource));
}
std::string UnknownLine(const OomExplanation& e) { return NoNumbers(e); }
std::string NotMemoryLine(const OomExplanation& e) { return NoNumbers(e); }

// By verdict: what was asked, and what stood in its way.
constexpr std::string (*kHeadlines[])(const OomExplanation& e) = {
    ImpossibleLine, SpilledLine,  OthersLine,  ContradictionLine,
    PiecesLine,     CapacityLine, UnknownLine, NotMemoryLine};

// What others hold is told without this process' context.
bool OthersAlone(const OomExplanation& e) {
  return e.facts.context || !e.facts.tried || e.message.format->family == OomFamily::kMps;
}

// Whether what a program holds are tensors, or of anything.
bool HoldsTensors(const OomFormat& format) {
  if (format.pattern == nullptr) return true;
  const OomProgram* program = FindProgram(format.program);
  return program == nullptr || program->kind == OomProgram::Kind::kTrains;
}

// Who holds what.
std::string HoldersText(const OomExplanation& e) {
  const OomFacts& f = e.facts;
  std::string text;
  if (!IsMemory(f.resource)) return "No memory ran out.";
  if (IsHostMemory(e.message.format->family)) {
    if (f.allocated) return fmt::format("The process held {}.", ToString(*f.allocated));
    if (f.used && f.total) {
      return fmt::format("{} of {} were in use.", ToString(*f.used), ToString(*f.total));
    }
    return f.used ? fmt::format("{} were in use.", ToString(*f.used))
                  : "The message does not say who holds what.";
  }
  if (f.allocated) {
    text = fmt::format("This process: {}{}", HoldsTensors(*e.message.format) ? "tensors " : "",
                       ToString(*f.allocated));
  }
  if (f.allocated && f.cached) text += ", cache " + ToString(*f.cached);
  if (f.others) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ". ",
                        OthersAlone(e) ? "Others" : "Others and context", ToString(*f.others));
  }
  if (!text.empty()) return text + ".";
  if (!f.total || !f.free || f.free->bytes > f.total->bytes) {
    return "The message does not say who holds what.";
  }
  return fmt::format("{} of {} were in use.", ToString(*f.total - *f.free), ToString(*f.total));
}

std::string Capitalized(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') {
    text[0] = static_cast<char>(text[0] - 32);
  }
  return text;
}

void Summarize(OomExplanation& e) {
  const OomVerdict verdict = e.judgement.verdict;
  const std::string headline = kHeadlines[static_cast<size_t>(verdict)](e);
  const bool is_warning = e.message.format->rank == OomRank::kWarning;
  e.summary = {fmt::format("{}: {}{}", ToString(verdict), headline,
                           is_warning ? " (a warning: it went on)" : ""),
               HoldersText(e), Capitalized(MeaningOf(e)) + "."};
}

// --- Notes ----------------------------------------------------------------------------------

// Contexts that were seen take up to 0.6 GiB (base/device.cc).
constexpr double kMuchContext = 1.0 * static_cast<double>(kGiB);

// As much is free as was asked for, and still it is no contradiction.
bool IsUselessRest(const OomExplanation& e) {
  const OomFacts& f = e.facts;
  return e.judgement.verdict == OomVerdict::kCapacity && f.tried && f.free && !f.limited &&
         f.free->bytes >= f.tried->bytes;
}

std::string WithSpaces(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

// Two or more processes of this card that have tensors of no size.
bool AreOtherRanks(const OomMessage& message) {
  constexpr int64_t kContextAlone = 1 * kGiB;
  return message.others.size() > 1 &&
         std::ranges::all_of(message.others, [](const OtherProcess& other) {
           return other.bytes.bytes < kContextAlone;
         });
}

void AddNotes(OomExplanation& e) {
  for (const OomVerdict other : e.judgement.may_be) {
    e.notes.push_back(fmt::format("The sizes are rounded: with what rounds to them it may be {}.",
                                  ToString(other)));
  }
  const OomFacts& f = e.facts;
  const bool may_be_pieces = e.judgement.verdict == OomVerdict::kContradictory && f.cached &&
                             f.tried && f.cached->bytes >= f.tried->bytes;
  if (may_be_pieces) {
    e.notes.push_back(fmt::format(
        "If {} really are cached and not in use, {} would fit into them: then it is FRAGMENTED.",
        ToString(*f.cached), ToString(*f.tried)));
  }
  if (e.judgement.verdict == OomVerdict::kFragmented && !e.commands.empty()) {
    e.notes.push_back(
        "PyTorch prints its hint also where the option is on: if it is, read this as CAPACITY.");
  }
  if (IsUselessRest(e)) {
    e.notes.push_back(fmt::format(
        "{} free do not serve {}: the card gives whole pages of 2 MiB, and what is free is read "
        "after the failure.",
        ToString(*f.free), ToString(*f.tried)));
  }
  if (f.context && f.context->bytes > kMuchContext) {
    e.notes.push_back(fmt::format(
        "{} of this process are beside PyTorch's memory: its context, and NCCL or other libraries.",
        ToString(*f.context)));
  }
  if (AreOtherRanks(e.message)) {
    e.notes.push_back(fmt::format(
        "{} others hold little more than a context each: ranks that were to take another card? "
        "(torch.cuda.set_device(LOCAL_RANK) before the first call of CUDA)",
        e.message.others.size()));
  }
  for (const DoubtedNumber& doubted : e.message.doubted) {
    e.notes.push_back(fmt::format("The message says {} ({}): that cannot be, and is left out here.",
                                  doubted.text, WithSpaces(ToString(doubted.field))));
  }
  if (!e.message.node.empty() && !e.request) {
    e.notes.push_back(fmt::format("It was for {}.", e.message.node));
  }
  if (e.message.cut) {
    e.notes.push_back("The message is cut off: what it does not say any more is left out here.");
  }
}

// --- The card -------------------------------------------------------------------------------

void AddPart(OomExplanation& e, OomPart::What what, const std::optional<Amount>& amount) {
  if (!amount || amount->bytes < 0) return;
  e.card.push_back({what, amount->rounded(), static_cast<int64_t>(amount->error), amount->printed});
}

void DivideCard(OomExplanation& e) {
  using What = OomPart::What;
  const OomFacts& f = e.facts;
  if (!f.total) return;
  e.card_bytes = f.total->rounded();
  e.card_text = ToString(*f.total);
  if (IsHostMemory(e.message.format->family)) {
    AddPart(e, What::kHeld, f.used ? f.used : f.allocated);
    AddPart(e, What::kFree, f.used ? std::optional(*f.total - *f.used) : f.free);
    return;
  }
  AddPart(e, What::kTensors, f.allocated);
  AddPart(e, What::kCached, f.cached);
  AddPart(e, What::kContext, f.context);
  const bool is_theano = !f.allocated && f.free;  // and others that say no more
  if (is_theano && !f.others) AddPart(e, What::kHeld, *f.total - *f.free);
  AddPart(e, OthersAlone(e) ? What::kOthers : What::kOthersAndContext, f.others);
  if (f.used && e.card.empty()) AddPart(e, What::kHeld, f.used);
  AddPart(e, What::kFree, f.free);
  int64_t rest = e.card_bytes;
  for (const OomPart& part : e.card) rest -= part.bytes;
  const bool is_told = f.free && (f.reserved || is_theano);
  if (!is_told && rest > 0) e.card.push_back({What::kUntold, rest, 0});
}

// Whether what was asked for may be a tensor, and not a server's pool, a builder's workspace, or
// anything of a program that is not known.
bool AsksForTensor(const OomExplanation& e) {
  const OomFormat& format = *e.message.format;
  constexpr OomFamily kOthers[] = {OomFamily::kVllm, OomFamily::kLlamaCpp, OomFamily::kTensorRt};
  if (std::ranges::find(kOthers, format.family) != std::end(kOthers)) return false;
  const OomResource resource = e.facts.resource;
  const bool is_memory = IsAllMemory(resource) || resource == OomResource::kBuffer;
  return is_memory && format.rank != OomRank::kLoose && HoldsTensors(format);
}

}  // namespace

std::string SizeOf(const OomPart& part) {
  return part.printed.empty() ? FormatBytes(part.bytes) : part.printed;
}

std::string_view ToString(OomPart::What what) { return kPartNames[static_cast<size_t>(what)]; }

OomExplanation ExplainOom(const ProcessOom& process) {
  OomExplanation e = {.message = process.message,
                      .more = process.more,
                      .facts = FactsOf(process.message),
                      .judgement = {}};
  e.judgement = Judge(e.message, e.facts);
  Summarize(e);
  DivideCard(e);
  if (e.facts.tried && AsksForTensor(e)) e.request = RequestOf(e.message);
  e.remedies = RemediesFor(e.message, e.facts, e.judgement);
  e.commands = CommandsFor(e.message, e.facts, e.judgement);
  AddNotes(e);
  const std::vector<std::string> beside = NotesOfMachine(process.machine, e.message);
  e.notes.insert(e.notes.end(), beside.begin(), beside.end());
  return e;
}

}  // namespace onnxfit
