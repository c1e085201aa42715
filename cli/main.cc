#include <malloc.h>

#include <iostream>
#include <string>
#include <vector>

#include "cli/run.h"

namespace {

// Programs and traces are large vectors that come and go: memory that was had once stays with
// the process, instead of being asked of the kernel, and cleared, each time.
void KeepMemory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

}  // namespace

int main(int argc, char** argv) {
  KeepMemory();
  const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  return onnxfit::Run(args, std::cout, std::cerr);
}
