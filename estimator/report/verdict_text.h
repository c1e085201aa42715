// A verdict in a line, and what there is to say about it.  Internal to the room report/.
#pragma once

#include <string>

#include "estimator/fit/judged_target.h"
#include "estimator/report/layout.h"
#include "estimator/report/text.h"

namespace onnxfit {

// "FITS", "TIGHT", "OOM"
std::string VerdictWord(Verdict verdict);

// The colour of that word.
std::string_view VerdictPaint(Verdict verdict);

// A card's name in what `line`, without it, leaves of 80 columns.
std::string NameBeside(std::string_view line, std::string_view name, const TextOptions& options);

// "12.3 GiB of 14.6 GiB, 84.5% (12.2–12.4 GiB)": used of usable, and its range where it has one.
std::string UsedText(const Judgement& judgement, const Glyphs& glyphs);

// "fails in step 2, backward, at NODE: 98.0 MiB asked, 12.0 MiB short"
std::string FailureText(const Failure& failure);

// "FITS on t4: 12.3 GiB of …", a line of at most 80 columns with its newline.
std::string VerdictLine(const JudgedTarget& judged, const TextOptions& options);

// What does not hold, where it fails, how many fit side by side, who has a share of the card
// first; "" for nothing.
std::string VerdictDetails(const JudgedTarget& judged, const TextOptions& options);

}  // namespace onnxfit
