#include "estimator/report/settings_text.h"

#include <fmt/format.h>

#include <vector>

#include "estimator/base/calibration.h"

namespace onnxfit {
namespace {

using Items = std::vector<std::string>;

void AddAll(std::string_view flag, const std::vector<std::string>& values, Items& items) {
  for (const std::string& value : values) items.push_back(fmt::format("{} {}", flag, value));
}

void AddUpdate(const TrainingSettings& settings, Items& items) {
  if (settings.optimizer_impl) {
    items.push_back(fmt::format("optimizer-impl {}", ToString(*settings.optimizer_impl)));
  }
  if (settings.clip_grad) items.emplace_back("clip-grad");
  if (settings.ema) items.emplace_back("ema");
}

// What is there in training alone.
void AddTraining(const TrainingSettings& settings, Items& items) {
  const LoopSettings standard;
  const TrainingSettings standard_settings;
  AddUpdate(settings, items);
  if (settings.loop.zero_grad != standard.zero_grad) {
    items.push_back(fmt::format("zero-grad {}", ToString(settings.loop.zero_grad)));
  }
  if (settings.loop.accumulate != standard.accumulate) {
    items.push_back(fmt::format("accumulate {}", settings.loop.accumulate));
  }
  AddAll("freeze", settings.freeze, items);
  if (settings.loss != standard_settings.loss) {
    items.push_back(fmt::format("loss {}", ToString(settings.loss)));
  }
  if (!settings.loss_output.empty()) items.push_back("loss-output " + settings.loss_output);
  if (!settings.labels.empty()) items.push_back("labels " + settings.labels);
  if (settings.dropout.has_value()) items.push_back(fmt::format("dropout {}", *settings.dropout));
  for (const auto& [glob, p] : settings.placed_dropouts) {
    items.push_back(fmt::format("dropout {}={}", glob, p));
  }
}

// How the file is read.
void AddReading(const TrainingSettings& settings, Items& items) {
  if (settings.batch_norm != BatchNormUse::kAuto) {
    items.push_back(fmt::format("batch-norm {}", ToString(settings.batch_norm)));
  }
  if (settings.attention != AttentionUse::kSdpa) items.emplace_back("attention eager");
  if (settings.in_place != InPlaceUse::kAuto) {
    items.push_back(fmt::format("in-place {}", ToString(settings.in_place)));
  }
  AddAll("out-of-place", settings.out_of_place, items);
  if (settings.assumed.conv_bias) items.emplace_back("assume conv-bias=yes");
  if (settings.assumed.in_place_dropout) items.emplace_back("assume in-place-dropout=yes");
  if (!settings.assumed.tied_head.value_or(true)) items.emplace_back("assume tied-head=no");
}

}  // namespace

std::string SettingsText(const Estimate& estimate) {
  return fmt::format("batch {}, {}", estimate.batch, RunText(estimate.settings, estimate.dims));
}

std::string RunText(const TrainingSettings& settings, const std::map<std::string, int64_t>& dims) {
  std::string text;
  for (const auto& [name, size] : dims) text += fmt::format("{}={}, ", name, size);
  text += fmt::format("{}, ", ToString(settings.precision));
  if (settings.mode == Mode::kEval) return text + "eval";
  if (settings.optimizer == Optimizer::kNone) return text + "no optimizer";
  return text + std::string(ToString(settings.optimizer));
}

std::string ChangesText(const Estimate& estimate) {
  return ChangesText(estimate.settings, estimate.alloc_conf);
}

std::string ChangesText(const TrainingSettings& settings, const std::string& alloc_conf) {
  Items items;
  if (settings.mode == Mode::kTrain) AddTraining(settings, items);
  if (settings.loop.hold_outputs) items.emplace_back("hold-outputs");
  if (settings.loop.prefetch > 0)
    items.push_back(fmt::format("prefetch {}", settings.loop.prefetch));
  AddReading(settings, items);
  if (settings.framework.name != DefaultFramework().name) {
    items.push_back(fmt::format("framework {}", settings.framework.name));
  }
  if (const SharedCalibration& calibration = settings.device.calibration;
      calibration != nullptr && !calibration->file.empty()) {
    items.push_back("calibration " + calibration->file);
  }
  if (!alloc_conf.empty()) items.push_back("alloc-conf " + alloc_conf);
  return fmt::format("{}", fmt::join(items, ", "));
}

}  // namespace onnxfit
