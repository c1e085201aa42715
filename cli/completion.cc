#include "cli/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/flags.h"
#include "cli/options.h"
#include "estimator/base/cards.h"
#include "estimator/base/warning_texts.h"

namespace onnxfit {
namespace {

using Words = std::vector<std::string>;

// "fp32", "bf16" of "fp32 | bf16" wherever it stands in the help of a flag.
Words ChoicesOf(const Flag& flag) {
  constexpr std::string_view kOr = " | ";
  Words words;
  const std::string_view help = flag.help;
  for (size_t at = help.find(kOr); at != help.npos; at = help.find(kOr, at + kOr.size())) {
    const size_t begin = help.find_last_of(' ', at - 1) + 1;  // npos + 1 is 0
    const size_t after = at + kOr.size();
    const size_t end = std::min(help.find_first_of(" ,;:", after), help.size());
    const std::string before(help.substr(begin, at - begin));
    if (words.empty() || words.back() != before) words.push_back(before);
    words.emplace_back(help.substr(after, end - after));
  }
  return words;
}

Words CardNames() {
  Words names;
  for (const Card& card : Cards()) names.emplace_back(card.alias);
  names.emplace_back(kCardAtHand);
  return names;
}

Words ValuesOf(const Flag& flag) {
  const bool is_card = flag.name == "--gpu" || flag.name == "--cards";
  return is_card ? CardNames() : ChoicesOf(flag);
}

Words CommandNames() {
  Words names;
  for (const Spelling<Command>& row : kCommands) names.emplace_back(row.name);
  return names;
}

// What a command takes that is no file and no flag.
Words ArgumentsOf(Command command) {
  if (command == Command::kCompletion) return {"bash", "zsh", "fish", "man"};
  if (command == Command::kGpus) return CardNames();
  Words codes;
  if (command != Command::kExplain) return codes;
  for (const WarningText& warning : WarningTexts()) codes.emplace_back(warning.code);
  for (const WarningText& verdict : VerdictTexts()) codes.emplace_back(verdict.code);
  return codes;
}

Words NamesOfFlag(const Flag& flag) {
  Words names;
  if (!flag.name.empty()) names.emplace_back(flag.name);
  if (!flag.letter.empty()) names.emplace_back(flag.letter);
  return names;
}

Words FlagsOf(Command command) {
  Words names;
  for (const Flag& flag : Flags()) {
    if (!IsOf(flag, command)) continue;
    for (std::string& name : NamesOfFlag(flag)) names.push_back(std::move(name));
  }
  return names;
}

// --- bash, and zsh by its bashcompinit --------------------------------------------------------

// Rows of one name, of several commands, together.
std::string BashValues() {
  std::map<std::string, std::set<std::string>> values;
  for (const Flag& flag : Flags()) {
    for (const std::string& value : ValuesOf(flag)) {
      values[fmt::format("{}", fmt::join(NamesOfFlag(flag), "|"))].insert(value);
    }
  }
  std::string text;
  for (const auto& [names, words] : values) {
    text += fmt::format("    {}) _onnxfit_words \"{}\"; return ;;\n", names, fmt::join(words, " "));
  }
  return text;
}

std::string BashFlags() {
  std::string text;
  for (const Spelling<Command>& row : kCommands) {
    text +=
        fmt::format("      {}) words=\"{}\" ;;\n", row.name, fmt::join(FlagsOf(row.value), " "));
  }
  return text;
}

// Of commands that take words that can be listed.
std::string BashArguments() {
  std::string text;
  for (const Spelling<Command>& row : kCommands) {
    const Words words = ArgumentsOf(row.value);
    if (words.empty()) continue;
    text +=
        fmt::format("    {}) _onnxfit_words \"{}\"; return ;;\n", row.name, fmt::join(words, " "));
  }
  return text;
}

std::string Bash() {
  const std::string commands = fmt::format("{}", fmt::join(CommandNames(), "|"));
  return fmt::format(R"(# Completion of onnxfit for bash: source it, or put it into
# ~/.local/share/bash-completion/completions/onnxfit
_onnxfit_words() {{
  mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -W "$1" -- "$current")
}}
_onnxfit() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
  local command=estimate words="" word
  COMPREPLY=()
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case $word in {}) command=$word; break ;; esac
  done
  case $before in
{}  esac
  if [[ $current == -* ]]; then
    case $command in
{}    esac
    _onnxfit_words "$words"
    return
  fi
  case $command in
{}  esac
  mapfile -t COMPREPLY < <(compgen -f -- "$current")
  if ((COMP_CWORD == 1)); then
    _onnxfit_words "{}"
  fi
}}
complete -o filenames -F _onnxfit onnxfit
)",
                     commands, BashValues(), BashFlags(), BashArguments(),
                     fmt::join(CommandNames(), " "));
}

