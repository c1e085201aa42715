#include "estimator/report/estimate_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/numbered_names.h"

namespace onnxfit {
namespace {

// Tenths of a percent that add up to 1000: what rounding down leaves goes to the largest
// remainders.
std::vector<int> ShareTenths(const std::vector<BreakdownRow>& rows, int64_t total) {
  std::vector<int> tenths;
  std::vector<std::pair<double, size_t>> remainders;
  for (const BreakdownRow& row : rows) {
    const double share = 1000 * ShareOf(row.bytes, total);
    tenths.push_back(static_cast<int>(share));
    remainders.emplace_back(tenths.back() - share, remainders.size());
  }
  std::sort(remainders.begin(), remainders.end());
  int left = 1000 - std::accumulate(tenths.begin(), tenths.end(), 0);
  for (const auto& [remainder, row] : remainders) {
    if (left-- <= 0) break;
    ++tenths[row];
  }
  return tenths;
}

int64_t WholeMebibytes(int64_t bytes) { return bytes / kMiB + (bytes % kMiB != 0 ? 1 : 0); }

// Of one card, what its verdict says.
int64_t ShownBytes(const Estimate& estimate) {
  return estimate.targets.size() == 1 ? estimate.targets[0].judgement.used_bytes
                                      : estimate.device_bytes;
}

std::vector<int64_t> StepColumns(const StepFigures& step, Mode mode) {
  const Peak& peak = step.peak;
  if (mode == Mode::kEval) {
    return {peak.exact_bytes, peak.allocated_bytes, peak.reserved_bytes};
  }
  return {step.after_forward.allocated_bytes, step.after_backward.allocated_bytes,
          step.after_step.allocated_bytes, peak.allocated_bytes, peak.reserved_bytes};
}

std::vector<std::string> StepHeader(Mode mode) {
  if (mode == Mode::kEval) return {"step", "peak exact", "peak allocated", "peak reserved"};
  return {"step",       "after forward",  "after backward",
          "after step", "peak allocated", "peak reserved"};
}

}  // namespace

std::vector<BreakdownRow> ShownBreakdown(const Estimate& estimate) {
  std::vector<BreakdownRow> rows = estimate.breakdown;
  int64_t rest = estimate.device_bytes;
  for (const BreakdownRow& row : rows) rest -= row.bytes;
  rows.push_back({"unexplained", rest, Basis::kAssumed, {}, {}});
  std::erase_if(rows, [](const BreakdownRow& row) { return row.bytes == 0; });
  std::stable_sort(rows.begin(), rows.end(),
                   [](const BreakdownRow& a, const BreakdownRow& b) { return a.bytes > b.bytes; });
  return rows;
}

bool IsTotalOfTargets(const Estimate& estimate) {
  if (estimate.targets.empty()) return true;
  const bool all_fit = std::ranges::all_of(estimate.targets, [](const JudgedTarget& judged) {
    return judged.judgement.verdict == Verdict::kFits;
  });
  const int64_t first = estimate.targets[0].judgement.used_bytes;
  return all_fit && FormatBytes(first) == FormatBytes(estimate.device_bytes);
}

std::string_view BreakdownTitle(const Estimate& estimate) {
  if (estimate.trials && estimate.trials->allocated_bytes > 0)
    return "Where the bytes go while cuDNN's plans are tried";
  return IsTotalOfTargets(estimate) ? "Where the bytes go"
                                    : "Where the bytes go, on a card with room for all of them";
}

double ShareOf(int64_t bytes, int64_t total) {
  return total > 0 ? static_cast<double>(bytes) / static_cast<double>(total) : 0;
}

std::vector<std::string> SharesOf(const std::vector<BreakdownRow>& rows, int64_t total) {
  std::vector<std::string> shares;
  for (const int tenths : ShareTenths(rows, total)) {
    shares.push_back(fmt::format("{}.{}%", tenths / 10, tenths % 10));
  }
  return shares;
}

std::string RangeText(int64_t low_bytes, int64_t high_bytes, std::string_view dash) {
  std::string low = FormatBytes(low_bytes);
  const std::string high = FormatBytes(high_bytes);
  const std::string unit = high.substr(high.find(' '));
  if (low.ends_with(unit)) low.resize(low.size() - unit.size());
  return low + std::string(dash) + high;
}

std::string RangeText(const BreakdownRow& row, std::string_view dash) {
  const bool has_range = row.low && row.high && *row.low != *row.high;
  return has_range ? RangeText(*row.low, *row.high, dash) : "";
}

// Of an integrated GPU nvidia-smi shows no memory: NVIDIA's developer guide of Jetson Linux names
// tegrastats, where RAM is that of all programs; jtop is jetson-stats'.
std::string_view MonitorOf(const std::vector<JudgedTarget>& targets) {
  const auto shares_memory = [](const JudgedTarget& t) { return t.target.shares_memory; };
  const auto is_jetson = [](const JudgedTarget& t) {
    return t.target.device.name.starts_with("Jetson");
  };
  if (targets.empty() || !std::ranges::all_of(targets, shares_memory)) return "nvidia-smi";
  return std::ranges::all_of(targets, is_jetson) ? "tegrastats or jtop" : "free";
}

std::string NvidiaSmiText(const Estimate& estimate) {
  const bool fails =
      estimate.targets.size() == 1 && estimate.targets[0].judgement.verdict == Verdict::kOom;
  const std::string_view monitor = MonitorOf(estimate.targets);
  std::string text =
      fmt::format("{}{} {} show about {} MiB{}", fails ? "With room for it, " : "", monitor,
                  fails ? "would" : "will", WholeMebibytes(ShownBytes(estimate)),
                  monitor == "nvidia-smi" ? "" : " more than before the run");
  // On a full card the allocator gives back what it need not keep: the range is an endless card's.
  const bool is_endless = ShownBytes(estimate) == estimate.device_bytes;
  if (estimate.range && is_endless) {
    text += fmt::format(", {} to {} by what the file has lost",
                        WholeMebibytes(estimate.range->low.device_bytes),
                        WholeMebibytes(estimate.range->high.device_bytes));
  }
  return text + ".";
}

std::string TrialsText(const Estimate& estimate) {
  if (!estimate.trials || estimate.trials->reserved_bytes == 0) return "";
  return fmt::format(
      "cudnn.benchmark tries plans in the first step: {} of the reserved peak, of what is free on "
      "the card, which goes back at once.",
      FormatBytes(estimate.trials->reserved_bytes));
}

std::vector<std::vector<std::string>> StepRows(const Estimate& estimate) {
  std::vector<std::vector<std::string>> rows = {StepHeader(estimate.settings.mode)};
  for (size_t i = 0; i < estimate.steps.size(); ++i) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(std::to_string(i + 1));
    for (const int64_t bytes : StepColumns(estimate.steps[i], estimate.settings.mode)) {
      row.push_back(FormatBytes(bytes));
    }
  }
  return rows;
}

