// What our warnings and verdicts mean, at length: for `onnxfit explain CODE`.
#pragma once

#include <span>
#include <string_view>

namespace onnxfit {

struct WarningText {
  std::string_view code;   // of warnings.h; of a verdict its word, "TIGHT"
  std::string_view title;  // in a few words
  std::string_view means;  // what was found, and what it does to the answer
  std::string_view todo;   // what settles it
};

// All of them, in the order of their codes.
std::span<const WarningText> WarningTexts();

// FITS, TIGHT and OOM, and VERDICT, which is what all of them are.
std::span<const WarningText> VerdictTexts();

// Of either.  nullptr for a code that none has.
const WarningText* FindWarningText(std::string_view code);

}  // namespace onnxfit
