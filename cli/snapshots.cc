#include "cli/snapshots.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "cli/asked_of_file.h"
#include "cli/commands.h"
#include "cli/compared.h"
#include "cli/output.h"
#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/fit/predict.h"
#include "estimator/report/run_story.h"
#include "estimator/snapshot/leftovers.h"
#include "estimator/snapshot/pickle_reader.h"
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

// `model` is null where none was named.
int Answer(SnapshotSide side, const Graph* model, const Options& options, std::ostream& out) {
  StoryAnswer answer = {.path = std::move(side.name),
                        .story = TellStory(std::move(side.snapshot)),
                        .is_diff = options.command == Command::kDiff};
  if (model != nullptr) {
    const EstimateRequest request = AskedOf(*model, options.request);
    const Prediction prediction = Predict(*model, request);
    answer.model = options.model == "-" ? "<stdin>" : options.model;
    answer.leftovers = FindLeftovers(answer.story, prediction);
    answer.warnings = prediction.warnings;
    answer.warnings.insert(answer.warnings.end(), request.warnings.begin(), request.warnings.end());
    if (options.fail_above) Judge(*options.fail_above, answer);
  }
  WriteReport(ReportOf(answer, options, out), options, out);
  return answer.kept_too_much && !options.exit_zero ? kExitTargetFails : kExitDone;
}

// By the first bytes of a file that can be read twice.
bool IsSnapshotFile(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::ifstream file(path, std::ios::binary);
  std::string first(2, '\0');
  return file.read(first.data(), 2) && LooksLikePickle(first);
}

// Comes behind the snapshot.
Graph ModelBeside(const Options& options) {
  if (!IsSnapshotFile(options.old_model)) {
    throw Error({.text = "a memory snapshot was expected before its model, found behind it",
                 .hint = fmt::format("onnxfit diff {} {}", options.model, options.old_model)});
  }
  const auto refuse = [](std::string_view found) {
    throw Error(
        {.text = fmt::format("a model was expected beside a memory snapshot, found {}", found)});
  };
  if (IsSnapshotFile(options.model)) refuse("another");
  Loaded loaded = LoadSide(options.model);
  if (!loaded.graph) refuse("a report");
  return std::move(*loaded.graph);
}

}  // namespace

int ExplainSnapshot(SnapshotSide side, const Options& options, std::ostream& out,
                    std::string& reading) {
  if (options.model.empty()) return Answer(std::move(side), nullptr, options, out);
  CheckOutput(options, options.model, "the model");
  reading = options.model;
  const Graph model = LoadModel(options.model);
  return Answer(std::move(side), &model, options, out);
}

std::optional<int> DiffSnapshot(const Options& options, std::ostream& out, std::string& reading) {
  if (!IsSnapshotFile(options.old_model) && !IsSnapshotFile(options.model)) return std::nullopt;
  reading = options.model;
  const Graph model = ModelBeside(options);
  reading = options.old_model;
  const FileBytes file(options.old_model, [](std::string_view) {}, {.what = "a memory snapshot"});
  SnapshotSide side = {.name = options.old_model, .snapshot = ReadMemorySnapshot(file.bytes())};
  reading = options.model;
  return Answer(std::move(side), &model, options, out);
}

}  // namespace onnxfit
