#include "cli/asked_of_file.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "cli/values.h"
#include "cli/version_checks.h"
#include "estimator/base/error.h"
#include "estimator/base/warnings.h"
#include "estimator/fit/file_types.h"

namespace onnxfit {
namespace {

// Whether that version has what flags ask for.
bool Has(const FrameworkProfile& framework, const EstimateRequest& request) {
  TrainingSettings settings = request.settings;
  settings.framework = framework;
  try {
    CheckVersion(settings);
    const std::string& conf = request.alloc_conf.text;
    if (!conf.empty()) ParseAllocConf({.place = "--alloc-conf", .text = conf}, framework);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// `wrote`, or the first version behind it that has what flags ask for.
const FrameworkProfile& FirstThatServes(const FrameworkProfile& wrote,
                                        const EstimateRequest& request) {
  for (const FrameworkProfile& framework : Frameworks()) {
    if (&framework >= &wrote && Has(framework, request)) return framework;
  }
  return NewestFramework();
}

// What follows from the version where nobody says otherwise.
void Take(const FrameworkProfile& framework, EstimateRequest& request) {
  TrainingSettings& settings = request.settings;
  settings.framework = framework;
  if (framework.keeps_zeroed_grads && !request.zero_grad_is_given) {
    settings.loop.zero_grad = ZeroGrad::kKeep;
  }
  for (Target& target : request.targets) {
    target.unusable = WhyUnsupported(framework, target.device);
  }
}

Warning NewerWarning(const std::string& version) {
  return {warning::kNewerFramework,
          fmt::format("PyTorch {} wrote the file, which is newer than {}, the newest that is known "
                      "here: the answer is by that one's rules",
                      ReleaseOf(version), NewestFramework().name)};
}

}  // namespace

EstimateRequest AskedOf(const Graph& file, EstimateRequest request) {
  request = WithTypesOf(file, std::move(request));
  FrameworkChoice& choice = request.settings.framework_choice;
  if (choice.basis == FrameworkBasis::kGiven) return request;
  const FrameworkProfile* const wrote = FindFramework(file.torch);
  if (wrote == nullptr) {
    choice.basis = FrameworkBasis::kUnknown;
    Take(FirstThatServes(DefaultFramework(), request), request);
    return request;
  }
  const FrameworkProfile& taken = FirstThatServes(*wrote, request);
  choice = {.basis = IsOf(taken, file.torch) ? FrameworkBasis::kFile : FrameworkBasis::kNearest,
            .written_by = file.torch};
  if (IsNewerThanKnown(file.torch)) request.warnings.push_back(NewerWarning(file.torch));
  Take(taken, request);
  return request;
}

Options AskedOf(const Graph& file, Options options) {
  options.request = AskedOf(file, std::move(options.request));
  return options;
}

}  // namespace onnxfit
