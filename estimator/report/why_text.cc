#include <fmt/format.h>

#include "estimator/base/bytes.h"
#include "estimator/report/estimate_parts.h"

namespace onnxfit {
namespace {

using By = HeldBy::By;

std::string AtText(std::string_view node) {
  return node.empty() ? std::string() : fmt::format(" at {}", node);
}

// The step is left out where it is the one of birth.
std::string UntilText(const Instant& until, const Instant& born) {
  if (until.step != born.step) return InstantText(until);
  return PhaseText(until);
}

std::string Because(const HeldBy& held) {
  return held.as.empty() ? std::string() : fmt::format(", {}", held.as);
}

std::string WhoText(const HeldBy& held) {
  const std::string call = held.op + AtText(held.node);
  switch (held.by) {
    case By::kName:
      return held.name + Because(held);
    case By::kView:
      return fmt::format("{}, a view by {}{}", held.name, call, Because(held));
    case By::kInPlace:
      return fmt::format("{}, written over it by {}{}", held.name, call, Because(held));
    case By::kSaved:
      return fmt::format("{}, for its backward ({})", call, held.as);
    case By::kGradient:
      return held.name;
    case By::kCache:
      return "autocast's cache of casts";
    case By::kModule:
      return "the model";
    case By::kOptimizer:
      return "the optimizer's state";
    case By::kLoop:
      return "the training loop";
    case By::kLibrary:
      return "the library's handle";
    case By::kEngine:
      return "backward, on its way to the next operator";
    case By::kOperator:
      return "the running operator alone";
  }
  return "";
}

// Until when is in the words: what runs, or the backward of the call.
bool SaysItself(const HeldBy& held) {
  if (held.by == By::kEngine || held.by == By::kOperator) return true;
  return held.by == By::kSaved && held.until && held.until->phase == Phase::kBackward &&
         held.until->node == held.node;
}

std::string HeldText(const HeldBy& held, const Instant& born) {
  if (held.by == By::kOperator && born.phase == Phase::kOptimizer) return "the optimizer's step";
  // Before any operator's backward: the gradient that the call itself makes for the loss.
  if (held.by == By::kEngine && born.node.empty()) return "the call of backward, until it returns";
  if (SaysItself(held)) return WhoText(held);
  if (!held.until) return WhoText(held) + ": to the end of the run";
  return WhoText(held) + ": until " + UntilText(*held.until, born);
}

std::string SharesText(const TensorStory& story) {
  const std::string call = story.op + AtText(story.node);
  switch (story.shares) {
    case Shares::kNothing:
      return "";
    case Shares::kView:
      return fmt::format("same storage as {}: a view of it, by {}", story.storage, call);
    case Shares::kInPlace:
      return fmt::format("same storage as {}: {} writes over it in place", story.storage, call);
    case Shares::kIdentity:
      return fmt::format("same tensor as {}", story.storage);
    case Shares::kCopy:
      return fmt::format("its own: a copy, because {} writes over the original", story.node);
  }
  return "";
}

std::string Operators(int64_t count) {
  return fmt::format("{} operator{}", count, count == 1 ? "" : "s");
}

std::string PeakText(const TensorStory& story, int64_t allocated) {
  const int64_t distance = story.operators_from_peak;
  if (distance < 0) return fmt::format("dead, {} before it", Operators(-distance));
  if (distance > 0) return fmt::format("not born yet, {} after it", Operators(distance));
  if (!story.at_peak) return "not alive, though no operator lies between";
  const double share = allocated == 0 ? 0
                                      : 100.0 * static_cast<double>(story.block_bytes) /
                                            static_cast<double>(allocated);
  return fmt::format("alive: {} of its {} bytes, {:.1f}%", story.block_bytes, allocated, share);
}

// What would end the life of those that the last step leaves.
std::string DeathText(const TensorStory& story, ZeroGrad zero_grad) {
  if (story.dies) return InstantText(*story.dies);
  const bool is_zeroed_away = story.kind == Kind::kGradient && zero_grad != ZeroGrad::kKeep;
  if (is_zeroed_away) return "zero_grad of the step after the last";
  if (story.kind == Kind::kInput) return "the batch after the last takes its name";
  return "never";
}

std::string StoryText(const Page& page, const TensorStory& story, int64_t allocated) {
  std::string text;
  const auto add = [&](std::string_view lead, std::string_view line) {
    if (!line.empty()) text += Wrap(lead, page.Shown(line));
  };
  text += '\n';
  add("", story.name);
  add("  is       ", fmt::format("{}, {}", ToString(story.type), FormatBytes(story.bytes)));
  add("           ", fmt::format("{} bytes in a block of {}, {}", story.bytes, story.block_bytes,
                                 WithSpaces(ToString(story.kind))));
  add("  storage  ", SharesText(story));
  add("  born     ", InstantText(story.born));
  for (size_t i = 0; i < story.held_by.size(); ++i) {
    add(i == 0 ? "  held by  " : "           ", HeldText(story.held_by[i], story.born));
  }
  add("  dies     ", DeathText(story, page.estimate.settings.loop.zero_grad));
  add("  at peak  ", PeakText(story, allocated));
  return text;
}

}  // namespace

std::string InstantText(const Instant& instant) {
  const std::string text = PhaseText(instant);
  return instant.step == 0 ? text : fmt::format("step {}, {}", instant.step, text);
}

std::string PhaseText(const Instant& instant) {
  const std::string text(ToString(instant.phase));
  return instant.node.empty() ? text : text + "," + AtText(instant.node);
}

std::string WhyText(const Page& page, const WhyAnswer& why) {
  if (!why.absent.empty()) {
    return fmt::format("\n{}{}", Wrap("", page.Shown(why.asked)),
                       Wrap("  ", page.Shown(why.absent + ".")));
  }
  std::string text;
  const size_t shown = std::min(page.options.rows, why.tensors.size());
  for (size_t i = 0; i < shown; ++i) {
    text += StoryText(page, why.tensors[i], why.allocated_at_peak);
  }
  if (shown == why.tensors.size()) return text;
  return text + fmt::format("\n{} more of that name (-n shows more)\n", why.tensors.size() - shown);
}

}  // namespace onnxfit
