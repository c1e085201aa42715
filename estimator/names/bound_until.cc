#include "estimator/names/bound_until.h"

#include <algorithm>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"

namespace onnxfit {
namespace {

bool Binds(const Statement& statement, const std::string& name) {
  return std::ranges::find(statement.targets, name) != statement.targets.end();
}

// Whether what a turn of a loop has bound to `target` is not dropped by the next one.
bool GoesOn(const SourceStatement& line, const std::string& target, size_t place) {
  return place > 0 ? target != "_" && line.MayPassOn(target) : line.is_comprehension;
}

}  // namespace

int64_t NameBindings::BoundUntil(const ModuleCall& module, size_t index, size_t place) const {
  const Statement& statement = module.statements[index];
  const std::string& target = statement.targets[place];
  for (size_t i = index + 1; i < module.statements.size(); ++i) {
    const Statement& next = module.statements[i];
    if (statement.source != kNoStatement &&
        program_.source.AreSame(next.source, statement.source) &&
        GoesOn(program_.source.At(statement.source), target, place)) {
      continue;
    }
    const bool may_rebind = next.is_hidden && next.targets.empty() && Reads(next, statement);
    if (Returns(next)) return EndOfReturn(module, next);
    if (Binds(next, target) && ReturnsSame(next, statement)) continue;
    if (Binds(next, target) || may_rebind || RebindsUnknown(next, statement, target))
      return EndOfTurns(module, i);
    if (place == 0 && PassesOther(module, next, target)) return next.first - 1;
    if (TakesFirstResult(next, target)) return next.last;
  }
  return module.last;
}

// "outputs = self.attn(x)", behind which stands "x = outputs[0]".
bool NameBindings::TakesFirstResult(const Statement& next, const std::string& target) const {
  return next.source != kNoStatement &&
         NameOfFirstResult(program_.source.At(next.source).text) == target;
}

// "q, k = rotate(q, k, cos)" reads what a line has bound of which the file shows the end alone: one
// of the names that it binds anew.
bool NameBindings::RebindsUnknown(const Statement& next, const Statement& statement,
                                  const std::string& target) const {
  const bool is_unknown = target.starts_with('.') || target.starts_with(')');
  if (!is_unknown || next.source == kNoStatement || next.targets.size() < 2) return false;
  const SourceStatement& line = program_.source.At(next.source);
  const bool passes_all = std::ranges::all_of(
      next.targets, [&](const std::string& name) { return line.MayPassOn(name); });
  return !line.function.empty() && !line.is_open && passes_all && Reads(next, statement);
}

int64_t NameBindings::NameBoundUntil(const ModuleCall& module, size_t index,
                                     const std::string& name) const {
  for (size_t i = index + 1; i < module.statements.size(); ++i) {
    const Statement& next = module.statements[i];
    if (Returns(next)) return EndOfReturn(module, next);
    if (Binds(next, name)) return next.last;
  }
  return module.last;
}

const Statement* NameBindings::MakerOf(const ModuleCall& module, NameId name) const {
  const int64_t born = name == kNoName ? ValueLives::kBeforeAll : lives_.BornAt(name);
  for (const Statement& statement : module.statements) {
    if (statement.first <= born && born <= statement.last) return &statement;
  }
  return nullptr;
}

bool NameBindings::Returns(const Statement& statement) const {
  return statement.source != kNoStatement && program_.source.At(statement.source).returns;
}

// Several turns of a loop may be of one: "return torch.cat([self.head(x) for x in xs])".
int64_t NameBindings::EndOfReturn(const ModuleCall& module, const Statement& returning) const {
  const auto is_same = [&](const Statement& statement) {
    return statement.source != kNoStatement &&
           program_.source.AreSame(statement.source, returning.source);
  };
  return std::find_if(module.statements.rbegin(), module.statements.rend(), is_same)->last;
}

// Behind all turns of "x = [f(x) for f in fs]".
int64_t NameBindings::EndOfTurns(const ModuleCall& module, size_t index) const {
  const StatementId source = module.statements[index].source;
  if (source == kNoStatement || !program_.source.At(source).is_comprehension) {
    return module.statements[index].last;
  }
  while (index + 1 < module.statements.size() &&
         program_.source.AreSame(module.statements[index + 1].source, source)) {
    ++index;
  }
  return module.statements[index].last;
}

bool NameBindings::Reads(const Statement& later, const Statement& statement) const {
  const std::vector<NameId>& values = program_.calls[Index(statement.last)].outputs;
  return std::ranges::any_of(values, [&](NameId value) {
    return value != kNoName && lives_.LastReadAt(value) >= later.first && ReadsValue(later, value);
  });
}

bool NameBindings::MakesReadBehind(const Statement& statement, int64_t last) const {
  for (int64_t i = statement.first; i <= statement.last; ++i) {
    for (const NameId value : program_.calls[Index(i)].outputs) {
      if (value != kNoName && lives_.LastReadAt(value) > last) return true;
    }
  }
  return false;
}

bool NameBindings::ReturnsSame(const Statement& later, const Statement& statement) const {
  if (later.source == kNoStatement || program_.source.At(later.source).own_call.empty())
    return false;
  return MakesReadBehind(statement, later.last) && !MakesReadBehind(later, later.last);
}

bool NameBindings::ReturnsArgument(const ModuleCall& module, size_t index) const {
  const Statement& statement = module.statements[index];
  if (statement.targets.empty()) return false;
  return std::any_of(
      module.statements.begin(), module.statements.begin() + static_cast<std::ptrdiff_t>(index),
      [&](const Statement& earlier) {
        return Binds(earlier, statement.targets[0]) && ReturnsSame(statement, earlier);
      });
}

bool NameBindings::ReadsValue(const Statement& statement, NameId value) const {
  for (int64_t i = statement.first; i <= statement.last; ++i) {
    const std::vector<NameId>& inputs = program_.calls[Index(i)].inputs;
    if (std::ranges::find(inputs, value) != inputs.end()) return true;
  }
  return false;
}

// The name that the statement passes first to the module that it calls; of "outputs = block(",
// which goes on in lines that the file does not show, what the module that reads it calls it, which
// is mostly the same.
std::string NameBindings::FirstArgumentOf(const Statement& statement) const {
  const std::vector<StatementId>& frames = program_.calls[Index(statement.first)].frames;
  const SourceStatement* line = &program_.source.At(statement.source);
  for (size_t i = statement.level; line->passes.empty() && line->is_open; ++i) {
    if (i >= frames.size() || frames[i] == kNoStatement) return "";
    line = &program_.source.At(frames[i]);
  }
  return line->passes;
}

// Whether `next`, a further turn of a loop, passes by the name `target` what the turn before has
// made: "x = outputs[0]", which makes no call, stands behind "outputs = block(x)".
bool NameBindings::PassesOther(const ModuleCall& module, const Statement& next,
                               const std::string& target) const {
  const AtenCall& call = program_.calls[Index(next.first)];
  if (next.source == kNoStatement || runs_.DepthAt(next.first) <= next.level) return false;
  if (FirstArgumentOf(next) != target) return false;
  const Statement* maker = call.inputs.empty() ? nullptr : MakerOf(module, call.inputs[0]);
  return maker != nullptr && maker->first < next.first &&
         program_.source.AreSame(maker->source, next.source);
}

}  // namespace onnxfit
