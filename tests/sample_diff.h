// What grew, made by hand, for the tests of its formats.
#pragma once

#include "estimator/base/bytes.h"
#include "estimator/compare/compare.h"
#include "tests/sample_check.h"

namespace onnxfit {

inline ChangedPlaces ChangedOf(PlaceChange change, const std::string& name, int64_t old_bytes,
                               int64_t new_bytes) {
  ChangedPlaces places;
  places.change = change;
  places.name = name;
  places.op = "relu";
  places.names = {name};
  places.old_bytes = old_bytes;
  places.new_bytes = new_bytes;
  return places;
}

// Every change, kinds that stay and go, another setting, another peak.
inline Diff GrownDiff() {
  Comparison comparison = *GrownRow().comparison;
  comparison.peak_moved = true;
  comparison.before.phase = "forward";
  comparison.after.phase = "backward";
  comparison.after.node = "/layer1/conv1/Conv";
  comparison.after.model = "models/lenet2.onnx";
  comparison.kinds = {{"parameters", 60 * kMiB, 80 * kMiB},
                      {"optimizer_state", 0, 0},
                      {"activations", 1000 * kMiB, 1380 * kMiB},
                      {"cached", 40 * kMiB, 40 * kMiB},
                      {"context", 500 * kMiB, 500 * kMiB}};
  comparison.places[1].op = "parameter";
  comparison.places.push_back(ChangedOf(PlaceChange::kAdded, "/layer1/gelu", 0, 5 * kMiB));
  return {.comparison = comparison};
}

inline Diff ShrunkDiff() {
  Comparison comparison = ComparisonOf(2000 * kMiB, 1600 * kMiB);
  comparison.places = {ChangedOf(PlaceChange::kShrank, "fc", 500 * kMiB, 100 * kMiB)};
  return {.comparison = comparison};
}

inline Diff SameDiff() { return {.comparison = ComparisonOf(1600 * kMiB, 1600 * kMiB)}; }

// Names of all letters that move a cursor, and very long ones.
inline Diff AwkwardDiff() {
  Comparison comparison = ComparisonOf(1, int64_t{1} << 62);
  for (Snapshot* side : {&comparison.before, &comparison.after}) {
    side->model = kAwkwardName + std::string(200, 'm');
    side->version = "1" + kAwkwardName;
    side->node = kAwkwardName;
  }
  comparison.after.version += "2";
  comparison.after.phase = kAwkwardName;
  comparison.peak_moved = true;
  comparison.kinds = {{kAwkwardName + std::string(100, 'k'), 1, int64_t{1} << 62}};
  comparison.settings = {{kAwkwardName, "", std::string(300, 's')}};
  comparison.places = {ChangedOf(PlaceChange::kGrew, kAwkwardName, 1, int64_t{1} << 61),
                       ChangedOf(PlaceChange::kRenamed, std::string(300, 'n'), 8, 8)};
  comparison.places[1].old_name = std::string(300, '\xC3') + kAwkwardName;
  return {.comparison = comparison,
          .fail_above = Allowance{.text = "1023.99999999MiB", .bytes = 1}};
}

// One card, which the second does not fit.
inline Diff JudgedDiff() {
  Diff diff = GrownDiff();
  JudgedTarget fits;
  fits.target.name = "t4";
  fits.judgement = {
      .verdict = Verdict::kFits, .usable_bytes = 1800 * kMiB, .used_bytes = 1600 * kMiB};
  diff.before = {fits, fits};
  diff.after = diff.before;
  diff.after[0].judgement.verdict = Verdict::kOom;
  diff.after[0].judgement.used_bytes = 2000 * kMiB;
  diff.fail_above = Allowance{.text = "2%", .share = 0.02};
  return diff;
}

}  // namespace onnxfit
