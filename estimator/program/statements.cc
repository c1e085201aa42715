#include "estimator/program/statements.h"

#include <algorithm>
#include <span>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

class StatementFinder {
 public:
  StatementFinder(const Program& program, const ModuleRuns& runs)
      : modules_(program.modules), source_(program.source), calls_(program.calls), runs_(runs) {}

  std::vector<ModuleCall> Find() const {
    std::vector<ModuleCall> modules;
    for (const ModuleRun& run : runs_.all()) {
      modules.push_back(Read(run.first, run.last, run.level));
    }
    return modules;
  }

 private:
  ModuleCall Read(int64_t first, int64_t last, size_t depth) const {
    ModuleCall module = {.first = first, .last = last, .statements = {}};
    std::vector<std::string> called;  // by the last statement: keys of loops
    for (int64_t i = first; i <= last; i = module.statements.back().last + 1) {
      Statement statement = StatementOf(i, depth);
      const std::string key = LoopKey(i, depth);
      const bool in_helper = !module.statements.empty() && module.statements.back().in_helper;
      const bool turns = !in_helper &&
                         std::find(called.begin(), called.end(), key) != called.end() &&
                         !IsAround(statement, module.statements.back(), depth);
      if (!module.statements.empty() && !turns && IsSameLine(statement, module.statements.back())) {
        module.statements.back().last = statement.last;
      } else {
        statement.in_helper = CallsMethod(statement, last, depth);
        module.statements.push_back(std::move(statement));
        called.clear();
      }
      if (!key.empty()) called.push_back(key);
    }
    const auto is_unknown = [](const Statement& it) { return it.source == kNoStatement; };
    const bool shows_lines = !std::ranges::all_of(module.statements, is_unknown);
    for (size_t i = 0; i < module.statements.size(); ++i) {
      Statement& statement = module.statements[i];
      if (!is_unknown(statement)) continue;
      statement.targets.clear();
      if (shows_lines) statement.targets = NameOfResult(module, i, depth);
      if (statement.targets.empty()) statement.targets = NameOfOperand(module, i, depth);
    }
    ForgetGenerated(module.statements);
    JoinParts(module.statements, depth);
    NameChains(module, depth);
    return module;
  }

  // Of a part of a forward torch.export makes a graph, "with torch.no_grad():", whose names end
  // with it, as do those of an autograd.Function that runs several modules; of all of one forward
  // its names stand for those that the code has.
  void ForgetGenerated(std::vector<Statement>& statements) const {
    const auto is = [&](const Statement& statement, bool is_generated) {
      return statement.source != kNoStatement &&
             source_.At(statement.source).is_generated == is_generated;
    };
    const bool is_whole =
        std::ranges::none_of(statements, [&](const Statement& s) { return is(s, false); });
    if (statements.empty() || (is_whole && !GoesOnAround(statements))) return;
    for (Statement& statement : statements) {
      if (is(statement, true)) statement.targets.clear();
    }
  }

  // Whether the call in front of a forward, or the one behind it, is of a generated graph.
  bool GoesOnAround(const std::vector<Statement>& forward) const {
    const auto is_generated = [&](int64_t call) {
      if (call < 0 || call >= std::ssize(calls_) || calls_[Index(call)].frames.empty())
        return false;
      const StatementId line = calls_[Index(call)].frames.back();
      return line != kNoStatement && source_.At(line).is_generated;
    };
    return is_generated(forward.front().first - 1) || is_generated(forward.back().last + 1);
  }

  bool IsSameLine(const Statement& a, const Statement& b) const {
    return a.source != kNoStatement && source_.AreSame(a.source, b.source);
  }

  // "y = self.features(x)", or "y = x + self.features(x)", in a forward at `depth` that ends with
  // call `last`, and no module of that name is called in it.
  bool CallsMethod(const Statement& statement, int64_t last, size_t depth) const {
    if (statement.source == kNoStatement) return false;
    const SourceStatement& line = source_.At(statement.source);
    const std::string_view name = line.added_call.empty() ? line.own_call : line.added_call;
    for (int64_t i = statement.first; i <= last && !name.empty(); ++i) {
      const ModuleId module = calls_[Index(i)].module;
      if (depth + 1 >= modules_.DepthOf(module)) continue;
      const std::string& called = modules_.NameAt(module, depth + 1);
      if (ChildOf(called) == name || ChildOf(LoopKey(i, depth)) == name) return false;
    }
    return !name.empty();
  }

