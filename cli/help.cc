#include <fmt/format.h>

#include "cli/flags.h"
#include "cli/options.h"
#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

constexpr size_t kHelpColumn = 26;

constexpr std::string_view kUsage =
    R"(onnxfit: how much GPU memory a PyTorch training step needs, and why

usage: onnxfit [estimate] MODEL.onnx [flags]        ("-" reads standard input)
)";

constexpr std::string_view kExamples = R"(
examples
  onnxfit resnet50.onnx -b 32 -p bf16
  onnxfit gpt2.onnx -b 8 --dim seq=1024 --loss causal-lm --format json

Flags are also read from the environment: ONNXFIT_BATCH=32 is --batch 32.
exit: 0 done, 1 a target does not hold, 2 no answer (bad flag, unreadable model)
)";

// "  -b, --batch N", "      --mode M", "  -q".
std::string LeadOf(const Flag& flag) {
  std::string names =
      fmt::format("{:2}{:2}{}", flag.letter, flag.letter.empty() ? "" : ", ", flag.name);
  if (flag.name.empty()) names = flag.letter;
  return PadRight(fmt::format("  {} {}", names, flag.value), kHelpColumn);
}

std::string TextOf(const Flag& flag) {
  return flag.standard.empty() ? flag.help : fmt::format("{} [{}]", flag.help, flag.standard);
}

}  // namespace

std::string HelpText() {
  std::string text(kUsage);
  std::string_view group;
  for (const Flag& flag : Flags()) {
    if (flag.group != group) text += fmt::format("\n{}\n", flag.group);
    group = flag.group;
    text += Wrap(LeadOf(flag), TextOf(flag));
  }
  return TrimLines(text) + std::string(kExamples);
}

}  // namespace onnxfit
