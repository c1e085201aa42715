// What tables over several runs say, whatever they are made of.  Internal to the room report/.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/fit/sweep.h"

namespace onnxfit {

// What varies in a table over combinations, in the order of the columns: "batch", "seq",
// "precision".
std::vector<std::string> AxisNames(const Sweep& sweep);

// Their values in one row.
std::vector<std::string> AxisValues(const Sweep& sweep, const SweepRow& row);

// 'r' for sizes, 'l' for names.
std::string AxisAlign(const Sweep& sweep);

// "2 batches × 3 precisions".
std::string SweptText(const Sweep& sweep, std::string_view times);

// What does not vary, and what else is not the default: "batch 8, adamw, accumulate 4".
std::string FixedText(const SweepAnswer& answer);

// "2 OOM, 1 TIGHT, 3 FITS", "FITS in all 6", "" without targets.
std::string VerdictsText(const SweepSummary& summary);

// "71.3%" of what a target lets a process have.
std::string TargetShare(const Judgement& judgement);

// "device 2.01 to 6.93 GiB".
std::string DeviceText(const SweepSummary& summary);

// A sentence that some estimates share.
struct Remark {
  std::string code;  // of a warning, "" for other sentences
  std::string text;
  std::string where;  // "batch 8, 16; bf16": the rows that it is about, "" for all
};

// Each sentence once, with ranges where rows differ in its numbers alone: those of all rows first,
// then those of some, `most` at most; `left_out` is how many more there are.
struct Remarks {
  std::vector<Remark> shown;
  size_t left_out = 0;
};
using WarningsFunction = std::vector<Warning> (*)(const Estimate& estimate);
Remarks RemarksOf(const SweepAnswer& answer, WarningsFunction sentences_of, size_t most,
                  std::string_view dash);

// The sentences of an estimate; without a code they are assumptions and notes.
std::vector<Warning> AssumptionsOf(const Estimate& estimate);
std::vector<Warning> WarningsOf(const Estimate& estimate);
std::vector<Warning> NotesOf(const Estimate& estimate);

// The targets of a table: those of its first answer.
const std::vector<JudgedTarget>& TargetsOf(const SweepAnswer& answer);

// What follows tells sentences as one that differ in their numbers alone.

// A sentence taken apart at its numbers and sizes ("12", "46.9 MiB"); digits within names belong
// to the names.
struct NumberedText {
  std::string words;  // with a mark in the place of each number, another one for sizes
  std::vector<std::string> numbers = {};
};
NumberedText TakeApart(std::string_view text);

// The sentence again, with "28.1–93.8 MiB" where its numbers go from `low` to `high`.
// REQUIRES: as many of both as `words` has marks.
std::string PutTogether(std::string_view words, const std::vector<std::string>& low,
                        const std::vector<std::string>& high, std::string_view dash);

// Widens the range from `low` to `high`, number by number.
void Widen(const std::vector<std::string>& numbers, std::vector<std::string>& low,
           std::vector<std::string>& high);

// Each of `sentences` once, in the order in which they are first said, those of one code that
// differ in their numbers alone as one.
Warnings Merged(const Warnings& sentences, std::string_view dash);

// Whether "900.0 KiB" is less than "1.20 MiB".
bool IsLess(const std::string& a, const std::string& b);

}  // namespace onnxfit
