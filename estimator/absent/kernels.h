// Kernels, which do nothing here.
#pragma once

namespace onnxfit::absent {

// Forgets what is known of the memory whose addresses are among a kernel's arguments: it may have
// been written.  `arguments` points to each of them; how many there are, and how large each is,
// nobody says, so words are looked at as far as the caller's stack or the next argument goes.
// `extra` is the other way to hand them over (cuLaunchKernel).  Either may be null; what is not
// mapped is not read.
void NoteLaunch(void** arguments, void** extra = nullptr);

}  // namespace onnxfit::absent
