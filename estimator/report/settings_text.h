// What was asked of a run, in the words of the flags.  Internal to the room report/.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "estimator/fit/estimate.h"

namespace onnxfit {

// "batch 8, seq=512, fp32, adamw": for the first line.
std::string SettingsText(const Estimate& estimate);

// The same without the batch, which is looked for.
std::string RunText(const TrainingSettings& settings, const std::map<std::string, int64_t>& dims);

// What else is not the default and has a say in the mode: "accumulate 4, freeze layer1.*"; "" for
// nothing.
std::string ChangesText(const Estimate& estimate);
std::string ChangesText(const TrainingSettings& settings, const std::string& alloc_conf);

}  // namespace onnxfit
