// Which tensors Inductor has in the memory format channels_last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "estimator/program/program.h"

namespace onnxfit {

// Calls before `model_end`, and what they read so: the images and weights of convolutions, where
// decide_layout_opt (torch/_inductor/graph.py, pytorch v2.11.0) is for it.  It counts the nodes of
// a decomposed graph; here they are calls.
std::vector<std::pair<int32_t, NameId>> ReadInChannelsLast(const Program& program,
                                                           size_t model_end);

}  // namespace onnxfit
