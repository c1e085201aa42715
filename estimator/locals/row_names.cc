#include "estimator/locals/row_names.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/base/module_names.h"
#include "estimator/libraries/libraries.h"

namespace onnxfit {
namespace {

// Takes `mark` off the beginning; whether it was there.
bool TakeOff(std::string_view& name, char mark) {
  const bool is_there = name.starts_with(mark);
  if (is_there) name.remove_prefix(1);
  return is_there;
}

// "softmax" of "attn/softmax", which becomes "attn".
std::string_view TakeInner(std::string_view& made_by) {
  const size_t slash = made_by.find('/');
  if (slash == std::string_view::npos) return "";
  const std::string_view inner = made_by.substr(slash + 1);
  made_by = made_by.substr(0, slash);
  return inner;
}

// Whether a row's `name` is that step: "blocks.*" any module of the list.
bool Is(const ForwardStep& step, std::string_view name) {
  if (!name.ends_with(".*")) return step.key.substr(0, step.key.find('@')) == name;
  name.remove_suffix(2);
  return step.is_child && IsListed(step.key) && ParentOf(step.key) == name;
}

class RowNameFinder {
 public:
  RowNameFinder(const Program& program, const ModuleRuns& runs,
                const std::vector<int64_t>& last_reads, const ForwardRun& forward,
                const std::vector<ForwardStep>& steps, int64_t last, std::vector<KnownName>& names)
      : program_(program),
        modules_(program.modules),
        calls_(program.calls),
        runs_(runs),
        last_reads_(last_reads),
        forward_(forward),
        steps_(steps),
        last_(last),
        names_(names) {}

  void Find(const KnownNameRow& row) {
    if (!std::ranges::all_of(row.children, [&](std::string_view child) { return Has(child); }))
      return;
    std::string_view made_by = row.made_by;
    const bool is_argument = TakeOff(made_by, '<');
    const bool are_items = TakeOff(made_by, '+');
    const std::string_view inner = TakeInner(made_by);
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (!IsMaker(made_by, i) || IsLeafCalledOutputs(row, steps_[i])) continue;
      const int64_t until = EndOf(row, i);
      if (is_argument) {
        BindArgument(row, steps_[i], until);
      } else if (are_items) {
        BindItems(row, steps_[i], until);
      } else if (!inner.empty()) {
        BindInner(row, steps_[i], inner, until);
      } else {
        BindAll(row, steps_[i], until);
      }
    }
  }

 private:
  const AtenCall& At(int64_t call) const { return calls_[Index(call)]; }

  // Of a row's children, "!" before one that is not there, "attention/self" one that has another,
  // "@block" the module itself, ">index_put" a call of its own.
  bool Has(std::string_view child) const {
    if (child.empty()) return true;
    if (TakeOff(child, '@')) return IsCalled(child);
    if (TakeOff(child, '>')) {
      return std::ranges::any_of(
          steps_, [&](const ForwardStep& step) { return !step.is_child && step.key == child; });
    }
    const bool is_barred = TakeOff(child, '!');
    return is_barred != std::ranges::any_of(steps_, [&](const ForwardStep& step) {
             const bool is_it = step.is_child && child.starts_with(step.key);
             return is_it && Runs(step, child.substr(step.key.size()));
           });
  }

  bool IsCalled(std::string_view name) const {
    return forward_.level > 0 &&
           modules_.NameAt(At(steps_[0].first).module, forward_.level - 1) == name;
  }

  // Whether the child that the step is runs one of its own that has that path, "/self/query", or
  // that operator, "/layer_norm".
  bool Runs(const ForwardStep& step, std::string_view path) const {
    if (path.empty()) return true;
    if (!path.starts_with('/')) return false;
    for (int64_t i = step.first; i <= step.last; ++i) {
      if (At(i).op == path.substr(1)) return true;
      std::string inner;
      for (size_t level = forward_.level + 1; level < runs_.DepthAt(i); ++level) {
        inner += '/' + modules_.NameAt(At(i).module, level);
        if (inner == path) return true;
      }
    }
    return false;
  }

  // Whether step `i` is what a row calls `made_by`; of "pad>permute>view", the first view behind
  // the first permute behind a pad.
  bool IsMaker(std::string_view made_by, size_t i) const {
    const size_t mark = made_by.rfind('>');
    if (mark == std::string_view::npos) return Is(steps_[i], made_by);
    const std::string_view own = made_by.substr(mark + 1);
    if (!Is(steps_[i], own)) return false;
    while (i-- > 0) {
      if (IsMaker(made_by.substr(0, mark), i)) return true;
      if (Is(steps_[i], own)) return false;
    }
    return false;
  }

