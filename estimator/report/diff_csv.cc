#include "estimator/report/diff_csv.h"

#include <fmt/format.h>

#include "estimator/report/csv.h"

namespace onnxfit {

std::string ToCsv(const Diff& diff) {
  std::string text =
      CsvLine({"name", "old_name", "change", "op", "count", "old_bytes", "new_bytes"});
  for (const ChangedKind& kind : diff.comparison.kinds) {
    text += CsvLine({kind.kind, "", "kind", "", "", fmt::format("{}", kind.old_bytes),
                     fmt::format("{}", kind.new_bytes)});
  }
  for (const ChangedPlaces& places : diff.comparison.places) {
    text += CsvLine({places.name, places.old_name, std::string(ToString(places.change)), places.op,
                     fmt::format("{}", places.names.size()), fmt::format("{}", places.old_bytes),
                     fmt::format("{}", places.new_bytes)});
  }
  return text;
}

}  // namespace onnxfit
