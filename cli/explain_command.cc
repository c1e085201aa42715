// `onnxfit explain`: what a warning means.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ostream>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/values.h"
#include "estimator/base/error.h"
#include "estimator/base/warning_texts.h"
#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

std::string Told(const WarningText& warning) {
  return fmt::format("{}: {}\n\n{}\nWhat settles it\n{}", warning.code, warning.title,
                     Wrap("", warning.means), Wrap(kIndent, warning.todo));
}

std::string List() {
  std::vector<std::vector<Cell>> rows;
  for (const WarningText& warning : WarningTexts()) {
    rows.push_back({{std::string(warning.code)}, {std::string(warning.title)}});
  }
  return TrimLines(Table(rows, "ll", ""));
}

// "of109" and "109" are OF109.
std::string CodeOf(const std::string& typed) {
  std::string code = typed;
  std::ranges::transform(code, code.begin(), [](unsigned char c) { return std::toupper(c); });
  return code.starts_with("OF") ? code : "OF" + code;
}

}  // namespace

int RunExplain(const Options& options, std::ostream& out) {
  if (options.filters.empty()) {
    out << List();
    return kExitDone;
  }
  std::string text;
  for (const std::string& typed : options.filters) {
    const WarningText* const warning = FindWarningText(CodeOf(typed));
    if (warning == nullptr) {
      throw Error({.text = fmt::format("expected the code of a warning, such as OF109, found {}",
                                       Quoted(typed)),
                   .hint = "onnxfit explain, which lists them"});
    }
    text += (text.empty() ? "" : "\n") + Told(*warning);
  }
  out << text;
  return kExitDone;
}

}  // namespace onnxfit
