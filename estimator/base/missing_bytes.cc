#include "estimator/base/missing_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "estimator/base/warnings.h"

namespace onnxfit {
namespace {

// The warnings that mean "this may be too little".
struct MissingRow {
  std::string_view code;
  bool is_bounded;
  std::string_view what;
};

constexpr MissingRow kMissing[] = {
    {warning::kUnsizedTensors, false,
     "parameters whose sizes the file does not say are not counted"},
    {warning::kCountedOnce, false, "the body of a loop is counted once"},
    // Copies of what bodies of torch.cond make, workspaces of transforms: they go with the sizes of
    // what such an operator reads and makes.
    {warning::kUnknownOperator, true, "operators without a rule may take more"},
    {warning::kStoredShape, true, "shapes that are believed may be larger"},
};

}  // namespace

MissingBytes MissingBytesOf(std::initializer_list<const Warnings*> lists) {
  MissingBytes missing;
  for (const MissingRow& row : kMissing) {
    const bool is_told = std::ranges::any_of(lists, [&](const Warnings* warnings) {
      return std::ranges::any_of(*warnings, [&](const Warning& w) { return w.code == row.code; });
    });
    if (!is_told) continue;
    auto& reasons = row.is_bounded ? missing.bounded : missing.unbounded;
    reasons.push_back(fmt::format("{} ({})", row.what, row.code));
  }
  return missing;
}

}  // namespace onnxfit
