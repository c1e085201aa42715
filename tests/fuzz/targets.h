// One target at a time, for whoever drives it: libFuzzer (libfuzzer.cc) or blind_main.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/mutate.h"

namespace onnxfit::fuzz {

// The target of --target=NAME, which is to be among `words`; without it, says which there are and
// ends the process.  Makes a folder of its own in TMPDIR.
void OpenTarget(const std::vector<std::string>& words);

// Runs the command on a file of these bytes; ends the process where that shows a mistake of ours.
void RunTarget(std::string_view bytes);

// `bytes` changed as its kind is, to `most` bytes at most.
std::string MutateTarget(const std::string& bytes, size_t most, Random& random);

// `bytes` with parts of `other`; as they are where the target's kind cannot be joined.
std::string CrossTarget(const std::string& bytes, const std::string& other, Random& random);

}  // namespace onnxfit::fuzz
