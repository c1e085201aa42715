#include "estimator/fit/doubts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "estimator/base/bytes.h"
#include "estimator/base/warnings.h"
#include "estimator/fit/predict.h"
#include "estimator/memory/timeline.h"

namespace onnxfit {
namespace {

struct DoubtRow {
  Doubt doubt;
  std::string_view low;  // flags
  std::string_view high;
  void (*answer)(TrainingSettings&, bool by_more);
};

// Bytes are the same for every p above 0.
constexpr DoubtRow kDoubtRows[] = {
    {Doubt::kDropout, "--dropout 0", "--dropout 0.1",
     [](TrainingSettings& settings, bool by_more) { settings.dropout = by_more ? 0.1 : 0.0; }},
    {Doubt::kTiedHead, "--assume tied-head=yes", "--assume tied-head=no",
     [](TrainingSettings& settings, bool by_more) { settings.assumed.tied_head = !by_more; }},
    {Doubt::kBatchNorm, "--batch-norm keep", "--batch-norm restore",
     [](TrainingSettings& settings, bool by_more) {
       settings.batch_norm = by_more ? BatchNormUse::kRestore : BatchNormUse::kKeep;
     }},
};

DeviceRange::End AnswerAll(const Graph& file, const EstimateRequest& request,
                           std::span<const Doubt> doubts, bool by_more) {
  EstimateRequest answered = request;
  answered.details = false;
  answered.why.clear();
  DeviceRange::End end;
  for (const DoubtRow& row : kDoubtRows) {
    if (std::find(doubts.begin(), doubts.end(), row.doubt) == doubts.end()) continue;
    row.answer(answered.settings, by_more);
    if (!end.flags.empty()) end.flags += " ";
    end.flags += by_more ? row.high : row.low;
  }
  const Prediction prediction = Predict(file, answered);
  end.device_bytes = CheckedAdd(Replay(prediction.trace, prediction.alloc_conf).peak.reserved_bytes,
                                ContextBytesOf(answered));
  return end;
}

std::string EndText(const DeviceRange::End& end) {
  return fmt::format("{} MiB ({})", DivideUp(end.device_bytes, kMiB),
                     end.flags.empty() ? "as guessed" : end.flags);
}

}  // namespace

std::optional<DeviceRange> FindRange(const Graph& file, const EstimateRequest& request,
                                     std::span<const Doubt> doubts, int64_t guessed_bytes) {
  if (doubts.empty()) return std::nullopt;
  const DeviceRange::End ends[] = {AnswerAll(file, request, doubts, false),
                                   AnswerAll(file, request, doubts, true),
                                   {guessed_bytes, ""}};
  const auto [low, high] = std::minmax_element(
      std::begin(ends), std::end(ends),
      [](const auto& a, const auto& b) { return a.device_bytes < b.device_bytes; });
  if (low->device_bytes == high->device_bytes) return std::nullopt;
  return DeviceRange{*low, *high};
}

Warning RangeWarning(const DeviceRange& range) {
  return {warning::kLostAnswers, fmt::format("the file has lost what decides between {} and {}",
                                             EndText(range.low), EndText(range.high))};
}

}  // namespace onnxfit
