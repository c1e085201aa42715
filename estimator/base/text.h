// What is known of texts: whether they are UTF-8, their digests, which name is nearest or
// matches a pattern.
#pragma once

#include <cstddef>
#include <future>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onnxfit {

// True where `text` is well-formed UTF-8, as protobuf's strings must be and JSON's are.
// O(bytes), eight at a time where they are ASCII.
bool IsUtf8(std::string_view text);

// 64-bit FNV-1a of `text` as 16 hexadecimal digits, the same on every machine.  It tells changes
// apart and gives no security: who wants two texts of one digest finds them.
std::string Digest(std::string_view text);

// The same of what takes long, from 1 MiB on by another thread: to be asked for once all else is
// done.  `text` must not change, nor go, before.
std::future<std::string> DigestMeanwhile(std::string_view text);

// Without the `blanks` around it.
std::string_view Trimmed(std::string_view text, std::string_view blanks = " ");

// What follows finds the candidate nearest to what was typed.

// Letters to insert, take out or replace (Levenshtein's distance; case is free).
// O(letters of a × letters of b).
size_t EditDistance(std::string_view a, std::string_view b);

// The candidate with the smallest edit distance to `typed` (case is free; ties go to
// the first), or "" where even that one differs in more than a third of its letters
// (at least 2).  O(letters of typed × letters of all candidates).
std::string_view Nearest(std::string_view typed, std::span<const std::string_view> candidates);

// What follows picks names by patterns, as flags take them.

// "*" is any letters, dots and slashes included, "?" is one.  O(letters of both multiplied).
bool MatchesGlob(std::string_view name, std::string_view glob);

// What patterns are matched against: `what` names them in messages ("parameters").
struct GlobScope {
  std::string_view flag;  // "--freeze"
  std::string_view what;
  std::string_view file;
};

// By index into `names`: whether one of `globs` matches.  A leading "model.", which is what
// exporters call a wrapped network, may be left out: "layer1.*" is "model.layer1.*" too.
// Throws Error for a glob that matches nothing, with the nearest names.
std::vector<bool> PickNames(std::span<const std::string> names, std::span<const std::string> globs,
                            const GlobScope& scope);

}  // namespace onnxfit
