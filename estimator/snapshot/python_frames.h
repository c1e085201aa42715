// Which lines of a recorded stack are the user's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/snapshot/memory_snapshot.h"

namespace onnxfit {

// Whether a frame of this file is of Python, not of C++: "net.py", "<stdin>".
bool IsPythonFile(std::string_view file);

// Whether it is PyTorch's own or the standard library's: a line of it says what was called, not who
// wanted it.
bool IsOfPyTorch(std::string_view file);

// The frames of `stack` that are not of PyTorch, innermost first: where a model's, or a loop's,
// author made what lives.  All of them where there are no others.
std::vector<FrameId> UserFrames(const MemorySnapshot& snapshot, StackId stack);

// "net.py" of "/home/me/net.py".
std::string_view FileNameOf(const SnapshotFrame& frame);

}  // namespace onnxfit
