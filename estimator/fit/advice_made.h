// Changes whose flags or cost depend on the model.  Internal to the room fit/.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimator/fit/advice_change.h"

namespace onnxfit {

// Those that apply: growing segments, optimizers with less state, frozen modules, smaller sizes.
std::vector<Change> MadeChanges(const AdviceCase& c);

// A parameter, as far as freezing goes.
struct NamedCount {
  std::string name;
  int64_t numel = 0;
};

// All parameters but those of the last modules, as globs.
struct FrozenGlobs {
  std::vector<std::string> globs;
  std::vector<std::string> kept;  // the modules that still learn
  int64_t learning = 0;           // elements of these
};

// "model.fc", "wte, h.11 and ln_f", "a, b, c and 4 more": what still learns.
std::string KeptText(const FrozenGlobs& found);

// Keeps the last module, and those before it until one part in 200 learns.  nullopt where that is
// all, or where it takes more than four globs.
std::optional<FrozenGlobs> GlobsBeforeLast(std::span<const NamedCount> parameters);

}  // namespace onnxfit
