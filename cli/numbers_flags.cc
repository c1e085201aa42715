#include "cli/numbers_flags.h"

#include "cli/values.h"

namespace onnxfit {
namespace {

constexpr int64_t kMostParameters = 1'000'000'000'000'000;
constexpr int64_t kMostUnits = 1 << 24;  // of layers, widths, tokens

}  // namespace

std::vector<Flag> NumbersFlags() {
  constexpr std::string_view kGroup = kNumbersGroup;
  constexpr Commands kOf = Only(Command::kEstimate);
  return {
      {"--params", "", "N", kGroup, "parameters of a transformer, such as 175e9 or 7B", "",
       [](const Typed& t, Options& o) { o.numbers.parameters = ParseCount(t, kMostParameters); },
       false, false, kOf},
      {"--layers", "", "N", kGroup, "how many layers it has", "",
       [](const Typed& t, Options& o) { o.numbers.layers = ParseWhole(t, 1, kMostUnits); }, false,
       false, kOf},
      {"--hidden", "", "N", kGroup, "the width between them", "",
       [](const Typed& t, Options& o) { o.numbers.hidden = ParseWhole(t, 1, kMostUnits); }, false,
       false, kOf},
      {"--heads", "", "N", kGroup, "heads of attention", "of 128, of 64 below hidden 4096",
       [](const Typed& t, Options& o) { o.numbers.heads = ParseWhole(t, 1, kMostUnits); }, false,
       false, kOf},
      {"--seq", "", "N", kGroup, "tokens of a sample", "2048",
       [](const Typed& t, Options& o) { o.numbers.sequence = ParseWhole(t, 1, kMostUnits); }, false,
       false, kOf},
      {"--vocab", "", "N", kGroup, "tokens that there are", "50257",
       [](const Typed& t, Options& o) { o.numbers.vocabulary = ParseWhole(t, 1, kMostUnits); },
       false, false, kOf},
  };
}

}  // namespace onnxfit
