// What all formats of a check say, in the same words.  Internal to the room report/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/fit/check.h"

namespace onnxfit {

// "PASS", "WARN", "FAIL", "NEW", "GONE", "OFF", "ERROR": logs are searched for them.
std::string_view StatusWord(CheckStatus status);

// "FAIL: 1 fail, 1 new, 4 pass": all of a run in a line; PASS, WARN, FAIL or ERROR.
std::string SummaryLine(const CheckAnswer& answer);

// "grew by 392.0 MiB (+24.1%) at layer1.*/relu (3), 0 B allowed": one row's reason in a
// line, without its name; for a row that passes "1.6 GiB, as before".  Plain text.
std::string Headline(const CheckRow& row);

// All reasons (what Headline says is the first), up to `most` of the places that grew
// ("+196.0 MiB layer1.*/relu (3)"), settings that changed, the config's message: a line each.
std::vector<std::string> Details(const CheckRow& row, size_t most = 10);

// "+196.0 MiB", "-12.0 KiB", "+0 B".
std::string SignedBytes(int64_t bytes);

// "+24.1%" of `old_bytes`, ">1000%", "" where they are 0.
std::string SignedShare(int64_t increase, int64_t old_bytes);

// Where most of a change is: "at layer1.*/relu (3)", or, where no node changed that way, "in cached
// memory"; "" where nothing is known of it.
struct MostChanged {
  std::string where = {};
  int64_t increase = 0;
};
MostChanged MostChangedOf(const Comparison& comparison);

// "batch was 8 and is 16".
std::string SettingText(const ChangedSetting& setting);

// "layer1.*/relu (3)", "old -> new" where it was renamed.
std::string NameOf(const ChangedPlaces& places);

}  // namespace onnxfit
