#include "cli/variables.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "cli/flags.h"
#include "cli/values.h"
#include "estimator/base/suggest.h"

namespace onnxfit {
namespace {

constexpr std::string_view kOurVariables = "ONNXFIT_";

bool IsRead(std::string_view name) {
  return std::ranges::any_of(
      Flags(), [&](const Flag& flag) { return !flag.about && EnvironmentName(flag) == name; });
}

// "--batch-size" of "ONNXFIT_BATCH_SIZE".
std::string FlagOf(std::string_view name) {
  std::string flag = "--";
  for (const char c : name.substr(kOurVariables.size())) {
    flag += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return flag;
}

}  // namespace

std::string WarnedOf(std::string_view name) {
  if (!name.starts_with(kOurVariables) || IsRead(name)) return "";
  const std::string_view meant = LikelyMeant(FlagOf(name), FlagNames());
  for (const Flag& flag : Flags()) {
    if (meant.empty() || flag.name != meant) continue;
    return fmt::format("{} is not read (did you mean {}?)", name, EnvironmentName(flag));
  }
  return "";
}

std::vector<std::string> StrangeVariables() {
  std::vector<std::string> warned;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string warning = WarnedOf(text.substr(0, text.find('=')));
    if (!warning.empty()) warned.push_back(warning);
  }
  std::ranges::sort(warned);
  return warned;
}

}  // namespace onnxfit
