// How much of each card is taken: one count for all processes of a run.
#pragma once

#include <cstdint>

#include "estimator/absent/run_folder.h"

namespace onnxfit::absent {

// Takes bytes of the card at `place` for this process, or nothing where they are not left.  What
// processes held that have ended is given back first.
bool TakeBytes(int place, int64_t bytes);
void GiveBytes(int place, int64_t bytes);

int64_t FreeBytes(int place);

// What processes held that have ended otherwise than by their destructors: killed, or by _exit, as
// children of Python's multiprocessing do.
void GiveBackOfEnded();

// All places, and the cards' counts, as NVML tells them.
const SharedCounts& Counts();

// Whether the process of that place still runs.
bool IsRunning(const SharedProcess& process);

// So many more bytes of the host are this process's, or less.
void CountHost(HostMemory kind, int64_t more);

// One more context of this process on the card, or one less.
void CountContexts(int place, int more);

// One more of NCCL's communicators of this process on the card, or one less.
void CountCommunicators(int place, int more);

}  // namespace onnxfit::absent

// For who tells what a part of the program took (hook/phases.py): what this process holds of a
// card, by its own number of it, its contexts included; and in `most` the most since the last such
// call.
extern "C" int64_t onnxfit_held_bytes(int device, int64_t* most);
