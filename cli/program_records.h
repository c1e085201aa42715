// What the processes of a run wrote into its folder.
#pragma once

#include <string>
#include <vector>

#include "estimator/report/program_run.h"

namespace onnxfit {

// The most that all processes held of the card at that place, contexts included.
int64_t PeakBytes(const std::string& folder, size_t place);

// From the processes' events: requests that a full card refused, the largest first; functions that
// nobody knows, and whose scratch nobody knows, sorted.
struct DeviceRecords {
  std::vector<std::vector<int64_t>> refused = {};  // by place
  std::vector<std::string> unknown_functions = {};
  std::vector<std::string> unknown_sizes = {};
  bool touched = false;  // some process used a card
};
DeviceRecords ReadDeviceRecords(const std::string& folder, size_t cards);

// Those that used PyTorch on a card, by rank and process.
std::vector<ProgramProcess> ReadProcesses(const std::string& folder);

}  // namespace onnxfit
