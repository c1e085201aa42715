// A driver's management library of the tests' own (counting_nvml.cc), which says what a test sets
// and counts who has it open.
#pragma once

#include <string>
#include <vector>

namespace onnxfit {

struct NvmlEntry {
  unsigned int pid = 0;
  unsigned long long bytes = 0;
  unsigned int gpu_instance = ~0u;
};

// What the one card of the library says.  A status is NVML's: 0 is success.
struct NvmlScene {
  int init_status = 0;
  int list_status = 0;
  int name_status = 0;
  bool long_entries = false;            // of 32 bytes, as drivers of 535.54 write them
  int growing = 0;                      // so many calls find more processes than before
  std::string bus_id = "0000:65:00.0";  // the only one that is found
  std::string driver = "580.65.06";
  std::string name_prefix = "/usr/bin/p";  // of the process 7: "/usr/bin/p7"
  unsigned long long total_bytes = 0;
  std::vector<NvmlEntry> compute = {};
  std::vector<NvmlEntry> graphics = {};
  int open = 0;   // nvmlInit_v2 less nvmlShutdown
  int named = 0;  // calls for a name
};

}  // namespace onnxfit

// The library's own, for tests to set.
extern "C" onnxfit::NvmlScene* TheNvmlScene();
