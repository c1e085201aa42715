#include "estimator/program/statements.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

bool IsIdentifier(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Where the first "=" is that assigns; npos where none does.
size_t Assignment(std::string_view line) {
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '(' || line[i] == '[' || line[i] == '\'' || line[i] == '"') break;
    if (line[i] != '=') continue;
    const bool compares =
        (i + 1 < line.size() && line[i + 1] == '=') ||
        (i > 0 && std::string_view("=!<>").find(line[i - 1]) != std::string_view::npos);
    return compares ? std::string_view::npos : i;
  }
  return std::string_view::npos;
}

class Finder {
 public:
  explicit Finder(const std::vector<AtenCall>& calls) : calls_(calls), ends_(calls.size()) {
    for (size_t i = calls.size(); i-- > 0;) {
      ends_[i].assign(calls[i].scope.size(), static_cast<int64_t>(i));
      if (i + 1 < calls.size())
        std::copy_n(ends_[i + 1].begin(), Shared(i, i + 1), ends_[i].begin());
    }
  }

  std::vector<ModuleCall> Find() const {
    std::vector<ModuleCall> modules;
    for (size_t i = 0; i < calls_.size(); ++i) {
      const size_t open = i == 0 ? 0 : Shared(i - 1, i);
      for (size_t depth = open; depth < calls_[i].scope.size(); ++depth) {
        ModuleCall module = Read(static_cast<int64_t>(i), ends_[i][depth], depth);
        if (!module.statements.empty()) modules.push_back(std::move(module));
      }
    }
    return modules;
  }

 private:
  size_t Shared(size_t a, size_t b) const {
    const auto& left = calls_[a].scope;
    const auto& right = calls_[b].scope;
    return static_cast<size_t>(
        std::mismatch(left.begin(), left.end(), right.begin(), right.end()).first - left.begin());
  }

  ModuleCall Read(int64_t first, int64_t last, size_t depth) const {
    ModuleCall module = {.first = first, .last = last, .statements = {}};
    for (int64_t i = first; i <= last;) {
      const bool direct = calls_[Index(i)].scope.size() == depth + 1;
      const int64_t end = direct ? i : ends_[Index(i)][depth + 1];
      const auto frame = FrameOf(i, end, depth).value_or(SourceFrame{});
      const bool returns = Trimmed(frame.text).substr(0, 7) == "return ";
      Statement statement = {i, end, frame.line, {}, TargetsOf(frame.text), returns};
      if (!direct) statement.called.push_back(LoopKey(calls_[Index(i)].scope[depth + 1]));
      Add(std::move(statement), module.statements);
      i = end + 1;
    }
    return module;
  }

  // The line of this module's forward that made the calls `first` to `last`.
  std::optional<SourceFrame> FrameOf(int64_t first, int64_t last, size_t depth) const {
    for (int64_t i = first; i <= last; ++i) {
      const AtenCall& call = calls_[Index(i)];
      const size_t below = call.scope.size() - (depth + 1);  // frames between
      if (below > 1 || below >= call.frames.size()) continue;
      return call.frames[call.frames.size() - 1 - below];
    }
    return std::nullopt;
  }

  // "model.blocks" of "model.blocks.3", whose turns of a loop have the same line.
  static std::string LoopKey(const std::string& module) {
    const size_t dot = module.rfind('.');
    const std::string last = dot == std::string::npos ? module : module.substr(dot + 1);
    const bool is_number =
        std::all_of(last.begin(), last.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    return is_number && dot != std::string::npos ? module.substr(0, dot) : module;
  }

  static void Add(Statement statement, std::vector<Statement>& statements) {
    const bool same_line =
        !statements.empty() && statement.line != 0 && statements.back().line == statement.line;
    if (!same_line) return statements.push_back(std::move(statement));
    std::vector<std::string>& called = statements.back().called;
    for (const std::string& module : statement.called) {
      if (std::find(called.begin(), called.end(), module) != called.end()) {
        return statements.push_back(std::move(statement));
      }
    }
    called.insert(called.end(), statement.called.begin(), statement.called.end());
    statements.back().last = statement.last;
  }

  const std::vector<AtenCall>& calls_;
  std::vector<std::vector<int64_t>> ends_;  // by call and depth: the last call of the module
};

}  // namespace

std::vector<std::string> TargetsOf(std::string_view line) {
  const size_t at = Assignment(line);
  if (at == std::string_view::npos) return {};
  std::string_view left = Trimmed(line.substr(0, at));
  while (!left.empty() && std::string_view("+-*/@").find(left.back()) != std::string_view::npos) {
    left.remove_suffix(1);
  }
  left = left.substr(0, left.find(':'));
  std::vector<std::string> targets;
  while (true) {
    const size_t comma = left.find(',');
    const std::string_view name = Trimmed(left.substr(0, comma));
    if (!IsIdentifier(name)) return {};
    targets.emplace_back(name);
    if (comma == std::string_view::npos) return targets;
    left.remove_prefix(comma + 1);
  }
}

std::vector<ModuleCall> FindModuleCalls(const std::vector<AtenCall>& calls) {
  return Finder(calls).Find();
}

}  // namespace onnxfit
