// For tools/observe.py.
//
//   onnxfit_skeletons RUN WATCHED.pt2                  writes what each module of the file does
//   onnxfit_skeletons --pack "RELEASES" FACTS OUTPUT   packs such texts for the binary
//   onnxfit_skeletons --unpack PACKED                  writes the texts of what is packed
//
// RUN is how the file was watched: train or eval, or with -bf16 or -amp behind it.
#include <algorithm>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/file_bytes.h"
#include "estimator/fit/predict.h"
#include "estimator/observed/known_skeletons.h"
#include "estimator/observed/observe.h"

namespace onnxfit {
namespace {

struct RunKind {
  std::string_view name;
  SkeletonRuns run;
  Mode mode = Mode::kTrain;
  Precision precision = Precision::kFp32;
};
constexpr RunKind kRuns[] = {{"train", kTrainRun},
                             {"train-bf16", kTrainHalfRun, Mode::kTrain, Precision::kBf16},
                             {"train-amp", kTrainAutocastRun, Mode::kTrain, Precision::kAmpBf16},
                             {"eval", kEvalRun, Mode::kEval},
                             {"eval-bf16", kEvalHalfRun, Mode::kEval, Precision::kBf16},
                             {"eval-amp", kEvalAutocastRun, Mode::kEval, Precision::kAmpBf16}};

void WriteSkeletons(const std::string& path, const RunKind& kind) {
  EstimateRequest request;
  request.settings.mode = kind.mode;
  request.settings.precision = kind.precision;
  const PreparedRun run = PrepareRun(LoadModel(path), request);
  for (const Skeleton& skeleton : SkeletonsOf(run.program, kind.run)) {
    if (!skeleton.class_name.empty()) std::cout << ToText(Shortened(skeleton));
  }
}

constexpr auto kNoCheck = [](std::string_view) {};
constexpr FileBytes::Expected kFacts = {.what = "facts of modules", .maker = "tools/observe.py"};

void Pack(const std::string& releases, const std::string& facts, const std::string& output) {
  std::ofstream(output, std::ios::binary)
      << PackSkeletons(releases, ParseSkeletons(FileBytes(facts, kNoCheck, kFacts).bytes()));
}

void Unpack(const std::string& path) {
  const FileBytes file(path, kNoCheck, kFacts);
  const auto* const first = reinterpret_cast<const unsigned char*>(file.bytes().data());
  const KnownSkeletons known({first, file.bytes().size()});
  for (const Skeleton* const skeleton : known.All()) std::cout << ToText(*skeleton);
}

int Run(const std::vector<std::string>& words) {
  if (words.size() == 4 && words[0] == "--pack") {
    Pack(words[1], words[2], words[3]);
    return 0;
  }
  if (words.size() == 2 && words[0] == "--unpack") {
    Unpack(words[1]);
    return 0;
  }
  const RunKind* const kind =
      std::ranges::find(kRuns, words.empty() ? "" : words[0], &RunKind::name);
  if (words.size() != 2 || kind == std::end(kRuns)) return 3;
  WriteSkeletons(words[1], *kind);
  return 0;
}

}  // namespace
}  // namespace onnxfit

int main(int argc, char** argv) {
  try {
    return onnxfit::Run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 2;
  }
}