  void JoinParts(std::vector<Statement>& statements, size_t depth) const {
    for (size_t i = 1; i < statements.size(); ++i) {
      Statement& before = statements[i - 1];
      if (const size_t end = EndOfOpen(statements, i); end > i) {
        before.last = statements[end].last;
        const auto first = statements.begin() + static_cast<std::ptrdiff_t>(i--);
        statements.erase(first, first + static_cast<std::ptrdiff_t>(end - i));
        continue;
      }
      const bool is_chain = IsChain(statements[i], before);
      if (!is_chain && !IsRest(statements[i], before, depth) && !IsTail(statements[i], before)) {
        continue;
      }
      before.last = statements[i].last;
      before.is_chain = before.is_chain || is_chain;
      statements.erase(statements.begin() + static_cast<std::ptrdiff_t>(i--));
    }
  }

  // The statement that goes on in the line before `i`, behind those of lines below it, and reads
  // what that has made: "tanh(", behind "x[1:]", of "y = sigmoid(x) * tanh(".  Another turn of a
  // loop makes the same calls.  `i` where there is none.
  size_t EndOfOpen(const std::vector<Statement>& statements, size_t i) const {
    const Statement& before = statements[i - 1];
    if (before.source == kNoStatement || !source_.At(before.source).is_open) return i;
    const std::vector<NameId>& made = calls_[Index(before.last)].outputs;
    for (size_t end = i; end < statements.size(); ++end) {
      const Statement& later = statements[end];
      if (later.source == kNoStatement) return i;
      const bool reads_it = ReadsAny(later, made);
      if (source_.AreSame(later.source, before.source)) {
        const Turn turn = {later.first, later.last};
        const bool is_turn = MakeSameCalls(calls_, turn, {before.first, before.last});
        return reads_it && !is_turn ? end : i;
      }
      if (reads_it || source_.At(later.source).line <= source_.At(before.source).line) return i;
    }
    return i;
  }

  bool ReadsAny(const Statement& statement, const std::vector<NameId>& results) const {
    return std::any_of(calls_.begin() + statement.first, calls_.begin() + statement.last + 1,
                       [&](const AtenCall& call) { return Reads(call, results); });
  }

  // A module whose line is unknown, behind a line that calls more modules than were seen and
  // binds the same name: r of "x = r(cat([u(x), y]))".
  bool IsRest(const Statement& statement, const Statement& before, size_t depth) const {
    return before.source != kNoStatement && statement.source == kNoStatement &&
           !before.targets.empty() && statement.targets == before.targets &&
           source_.At(before.source).module_calls > ModulesIn(before, depth);
  }

  // "x = second(first(x))" of pairs from one list, whose call of `first` is `before`: other than a
  // further turn of the loop it makes other calls.
  bool IsAround(const Statement& statement, const Statement& before, size_t depth) const {
    if (!IsSameLine(statement, before)) return false;
    const SourceStatement& line = source_.At(before.source);
    return !line.Mentions(" for ") && line.module_calls > ModulesIn(before, depth) &&
           ReadsAny(statement, calls_[Index(before.last)].outputs) &&
           !MakeSameCalls(calls_, {statement.first, statement.last}, {before.first, before.last});
  }

  // ".view(n)" behind "self.key(x)", of "key = (", whose line makes no call.
  bool IsChain(const Statement& statement, const Statement& before) const {
    if (before.source == kNoStatement || statement.source == kNoStatement) return false;
    const SourceStatement& line = source_.At(statement.source);
    const std::vector<NameId>& read = calls_[Index(statement.first)].inputs;
    return line.text.starts_with('.') && source_.At(before.source).line < line.line &&
           !read.empty() && IsAmong(read[0], calls_[Index(before.last)].outputs);
  }

  // That under which its value is read; else one that no other statement has: what it binds is in a
  // line that is not known.
  void NameChains(ModuleCall& module, size_t depth) const {
    for (size_t i = 0; i < module.statements.size(); ++i) {
      Statement& statement = module.statements[i];
      const bool is_part = statement.is_chain || IsBoundAbove(module, i);
      if (!is_part || !statement.targets.empty()) continue;
      statement.targets = NameOfResult(module, i, depth);
      const int64_t line = source_.At(statement.source).line;
      if (statement.targets.empty()) statement.targets = {"." + std::to_string(line)};
    }
  }

