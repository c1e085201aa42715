#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/picture/module_lines.h"
#include "estimator/picture/page_parts.h"
#include "estimator/picture/terminal.h"
#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

constexpr size_t kLeastName = 12;
constexpr int64_t kLeastShare = 100;  // of the peak, one of so many

std::string SizeCell(int64_t bytes) { return bytes == 0 ? "" : FormatBytes(bytes); }

// Leaves them what the other columns have left of the page.
void CutNames(std::vector<std::vector<Cell>>& cells, std::string_view ellipsis) {
  const std::vector<size_t> widths = ColumnWidths(cells, cells[0].size());
  size_t others = kIndent.size();
  for (size_t i = 1; i < widths.size(); ++i) others += widths[i] + 2;
  const size_t room = std::max(kReportColumns - std::min(others, kReportColumns), kLeastName);
  for (std::vector<Cell>& row : cells) row[0].text = CutMiddle(row[0].text, room, ellipsis);
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
    cells.push_back({{name},
                     {CountText(line.sum.parameters * line.count)},
                     {SizeCell(line.sum.weight_bytes * line.count)},
                     {SizeCell(line.sum.training_bytes * line.count)},
                     {SizeCell(line.sum.activation_bytes * line.count)},
                     {PercentText(bytes, total)}});
  }
  CutNames(cells, ellipsis);
  std::string text = "\nBy module, at the peak\n" + Table(cells, "lrrrrr", kIndent);
  if (left_out > 0) text += fmt::format("  {} below 1% left out (-v)\n", left_out);
  return TrimLines(text);
}

}  // namespace onnxfit