  // A layer has no "encoder_outputs", but a tensor; a parametrization may make its weight.
  bool IsLeafCalledOutputs(const KnownNameRow& row, const ForwardStep& step) const {
    const size_t depth = forward_.level + 1;
    const bool is_normed = At(step.first).op == "_weight_norm" && step.first + 1 == step.last;
    const bool is_leaf = runs_.DepthAt(step.first) == depth || is_normed;
    return row.name.ends_with("outputs") && is_leaf && runs_.DepthAt(step.last) == depth &&
           step.is_child;
  }

  void Bind(NameId value, int64_t until, std::string_view name) {
    if (value != kNoName) names_.push_back({value, until, std::string(name)});
  }

  // What the step returns: what it makes last, and of a child, what is read behind it.
  void BindAll(const KnownNameRow& row, const ForwardStep& step, int64_t until) {
    for (const NameId value : At(step.last).outputs) Bind(value, until, row.name);
    for (int64_t i = step.first; i < step.last; ++i) {
      for (const NameId value : At(i).outputs) {
        const bool is_read = value != kNoName && last_reads_[Index(value)] > step.last;
        if (is_read) Bind(value, until, row.name);
      }
    }
  }

  // residual = x; x = self.norm(x)
  void BindArgument(const KnownNameRow& row, const ForwardStep& step, int64_t until) {
    const std::vector<NameId>& read = At(step.first).inputs;
    if (!read.empty()) Bind(read[0], until, row.name);
  }

  // What the step returns beside its result: "x, weights = self.attn(x)", or what a module in it
  // makes.
  void BindInner(const KnownNameRow& row, const ForwardStep& step, std::string_view inner,
                 int64_t until) {
    for (int64_t i = step.first; i <= step.last; ++i) {
      if (At(i).op != inner && !EndsModule(i, inner)) continue;
      for (const NameId value : At(i).outputs) Bind(value, until, row.name);
    }
  }

  // Whether call `i` is the last one of a module of that name in the step.
  bool EndsModule(int64_t i, std::string_view name) const {
    for (size_t level = forward_.level + 1; level < runs_.DepthAt(i); ++level) {
      if (modules_.NameAt(At(i).module, level) == name && runs_.EndOf(i, level) == i) return true;
    }
    return false;
  }

  // What the step returns is a list of what its layers make.
  void BindItems(const KnownNameRow& row, const ForwardStep& step, int64_t until) {
    for (int64_t i = step.first; i <= step.last; ++i) {
      if (!EndsLayer(i, forward_.level + 1)) continue;
      for (const NameId value : At(i).outputs) Bind(value, until, row.name);
    }
  }

  // Whether call `i` is the last one of a layer of the first list inside module `level`.
  bool EndsLayer(int64_t i, size_t level) const {
    while (level < runs_.DepthAt(i) && !IsListed(modules_.NameAt(At(i).module, level))) ++level;
    return level < runs_.DepthAt(i) && runs_.EndOf(i, level) == i;
  }

  // Until when a name of `row` that step `i` binds holds its value.
  int64_t EndOf(const KnownNameRow& row, size_t i) const {
    for (size_t next = i + 1; next < steps_.size(); ++next) {
      for (std::string_view until : row.until) {
        const bool is_before = TakeOff(until, '<');
        if (until.empty() || !Is(steps_[next], until)) continue;
        return is_before ? steps_[next].first - 1 : steps_[next].last;
      }
    }
    if (!row.is_returned) return EndOfMethod(i);
    if (const int64_t turn = EndOfNextLayer(modules_, calls_, runs_, forward_, last_); turn >= 0)
      return turn;
    return forward_.level < 2 ? last_ : runs_.EndOf(forward_.first, forward_.level - 2);
  }

  // Of what is attended to, the end of the method that attends.
  int64_t EndOfMethod(size_t i) const {
    const auto begin = steps_.begin() + static_cast<std::ptrdiff_t>(i);
    const auto attends = std::find_if(begin, steps_.end(), Attends);
    if (attends == steps_.end()) return forward_.last;
    return std::max(steps_[i].last, EndOfAttention(program_, runs_, forward_, attends->last));
  }

  const Program& program_;
  const ModuleTree& modules_;
  const std::vector<AtenCall>& calls_;
  const ModuleRuns& runs_;
  const std::vector<int64_t>& last_reads_;
  const ForwardRun& forward_;
  const std::vector<ForwardStep>& steps_;
  int64_t last_;
  std::vector<KnownName>& names_;
};

}  // namespace

void FindRowNames(const Program& program, const ModuleRuns& runs,
                  const std::vector<int64_t>& last_reads, const ForwardRun& forward,
                  const std::vector<ForwardStep>& steps, int64_t last,
                  std::vector<KnownName>& names) {
  RowNameFinder finder(program, runs, last_reads, forward, steps, last, names);
  for (const KnownNameRow& row : KnownNameRows()) finder.Find(row);
}

}  // namespace onnxfit
