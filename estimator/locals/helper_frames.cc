#include "estimator/locals/helper_frames.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

// One call of the function's, and what is bound to its results; or what it returns.
struct HelperLine {
  std::vector<std::string_view> targets = {};
  std::vector<std::string_view> dropped = {};
  std::string_view op = {};  // "" of one that returns its targets
  bool in_loop = false;
  bool is_optional = false;  // an export leaves out what nothing reads
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

// "proj_out, -gate = mul", "  state = add" of a loop, "return proj_out"
HelperLine ReadHelperLine(std::string_view text) {
  constexpr std::string_view kReturn = "return ";
  if (text.starts_with(kReturn)) return {.targets = PartsOf(text.substr(kReturn.size()), ", ")};
  HelperLine line = {.in_loop = text.starts_with("  ")};
  if (line.in_loop) text.remove_prefix(2);
  const size_t equals = text.find(" = ");
  line.op = text.substr(equals + 3);
  line.is_optional = line.op.ends_with('?');
  if (line.is_optional) line.op.remove_suffix(1);
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

constexpr std::string_view kCast = "to";

// How texts call it: a cast to the type of another tensor is one, too.
std::string_view NameOf(const AtenCall& call) { return call.op == "type_as" ? kCast : call.op; }

constexpr std::string_view kAnyCast = "cast";

// Of a line of a text.
bool IsCast(std::string_view name) { return name == kCast || name == kAnyCast; }

// torch.zeros and torch.ones are a number to ONNX, which their text in a .pt2 calls "bernoulli".
bool IsCalled(std::string_view name, std::string_view op) {
  if (name == kAnyCast) return op == kCast || op == "to_other_width";
  if (name.ends_with(".*")) {  // a child of a list
    const std::string_view list = name.substr(0, name.size() - 1);
    return op.starts_with(list) && IsNumbered(op.substr(list.size()));
  }
  return name == op || (name == "bernoulli" && op == "constant");
}

class HelperRun {
 public:
  HelperRun(const Program& program, const ModuleRuns& runs, const Statement& statement,
            const std::vector<HelperLine>& lines)
      : program_(program), runs_(runs), statement_(statement), lines_(lines) {}

  // Nothing where not all lines are found.
  HelperNames Run() {
    for (int64_t i = statement_.first; i <= statement_.last; ++i) {
      const std::string module = ModuleAt(i);
      if (!IsLine(module)) Follow(NameOf(program_.calls[Index(i)]), i);
      if (!module.empty() && runs_.EndOf(i, statement_.level) == i) Follow(module, i);
    }
    SkipTo(AfterCasts(next_));
    if (!OpOf(next_).empty()) return {};
    if (next_ < lines_.size()) Return(lines_[next_]);
    while (!bound_.empty()) Drop(bound_.begin()->first, statement_.last);
    return std::move(names_);
  }

 private:
  void Follow(std::string_view op, int64_t call) {
    const size_t line = LineAt(op);
    if (line >= lines_.size()) return;
    SkipTo(line);
    Bind(lines_[line], call);
    last_ = call;
    next_ = line + 1;
  }

  // ONNX has no casts that do nothing, which return what they are given: as texts have them, what
  // the line before has made.
  void SkipTo(size_t end) {
    for (; next_ < end; ++next_) {
      if (last_ >= 0 && IsCast(OpOf(next_))) Bind(lines_[next_], last_);
    }
  }

  size_t AfterCasts(size_t line) const {
    while (IsCast(OpOf(line))) ++line;
    return line;
  }

  // Whether the module is of a list that a line calls: what runs in it is no line.
  bool IsLine(std::string_view module) const {
    return !module.empty() && std::ranges::any_of(lines_, [&](const HelperLine& line) {
      return line.op.ends_with(".*") && IsCalled(line.op, module);
    });
  }

  // "self.blocks.3" of the module that the function calls, which makes the call; "" without one.
  std::string ModuleAt(int64_t call) const {
    const size_t level = statement_.level;
    if (runs_.DepthAt(call) <= level) return "";
    const ModuleId module = program_.calls[Index(call)].module;
    const std::string& name = program_.modules.NameAt(module, level);
    const std::string caller = level > 0 ? program_.modules.NameAt(module, level - 1) + "." : "";
    return "self." + std::string(name.starts_with(caller) ? name.substr(caller.size()) : name);
  }

  // That of a line that makes a call, "" of others.
  std::string_view OpOf(size_t line) const { return line < lines_.size() ? lines_[line].op : ""; }

  // The next line, if it is `op`, or the one behind its casts, or behind one that may be missing
  // and the casts of that, or the first of the loop that ends before it; behind all where none is.
  size_t LineAt(std::string_view op) const {
    if (IsCalled(OpOf(next_), op)) return next_;
    const size_t behind = AfterCasts(next_);
    if (IsCalled(OpOf(behind), op)) return behind;
    if (behind < lines_.size() && lines_[behind].is_optional) {
      for (const size_t line : {behind + 1, AfterCasts(behind + 1)}) {
        if (IsCalled(OpOf(line), op)) return line;
      }
    }
    const bool goes_on = next_ < lines_.size() && lines_[next_].in_loop;
    size_t line = next_;
    while (!goes_on && line > 0 && lines_[line - 1].in_loop) --line;
    return IsCalled(OpOf(line), op) ? line : lines_.size();
  }

  void Bind(const HelperLine& line, int64_t call) {
    for (const std::string_view name : line.dropped) Drop(name, call);
    const std::vector<NameId>& values = program_.calls[Index(call)].outputs;
    for (size_t i = 0; i < line.targets.size() && i < values.size(); ++i) {
      for (const std::string_view name : PartsOf(line.targets[i], "=")) {
        if (!name.ends_with("[]")) Drop(name, call);
        if (values[i] != kNoName) bound_[name].push_back(values[i]);
      }
    }
  }

  // "return a, b", and "return mean+std" of an object that has both.
  void Return(const HelperLine& line) {
    for (const std::string_view target : line.targets) {
      std::vector<NameId>& values = names_.returned.emplace_back();
      for (const std::string_view name : PartsOf(target, "+")) {
        const std::vector<NameId>& held = bound_[name];
        values.insert(values.end(), held.begin(), held.end());
      }
    }
  }

  void Drop(std::string_view name, int64_t call) {
    const auto found = bound_.find(name);
    if (found == bound_.end()) return;
    for (const NameId value : found->second) {
      names_.locals.push_back({value, call, std::string(name)});
    }
    bound_.erase(found);
  }

  const Program& program_;
  const ModuleRuns& runs_;
  const Statement& statement_;
  const std::vector<HelperLine>& lines_;
  size_t next_ = 0;
  int64_t last_ = -1;  // the call that a line was found for
  std::map<std::string_view, std::vector<NameId>> bound_;
  HelperNames names_;
};

}  // namespace

HelperNames FindHelperNames(const Program& program, const ModuleRuns& runs,
                            const Statement& statement) {
  if (statement.source == kNoStatement) return {};
  const SourceStatement& line = program.source.At(statement.source);
  for (const HelperFrame& frame : HelperFrames()) {
    if (!line.Mentions(frame.call) || line.file.find(frame.file) == std::string::npos) continue;
    HelperNames names = HelperRun(program, runs, statement, LinesOf(frame)).Run();
    if (!names.locals.empty()) return names;
  }
  return {};
}

}  // namespace onnxfit
