// What of an answer is kept to compare later ones with, and two of them side by side: what grew,
// by kind and by node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/fit/places.h"
#include "estimator/fit/verdict.h"
#include "estimator/memory/timeline.h"

namespace onnxfit {

struct KindBytes {
  std::string kind;  // the JSON's word: "parameters", …, "context"
  int64_t bytes = 0;

  bool operator==(const KindBytes&) const = default;
};

// An answer, read from a lock or a report, or just made.
struct Snapshot {
  std::string version = {};                                        // of the onnxfit that made it
  std::string model = {};                                          // its path
  std::string digest = {};                                         // of its graph, "" if unknown
  std::vector<std::pair<std::string, std::string>> settings = {};  // name and value, as JSON
  Peak peak;
  int64_t device_bytes = 0;
  std::string phase = {};             // of the peak
  std::string node = {};              // there, "" outside of operators
  std::vector<KindBytes> kinds = {};  // add up to device_bytes
  // Add up to all kinds but rounding, cached and context.  Empty where a report has none.
  std::vector<Place> places = {};

  bool operator==(const Snapshot&) const = default;
};

// What follows are two answers side by side.

enum class PlaceChange : uint8_t { kGrew, kShrank, kAdded, kRemoved, kRenamed };
std::string_view ToString(PlaceChange change);  // "grew", "shrank", "added", "removed", "renamed"

// Places of the same kind to which the same happened.
struct ChangedPlaces {
  PlaceChange change = PlaceChange::kGrew;
  std::string name;           // of all, "*" for what differs: "/layer.*/attention/Softmax"
  std::string old_name = {};  // the same before, where it was another; "" else
  std::string op = {};
  std::vector<std::string> names = {};  // of each; the old ones of what was removed
  std::string most_name = {};           // of the one with more than half of it, if there are many
  int64_t old_bytes = 0;                // of all together
  int64_t new_bytes = 0;

  int64_t increase() const { return new_bytes - old_bytes; }
};

struct ChangedKind {
  std::string kind;
  int64_t old_bytes = 0;
  int64_t new_bytes = 0;
};

struct ChangedSetting {
  std::string name;
  std::string old_value = {};  // "" where it was not there
  std::string new_value = {};
};

struct Comparison {
  Snapshot before;  // without its places
  Snapshot after;
  std::vector<ChangedKind> kinds = {};  // all, in the order of the breakdown
  // What is not the same, what counts most first (group_places.h).  With `kinds`' rounding, cached
  // and context they add up to increase().
  std::vector<ChangedPlaces> places = {};
  bool has_places = true;  // false where one of the two has none
  std::vector<ChangedSetting> settings = {};
  bool peak_moved = false;  // to another node or phase

  int64_t increase() const { return after.device_bytes - before.device_bytes; }

  // The graph and what is asked of it are the same.
  bool has_same_question() const {
    return !before.digest.empty() && before.digest == after.digest && settings.empty();
  }
};

// How much more than before a run may take: the larger of the two.
struct Allowance {
  std::string text = "0";  // as written: "64MiB", "2%"
  int64_t bytes = 0;
  double share = 0;  // of what it took before

  int64_t BytesOf(int64_t old_bytes) const;
};

// Nodes are matched by name and structure (match_places.h).  O(places × log), and the square of
// those that share a name but for a number where they do not agree.
Comparison Compare(const Snapshot& before, const Snapshot& after);

// The answer to "what grew": one run of two models, or two runs of one.
struct Diff {
  Comparison comparison;
  std::vector<JudgedTarget> before = {};  // the request's cards, where both sides are models
  std::vector<JudgedTarget> after = {};
  std::optional<Allowance> fail_above = {};
  std::vector<std::string> taken = {};  // flags of the report that the model was asked with, too

  // More than fail_above allows.
  bool grew_too_much() const {
    return fail_above &&
           comparison.increase() > fail_above->BytesOf(comparison.before.device_bytes);
  }
};

}  // namespace onnxfit
