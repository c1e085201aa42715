// Whole reports of the text models, compared with the files in tests/golden/.  That holds their
// layout; what they say is held by what came another way: shown_figures.py compares the files with
// what PyTorch took, models_test.cc the estimates, laws_test.cc all that adds up.  After a change
// that is meant: ONNXFIT_UPDATE_GOLDEN=1 ctest --preset dev -R '^golden_test', then read the
// difference.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "estimator/fit/estimate.h"
#include "estimator/onnx/loader.h"
#include "estimator/report/estimate.h"
#include "tests/files.h"
#include "tests/paths.h"

namespace onnxfit::golden_test {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = kSourceDir;

// The report of a model at batch 16, with the model called by its name alone.
std::string Report(const fs::path& path) {
  Graph graph = LoadGraph(path);
  graph.path = path.filename().string();
  return ToText(MakeEstimate(graph, {.binding = {.batch = 16}}), {.rows = 100});
}

TEST_CASE("reports of the text models are as they were") {
  const bool update = std::getenv("ONNXFIT_UPDATE_GOLDEN") != nullptr;
  for (const fs::path& path : TextModels()) {
    CAPTURE(path.filename().string());
    const fs::path golden = kRoot / "tests/golden" / path.filename().replace_extension(".txt");
    const std::string report = Report(path);
    if (update) std::ofstream(golden) << report;
    CHECK(report == ContentsOf(golden));
  }
}

}  // namespace
}  // namespace onnxfit::golden_test
