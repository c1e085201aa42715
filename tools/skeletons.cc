// For tools/observe.py.
//
//   onnxfit_skeletons [--eval] WATCHED.pt2             writes what each module of the file does
//   onnxfit_skeletons --pack "RELEASES" FACTS OUTPUT   packs such texts for the binary
#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/fit/predict.h"
#include "estimator/observed/known_skeletons.h"
#include "estimator/observed/observe.h"

namespace onnxfit {
namespace {

void WriteSkeletons(const std::string& path, Mode mode) {
  EstimateRequest request;
  request.settings.mode = mode;
  const PreparedRun run = PrepareRun(LoadModel(path), request);
  for (const Skeleton& skeleton : SkeletonsOf(run.program)) {
    if (!skeleton.class_name.empty()) std::cout << ToText(Shortened(skeleton));
  }
}

void Pack(const std::string& releases, const std::string& facts, const std::string& output) {
  std::stringstream text;
  text << std::ifstream(facts).rdbuf();
  std::ofstream(output, std::ios::binary) << PackSkeletons(releases, ParseSkeletons(text.str()));
}

int Run(const std::vector<std::string>& words) {
  if (words.size() == 4 && words[0] == "--pack") {
    Pack(words[1], words[2], words[3]);
    return 0;
  }
  if (words.empty()) return 3;
  WriteSkeletons(words.back(), words[0] == "--eval" ? Mode::kEval : Mode::kTrain);
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
