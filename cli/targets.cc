#include "cli/targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/calibration_file.h"
#include "cli/commands.h"
#include "cli/values.h"
#include "estimator/base/calibration.h"
#include "estimator/base/device.h"
#include "estimator/base/error.h"
#include "estimator/base/warnings.h"
#include "estimator/cuda/libraries.h"

namespace onnxfit {
namespace {

// Of the table, the card of all of `calibrations`; null where they are of several.
const Card* OnlyCardOf(const std::vector<SharedCalibration>& calibrations) {
  const Card* only = nullptr;
  for (const SharedCalibration& calibration : calibrations) {
    const Card* card = FindCard(calibration->card);
    if (card == nullptr || (only != nullptr && card != only)) return nullptr;
    only = card;
  }
  return only;
}

void SetDevice(const std::vector<SharedCalibration>& calibrations, Options& options) {
  EstimateRequest& request = options.request;
  DeviceProfile& device = request.settings.device;
  if (!request.targets.empty()) {
    device = request.targets[0].device;
    return;
  }
  const bool is_seen = options.command == Command::kExplainOom;  // a card of which a message tells
  const Card* measured = is_seen ? OnlyCardOf(calibrations) : nullptr;
  if (measured != nullptr) device = measured->device;
  const SharedCalibration calibration = FindCalibration(calibrations, device.name);
  if (calibration != nullptr) device = Calibrated(device, calibration);
}

// Of cards that nobody asks about.
void NoteUnused(const std::vector<SharedCalibration>& calibrations, EstimateRequest& request) {
  std::vector<const DeviceProfile*> devices = {&request.settings.device};
  for (const Target& target : request.targets) devices.push_back(&target.device);
  for (size_t i = 0; i < calibrations.size(); ++i) {
    const Calibration& known = *calibrations[i];
    const bool is_newest = i + 1 == calibrations.size() || calibrations[i + 1]->card != known.card;
    const bool is_used = std::ranges::any_of(devices, [&](const DeviceProfile* device) {
      return device->calibration != nullptr && device->calibration->card == known.card;
    });
    if (is_used || !is_newest) continue;
    request.notes.push_back(fmt::format("{} has measurements of {}, which is no card of this run",
                                        known.file, known.card));
  }
}

template <typename Value>
std::vector<Value> EachOnce(const std::vector<Value>& values) {
  std::vector<Value> once;
  for (const Value& value : values) {
    if (std::find(once.begin(), once.end(), value) == once.end()) once.push_back(value);
  }
  return once;
}

// Those that were named, and those of the list: from the smallest to the largest, a table that is
// read down.  The card at hand begins it.
std::vector<const Card*> AskedCards(const TargetOptions& asked) {
  if (!asked.seen.empty()) return asked.seen;
  std::vector<const Card*> cards = EachOnce(asked.cards);
  if (!asked.lists_all) return cards;
  for (const Card& card : Cards()) cards.push_back(&card);
  cards = EachOnce(cards);
  const auto size = [](const Card* card) { return card == nullptr ? 0 : card->total_bytes; };
  std::ranges::stable_sort(cards, {}, size);
  return cards;
}

}  // namespace

DetectedGpu UsableGpu(const GpuSearch& search) {
  if (search.gpus.empty()) throw NoGpuError(search.why_none);
  const DetectedGpu& gpu = search.gpus[0];
  if (gpu.why_unusable.empty()) return gpu;
  throw NoGpuError(fmt::format("no usable GPU: {}: {} (try: another one, by CUDA_VISIBLE_DEVICES)",
                               gpu.name, gpu.why_unusable));
}

void SetTargets(Options& options, const GpuFinder& find) {
  const TargetOptions& asked = options.targets;
  std::optional<DetectedGpu> at_hand;
  std::vector<TargetRequest> cards;
  for (const Card* card : AskedCards(asked)) {
    if (card == nullptr) at_hand = UsableGpu(find());
    TargetRequest& request = cards.emplace_back();
    request.card = card;
    request.is_listed = std::ranges::find(asked.cards, card) == asked.cards.end();
    if (card == nullptr) request.detected = &*at_hand;
    const auto machine = asked.machines.find(card);
    if (machine != asked.machines.end()) request.machine = machine->second;
  }
  std::vector<std::optional<int64_t>> sizes;
  for (const int64_t size : EachOnce(asked.sizes)) sizes.emplace_back(size);
  if (cards.empty() && !sizes.empty()) cards.emplace_back();
  if (sizes.empty()) sizes.emplace_back();
  const std::vector<SharedCalibration> calibrations = CalibrationsFor(options);
  EstimateRequest& request = options.request;
  for (TargetRequest& card : cards) {
    card.overhead_bytes = request.overhead_bytes;
    card.reserved_for_others = asked.reserved_bytes;
    card.calibrations = calibrations;
    card.is_one_of_many = cards.size() * sizes.size() > 1;
    for (const std::optional<int64_t>& size : sizes) {
      card.memory_bytes = size;
      Target& target = request.targets.emplace_back(MakeTarget(card));
      target.unusable = WhyUnsupported(request.settings.framework, target.device);
    }
  }
  SetDevice(calibrations, options);
  NoteUnused(calibrations, request);
}

Target AssumedCard() { return MakeTarget({.card = FindCard("a100-80gb")}); }

int ExitCodeOf(const std::vector<Judgement>& judgements, const Options& options) {
  const bool holds = std::all_of(judgements.begin(), judgements.end(), [&](const Judgement& j) {
    return j.verdict == Verdict::kFits || (j.verdict == Verdict::kTight && !options.is_strict);
  });
  return holds || options.exit_zero ? kExitDone : kExitTargetFails;
}

int ExitCodeOf(const std::vector<JudgedTarget>& targets, const Options& options) {
  std::vector<Judgement> judgements;
  for (const JudgedTarget& judged : targets) judgements.push_back(judged.judgement);
  return ExitCodeOf(judgements, options);
}

// What follows is --cudnn.
namespace {

constexpr char kAuto[] = "auto";  // where PyTorch has it
constexpr char kNone[] = "none";  // no convolution asks for a workspace

std::shared_ptr<Libraries> Open(const std::string& typed) {
  std::shared_ptr<Libraries> libraries =
      OpenLibraries(PlacesOfEnvironment(typed == kAuto ? "" : typed));
  const LibraryFile& cudnn = libraries->files().back();
  if (cudnn.version.empty()) throw Error({.where = "--cudnn", .text = cudnn.why_missing});
  libraries->Workspaces({}, Describe(DefaultDevice()));  // says so where it is too old
  std::error_code ignored;
  const auto folder = std::filesystem::path(cudnn.path).parent_path();
  if (typed == kAuto || std::filesystem::equivalent(folder, typed, ignored)) return libraries;
  throw Error(
      {.where = "--cudnn",
       .text = fmt::format("expected a folder with libcudnn.so.9, found none in {}", Quoted(typed)),
       .hint = "--cudnn auto, which finds " + cudnn.path});
}

// A cuDNN to be asked.  Throws Error where it knows no such card.  REQUIRES: nothing was measured
// on the card (CalibrationsFor has nothing with --cudnn).
SharedCalibration WithSource(const std::shared_ptr<Libraries>& libraries,
                             const DeviceProfile& device) {
  Calibration known;
  known.card = device.name;
  known.compute_capability = device.compute_capability;
  known.multiprocessors = device.multiprocessors;
  known.cudnn = libraries->files().back().version;
  known.basis = Basis::kModelled;
  known.lacks_driver = !libraries->has_driver();
  libraries->Workspaces({}, Describe(device));
  known.source = AskedWorkspaces(libraries, Describe(device));
  return std::make_shared<const Calibration>(std::move(known));
}

// As WithSource; for a card that cuDNN does not know, null and a warning.
SharedCalibration SourceOrWarning(const std::shared_ptr<Libraries>& libraries, Target& target) {
  try {
    return WithSource(libraries, target.device);
  } catch (const Error& error) {
    target.warnings.push_back(
        {warning::kNoCudnnPlans, fmt::format("{}: cuDNN {} knows no such card ({})", target.name,
                                             libraries->files().back().version, error.what())});
    return nullptr;
  }
}

void LeaveOutCudnn(DeviceProfile& device) {
  device.without_cudnn = true;
  device.is_cudnn_off = true;
}

}  // namespace

void AskCudnn(const Options& options, DeviceProfile& device) {
  if (options.cudnn.empty()) return;
  if (options.cudnn == kNone) return LeaveOutCudnn(device);
  device.without_cudnn = false;
  device.calibration = WithSource(Open(options.cudnn), device);
}

void AskCudnn(Options& options) {
  if (options.cudnn.empty()) return;
  EstimateRequest& request = options.request;
  if (options.cudnn == kNone) {
    LeaveOutCudnn(request.settings.device);
    for (Target& target : request.targets) LeaveOutCudnn(target.device);
    return;
  }
  const std::shared_ptr<Libraries> libraries = Open(options.cudnn);
  if (request.targets.empty()) {
    request.settings.device.calibration = WithSource(libraries, request.settings.device);
    return;
  }
  std::vector<std::pair<DeviceProfile, SharedCalibration>> asked;
  for (Target& target : request.targets) {
    const auto same = std::find_if(asked.begin(), asked.end(), [&](const auto& other) {
      return other.first.name == target.device.name && SameKernels(other.first, target.device);
    });
    if (same == asked.end()) {
      asked.emplace_back(target.device, SourceOrWarning(libraries, target));
      target.device.calibration = asked.back().second;
    } else {
      target.device.calibration = same->second;  // such cards share their predictions
    }
  }
  request.settings.device = request.targets[0].device;
}

}  // namespace onnxfit
