// What is known of libraries and no file says: every fact about transformers, torchvision, timm and
// diffusers that recovery takes for true, with the version in which it was seen.  Internal to the
// room recover/.
#pragma once

#include <string>
#include <vector>

namespace onnxfit {

// Whether the library that has a dropout makes it with a p of 0 unless it is told another one, by
// the classes of the modules around it, outermost first, as torch.export names them.  `weighs`: it
// is one of attention's weights.
bool NeverDropsOut(const std::vector<std::string>& classes, bool weighs);

}  // namespace onnxfit