std::string_view BirthText(const LargeTensor& tensor) {
  return tensor.born.empty() ? ToString(tensor.born_in) : tensor.born;
}

std::string_view DeathText(const LargeTensor& tensor) {
  if (!tensor.dies.empty()) return tensor.dies;
  if (tensor.dies_later) return "next step";
  return tensor.dies_in ? ToString(*tensor.dies_in) : "end";
}

namespace {

std::string CommonOf(const std::vector<const LargeTensor*>& tensors,
                     std::string_view (*text)(const LargeTensor&)) {
  std::vector<std::string> texts;
  for (const LargeTensor* tensor : tensors) texts.emplace_back(text(*tensor));
  return CommonName(texts);
}

TensorGroup GroupOf(const std::vector<const LargeTensor*>& tensors) {
  return {.tensor = tensors[0],
          .count = std::ssize(tensors),
          .name = CommonOf(tensors, [](const LargeTensor& t) { return std::string_view(t.name); }),
          .born = CommonOf(tensors, BirthText),
          .dies = CommonOf(tensors, DeathText)};
}

}  // namespace

std::vector<TensorGroup> Groups(const std::vector<LargeTensor>& tensors, size_t rows) {
  // Many names are the same, of births and deaths above all: of each the pattern is made once.
  std::unordered_map<std::string_view, size_t> patterns;
  std::map<std::string, size_t> numbers;
  const auto pattern_of = [&](std::string_view text) {
    const auto [at, is_new] = patterns.try_emplace(text);
    if (is_new) at->second = numbers.try_emplace(NumberPattern(text), numbers.size()).first->second;
    return at->second;
  };
  std::map<std::tuple<size_t, DType, Dims, Kind, size_t, size_t>, size_t> index;
  std::vector<std::vector<const LargeTensor*>> alike;
  for (const LargeTensor& t : tensors) {
    const auto [at, is_new] =
        index.try_emplace({pattern_of(t.name), t.type.dtype, t.type.dims, t.kind,
                           pattern_of(BirthText(t)), pattern_of(DeathText(t))},
                          alike.size());
    if (is_new) alike.emplace_back();
    alike[at->second].push_back(&t);
  }
  std::ranges::stable_sort(alike, std::ranges::greater(),
                           [](const auto& group) { return group[0]->bytes * std::ssize(group); });
  std::vector<TensorGroup> groups;
  for (size_t i = 0; i < std::min(rows, alike.size()); ++i) groups.push_back(GroupOf(alike[i]));
  return groups;
}

std::string SizeText(const TensorGroup& group, std::string_view times) {
  const std::string size = FormatBytes(group.tensor->bytes);
  return group.count == 1 ? size : fmt::format("{} {} {}", group.count, times, size);
}

std::vector<std::string> DetailLines(const Estimate& estimate) {
  const ModelSummary& model = estimate.model;
  const Peak& peak = estimate.peak;
  return {
      fmt::format("model: opset {}, {} nodes, {} parameters ({}), buffers {}", model.opset,
                  model.nodes, model.parameters, FormatBytes(model.parameter_bytes),
                  FormatBytes(model.buffer_bytes)),
      fmt::format("run: {}{}, {}", ToString(estimate.settings.mode),
                  estimate.settings.mode == Mode::kEval
                      ? ""
                      : fmt::format(", loss {}", ToString(estimate.settings.loss)),
                  estimate.settings.framework.name),
      fmt::format("peak in bytes: exact {}, allocated {}, reserved {}, device {}", peak.exact_bytes,
                  peak.allocated_bytes, peak.reserved_bytes, estimate.device_bytes)};
}

std::string ModuleText(const ModuleSum& sum) {
  std::pair<int64_t, std::string_view> parts[] = {{sum.activation_bytes, "activations"},
                                                  {sum.training_bytes, "grads + states"},
                                                  {sum.weight_bytes, "weights"},
                                                  {sum.other_bytes, "others"}};
  std::ranges::stable_sort(parts, std::ranges::greater(),
                           [](const auto& part) { return part.first; });
  std::string text;
  for (size_t i = 0; i < 2 && parts[i].first > 0; ++i) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", parts[i].second,
                        FormatBytes(parts[i].first));
  }
  return text;
}

}  // namespace onnxfit
