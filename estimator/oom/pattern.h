// A message as a row of the table writes it: its words, with "{tried}" where a number stands.
// Internal to the room oom/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/oom/message.h"

namespace onnxfit {

struct Letters;

// "Out of memory allocating {tried} bytes{?} (allocated so far: {allocated} bytes":
//   {tried} {MiB plan}   a size of that field; in bytes, or in the unit named, where none follows
//   {gpu}                the number of the card
//   {n}                  a number that says nothing of memory
//   {count}              how many mappings there are
//   {told} {node}        words up to those that follow, or to the end of the line
//   {|}                  a line begins or ends here
//   {}                   anything up to the words that follow
//   {!words}             those words do not follow
//   {?}                  what follows may be missing
// White space and the case of letters do not count.
struct OomPattern {
  enum class What : uint8_t {
    kWords,
    kSize,
    kGpu,
    kNumber,
    kCount,
    kTold,
    kNode,
    kAnything,
    kNot,
    kEdge,
    kMaybeMore
  };
  struct Piece {
    What what = What::kWords;
    std::string words = {};  // in lower case without white space
    OomField field = OomField::kTried;
    int64_t unit = 1;
  };
  std::vector<Piece> pieces = {};

  // The words that such a message is found by: the first ones.
  std::string_view Head() const;
};

// REQUIRES: `says` has words, at its begin or behind one size.
OomPattern ReadPattern(std::string_view says);

// Reads a message whose head begins at `head`: its numbers go to `message`.  The place behind it,
// or nullopt where the letters say something else.
std::optional<size_t> MatchPattern(const OomPattern& pattern, const Letters& letters, size_t head,
                                   OomMessage& message);

// Whether a field can have so many bytes: "0 bytes asked" cannot be.
bool CanBe(OomField field, int64_t bytes);

}  // namespace onnxfit
