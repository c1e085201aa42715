// Two answers side by side, asked the same: for diff and for a report of both.
#pragma once

#include <cstddef>
#include <string>

#include "cli/compared.h"
#include "cli/options.h"
#include "estimator/compare/compare.h"

namespace onnxfit {

struct ComparedSides {
  Side before;  // options.old_model
  Side after;   // options.model
  Diff diff;
};

// A model beside a report is asked what the report was; two models what the flags say.
// `curve_points`: of the models' curves; 0 for none.  `reading`: the file that an error is about,
// set while it is read.  Throws Error.
ComparedSides CompareSides(const Options& options, std::string& reading, size_t curve_points = 0);

// The cards' verdicts, where both sides have them, and whether it grew too much.
int ExitCodeOf(const Diff& diff, const Options& options);

}  // namespace onnxfit
