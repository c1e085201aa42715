// Why a program that was run never used a card.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/process.h"
#include "estimator/base/error.h"

namespace onnxfit {

// What is known of it.
struct UnusedCard {
  std::string program = {};   // as it was called
  std::string our_flag = {};  // "--steps", where a flag of onnxfit run is among its words
  ProgramEnd end = {};
  std::string torch = {};                   // version of its PyTorch, "" for none
  bool is_cpu_build = false;                // that PyTorch has no CUDA
  std::string own_runtime = {};             // OwnRuntime
  std::optional<std::string> visible = {};  // VisibleDevices
};

// The file that has NVIDIA's runtime linked into it, by what processes wrote into the run's folder;
// "" for none.
std::string OwnRuntime(const std::string& folder);

// The first of a program's words that is a flag of onnxfit run; "" for none.
std::string OurFlag(const std::vector<std::string>& words);

// CUDA_VISIBLE_DEVICES, where it hides all cards.
std::optional<std::string> VisibleDevices();

// One sentence, and what to try.
Error WhyUnused(const UnusedCard& card);

}  // namespace onnxfit
