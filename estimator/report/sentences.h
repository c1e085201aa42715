// What all reports say of a run in the same words: its settings, its verdicts, what would change
// them.  Internal to the room report/.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "estimator/advise/advice.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/verdict.h"
#include "estimator/report/formats.h"
#include "estimator/report/layout.h"

namespace onnxfit {

// What was asked of a run, in the words of the flags: "batch 8, seq=512, fp32, adamw", for the
// first line.
std::string SettingsText(const Estimate& estimate);

// The same without the batch, which is looked for.
std::string RunText(const TrainingSettings& settings, const std::map<std::string, int64_t>& dims);

// What else is not the default and has a say in the mode: "accumulate 4, freeze layer1.*"; "" for
// nothing.
std::string ChangesText(const Estimate& estimate);
std::string ChangesText(const TrainingSettings& settings, const std::string& alloc_conf);

// "FITS", "TIGHT", "OOM"
std::string VerdictWord(Verdict verdict);

// The colour of that word.
std::string_view VerdictPaint(Verdict verdict);

// A card's name in what `line`, without it, leaves of 80 columns.
std::string NameBeside(std::string_view line, std::string_view name, const TextOptions& options);

// "12.3 GiB of 14.6 GiB, 84.5% (12.2–12.4 GiB)": used of usable, and its range where it has one.
std::string UsedText(const Judgement& judgement, const Glyphs& glyphs);

// " (12.2–12.4 GiB)"; "" where both read alike.
std::string InBrackets(int64_t low_bytes, int64_t high_bytes, const Glyphs& glyphs);

// "fails in step 2, backward, at NODE: 98.0 MiB asked, 12.0 MiB short"
std::string FailureText(const Failure& failure);

// "up to 169 it is TIGHT: the card is full 3 times in 10 steps: …": a size, and its reasons.
std::string TightUpToText(int64_t size, const Judgement& judgement);

// "FITS on t4: 12.3 GiB of …", a line of at most 80 columns with its newline.
std::string VerdictLine(const JudgedTarget& judged, const TextOptions& options);

// What does not hold, where it fails, how many fit side by side, who has a share of the card
// first; "" for nothing.
std::string VerdictDetails(const JudgedTarget& judged, const TextOptions& options);

// Advice as a part of a page, what to type, what it gives, what it costs: "What would make it fit",
// of largest batches "What would raise it": at most options.rows entries of two lines and more, at
// most 80 columns wide, then what does not help, a sentence each.  "" where there is none.  Begins
// with an empty line.
std::string AdviceText(const std::vector<Advice>& advice, const TextOptions& options = {});

}  // namespace onnxfit
