// Advice as a part of a page: what to type, what it gives, what it costs.
#pragma once

#include <string>
#include <vector>

#include "estimator/fit/advice.h"
#include "estimator/report/text.h"

namespace onnxfit {

// "What would make it fit", of largest batches "What would raise it": at most options.rows entries
// of two lines and more, at most 80 columns wide, then what does not help, a sentence each.  ""
// where there is none.  Begins with an empty line.
std::string AdviceText(const std::vector<Advice>& advice, const TextOptions& options = {});

}  // namespace onnxfit
