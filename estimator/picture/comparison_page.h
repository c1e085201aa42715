// `onnxfit report OLD NEW`: one HTML file that shows what grew between two answers.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "estimator/compare/compare.h"
#include "estimator/fit/estimate.h"

namespace onnxfit {

// How many of the changed places such a page shows.
inline constexpr size_t kPageChanges = 500;

struct ComparisonContent {
  Diff diff;
  std::optional<Estimate> before = {};  // with its curve; nullopt where that side is a report
  std::optional<Estimate> after = {};
  std::string version = {};  // of onnxfit
};

// The page: complete in one file, readable without its script, as ToHtml of a PageContent.  Both
// steps one over the other, what grew by kind and by place.  The element with the id "data" has
// what `diff --format json` prints, with the whole of "before" and "after", as far as they are
// models, and the "curve" of the second.
std::string ToHtml(const ComparisonContent& content);

}  // namespace onnxfit
