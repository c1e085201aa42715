// Prints what convolutions ask cuDNN for, one a line, for compare.py here: pass, type, order, x,
// weight, y and groups, then in bytes what was counted, the closed form, what estimates have where
// only the layer's other batches were measured and, with --cudnn, what they have then; between
// tabs.
//
//   print_workspaces FILE --gpu CARD [--cudnn FOLDER]
//
// FILE is one that `onnxfit verify --save` or measure.py here wrote.
#include <fmt/format.h>

#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/accuracy/printer.h"
#include "cli/calibration_file.h"
#include "estimator/base/error.h"
#include "estimator/workspaces/cudnn_workspaces.h"
#include "estimator/workspaces/measured_layers.h"

namespace onnxfit {
namespace {

std::string TextOf(const Convolution& c) {
  constexpr const char* kPasses[] = {"forward", "data gradient", "weight gradient"};
  return fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}", kPasses[static_cast<size_t>(c.pass)],
                     Name(c.dtype), c.is_channels_last ? "NHWC" : "NCHW", ToString(c.input),
                     ToString(c.weight), ToString(c.output), c.groups);
}

int64_t FromOtherBatches(const Convolution& convolution, const MeasuredLayers& layers) {
  std::vector<MeasuredBatch> others = layers.Find(convolution);
  std::erase_if(others,
                [&](const MeasuredBatch& each) { return each.batch == convolution.input[0]; });
  return others.empty() ? FormedWorkspaceBytes(convolution)
                        : AtBatch(convolution, std::move(others));
}

int Print(const Options& options) {
  const DeviceProfile& asked = options.request.targets.at(0).device;
  const MeasuredLayers* layers = MeasuredLayersOf(asked);
  if (layers == nullptr) throw Error({.where = "--gpu", .text = "expected a Hopper, as an h200"});
  for (const SharedCalibration& card : ReadCalibrationFile(options.model)) {
    for (const ConvolutionWorkspace& workspace : card->convolutions) {
      const Convolution& c = workspace.convolution;
      std::cout << fmt::format("{}\t{}\t{}\t{}\t{}\n", TextOf(c), workspace.bytes,
                               FormedWorkspaceBytes(c), FromOtherBatches(c, *layers),
                               WorkspaceBytes(c, options.request.settings));
    }
  }
  return 0;
}

}  // namespace
}  // namespace onnxfit

int main(int argc, char** argv) { return onnxfit::RunPrinter(argc, argv, onnxfit::Print); }
