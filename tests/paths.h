// Where the build has put things.  One object knows it: the others are alike in every clone, so
// that a compiler cache has them.
#pragma once

namespace onnxfit {

extern const char* const kSourceDir;     // of the repository; absolute, without a slash at its end
extern const char* const kCountingNvml;  // libraries that counting_nvml.cc becomes
extern const char* const kOldNvml;

}  // namespace onnxfit
