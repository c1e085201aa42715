#include "cli/verify_flags.h"

#include "cli/budgets.h"
#include "estimator/base/error.h"

namespace onnxfit {
namespace {

constexpr int64_t kMostSteps = 1'000'000;
constexpr int64_t kMostDevices = 1024;

void SetTolerance(const Typed& typed, Options& options) {
  if (!typed.text.ends_with('%')) Refuse(typed, "a share from 0 to 100%, such as 5%");
  const Allowance allowance = ParseAllowance(typed);
  if (allowance.bytes > 0 || allowance.share > 1)
    Refuse(typed, "a share from 0 to 100%, such as 5%");
  options.verify.limits.tolerance = allowance.share;
}

}  // namespace

void CheckVerify(const Options& options) {
  if (!options.verify.wants_max_batch || !options.request.binding.batch) return;
  throw Error({.where = "--max-batch", .text = "looks for the batch: expected no --batch"});
}

std::vector<Flag> VerifyFlags() {
  constexpr std::string_view kGroup = "The proof";
  constexpr Commands kOf = Only(Command::kVerify);
  return {
      {"--device", "", "N", kGroup, "which card, as CUDA counts them", "0",
       [](const Typed& t, Options& o) {
         o.verify.device = static_cast<int>(ParseWhole(t, 0, kMostDevices));
       },
       false, false, kOf},
      {"--steps", "", "N", kGroup, "training steps that are carried out", "10",
       [](const Typed& t, Options& o) {
         o.verify.limits.steps = static_cast<int>(ParseWhole(t, 1, kMostSteps));
       },
       false, false, kOf},
      {"--tolerance", "", "PERCENT", kGroup, "how far off a figure may be", "5%", SetTolerance,
       false, false, kOf},
      {"--max-batch", "", "", kGroup, "the largest batch that the card takes now", "",
       [](const Typed& t, Options& o) { o.verify.wants_max_batch = ParseSwitch(t); }, false, false,
       kOf},
      {"--save", "", "", kGroup,
       "write what the card's libraries take to onnxfit.calibration.json (or --calibration), which "
       "later estimates read",
       "", [](const Typed& t, Options& o) { o.verify.saves = ParseSwitch(t); }, false, false, kOf},
  };
}

}  // namespace onnxfit
