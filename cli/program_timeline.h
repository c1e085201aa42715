// What a process of a run had in tensors over its time, as a drawing for a terminal.
#pragma once

#include "estimator/picture/terminal.h"
#include "estimator/report/program_run.h"

namespace onnxfit {

// In the points of a terminal, of each slice of the curve the most, so that no peak is lost; turns
// of the loop are marked.  REQUIRES: the curve has points.
TimelinePlot PlotOf(const RunCurve& drawn);

}  // namespace onnxfit
