// Prints what convolutions ask cuDNN for, one a line, for compare.py here: pass, type, order, x,
// weight, y and groups, then in bytes what was counted, the closed form, what estimates have where
// only the layer's other batches, or only pictures of other sizes, were measured and, with --cudnn,
// what the library answers; between tabs.
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
#include "estimator/workspaces/known_layers.h"
#include "estimator/workspaces/workspace_form.h"

namespace onnxfit {
namespace {

std::string TextOf(const Convolution& c) {
  constexpr const char* kPasses[] = {"forward", "data gradient", "weight gradient"};
  return fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}", kPasses[static_cast<size_t>(c.pass)],
                     Name(c.dtype), c.is_channels_last ? "NHWC" : "NCHW", ToString(c.input),
                     ToString(c.weight), ToString(c.output), c.groups);
}

// Of the cards and versions that come with the command, the one nearest to what is asked.
struct KnownTable {
  const KnownLayers& layers;
  size_t card;
  const DeviceProfile& device;
};

KnownTable TableFor(const Options& options) {
  const KnownLayers& layers = ShippedLayers();
  const DeviceProfile& device = options.request.targets.at(0).device;
  const auto like = CardsLike(layers.cards(), device, options.request.settings.framework.cudnn);
  if (like.empty()) throw Error({.where = "--gpu", .text = "expected one that comes with plans"});
  return {layers, like[0], device};
}

int64_t Unknown(const Convolution& convolution, const KnownTable& table) {
  return FormedOn(table.device, convolution).value_or(0);
}

int64_t FromOtherBatches(const Convolution& convolution, const KnownTable& table) {
  std::vector<BatchWorkspace> others = table.layers.Find(convolution, table.card);
  std::erase_if(others,
                [&](const BatchWorkspace& each) { return each.batch == convolution.input[0]; });
  return others.empty()
             ? Unknown(convolution, table)
             : AtBatch(convolution, std::move(others), FormedOn(table.device, convolution));
}

int64_t FromOtherSizes(const Convolution& convolution, const KnownTable& table) {
  if (RunsOnCublasLt(convolution, table.device)) return Unknown(convolution, table);
  const Dims own(convolution.input.begin() + 2, convolution.input.end());
  std::vector<SizedLayer> others = table.layers.FindSizes(convolution, table.card);
  std::erase_if(others, [&](const SizedLayer& each) { return each.input == own; });
  return AtSize(convolution, others).value_or(Unknown(convolution, table));
}

// 0 without --cudnn.
int64_t Asked(const Convolution& convolution, const Options& options) {
  const SharedCalibration& asked = options.request.settings.device.calibration;
  return asked == nullptr ? 0 : FindWorkspace(*asked, convolution).value_or(0);
}

int Print(const Options& options) {
  const KnownTable table = TableFor(options);
  for (const SharedCalibration& card : ReadCalibrationFile(options.model)) {
    for (const ConvolutionWorkspace& workspace : card->convolutions) {
      const Convolution& c = workspace.convolution;
      std::cout << fmt::format("{}\t{}\t{}\t{}\t{}\t{}\n", TextOf(c), workspace.bytes,
                               FormedWorkspaceBytes(c), FromOtherBatches(c, table),
                               FromOtherSizes(c, table), Asked(c, options));
    }
  }
  return 0;
}

}  // namespace
}  // namespace onnxfit

int main(int argc, char** argv) { return onnxfit::RunPrinter(argc, argv, onnxfit::Print); }
