#include "cli/snapshots.h"

#include <utility>

#include "cli/commands.h"
#include "cli/output.h"
#include "estimator/fit/predict.h"
#include "estimator/report/run_story.h"
#include "estimator/snapshot/leftovers.h"
#include "estimator/snapshot/story.h"

namespace onnxfit {
namespace {

std::string ReportOf(const StoryAnswer& answer, const Options& options, const std::ostream& out) {
  const TextOptions text = WithColor(options, out);
  switch (options.format) {
    case Format::kJson:
      return ToJson(answer, {.version = ONNXFIT_VERSION});
    case Format::kCsv:
      return ToCsv(answer, text.ascii);
    case Format::kMarkdown:
      return ToMarkdown(answer, text);
    case Format::kText:
      break;
  }
  return ToText(answer, text);
}

// --fail-above, of what the prediction has.
void Judge(const Allowance& allowance, StoryAnswer& answer) {
  const Leftovers& left = *answer.leftovers;
  answer.allowed = allowance.text;
  answer.kept_too_much = left.kept_bytes > allowance.BytesOf(left.predicted_bytes);
}

}  // namespace

int AnswerSnapshot(SnapshotSide side, const Graph* model, const Options& options,
                   std::ostream& out) {
  StoryAnswer answer = {.path = std::move(side.name),
                        .story = TellStory(std::move(side.snapshot)),
                        .is_diff = options.command == Command::kDiff};
  if (model != nullptr) {
    const Prediction prediction = Predict(*model, options.request);
    answer.model = options.model == "-" ? "<stdin>" : options.model;
    answer.leftovers = FindLeftovers(answer.story, prediction);
    answer.warnings = prediction.warnings;
    if (options.fail_above) Judge(*options.fail_above, answer);
  }
  WriteReport(ReportOf(answer, options, out), options, out);
  return answer.kept_too_much && !options.exit_zero ? kExitTargetFails : kExitDone;
}

}  // namespace onnxfit
