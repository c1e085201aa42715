// What `onnxfit run` and the card that is not there tell one another: files in the run's folder.
// Both sides include this; it needs libc alone.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cstdint>
#include <cstdio>

namespace onnxfit::absent {

// The variable that names the folder, for the program and all that it starts.
inline constexpr const char* kFolderVariable = "ONNXFIT_RUN";

// The folder below it of what Python gets, and the variable by which Python finds it.
inline constexpr const char* kHooksFolder = "hook";
inline constexpr const char* kPythonVariable = "PYTHONPATH";

// A line for each card: name, compute capability times ten, multiprocessors, threads of each,
// bytes that CUDA shows of it, bytes of a process's context, bytes of its L2, bits of its memory's
// bus; with tabs between.
inline constexpr const char* kCardsFile = "cards";

// The driver's files of these cards, each below it: "nvidia0", "nvidiactl".  What the program calls
// /dev/nvidia… is <run's folder>/dev/nvidia….
inline constexpr const char* kDeviceFolder = "dev";

// What the program wrote apart from the user's files, each below it by its own path (kept_rule.h).
inline constexpr const char* kSavedFolder = "saved";

// SharedCounts, mapped by every process.
inline constexpr const char* kCountsFile = "counts";

// "PID.events": what the process asked the card for, a line each (events.h).
inline constexpr const char* kEventsEnding = ".events";

// "PID.python": the hooks are in that process, which is Python's.  "PID.hook.txt": what failed in
// them, a name and a traceback each.
inline constexpr const char* kPythonEnding = ".python";
inline constexpr const char* kFailuresEnding = ".hook.txt";

// An empty file, there once the program is about to be ended: processes of Python write what they
// know at once, since servers often kill their helpers.
inline constexpr const char* kEndsFile = "ends";

// A socket where the command answers what libraries ask for (estimator/workspaces/asked_sizes.h).
inline constexpr const char* kAsksSocket = "asks";

// Its address, in the folder that is open as this number: a socket's path has room for 108 bytes.
inline sockaddr_un AsksAddress(int folder) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", folder,
                kAsksSocket);
  return address;
}

inline constexpr int kMostCards = 16;
inline constexpr int kMostProcesses = 512;

// What is open on each card, and takes memory that nobody knows to the byte.
struct SharedOpen {
  std::atomic<int32_t> contexts[kMostCards];
  std::atomic<int32_t> communicators[kMostCards];  // of NCCL's
};

// Memory of the host that CUDA hands out: what a card reads in its place, and what moves to and
// fro.
enum HostMemory : int { kPinnedMemory, kManagedMemory, kHostMemories };

// One process on all cards.  A free place has no pid.
struct SharedProcess {
  std::atomic<int32_t> pid;
  std::atomic<int64_t> bytes[kMostCards];  // held now, its contexts included
  std::atomic<int64_t> host_bytes[kHostMemories];
  SharedOpen open;
};

// Zeros are a run that has not begun.
struct SharedCounts {
  std::atomic<int64_t> bytes[kMostCards];  // of all processes
  std::atomic<int64_t> peak_bytes[kMostCards];
  SharedOpen open;
  SharedOpen open_at_peak;
  std::atomic<int64_t> host_bytes[kHostMemories];  // of all processes
  std::atomic<int64_t> host_peak_bytes[kHostMemories];
  SharedProcess processes[kMostProcesses];
};

static_assert(std::atomic<int64_t>::is_always_lock_free);

}  // namespace onnxfit::absent