  // "self.query(x).view(n)" of "query = (", in a line of its own: what reads it stands below, where
  // what it is an argument of would stand above.
  bool IsBoundAbove(const ModuleCall& module, size_t index) const {
    const Statement& statement = module.statements[index];
    if (statement.source == kNoStatement) return false;
    const SourceStatement& line = source_.At(statement.source);
    const size_t first = std::min(line.text.find_first_of("( ,"), line.text.size() - 1);
    const bool is_whole = line.text.ends_with(')') &&
                          std::ranges::count(line.text, '(') == std::ranges::count(line.text, ')');
    if (!line.text.starts_with("self.") || line.text[first] != '(' || !is_whole) return false;
    const std::vector<NameId>& results = calls_[Index(statement.last)].outputs;
    for (const Statement& later : std::span(module.statements).subspan(index + 1)) {
      if (!ReadsAny(later, results)) continue;
      return later.source != kNoStatement && source_.At(later.source).line > line.line;
    }
    return false;
  }

  // ").to(torch.bool)" behind "mask = create_mask(".
  bool IsTail(const Statement& statement, const Statement& before) const {
    if (before.source == kNoStatement || statement.source == kNoStatement) return false;
    const SourceStatement& head = source_.At(before.source);
    const SourceStatement& tail = source_.At(statement.source);
    return head.is_open && tail.is_tail && head.line < tail.line;
  }

  // How many modules `statement` of a forward at `depth` calls.
  int64_t ModulesIn(const Statement& statement, size_t depth) const {
    int64_t modules = 0;
    for (int64_t i = statement.first; i <= statement.last; ++i) {
      if (depth + 1 >= runs_.DepthAt(i)) continue;
      ++modules;
      i = runs_.EndOf(i, depth + 1);
    }
    return modules;
  }

  // The name under which the first that reads a result of statement `index` does so.
  std::vector<std::string> NameOfResult(const ModuleCall& module, size_t index,
                                        size_t depth) const {
    const std::vector<NameId>& results = calls_[Index(module.statements[index].last)].outputs;
    for (const Statement& later : std::span(module.statements).subspan(index + 1)) {
      if (later.source == kNoStatement) continue;
      for (int64_t i = later.first; i <= later.last; ++i) {
        if (!Reads(calls_[Index(i)], results)) continue;
        const std::string name = NameIn(source_.At(later.source), calls_[Index(i)], results, depth);
        return name.empty() ? std::vector<std::string>() : std::vector<std::string>{name};
      }
    }
    return {};
  }

  // A call of the forward's own on one tensor, of which nothing else is known, is taken to bind
  // the name that its operand has: "x = x.unsqueeze(0)", "x = self.dropout(x)".
  std::vector<std::string> NameOfOperand(const ModuleCall& module, size_t index,
                                         size_t depth) const {
    const Statement& statement = module.statements[index];
    const AtenCall& call = calls_[Index(statement.first)];
    const bool is_own =
        statement.first == statement.last &&
        (modules_.DepthOf(call.module) == depth + 1 || call.op.starts_with("dropout"));
    if (!is_own || statement.is_hidden || call.inputs.size() != 1) return {};
    for (size_t i = index; i-- > 0;) {  // backwards: it was mostly made just before
      const Statement& earlier = module.statements[i];
      if (!IsAmong(call.inputs[0], calls_[Index(earlier.last)].outputs)) continue;
      if (earlier.targets.empty()) return {};
      return {earlier.targets[0]};
    }
    return {};
  }

  // "x" of "y = self.conv(x)", "y = x + z" or "y = x.view(shape)", where the forward at `depth`
  // makes `call`, which reads one of `results`.
  std::string NameIn(const SourceStatement& line, const AtenCall& call,
                     const std::vector<NameId>& results, size_t depth) const {
    if (depth + 1 < modules_.DepthOf(call.module)) {
      return line.ArgumentTo(modules_.NameAt(call.module, depth + 1));
    }
    const auto& [left, right] = line.operands;
    if (!left.empty() && call.inputs.size() == 2) {
      return IsAmong(call.inputs[0], results) ? left : right;
    }
    return call.inputs.size() == 1 ? line.receiver : "";
  }

