// What people paste beside a message: the tables of nvidia-smi, gpustat and free, lines of top,
// /proc/meminfo and tcmalloc.  Internal to the room oom/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/oom/message.h"
#include "estimator/oom/printed_bytes.h"

namespace onnxfit {

// A card as nvidia-smi shows it.
struct CardBeside {
  int64_t index = 0;
  PrintedBytes used;
  PrintedBytes total;

  PrintedBytes Free() const;
  bool IsInUse() const;  // by more than a desktop: a fifth of it, or 1.5 GiB
};

// A process on a card, as nvidia-smi lists it.
struct ProcessBeside {
  int64_t card = 0;
  int64_t pid = 0;
  std::string name = {};  // "python3"
  PrintedBytes bytes;
};

// Of each number the last one of the log.
struct MachineBeside {
  std::vector<CardBeside> cards = {};  // by index
  std::vector<ProcessBeside> processes = {};
  std::optional<PrintedBytes> ram = {};        // all of it
  std::optional<PrintedBytes> available = {};  // of RAM
  std::optional<PrintedBytes> swap = {};
  std::optional<PrintedBytes> swap_used = {};
  // As DeepSpeed tells: "CPU Virtual Memory:  used = 29.71 GB, percent = 95.3%".
  std::optional<PrintedBytes> ram_used = {};
  std::string ram_share = {};              // "95.3%"
  std::optional<PrintedBytes> large = {};  // the largest allocation that tcmalloc tells of

  // The card that a message is about: the one that it names, else the first; null without any.
  const CardBeside* CardOf(const OomMessage& message) const;
};

// One pass over the lines around messages, some 30 instructions a byte.
MachineBeside ReadBeside(std::string_view log);

// Gives a message without numbers those of the card that nvidia-smi shows, and one that was refused
// RAM the machine's.
void AddMachine(const MachineBeside& machine, OomMessage& message);

// Sentences of what stands beside the message.
std::vector<std::string> NotesOfMachine(const MachineBeside& machine, const OomMessage& message);

}  // namespace onnxfit
