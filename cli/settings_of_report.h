// A model beside a report: it is asked what the report's model was asked.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "estimator/fit/snapshot.h"

namespace onnxfit {

struct AskedAlike {
  EstimateRequest request;
  std::vector<std::string> flags = {};  // that were taken and are no defaults: "--batch 32"
};

// The request of `options` with the flags that `report` was made with, where nobody says
// otherwise.  What was measured on a card (--calibration) and shapes of inputs (--shape) are not
// taken.  Throws Error where a flag of the report is none of this version's.
AskedAlike AskAsReport(const Snapshot& report, const Options& options);

}  // namespace onnxfit
