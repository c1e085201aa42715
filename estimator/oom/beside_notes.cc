// What tables beside a message add to it.
#include <fmt/format.h>

#include <algorithm>

#include "estimator/oom/beside.h"
#include "estimator/oom/formats.h"

namespace onnxfit {
namespace {

bool IsOfCard(const OomMessage& message) {
  return !IsHostMemory(message.format->family) && !IsOfHost(message.format->resource);
}

// A message that says nothing of the card's size, and no sign of something else.
bool LacksNumbers(const OomMessage& message) {
  const OomRank rank = message.format->rank;
  const bool is_bare = rank == OomRank::kBare || rank == OomRank::kDisguise;
  return is_bare && !message.Size(OomField::kTotal) && !message.Size(OomField::kTried);
}

std::string ProcessesText(const MachineBeside& machine, int64_t card) {
  std::string text;
  for (const ProcessBeside& process : machine.processes) {
    if (process.card != card) continue;
    text +=
        fmt::format("{} process {}{} {}", text.empty() ? ":" : ",", process.pid,
                    process.name.empty() ? "" : " (" + process.name + ")", ToString(process.bytes));
  }
  return text;
}

// Cards beside the message's with nothing on them.
std::string EmptyCards(const MachineBeside& machine, const CardBeside& card) {
  std::string text;
  for (const CardBeside& other : machine.cards) {
    if (other.index == card.index || other.IsInUse()) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ",", other.index);
  }
  return text;
}

void AddCardNotes(const MachineBeside& machine, const OomMessage& message,
                  std::vector<std::string>& notes) {
  const CardBeside* card = machine.CardOf(message);
  if (card == nullptr) return;
  notes.push_back(fmt::format("nvidia-smi beside it shows {} of {} in use on GPU {}{}.",
                              ToString(card->used), ToString(card->total), card->index,
                              ProcessesText(machine, card->index)));
  if (!card->IsInUse()) {
    notes.emplace_back(
        "The card was nearly empty then: what fills it is this program, if the table is of a time "
        "when it did not run.");
    return;
  }
  if (!message.others.empty()) {
    notes.emplace_back(
        "If one of them is this program, the table is of a time when it ran: then its own memory "
        "filled the card.");
  }
  const std::string empty = EmptyCards(machine, *card);
  if (!empty.empty()) {
    notes.push_back(fmt::format("There is room elsewhere: CUDA_VISIBLE_DEVICES={}.", empty));
  }
}

void AddRamNotes(const MachineBeside& machine, std::vector<std::string>& notes) {
  if (machine.ram) {
    std::string text =
        fmt::format("The table beside it shows {} of RAM in all", ToString(*machine.ram));
    if (machine.available) text += fmt::format(", {} available", ToString(*machine.available));
    if (machine.swap) text += fmt::format("; swap {}", ToString(*machine.swap));
    if (machine.swap && machine.swap_used) {
      text += fmt::format(", {} of it in use", ToString(*machine.swap_used));
    }
    notes.push_back(text + ": what a process held that was ended is free again by then.");
  }
  if (machine.ram_used) {
    notes.push_back(fmt::format("DeepSpeed last told of {} of RAM in use ({}).",
                                ToString(*machine.ram_used), machine.ram_share));
  }
  if (machine.large) {
    notes.push_back(fmt::format(
        "tcmalloc tells of {} ({} bytes) in one allocation: so much one array or list took, not "
        "all that the program did.",
        ToString(*machine.large), machine.large->bytes));
  }
}

void AddCard(const MachineBeside& machine, const CardBeside& card, OomMessage& message) {
  message.Size(OomField::kTotal) = card.total;
  if (!card.IsInUse()) return;
  message.Size(OomField::kUsed) = card.used;
  message.Size(OomField::kFree) = card.Free();
  for (const ProcessBeside& process : machine.processes) {
    if (process.card == card.index) message.others.push_back({process.pid, process.bytes});
  }
}

}  // namespace

void AddMachine(const MachineBeside& machine, OomMessage& message) {
  if (IsOfCard(message)) {
    const CardBeside* card = machine.CardOf(message);
    if (card != nullptr && LacksNumbers(message)) AddCard(machine, *card, message);
    return;
  }
  const bool is_refused = message.Size(OomField::kTried) && !message.Size(OomField::kTotal) &&
                          IsAllMemory(message.format->resource);
  if (is_refused && machine.ram) message.Size(OomField::kTotal) = machine.ram;
}

std::vector<std::string> NotesOfMachine(const MachineBeside& machine, const OomMessage& message) {
  std::vector<std::string> notes;
  if (IsOfCard(message)) {
    AddCardNotes(machine, message, notes);
  } else {
    AddRamNotes(machine, notes);
  }
  return notes;
}

}  // namespace onnxfit
