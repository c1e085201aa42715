// What each module of the model takes at the peak.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace onnxfit {

struct Prediction;
struct Timeline;

// A module with all that is in it.
struct ModuleSum {
  std::string path;              // "transformer.h.0.attn"; "" of the model itself
  size_t depth = 0;              // 0 of the model
  int64_t parameters = 0;        // elements, of tied ones those of the first name
  int64_t weight_bytes = 0;      // parameters and buffers
  int64_t training_bytes = 0;    // gradients and optimizer state
  int64_t activation_bytes = 0;  // made in it, and alive at the peak: temporaries, too
  int64_t other_bytes = 0;       // inputs and workspaces, of the model alone

  int64_t bytes() const { return weight_bytes + training_bytes + activation_bytes + other_bytes; }
};

// The model, then its modules, each before those in it, in the order in which they first asked for
// memory.  Those that have nothing at the peak are left out.  The first adds up to
// timeline.exact_at_peak; a module to no less than those in it.  What the loss makes, and files
// that name no modules, belong to the model itself.  A name that all paths begin with ("model.") is
// left off.  O(buffers alive at the peak × depth × modules side by side).
std::vector<ModuleSum> SumModules(const Prediction& prediction, const Timeline& timeline);

// Behind the last module in the one at `place`.  O(modules in it).
size_t EndOfModule(const std::vector<ModuleSum>& modules, size_t place);

// Where the modules directly in the one at `place` stand, in their order.  O(modules in it).
std::vector<size_t> ModulesIn(const std::vector<ModuleSum>& modules, size_t place);

// What the module at `place` has beside those in it.  O(modules in it).
ModuleSum OwnOf(const std::vector<ModuleSum>& modules, size_t place);

// At most `most` of `modules`, as SumModules lists them, that lie apart, largest first: those in
// the model itself or, where one of them has more than half of all and is no list, those in that:
// most of it has to be in them. O(modules × depth).
std::vector<ModuleSum> LargestModules(const std::vector<ModuleSum>& modules, size_t most);

}  // namespace onnxfit
