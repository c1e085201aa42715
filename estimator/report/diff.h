// What grew between two answers, in all formats.
#pragma once

#include <string>

#include "estimator/compare/compare.h"
#include "estimator/report/formats.h"

namespace onnxfit {

// What grew, as a page for people.  The whole change, then what grew most, then both sides; below
// it kinds and nodes, of these options.rows.  At most 80 columns wide, every line with its newline.
std::string ToText(const Diff& diff, const TextOptions& options = {});

// "grew by 392.0 MiB (+24.1%), from 1.6 GiB to 2.0 GiB", "takes 1.6 GiB, as before".
std::string ChangeText(const Comparison& comparison);

// "the model is asked what the report was: --batch 32", "" where nothing was taken from one.
std::string TakenText(const Diff& diff);

// "the peak moved from backward at /conv1 to forward at /fc", and what that means for nodes that
// are at one of the two alone; "" where it did not move.
std::string MovedText(const Comparison& comparison);

// What grew, for a pull request.
std::string ToMarkdown(const Diff& diff, const TextOptions& options = {});

// What grew, a row a place.  name,old_name,change,op,count,old_bytes,new_bytes: kinds first (change
// is "kind"), then what changed, in exact bytes.
std::string ToCsv(const Diff& diff);

// What grew, for programs, schema 1.  One object with a newline at its end:
//   {"schema", "version", "old": {…}, "new": {…}, "increase_bytes", "kinds": […], "nodes": […],
//    "peak_moved", "settings_changed": […]}
// `nodes` are all that changed, alike ones together, with the `names` of each.  It is absent where
// one side does not have them.
std::string ToJson(const Diff& diff, const JsonOptions& options);

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
