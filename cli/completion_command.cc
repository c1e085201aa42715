// `onnxfit completion`: what a shell completes, or the manual's page.
#include <fmt/format.h>

#include <ostream>

#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/values.h"
#include "estimator/base/error.h"

namespace onnxfit {

int RunCompletion(const Options& options, std::ostream& out) {
  const std::string shell = options.filters.size() == 1 ? options.filters[0] : "";
  const std::string text = CompletionFor(shell);
  if (text.empty()) {
    throw Error({.text = options.filters.size() == 1
                             ? fmt::format("expected bash, zsh, fish or man, found {}",
                                           Quoted(options.filters[0]))
                             : fmt::format("expected one of bash, zsh, fish and man, found {}",
                                           options.filters.size()),
                 .hint = "onnxfit completion bash"});
  }
  out << text;
  return kExitDone;
}

}  // namespace onnxfit
