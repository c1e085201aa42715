// What checks are compared with.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "estimator/fit/check.h"
#include "estimator/report/snapshot_json.h"

namespace onnxfit {

struct Baselines {
  std::string name;          // as sentences have it: "the lock", "git:main"
  std::string warning = {};  // why nothing is compared, where that is no error
  // What a check is compared with.  Throws Error.  Several threads may call it.
  std::function<Baseline(const Check&)> of;
};

// Nothing is compared, and nothing is new.
Baselines NoBaselines();

// What cannot be read, for the reason `why`: nothing is compared, and each run says so.
Baselines NoneFrom(const std::string& name, const std::string& why);

// The lock's, by names of checks; one of another onnxfit is a warning and compares nothing.
Baselines OfLock(const Lock& lock, const std::string& name);

// `against` is "git:REF" (each model as it was there, answered anew), a report or a table of them
// (one with the check's settings), another lock, or a model.  A model or report of another name
// serves where all checks are of one model.
// Throws Error where that cannot be read.  Models are those of `checks`; paths as typed.
Baselines OpenBaselines(const std::string& against, const std::vector<Check>& checks);

}  // namespace onnxfit
