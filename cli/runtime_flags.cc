// The flags of an estimate under an engine's own runtime.
#include <utility>

#include "cli/flags.h"
#include "cli/values.h"

namespace onnxfit {
namespace {

// "KEY=VALUE", each key once.
void AddSetting(const Typed& typed, std::map<std::string, std::string>& settings) {
  const size_t equals = typed.text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == typed.text.size()) {
    Refuse(typed, "KEY=VALUE, such as arena_extend_strategy=kSameAsRequested");
  }
  const std::string key = typed.text.substr(0, equals);
  if (!settings.emplace(key, typed.text.substr(equals + 1)).second) RefuseTwice(typed, key);
}

}  // namespace

std::vector<Flag> RuntimeFlags() {
  constexpr Commands kOf = Only(Command::kEstimate) | Only(Command::kMaxBatch);
  return {
      {"--runtime", "", "R", kRuntimeGroup,
       "run the ONNX file in the installed ONNX Runtime of python3 (ONNXFIT_PYTHON): " +
           Choices(kRuntimes),
       "torch", [](const Typed& t, Options& o) { o.runtime.runtime = ParseChoice(t, kRuntimes); },
       false, false, kOf},
      {"--provider", "", "P", kRuntimeGroup,
       "its provider, on a card that is not there or on this machine: " +
           Choices(kRuntimeProviders),
       "cuda",
       [](const Typed& t, Options& o) { o.runtime.computes = ParseChoice(t, kRuntimeProviders); },
       false, false, kOf},
      {"--ram", "", "SIZE", kRuntimeGroup, "of --provider cpu: does it fit a machine with so much",
       "", SetRam, false, false, kOf},
      {"--session", "", "KEY=VALUE", kRuntimeGroup,
       "a setting of the session: enable_mem_pattern=0, an entry of its configuration, of its runs "
       "where it begins with memory.; repeatable",
       "", [](const Typed& t, Options& o) { AddSetting(t, o.runtime.session); }, true, false, kOf},
      {"--provider-option", "", "KEY=VALUE", kRuntimeGroup,
       "an option of its CUDA provider: arena_extend_strategy=kSameAsRequested; repeatable", "",
       [](const Typed& t, Options& o) { AddSetting(t, o.runtime.provider); }, true, false, kOf},
      {"--io-binding", "", "", kRuntimeGroup,
       "its inputs lie on the card and its outputs stay there, as IOBinding has them", "",
       [](const Typed&, Options& o) { o.runtime.is_bound = true; }, false, false, kOf},
  };
}

}  // namespace onnxfit
