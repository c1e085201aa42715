#include "estimator/base/suggest.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <vector>

namespace onnxfit {
namespace {

bool SameLetter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

}  // namespace

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);  // one at a time
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (SameLetter(a[i], b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string_view Nearest(std::string_view typed, std::span<const std::string_view> candidates) {
  std::string_view nearest;
  size_t best = std::string_view::npos;
  for (const std::string_view candidate : candidates) {
    const size_t distance = EditDistance(typed, candidate);
    if (distance >= best) continue;
    best = distance;
    nearest = candidate;
  }
  return best <= std::max<size_t>(2, nearest.size() / 3) ? nearest : std::string_view();
}

}  // namespace onnxfit
