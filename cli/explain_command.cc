// `onnxfit explain`: what a warning or a verdict means.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ostream>
#include <span>
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
  for (const std::span<const WarningText> texts : {WarningTexts(), VerdictTexts()}) {
    for (const WarningText& text : texts) {
      rows.push_back({{std::string(text.code)}, {std::string(text.title)}});
    }
  }
  return TrimLines(Table(rows, "ll", ""));
}

// "of109" and "109" are OF109, "tight" is TIGHT.
std::string CodeOf(const std::string& typed) {
  std::string code = typed;
  std::ranges::transform(code, code.begin(), [](unsigned char c) { return std::toupper(c); });
  const bool is_number = code.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? "OF" + code : code;
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
      throw Error({.text = fmt::format("expected the code of a warning, such as OF109, or a "
                                       "verdict, such as TIGHT, found {}",
                                       Quoted(typed)),
                   .hint = "onnxfit explain, which lists them"});
    }
    text += (text.empty() ? "" : "\n") + Told(*warning);
  }
  out << text;
  return kExitDone;
}

}  // namespace onnxfit
