// `onnxfit run --html`: one HTML file that shows a run of somebody's program.
#pragma once

#include <string>
#include <vector>

#include "estimator/report/program_run.h"
#include "estimator/report/program_search.h"

namespace onnxfit {

// The page, complete in one file and readable without its script, as ToHtml of an estimate: the
// verdicts, what had to end where, memory over the run by line, whose lines hold it, PyTorch's
// peaks by process and step, what stays open.  Of several runs, one is told in full, as in their
// text, and all have a row.  The element with the id "data" has what --format json prints, with the
// curves of the run that is told.  REQUIRES: a run.
std::string ProgramPage(const std::vector<ProgramRun>& runs, const std::string& version);

// The same of the largest batches: what was run to find them, and the run of the largest.
std::string ProgramPage(const std::vector<ProgramSearch>& searches, const std::string& version);

}  // namespace onnxfit
