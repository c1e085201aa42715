#include "estimator/fit/stage_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/memory/plan_trials.h"
#include "estimator/memory/timeline.h"
#include "estimator/operators/dispatch.h"
#include "estimator/transforms/stages.h"

namespace onnxfit {
namespace {

class StageRuns {
 public:
  StageRuns(const Program& program, const EstimateRequest& request, const RunStage& run)
      : program_(program), request_(request), run_(run) {
    MarkCheckpoints(program_, request.settings);
    request_.settings.checkpoint.clear();
    begins_ = StageBegins(program_, request.settings.ranks);
    if (begins_.size() > 1) FindTypes();
  }

  Prediction Of(size_t stage) const {
    EstimateRequest request = request_;
    request.settings.ranks.pipeline.stage = static_cast<int64_t>(stage);
    return run_(TypedStage(stage), request);
  }

  Prediction Asked(size_t stage) const {
    Prediction prediction = Of(stage);
    Say(WhoseText(stage), stage, prediction);
    return prediction;
  }

  Prediction Largest() const {
    size_t largest = 0;
    std::optional<Prediction> prediction;
    std::vector<Peak> peaks;
    for (size_t stage = 0; stage < begins_.size(); ++stage) {
      Prediction run = Of(stage);
      peaks.push_back(Replay(WithoutTrials(run.trace), run.alloc_conf).peak);
      if (stage > 0 && peaks[stage].reserved_bytes <= peaks[largest].reserved_bytes) continue;
      largest = stage;
      prediction = std::move(run);
    }
    const bool is_alone = begins_.size() == 1;
    Say(WhoseText(largest) + (is_alone ? "" : OthersText(peaks, largest)), largest, *prediction);
    return *std::move(prediction);
  }

 private:
  // Of what calls make, in the whole model: torch.autocast decides some.
  void FindTypes() {
    std::vector<NameId> made;
    for (const AtenCall& call : program_.calls) {
      for (const NameId name : call.outputs) {
        if (name != kNoName) made.push_back(name);
      }
    }
    Program whole = program_;
    whole.sent = made;
    whole = Dispatch(std::move(whole), request_.settings);
    types_.resize(program_.values.size());
    for (size_t i = 0; i < made.size(); ++i) {
      types_[Index(made[i])] = whole.values[Index(whole.sent[i])].type;
    }
  }

  Program TypedStage(size_t number) const {
    Program stage = StageOf(program_, begins_, number);
    for (const NameId name : stage.received) {
      stage.values[Index(name)].type = {types_[Index(name)], {}};
    }
    return stage;
  }

  std::string WhoseText(size_t stage) const {
    return fmt::format("the figures are those of stage {} (of 0 to {}), {}", stage,
                       begins_.size() - 1, StageText(program_, begins_, stage));
  }

  // Near the limit of a card what is allocated decides.
  static std::string OthersText(const std::vector<Peak>& peaks, size_t largest) {
    std::vector<std::string> reserved;
    for (const Peak& peak : peaks) reserved.push_back(FormatBytes(peak.reserved_bytes));
    std::string text =
        fmt::format(", which reserves most (--stage); they reserve {}", fmt::join(reserved, ", "));
    const auto most = std::ranges::max_element(peaks, {}, &Peak::allocated_bytes);
    if (most->allocated_bytes <= peaks[largest].allocated_bytes) return text;
    return text + fmt::format(
                      "; stage {} allocates more, and may fail first on a card that is "
                      "nearly full",
                      most - peaks.begin());
  }

  void Say(std::string text, size_t stage, Prediction& prediction) const {
    std::vector<std::string>& assumptions = prediction.program.assumptions;
    assumptions.push_back(std::move(text));
    const bool is_last = stage + 1 == begins_.size();
    if (request_.settings.ranks.pipeline.drops_outputs) return;
    if (ReturnsLossAlone()) {
      assumptions.emplace_back(
          "what the model returns is not known behind a loss of your own: that the last stage "
          "keeps it for each micro-batch, and puts it together, is not among the figures "
          "(schedule.step(return_outputs=False) does neither; --loss has losses that are known)");
      return;
    }
    if (!is_last) return;
    assumptions.emplace_back(
        "the last stage keeps what the model returns for each micro-batch, and puts it together, "
        "as schedule.step() does unless it is told (--drop-outputs)");
  }

  // Of a model and a loss that were recorded together.
  bool ReturnsLossAlone() const {
    return std::ranges::all_of(program_.outputs,
                               [&](NameId name) { return name == program_.loss; });
  }

  Program program_;
  EstimateRequest request_;
  const RunStage& run_;
  std::vector<int32_t> begins_;
  std::vector<TensorType> types_;  // by value
};

}  // namespace

bool AsksForStage(const Program& program, const EstimateRequest& request) {
  const TrainingSettings& settings = request.settings;
  return settings.ranks.strategy == Strategy::kPipeline && settings.mode == Mode::kTrain &&
         HasBackward(program);
}

Prediction RunStageOf(const Program& program, const EstimateRequest& request, const RunStage& run) {
  const StageRuns stages(program, request, run);
  const std::optional<int64_t> stage = request.settings.ranks.pipeline.stage;
  return stage.has_value() ? stages.Asked(Index(*stage)) : stages.Largest();
}

}  // namespace onnxfit
