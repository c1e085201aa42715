#include "cli/unused_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "cli/flags.h"
#include "estimator/absent/run_folder.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

// 128 and a signal is how shells tell of a program below them.
int SignalOf(const ProgramEnd& end) {
  constexpr int kShells = 128;
  constexpr int kMostSignals = 64;
  if (end.signal != 0) return end.signal;
  return end.exit_code > kShells && end.exit_code <= kShells + kMostSignals
             ? end.exit_code - kShells
             : 0;
}

// Crashes, which may be of our making, and what the system does when there is no RAM left.
const char* HintOf(int signal) {
  switch (signal) {
    case SIGKILL:
      return "dmesg: the system kills programs when RAM is full";
    case SIGSEGV:
    case SIGABRT:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
      return "the same without onnxfit run";
    default:
      return "";
  }
}

Error::Parts Failed(const UnusedCard& card) {
  const int signal = SignalOf(card.end);
  if (signal != 0) {
    return {.text = fmt::format("it was ended by signal {} ({}) before it used CUDA", signal,
                                strsignal(signal)),
            .hint = HintOf(signal)};
  }
  constexpr int kUsage = 2;  // as argparse, getopt and shells end with
  if (card.end.exit_code == kUsage && !card.our_flag.empty()) {
    return {.text = fmt::format("it ended with {} before it used CUDA, with {} among its words",
                                kUsage, card.our_flag),
            .hint = "flags of onnxfit run in front of --"};
  }
  return {.text = fmt::format("it ended with {} before it used CUDA", card.end.exit_code),
          .hint = "what it says itself: this is no question of memory"};
}

Error::Parts PartsOf(const UnusedCard& card) {
  if (card.is_cpu_build) {
    return {.text = fmt::format("its PyTorch {} is built without CUDA", card.torch),
            .hint = "pip install torch, which needs neither a card nor a driver for this"};
  }
  if (!card.own_runtime.empty()) {
    return {.text = fmt::format(
                "NVIDIA's runtime is linked into {} (cudart_static) and finds no card here: its "
                "functions can only be led to the card where the file has its symbols",
                fs::path(card.own_runtime).filename().string()),
            .hint = "a build without strip (-s), or with nvcc --cudart shared"};
  }
  if (card.end.exit_code != 0) return Failed(card);
  if (card.visible) {
    return {.text = fmt::format("it never used CUDA, since CUDA_VISIBLE_DEVICES={} hides the card",
                                *card.visible),
            .hint = "unset CUDA_VISIBLE_DEVICES"};
  }
  if (!card.torch.empty()) {
    return {.text = fmt::format("it never used CUDA, though its PyTorch {} could", card.torch),
            .hint = "its own flag for the device, such as --device cuda; model.cuda()"};
  }
  return {.text = "it never used CUDA, and imported no PyTorch",
          .hint = "a program that uses CUDA"};
}

}  // namespace

std::string OwnRuntime(const std::string& folder) {
  constexpr std::string_view kEvent = "runtime ";
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().ends_with(absent::kEventsEnding)) continue;
    std::ifstream lines(entry.path());
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(kEvent)) return line.substr(kEvent.size());
    }
  }
  return "";
}

std::string OurFlag(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    const bool is_ours = std::ranges::any_of(Flags(), [&](const Flag& flag) {
      return !flag.name.empty() && flag.name == name && IsOf(flag, Command::kRun);
    });
    if (is_ours) return name;
  }
  return "";
}

// As CUDA reads it, nothing in front of a number that names no card.
std::optional<std::string> VisibleDevices() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr || (*visible != '\0' && *visible != '-')) return std::nullopt;
  return visible;
}

Error WhyUnused(const UnusedCard& card) {
  Error::Parts parts = PartsOf(card);
  parts.where = card.program;
  return Error(std::move(parts));
}

}  // namespace onnxfit
