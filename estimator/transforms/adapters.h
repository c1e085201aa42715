// Low-rank adapters that peft puts beside layers: LoRA.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/program/module_tensors.h"
#include "estimator/program/program.h"

namespace onnxfit {

// What peft's target_modules stands for as one word: every linear layer but the output embedding.
inline constexpr char kAllLinear[] = "all-linear";

// Puts adapters beside the linear layers that settings.lora picks; "q_proj" picks all layers whose
// last name that is, as in peft.  `model_type` ("gpt2") decides where nobody picked.  Returns the
// adapters' tensors, which alone are trained: in the module's order, a layer's A before its B,
// rank · (in + out) elements a layer.
// Source: peft 0.21.2, tuners/lora/layer.py (Linear.forward), tuners/tuners_utils.py.
// Throws Error where no layer is picked.  O(calls × depth of modules).
// REQUIRES: all of the module's parameters are frozen; names have their deaths.
std::vector<ModuleTensor> AddAdapters(Program& program, const TrainingSettings& settings,
                                      std::string_view model_type, const std::string& path);

// "gpt2" of classes such as transformers.models.gpt2.modeling_gpt2.GPT2Model; "" of others.
std::string_view ModelTypeOf(std::string_view class_name);

}  // namespace onnxfit
