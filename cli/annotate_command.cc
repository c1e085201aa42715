// `onnxfit annotate`: a copy of a model for viewers, with what each node takes.
#include <algorithm>
#include <filesystem>
#include <string>

#include "cli/asked_of_file.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/targets.h"
#include "estimator/base/error.h"
#include "estimator/fit/predict.h"
#include "estimator/fit/study.h"
#include "estimator/onnx/annotated_copy.h"
#include "estimator/picture/annotations.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

// Weights in other files are looked for beside the model.
void CheckFolder(const Options& options, const AnnotatedCopy& copy) {
  const fs::path model = fs::absolute(options.model).parent_path();
  std::error_code ignored;
  const bool is_whole = std::ranges::none_of(copy.weight_files, [&](const std::string& file) {
    return fs::exists(model / file, ignored);
  });
  if (is_whole || options.output.empty()) return;
  const fs::path folder = fs::absolute(options.output).parent_path();
  if (fs::equivalent(model, folder, ignored)) return;
  throw Error(
      {.file = options.output,
       .where = "--output",
       .text = "expected a file beside the model, whose weights are in files there",
       .hint =
           (fs::path(options.model).parent_path() / fs::path(options.output).filename()).string()});
}

}  // namespace

int RunAnnotate(const Options& options, std::ostream& out) {
  CheckOutput(options, options.model, "the model");
  CheckTerminal(options, out, "a model");
  if (options.model.ends_with(".pt2")) {
    throw Error({.file = options.model,
                 .text = "expected an ONNX file, found a .pt2, of which no viewer shows notes",
                 .hint = "onnxfit report"});
  }
  if (options.output.ends_with(".onnxtxt")) {
    throw Error({.file = options.output,
                 .where = "--output",
                 .text = "expected a name for ONNX protobuf, found one for its text",
                 .hint = fs::path(options.output).replace_extension(".onnx").string()});
  }
  if (options.model == "-") throw Error({.text = "expected a file, which is read twice, found -"});
  const Graph graph = LoadModel(options.model);
  const Study study(graph);
  const EstimateRequest request = AskedOf(graph, options.request);
  const Estimate estimate = MakeEstimate(study, request);
  const AnnotatedCopy copy =
      Annotate(options.model, AnnotationsOf(*study.Predicted(request), estimate));
  CheckFolder(options, copy);
  WriteReport(copy.bytes, options, out);
  return ExitCodeOf(estimate.targets, options);
}

}  // namespace onnxfit
