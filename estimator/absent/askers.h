// Who asks the card for memory, where no PyTorch records it.
#pragma once

#include <string>

namespace onnxfit::absent {

// Of the call that is being made: "p<tab>/me/train.py<tab>12", the innermost line of Python that is
// the user's own, else "c<tab>libtool.so<tab>Grow", the innermost function that is none of CUDA's
// libraries; "" where PyTorch is in the process.  REQUIRES: no lock of ours is held, since Python's
// may be waited for.
std::string Asker();

// Whether Python is in this process, whoever started it.
bool IsPython();

}  // namespace onnxfit::absent
