// The flags of --mode generate.
#include <fmt/format.h>

#include "cli/flags.h"
#include "cli/values.h"

namespace onnxfit {
namespace {

constexpr int64_t kMostBeams = 1024;

// What one answer is of.
constexpr std::string_view kGenerates = "generate";

// Whether the value is that; throws Error for one that is no mode, with all that there are.
bool IsGenerate(const Typed& typed) {
  std::vector<std::string_view> names = NamesOf<Mode>(kModes);
  names.push_back(kGenerates);
  return names[ParseName(typed, names)] == kGenerates;
}

}  // namespace

void SetMode(const Typed& typed, Options& options) {
  const bool generates =
      options.command == Command::kEstimate || options.command == Command::kMaxBatch;
  options.generation.is_asked = generates && IsGenerate(typed);
  options.request.settings.mode =
      options.generation.is_asked ? Mode::kEval : ParseChoice(typed, kModes);
}

std::vector<Flag> GenerationFlags() {
  constexpr Commands kOf = Only(Command::kEstimate) | Only(Command::kMaxBatch);
  return {
      {"--prompt", "", "N", kGenerationGroup, "tokens of each prompt; 512,2048 makes a table", "",
       [](const Typed& t, Options& o) { o.generation.prompts = ParseWholes(t); }, false, false,
       kOf},
      {"--new", "", "N", kGenerationGroup, "tokens that each text gets; a list, too", "256",
       [](const Typed& t, Options& o) { o.generation.new_tokens = ParseWholes(t); }, false, false,
       kOf},
      {"--cache", "", "NAME", kGenerationGroup,
       "generate()'s cache_implementation: dynamic, static, offloaded, quantized",
       "the model's own",
       [](const Typed& t, Options& o) { SetText(t, "a cache's name", o.generation.cache); }, false,
       false, kOf},
      {"--beams", "", "N", kGenerationGroup, "generate()'s num_beams", "the model's own",
       [](const Typed& t, Options& o) { o.generation.beams = ParseWhole(t, 1, kMostBeams); }, false,
       false, kOf},
  };
}

}  // namespace onnxfit
