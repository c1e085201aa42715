#include "estimator/report/csv.h"

namespace onnxfit {

std::string CsvField(std::string_view text) {
  const bool is_plain = text.find_first_of(",\"\r\n") == std::string_view::npos &&
                        !text.starts_with(' ') && !text.ends_with(' ');
  if (is_plain) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string CsvLine(const std::vector<std::string>& fields) {
  std::string line;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) line += ',';
    line += CsvField(fields[i]);
  }
  // An empty line would be no record.
  return (line.empty() && fields.size() == 1 ? "\"\"" : line) + '\n';
}

}  // namespace onnxfit
