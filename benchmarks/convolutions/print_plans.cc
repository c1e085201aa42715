// Prints what cuDNN plans for the convolutions of FILE, which `onnxfit verify --save` or a script
// here wrote, as such a file of CARD.
//
//   print_plans FILE --gpu CARD [--cudnn FOLDER]
//
// With a card at hand that one is asked, which must be CARD, or be said to be (as_card.c here);
// without, CARD need not be there, and plans by cublasLt are passed over.
#include <algorithm>
#include <iostream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/accuracy/printer.h"
#include "cli/calibration_file.h"
#include "estimator/base/error.h"
#include "estimator/cuda/libraries.h"
#include "estimator/report/calibration_json.h"

namespace onnxfit {
namespace {

std::vector<Convolution> ConvolutionsIn(const std::string& path) {
  std::vector<Convolution> found;
  for (const SharedCalibration& card : ReadCalibrationFile(path)) {
    std::ranges::transform(card->convolutions, std::back_inserter(found),
                           &ConvolutionWorkspace::convolution);
  }
  return found;
}

PlannedWorkspaces Ask(Libraries& libraries, const std::vector<Convolution>& convolutions,
                      const DeviceProfile& device) {
  try {
    return libraries.Workspaces(convolutions);
  } catch (const Error&) {  // there is no card
    return libraries.Workspaces(convolutions, Describe(device));
  }
}

int PrintPlans(const Options& options) {
  const DeviceProfile& device = options.request.targets.at(0).device;
  const auto libraries = OpenLibraries(PlacesOfEnvironment(options.cudnn));
  PlannedWorkspaces planned = Ask(*libraries, ConvolutionsIn(options.model), device);
  for (const std::string& missing : planned.missing) std::cerr << missing << "\n";
  std::cout << ToJson({{.card = device.name,
                        .compute_capability = device.compute_capability,
                        .multiprocessors = device.multiprocessors,
                        .cudnn = libraries->files().back().version,
                        .convolutions = std::move(planned.found)}});
  return 0;
}

}  // namespace
}  // namespace onnxfit

int main(int argc, char** argv) { return onnxfit::RunPrinter(argc, argv, onnxfit::PrintPlans); }
