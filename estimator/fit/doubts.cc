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
constexpr DoubtRow kRows[] = {
    {Doubt::kDropout, "--dropout 0", "--dropout 0.1",
     [](TrainingSettings& settings, bool by_more) { settings.dropout = by_more ? 0.1 : 0.0; }},
    {Doubt::kTiedHead, "--assume tied-head=yes", "--assume tied-head=no",
     [](TrainingSettings& settings, bool by_more) { settings.assumed.tied_head = !by_more; }},
};

int64_t DivideUp(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

DeviceRange::End AnswerAll(const Graph& file, const EstimateRequest& request,
                           std::span<const Doubt> doubts, bool by_more) {
  EstimateRequest answered = request;
  answered.details = false;
  answered.why.clear();
  DeviceRange::End end;
  for (const DoubtRow& row : kRows) {
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

}  // namespace

std::optional<DeviceRange> FindRange(const Graph& file, const EstimateRequest& request,
                                     std::span<const Doubt> doubts) {
  if (doubts.empty()) return std::nullopt;
  DeviceRange range = {AnswerAll(file, request, doubts, false),
                       AnswerAll(file, request, doubts, true)};
  if (range.low.device_bytes == range.high.device_bytes) return std::nullopt;
  if (range.low.device_bytes > range.high.device_bytes) std::swap(range.low, range.high);
  return range;
}

Warning RangeWarning(const DeviceRange& range) {
  return {warning::kLostAnswers,
          fmt::format("the file has lost what decides between {} MiB ({}) and {} MiB ({})",
                      DivideUp(range.low.device_bytes, kMiB), range.low.flags,
                      DivideUp(range.high.device_bytes, kMiB), range.high.flags)};
}

}  // namespace onnxfit