std::string Zsh() {
  return "#compdef onnxfit\n# Completion of onnxfit for zsh: source it behind compinit.\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         Bash();
}

// --- fish ---------------------------------------------------------------------------------------

// As fish quotes text: in single quotes, those and backslashes escaped.
std::string FishQuoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

// When a flag of some commands is completed; estimate is what runs without a command's name.
std::string FishCondition(const Flag& flag) {
  Words of;
  for (const Spelling<Command>& row : kCommands) {
    if (IsOf(flag, row.value)) of.emplace_back(row.name);
  }
  if (of.size() == std::size(kCommands)) return "";
  std::string seen = fmt::format("__fish_seen_subcommand_from {}", fmt::join(of, " "));
  if (IsOf(flag, Command::kEstimate)) {
    seen += fmt::format("; or not __fish_seen_subcommand_from {}", fmt::join(CommandNames(), " "));
  }
  return " -n " + FishQuoted(seen);
}

std::string Fish() {
  std::string text =
      "# Completion of onnxfit for fish: put it into\n"
      "# ~/.config/fish/completions/onnxfit.fish\n";
  for (const std::string& command : CommandNames()) {
    text += fmt::format("complete -c onnxfit -n __fish_use_subcommand -a {}\n", command);
  }
  for (const Spelling<Command>& row : kCommands) {
    const Words words = ArgumentsOf(row.value);
    if (words.empty()) continue;
    text += fmt::format("complete -c onnxfit -n '__fish_seen_subcommand_from {}' -f -a '{}'\n",
                        row.name, fmt::join(words, " "));
  }
  for (const Flag& flag : Flags()) {
    text += "complete -c onnxfit" + FishCondition(flag);
    if (!flag.name.empty()) text += fmt::format(" -l {}", flag.name.substr(2));
    if (!flag.letter.empty()) text += fmt::format(" -s {}", flag.letter.substr(1));
    if (!flag.value.empty()) text += " -r";
    const Words values = ValuesOf(flag);
    if (!values.empty()) text += fmt::format(" -f -a '{}'", fmt::join(values, " "));
    text += " -d " + FishQuoted(flag.help) + "\n";
  }
  return text;
}

// --- man(1) -------------------------------------------------------------------------------------

// `text` as roff reads it: no request at a line's beginning, backslashes and dashes as they are.
std::string Roff(std::string_view text) {
  std::string escaped;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && (c == '.' || c == '\'')) escaped += "\\&";
    begins_line = c == '\n';
    if (c == '\\' || c == '-') {
      escaped += c == '\\' ? "\\e" : "\\-";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string ManFlag(const Flag& flag) {
  return fmt::format(".TP\n.B {} \\fI{}\\fP\n{}{}\n",
                     Roff(fmt::format("{}", fmt::join(NamesOfFlag(flag), ", "))), Roff(flag.value),
                     Roff(flag.help),
                     flag.standard.empty() ? "" : Roff(" [" + std::string(flag.standard) + "]"));
}

std::string ManFlags(Command command) {
  std::string text;
  for (const std::string_view group : GroupsOf(command)) {
    text += fmt::format(".SS \"{}\"\n", Roff(group));
    for (const Flag& flag : Flags()) {
      if (IsOf(flag, command) && flag.group == group) text += ManFlag(flag);
    }
  }
  return text;
}

std::string Man() {
  std::string text =
      ".TH ONNXFIT 1\n.SH NAME\nonnxfit \\- how much GPU memory a PyTorch training "
      "step needs, and why\n";
  for (const Spelling<Command>& row : kCommands) {
    const std::string help = HelpText(row.value);
    const size_t usage = help.find("usage: ");
    const size_t flags = help.find("\n\n", usage);
    const size_t examples = help.find("\nexamples\n");
    text += fmt::format(".SH \"ONNXFIT {}\"\n.nf\n{}\n.fi\n", row.name,
                        Roff(help.substr(usage, flags - usage)));
    text += ManFlags(row.value);
    if (examples != help.npos) {
      text += fmt::format(".SS \"Examples and exit codes\"\n.nf\n{}.fi\n",
                          Roff(help.substr(examples + 10)));
    }
  }
  return text;
}

}  // namespace

std::string CompletionFor(std::string_view shell) {
  if (shell == "bash") return Bash();
  if (shell == "zsh") return Zsh();
  if (shell == "fish") return Fish();
  return shell == "man" ? Man() : "";
}

}  // namespace onnxfit
