// What the processes of a run wrote into its folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/report/program_run.h"

namespace onnxfit {

// What all processes did to one card.
struct CardRecord {
  int64_t peak_bytes = 0;             // the most of all at once, contexts included
  int64_t contexts = 0;               // of processes that had one then
  int64_t communicators = 0;          // of NCCL's, then, of all processes
  std::vector<int64_t> refused = {};  // requests for which a full card had no room, largest first
};

// From the processes' counts and events: cards by place, functions that nobody knows, and whose
// scratch nobody knows, sorted.
struct DeviceRecords {
  std::vector<CardRecord> cards = {};
  int64_t pinned_peak_bytes = 0;   // of the host, the most of all processes at once
  int64_t managed_peak_bytes = 0;  // the same of cudaMallocManaged's
  std::vector<std::string> unknown_functions = {};
  std::vector<std::string> unknown_sizes = {};
  std::vector<std::string> failures = {};  // of the hooks in Python: "saves: KeyError: 'x'"
  int64_t unwatched = 0;                   // processes of Python on a card, without the hooks
  bool touched = false;                    // some process used a card

  bool is_any_full() const;
};
DeviceRecords ReadDeviceRecords(const std::string& folder, size_t cards);

// Those that PyTorch was in, by rank and process; those without `peaks` used no card.  With curves
// of so many `points`, if any.
std::vector<ProgramProcess> ReadProcesses(const std::string& folder, size_t points = 0);

// What frameworks other than PyTorch counted, by process.
std::vector<FrameworkCounts> ReadFrameworks(const std::string& folder);

// What an engine that serves language models said of itself, if one did.
std::optional<ServingEngine> ReadEngine(const std::string& folder);

// Files that the program wrote apart from the user's, as the user would call them from where the
// command was started: in the order of their last writing, those of hidden folders behind.
std::vector<std::string> ReadSaved(const std::string& folder);

// Files of the run's folder whose names end so, in their order.
std::vector<std::filesystem::path> FilesEnding(const std::string& folder, std::string_view ending);

// Where PyTorch's snapshot of that process is, if there is one: of its end, and of its peak where
// that lies so far back that the other has lost it (hook/pictures.py).
std::string SnapshotPath(const std::string& folder, const ProgramProcess& process);
std::string PeakSnapshotPath(const std::string& folder, const ProgramProcess& process);

}  // namespace onnxfit
