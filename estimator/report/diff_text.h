// What grew, as a page for people.
#pragma once

#include <string>

#include "estimator/fit/diff.h"
#include "estimator/report/text.h"

namespace onnxfit {

// The whole change, then what grew most, then both sides; below it kinds and nodes, of these
// options.rows.  At most 80 columns wide, every line with its newline.
std::string ToText(const Diff& diff, const TextOptions& options = {});

// "grew by 392.0 MiB (+24.1%), from 1.6 GiB to 2.0 GiB", "takes 1.6 GiB, as before".
std::string ChangeText(const Comparison& comparison);

// "the model is asked what the report was: --batch 32", "" where nothing was taken from one.
std::string TakenText(const Diff& diff);

// "the peak moved from backward at /conv1 to forward at /fc", and what that means for nodes that
// are at one of the two alone; "" where it did not move.
std::string MovedText(const Comparison& comparison);

}  // namespace onnxfit
