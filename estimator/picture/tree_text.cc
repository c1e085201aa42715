#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/picture/module_lines.h"
#include "estimator/picture/terminal.h"
#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

constexpr size_t kWidestName = 30;
constexpr int64_t kLeastShare = 100;  // of the peak, one of so many

std::string SizeCell(int64_t bytes) { return bytes == 0 ? "" : FormatBytes(bytes); }

std::string ShareCell(int64_t bytes, int64_t total) {
  if (total == 0) return "";
  return fmt::format("{:.1f}%", 100 * static_cast<double>(bytes) / static_cast<double>(total));
}

}  // namespace

std::string TreeText(const Estimate& estimate, const TextOptions& options) {
  if (estimate.modules.empty()) return "";
  const std::string_view ellipsis = GlyphsOf(options).ellipsis;
  const int64_t total = estimate.modules[0].bytes();
  std::vector<std::vector<Cell>> cells = {
      {{"module"}, {"parameters"}, {"weights"}, {"training"}, {"made in it"}, {"share"}}};
  int64_t left_out = 0;
  for (const ModuleLine& line : FoldModules(estimate.modules)) {
    const int64_t bytes = line.sum.bytes() * line.count;
    if (!options.verbose && line.sum.depth > 0 && bytes * kLeastShare < total) {
      ++left_out;
      continue;
    }
    const std::string name = std::string(2 * line.sum.depth, ' ') + Clean(line.name, options.ascii);
    cells.push_back({{CutMiddle(name, kWidestName, ellipsis)},
                     {CountText(line.sum.parameters * line.count)},
                     {SizeCell(line.sum.weight_bytes * line.count)},
                     {SizeCell(line.sum.training_bytes * line.count)},
                     {SizeCell(line.sum.activation_bytes * line.count)},
                     {ShareCell(bytes, total)}});
  }
  std::string text = "\nBy module, at the peak\n" + Table(cells, "lrrrrr", kIndent);
  if (left_out > 0) text += fmt::format("  {} below 1% left out (-v)\n", left_out);
  return TrimLines(text);
}

}  // namespace onnxfit
