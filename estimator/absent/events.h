// What a process asks the card for, written down as it happens: "PID.events" in the run's folder,
// a line each, "take 0 24189255811072 2097152": what, the card's place, an address or 0, bytes; and
// behind a tab who asked, where that is known (askers.h).
#pragma once

#include <cstdint>
#include <string>

namespace onnxfit::absent {

struct DeviceEvent {
  const char* what = "";  // "context", "take", "give", "full": no room for so many bytes
  int place = 0;
  uint64_t address = 0;
  int64_t bytes = 0;
  std::string asker = {};
};

void WriteEvent(const DeviceEvent& event);

// "unknown NAME": the program called a function that this card does not have.  Once for each name.
void WriteUnknown(const char* function);

// "missing NAME": the same, where the program has only asked for its address.
void WriteMissing(const char* function);

// "size NAME": somebody asked how much scratch a function takes, and was told none.
void WriteUnknownSize(const char* function);

// "python": Python is in this process.
void WritePython();

// "runtime FILE": that file of the program has NVIDIA's runtime linked into it, which finds no
// card.
void WriteOwnRuntime(const char* file);

}  // namespace onnxfit::absent
