// Prints what convolutions ask cuDNN for, one a line, for compare.py here: pass, type, order, x,
// weight, y and groups, then in bytes what was counted, what estimates have by default and, with
// --cudnn, what they have then; between tabs.
//
//   print_workspaces FILE --gpu CARD [--cudnn FOLDER]
//
// FILE is one that `onnxfit verify --save` or measure.py here wrote.
#include <fmt/format.h>

#include <iostream>
#include <string>

#include "benchmarks/accuracy/printer.h"
#include "cli/calibration_file.h"
#include "estimator/eager/cudnn_workspaces.h"

namespace onnxfit {
namespace {

std::string TextOf(const Convolution& c) {
  constexpr const char* kPasses[] = {"forward", "data gradient", "weight gradient"};
  return fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}", kPasses[static_cast<size_t>(c.pass)],
                     Name(c.dtype), c.is_channels_last ? "NHWC" : "NCHW", ToString(c.input),
                     ToString(c.weight), ToString(c.output), c.groups);
}

int Print(const Options& options) {
  const DeviceProfile& asked = options.request.targets.at(0).device;
  DeviceProfile plain = asked;
  plain.calibration = nullptr;
  for (const SharedCalibration& card : ReadCalibrationFile(options.model)) {
    for (const ConvolutionWorkspace& workspace : card->convolutions) {
      std::cout << fmt::format("{}\t{}\t{}\t{}\n", TextOf(workspace.convolution), workspace.bytes,
                               WorkspaceBytes(workspace.convolution, plain),
                               WorkspaceBytes(workspace.convolution, asked));
    }
  }
  return 0;
}

}  // namespace
}  // namespace onnxfit

int main(int argc, char** argv) { return onnxfit::RunPrinter(argc, argv, onnxfit::Print); }
