// What the end of a process of a run is taken for, by its message.
#include "cli/program_lines.h"

#include <doctest/doctest.h>

namespace onnxfit::program_lines_test {
namespace {

TEST_CASE("memory of a card is told from the machine's") {
  struct Row {
    const char* message;
    bool is_oom;  // of a card
    bool is_explained;
  };
  const Row rows[] = {
      {"CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 14.56 GiB of "
       "which 1.00 GiB is free. Of the allocated memory 13.00 GiB is allocated by PyTorch, and "
       "20.00 MiB is reserved by PyTorch but unallocated.",
       true, true},
      {"CUDA error: out of memory", true, true},
      {"[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: "
       "you tried to allocate 4503599627370496 bytes. Error code 12 (Cannot allocate memory)",
       false, true},
      {"Unable to allocate 8.00 TiB for an array with shape (1099511627776,) and data type int64",
       false, true},
      {"[Errno 28] No space left on device", false, true},
      {"no labels", false, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.message);
    ProgramProcess process = {.message = row.message};
    ExplainEnd(process);
    CHECK(process.is_oom == row.is_oom);
    CHECK(process.oom.empty() != row.is_explained);
  }
}

}  // namespace
}  // namespace onnxfit::program_lines_test
