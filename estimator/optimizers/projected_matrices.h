// Which matrices GaLore projects the gradients of: those of linear layers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Where nobody picked: as torchrun_main.py of jiaweizzhao/GaLore has them.
inline constexpr std::string_view kGaLoreTargets[] = {"attn", "mlp"};

// In the order of the layers.  A name picks the layers that have it in theirs; "all-linear" is
// every linear layer, a head too, unless an embedding's table is its weight.  transformers' Trainer
// takes nn.Linear alone, and not its Conv1D. Source: transformers 5.17.0, trainer_optimizer.py
// (_setup_low_rank_optimizer), trainer_utils.py (check_target_module_exists). Throws Error where no
// layer is picked.  O(calls × depth of modules). REQUIRES: the program is not dispatched, ties are
// joined.
std::vector<ProjectedMatrix> MatricesToProject(const Program& program,
                                               const TrainingSettings& settings,
                                               const std::string& file);

}  // namespace onnxfit
