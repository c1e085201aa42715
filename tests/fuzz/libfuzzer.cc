// What libFuzzer calls (LLVM, FuzzerInterface.h).
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/fuzz/targets.h"

namespace onnxfit::fuzz {
namespace {

std::string TextOf(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// What does not fit is cut off.
size_t Give(const std::string& text, uint8_t* out, size_t most) {
  const size_t size = std::min(text.size(), most);
  std::copy_n(text.begin(), size, out);
  return size;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  OpenTarget(std::vector<std::string>(*argv, *argv + *argc));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  RunTarget(TextOf(data, size));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most,
                                          unsigned int seed) {
  Random random(seed);
  return Give(MutateTarget(TextOf(data, size), most, random), data, most);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data, size_t size, const uint8_t* other,
                                            size_t other_size, uint8_t* out, size_t most,
                                            unsigned int seed) {
  Random random(seed);
  return Give(CrossTarget(TextOf(data, size), TextOf(other, other_size), random), out, most);
}

}  // namespace onnxfit::fuzz
