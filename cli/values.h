// One value of a flag, from text to what it means.  Everything here throws Error with the
// value's place: what was expected, what was found.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/framework.h"
#include "estimator/base/settings.h"
#include "estimator/base/tensor_type.h"
#include "estimator/compare/check.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/target.h"

namespace onnxfit {

// As written on the command line or in the environment.
struct Typed {
  std::string place;  // "--batch" or "ONNXFIT_BATCH": what errors call it
  std::string text;
};

// What --gpu calls the card at hand.
inline constexpr std::string_view kCardAtHand = "auto";

// Whether a path ends as files of models do.
bool IsModelName(const std::string& path);

// Text that people typed, as messages quote it: "'x'", at most 40 columns of one line,
// "nothing" where it is empty.
std::string Quoted(std::string_view text);

// The candidate that other tools call `typed`, else the nearest to it; "" where none is near.
std::string_view LikelyMeant(std::string_view typed, std::span<const std::string_view> candidates);

// " (did you mean 'NAME'?)" for the candidate nearest to `typed`; "" where none is near
// and for lists.
std::string DidYouMean(std::string_view typed, std::span<const std::string_view> candidates);

// "a, b or c".
std::string OneOf(std::span<const std::string_view> names);

[[noreturn]] void Refuse(const Typed& typed, std::string_view expected);
[[noreturn]] void RefuseTwice(const Typed& typed, std::string_view name);

// A whole number from `least` to `most`, in decimal digits alone.
int64_t ParseWhole(const Typed& typed, int64_t least,
                   int64_t most = std::numeric_limits<int64_t>::max());

// A number of things, as people write large ones: "175e9", "7B", "1.3b", "350M", "124439808";
// whole, from 1 to `most`.
int64_t ParseCount(const Typed& typed, int64_t most);

// "8,16" as its items.  Throws Error where one of several is empty.
std::vector<Typed> SplitList(const Typed& typed);

// "8", "8,16", "8:64:8" (first:last:step, the last one included where a step hits it) or a list
// of such: whole numbers from 1 as typed, all different.  A range has at most 10,000.
std::vector<int64_t> ParseWholes(const Typed& typed);

// NAME=N or NAME=LIST as above; NAME may hold "=".
std::pair<std::string, std::vector<int64_t>> ParseDim(const Typed& typed);

// IN=2x512, sizes from 1.
std::pair<std::string, Dims> ParseShape(const Typed& typed);

// "true", "yes", "on", "1" or "" (a bare switch); "false", "no", "off", "0".
bool ParseSwitch(const Typed& typed);

// Makes it `text`; throws where it is empty.
void SetText(const Typed& typed, std::string_view expected, std::string& text);

// Adds "auto", "every=N" or a glob of modules; throws where it is none of them.
void AddModules(const Typed& typed, std::vector<std::string>& globs);

// The index of `typed` among `names`.
size_t ParseName(const Typed& typed, std::span<const std::string_view> names);

template <typename Enum>
std::vector<std::string_view> NamesOf(std::span<const Spelling<Enum>> table) {
  std::vector<std::string_view> names;
  for (const Spelling<Enum>& row : table) names.push_back(row.name);
  return names;
}

// "a | b | c", the choices of a table.
template <typename Enum, size_t size>
std::string Choices(const Spelling<Enum> (&table)[size]) {
  std::string text;
  for (const Spelling<Enum>& row : table) {
    text += fmt::format("{}{}", text.empty() ? "" : " | ", row.name);
  }
  return text;
}

template <typename Enum, size_t size>
Enum ParseChoice(const Typed& typed, const Spelling<Enum> (&table)[size]) {
  return table[ParseName(typed, NamesOf<Enum>(table))].value;
}

// A list of names, all different.
template <typename Enum, size_t size>
std::vector<Enum> ParseChoices(const Typed& typed, const Spelling<Enum> (&table)[size]) {
  std::vector<Enum> choices;
  for (const Typed& item : SplitList(typed)) {
    const Enum choice = ParseChoice(item, table);
    if (std::find(choices.begin(), choices.end(), choice) != choices.end()) {
      RefuseTwice(typed, item.text);
    }
    choices.push_back(choice);
  }
  return choices;
}

// What a run may take: "16GiB" (as ParseBytes reads sizes), "t4" (as FindCard finds cards) or "80%
// of t4".  A card's target is `common` with that card.  Throws Error.
Budget ParseBudget(const Typed& typed, const TargetRequest& common);

// How much more it may take than before: "64MiB", "2%" (up to 1000%) or "0".  Throws Error; also
// for negative ones.
Allowance ParseAllowance(const Typed& typed);

// --alloc-conf, in the language of PYTORCH_ALLOC_CONF: KEY:VALUE,KEY:VALUE as PyTorch 2.11 reads
// them (c10/core/AllocatorConfig.cpp and c10/cuda/CUDAAllocatorConfig.cpp): spaces are free, the
// last of equal keys counts.  Throws Error for what PyTorch refuses, for keys that `framework` does
// not have, for a backend or a reserve that is not modelled, and for numbers with something behind
// them, which PyTorch ignores.
AllocConf ParseAllocConf(const Typed& typed,
                         const FrameworkProfile& framework = DefaultFramework());

// --cublas-conf, in the language of CUBLAS_WORKSPACE_CONFIG: ":SIZE:COUNT", once or more
// often, SIZE in KiB.  PyTorch adds them up for each handle (parseChosenWorkspaceSize, aten/src/
// ATen/cuda/CublasHandlePool.cpp, pytorch v2.6.0).  Throws Error.
CublasConf ParseCublasConf(const Typed& typed);

}  // namespace onnxfit