  static bool Reads(const AtenCall& call, const std::vector<NameId>& results) {
    return std::any_of(call.inputs.begin(), call.inputs.end(),
                       [&](NameId name) { return IsAmong(name, results); });
  }

  static bool IsAmong(NameId name, const std::vector<NameId>& names) {
    return name != kNoName && std::find(names.begin(), names.end(), name) != names.end();
  }

  // The statement that call `first` is the first of: a call of its own or of a module.
  Statement StatementOf(int64_t first, size_t depth) const {
    const int64_t last = depth + 1 < runs_.DepthAt(first) ? runs_.EndOf(first, depth + 1) : first;
    const StatementId source = FrameOf(first, last, depth);
    return {.first = first,
            .last = last,
            .source = source,
            .targets = Targets(source),
            .is_hidden = source == kNoStatement && HasSource(first, last),
            .level = depth + 1};
  }

  // The end of a statement whose first line is unknown binds a name that no other has.
  std::vector<std::string> Targets(StatementId source) const {
    if (source == kNoStatement) return {};
    const SourceStatement& line = source_.At(source);
    return line.is_tail ? std::vector<std::string>{")"} : line.targets;
  }

  bool HasSource(int64_t first, int64_t last) const {
    return std::any_of(calls_.begin() + first, calls_.begin() + last + 1, [&](const AtenCall& c) {
      if (c.frames.empty()) return false;
      return c.frames.back() == kNoStatement || !source_.At(c.frames.back()).is_generated;
    });
  }

  // The line of the forward at `depth` that made the calls `first` to `last`.  A module whose
  // forward calls super().forward has a frame more.
  StatementId FrameOf(int64_t first, int64_t last, size_t depth) const {
    for (int64_t i = first; i <= last; ++i) {
      const AtenCall& call = calls_[Index(i)];
      const size_t around = modules_.DepthOf(call.module);
      const size_t below = around - (depth + 1);  // frames between
      const bool has_all = call.frames.size() >= around;
      if (has_all) return call.frames[depth];
      if (below <= 1 && below < call.frames.size()) {
        return call.frames[call.frames.size() - 1 - below];
      }
    }
    return kNoStatement;
  }

  // The module that is called at `i`, all turns of a loop having one: "model.blocks" of
  // "model.blocks.3"; "" for a call of the forward's own.
  std::string LoopKey(int64_t i, size_t depth) const {
    const ModuleId around = calls_[Index(i)].module;
    if (depth + 1 == modules_.DepthOf(around)) return "";
    const std::string& called = modules_.NameAt(around, depth + 1);
    const std::string module = called.substr(0, called.find('@'));
    const size_t dot = module.find_last_not_of("0123456789");
    const bool is_numbered = dot != std::string::npos && module[dot] == '.';
    return is_numbered ? module.substr(0, dot) : module;
  }

  const ModuleTree& modules_;
  const SourceLines& source_;
  const std::vector<AtenCall>& calls_;
  const ModuleRuns& runs_;
};

}  // namespace

const Statement* StatementAt(const ModuleCall& module, int64_t call) {
  const auto found = std::ranges::find_if(module.statements, [&](const Statement& statement) {
    return statement.first <= call && call <= statement.last;
  });
  return found == module.statements.end() ? nullptr : &*found;
}

bool CallsModule(const Program& program, const Statement& statement) {
  return std::any_of(
      program.calls.begin() + statement.first, program.calls.begin() + statement.last + 1,
      [&](const AtenCall& call) { return program.modules.DepthOf(call.module) > statement.level; });
}

std::vector<ModuleCall> FindModuleCalls(const Program& program, const ModuleRuns& runs) {
  return StatementFinder(program, runs).Find();
}

bool MakeSameCalls(const std::vector<AtenCall>& calls, const Turn& a, const Turn& b) {
  return std::equal(calls.begin() + a.first, calls.begin() + a.last + 1, calls.begin() + b.first,
                    calls.begin() + b.last + 1,
                    [](const AtenCall& x, const AtenCall& y) { return x.op == y.op; });
}

}  // namespace onnxfit
