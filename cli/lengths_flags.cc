// The flags of a run whose batches differ in length.
#include <fmt/format.h>

#include "cli/flags.h"
#include "cli/values.h"
#include "estimator/fit/lengths.h"

namespace onnxfit {
namespace {

constexpr int64_t kMostLengthSteps = 1'000'000;
constexpr int64_t kMostLengthSeeds = 1000;
constexpr int64_t kMostPad = 1 << 20;
constexpr int64_t kMostSamples = 1'000'000'000'000;
constexpr int64_t kMostTokens = 1'000'000'000;

// "SPEC", "DIM=SPEC": a path may have a = behind a /.
void SetLengths(const Typed& typed, Options& options) {
  const size_t equals = typed.text.find('=');
  const bool is_named =
      equals != std::string::npos && equals > 0 && typed.text.find_first_of("/:") > equals;
  LengthOptions& lengths = options.lengths.emplace(options.lengths.value_or(LengthOptions()));
  if (is_named) lengths.dim = typed.text.substr(0, equals);
  lengths.source = ReadLengths(is_named ? typed.text.substr(equals + 1) : typed.text);
  options.has_lengths = true;
}

void SetSeed(const Typed& typed, Options& options) {
  if (!options.lengths) options.lengths.emplace();
  options.lengths->first_seed = static_cast<uint64_t>(ParseWhole(typed, 0));
}

template <int64_t LengthOptions::*member, int64_t most>
void SetNumber(const Typed& typed, Options& options) {
  if (!options.lengths) options.lengths.emplace();
  (*options.lengths).*member = ParseWhole(typed, 1, most);
}

}  // namespace

std::vector<Flag> LengthFlags() {
  constexpr Commands kOf = Only(Command::kEstimate) | Only(Command::kMaxBatch);
  return {
      {"--lengths", "", "[DIM=]SPEC", kLengthsGroup,
       "how long each step's batch is: uniform:64..512, uniform:64..512/8 (so many apart), "
       "lognormal:180,0.6,1024 (median, sigma, the longest), or a file of numbers, one a step; DIM "
       "is the file's dimension, where several are free",
       "", SetLengths, false, false, kOf},
      {"--steps", "", "N", kLengthsGroup, "how many", "500",
       SetNumber<&LengthOptions::steps, kMostLengthSteps>, false, false, kOf},
      {"--seeds", "", "N", kLengthsGroup, "runs, each with lengths of its own; the worst counts",
       "5", SetNumber<&LengthOptions::seeds, kMostLengthSeeds>, false, false, kOf},
      {"--seed", "", "N", kLengthsGroup, "the first of them, the others follow", "0", SetSeed,
       false, false, kOf},
      {"--samples", "", "N", kLengthsGroup,
       "of an epoch: its last batch has what is left, as without drop_last", "",
       SetNumber<&LengthOptions::samples, kMostSamples>, false, false, kOf},
      {"--tokens", "", "N", kLengthsGroup,
       "of a batch: it has as many samples as these have room for", "",
       SetNumber<&LengthOptions::tokens, kMostTokens>, false, false, Only(Command::kEstimate)},
      {"--pad-to", "", "N", kLengthsGroup, "lengths are padded to a multiple", "1",
       SetNumber<&LengthOptions::pad_to, kMostPad>, false, false, kOf},
      {"--of-samples", "", "", kLengthsGroup,
       "they are samples' lengths: a batch is as long as the longest of its own", "",
       [](const Typed&, Options& o) {
         if (!o.lengths) o.lengths.emplace();
         o.lengths->of_samples = true;
       },
       false, false, kOf},
  };
}

}  // namespace onnxfit
