#include "estimator/program/helper_frames.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/program/libraries.h"

namespace onnxfit {
namespace {

// One call of the function's, and what is bound to its results.
struct HelperLine {
  std::vector<std::string_view> targets;
  std::vector<std::string_view> dropped;
  std::string_view op;
};

std::vector<std::string_view> PartsOf(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + separator.size(), text.size()));
  }
  return parts;
}

// "proj_out, -gate = mul"
HelperLine ReadHelperLine(std::string_view text) {
  HelperLine line;
  const size_t equals = text.find(" = ");
  line.op = text.substr(equals + 3);
  for (const std::string_view name : PartsOf(text.substr(0, equals), ", ")) {
    const bool is_dropped = name.starts_with('-');
    is_dropped ? line.dropped.push_back(name.substr(1)) : line.targets.push_back(name);
  }
  return line;
}

std::vector<HelperLine> LinesOf(const HelperFrame& frame) {
  std::vector<HelperLine> lines;
  for (const std::string_view line : PartsOf(frame.text, "\n")) {
    lines.push_back(ReadHelperLine(line));
  }
  return lines;
}

class HelperRun {
 public:
  HelperRun(const Program& program, const Statement& statement)
      : program_(program), statement_(statement) {}

  // Nothing where not all lines are found.
  std::vector<KnownName> Run(const std::vector<HelperLine>& lines) {
    auto line = lines.begin();
    for (int64_t i = statement_.first; i <= statement_.last && line != lines.end(); ++i) {
      if (program_.calls[Index(i)].op == line->op) Bind(*line++, i);
    }
    if (line != lines.end()) return {};
    while (!bound_.empty()) Drop(bound_.begin()->first, statement_.last);
    return std::move(names_);
  }

 private:
  void Bind(const HelperLine& line, int64_t call) {
    for (const std::string_view name : line.dropped) Drop(name, call);
    const std::vector<NameId>& values = program_.calls[Index(call)].outputs;
    for (size_t i = 0; i < line.targets.size() && i < values.size(); ++i) {
      Drop(line.targets[i], call);
      bound_[line.targets[i]] = values[i];
    }
  }

  void Drop(std::string_view name, int64_t call) {
    const auto found = bound_.find(name);
    if (found == bound_.end()) return;
    if (found->second != kNoName) names_.push_back({found->second, call, std::string(name)});
    bound_.erase(found);
  }

  const Program& program_;
  const Statement& statement_;
  std::map<std::string_view, NameId> bound_;
  std::vector<KnownName> names_;
};

}  // namespace

std::vector<KnownName> FindHelperNames(const Program& program, const Statement& statement) {
  if (statement.source == kNoStatement) return {};
  for (const HelperFrame& frame : HelperFrames()) {
    if (!program.source.At(statement.source).Mentions(frame.call)) continue;
    std::vector<KnownName> names = HelperRun(program, statement).Run(LinesOf(frame));
    if (!names.empty()) return names;
  }
  return {};
}

}  // namespace onnxfit
