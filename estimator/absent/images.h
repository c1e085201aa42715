// Which of a kernel's compiled images a card runs.  CUB launches for the architecture that the
// image was compiled for, and knows none but those: on a card of 8.9 PyTorch 2.11 runs images
// of 8.6, and `cumsum` told of 8.9 ends with "invalid device function".
#pragma once

#include <optional>
#include <vector>

namespace onnxfit::absent {

// One of a fat binary's: machine code, or PTX, which the driver compiles for the card.
struct Image {
  bool is_ptx = false;
  bool is_for_one = false;  // sm_90a: code for that card alone
  int capability = 0;       // times ten: 86 of 8.6

  bool operator==(const Image&) const = default;
};

// What a program says as it is loaded: `wrapper` is what nvcc writes for a file's kernels
// (__fatBinC_Wrapper_t of fatbinary_section.h), and `function` how the host calls a kernel of it.
// The wrapper stays where it is.
void RegisterKernel(const void* wrapper, const void* function);

// All images of a wrapper; none where it is not laid out as those of CUDA 13.0 are.
std::vector<Image> ImagesOf(const void* wrapper);

// The image that the driver takes for a card of this capability: the machine code of the same
// generation that is newest and not newer than the card, else the newest PTX (CUDA C++ Programming
// Guide, "Binary Compatibility" and "PTX Compatibility").  Nullopt where none runs there.
std::optional<Image> ChosenImage(const std::vector<Image>& images, int capability);

// Of a kernel that was registered.
std::optional<Image> ImageOf(const void* function, int capability);

}  // namespace onnxfit::absent
