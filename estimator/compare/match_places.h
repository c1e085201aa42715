// Which place of one answer is which of another.  Internal to the room compare/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/fit/places.h"

namespace onnxfit {

// The same place in both; one of the two is null where it is in the other alone.
struct PlacePair {
  const Place* before = nullptr;
  const Place* after = nullptr;
};

// By name; names that end in a number of the exporter's ("Conv_12") by their order among those
// that differ in it alone, where sizes decide what was put in between (AlignSizes); what is
// left by its name but for an outermost module, then by operator and size.
// The pairs of `after` in its order, then what is in `before` alone, in its order.
std::vector<PlacePair> MatchPlaces(const std::vector<Place>& before,
                                   const std::vector<Place>& after);

// "/layer1/relu" of "/layer1/relu_1", whose number an exporter gave it; "" where it has none.
std::string_view StemOf(std::string_view name);

// Whether they differ at most in such a number: it changes with every node before.
bool IsSameName(std::string_view before, std::string_view after);

// Of two lists of sizes of which one has more: which of one is which of the other.
// Pairs of indices, both ascending.  Lists of one length are paired item by item.  Of others, the
// longest common subsequence stays together, and what lies between two of its items is paired in
// order: {8, 4} and {8, 2, 4} give (0, 0) and (1, 2).
// O(items of both multiplied); lists too long for that are paired in order.
std::vector<std::pair<size_t, size_t>> AlignSizes(const std::vector<int64_t>& before,
                                                  const std::vector<int64_t>& after);

}  // namespace onnxfit
