#include "estimator/operators/given_casts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/program/sharded_modules.h"
#include "estimator/program/span_values.h"

namespace onnxfit {
namespace {

struct GivenRun {
  std::string path = {};
  CallSpan span = {};
};

class GivenCasts {
 public:
  GivenCasts(Program& program, DType type) : program_(program), type_(type) {}

  void Run(const std::vector<GivenRun>& runs) {
    std::vector<CallSpan> spans;
    for (const GivenRun& run : runs) spans.push_back(run.span);
    const std::vector<SpanValues> values = ValuesAcross(program_, spans);
    std::vector<AtenCall> calls = std::exchange(program_.calls, {});
    size_t next = 0;
    for (size_t i = 0; i < calls.size(); ++i) {
      const bool is_inside = next < runs.size() && i >= Index(runs[next].span.first);
      if (is_inside && i == Index(runs[next].span.first)) {
        for (const NameId name : values[next].given) Cast(name, calls[i], runs[next].path);
      }
      if (is_inside) Replace(calls[i].inputs);
      program_.calls.push_back(std::move(calls[i]));
      if (is_inside && i == Index(runs[next].span.last)) {
        End();
        ++next;
      }
    }
  }

 private:
  // In the forward of whoever calls the module.
  void Cast(NameId name, const AtenCall& first, const std::string& path) {
    TensorType type = program_.values[Index(name)].type;
    if (!IsFloat(type.dtype)) return;
    ModuleId module = first.module;
    while (module != kOutside && program_.modules.PathOf(module) != path) {
      module = program_.modules.CallerOf(module);
    }
    type.dtype = type_;
    casts_[name] = static_cast<NameId>(program_.values.size());
    ProgramValue cast = {program_.values[Index(name)].name + ".cast", {}};
    static_cast<TensorType&>(cast.type) = type;
    program_.values.push_back(std::move(cast));
    program_.calls.push_back({.op = "to",
                              .where = first.where,
                              .inputs = {name},
                              .outputs = {casts_[name]},
                              .module = program_.modules.CallerOf(module)});
  }

  void Replace(std::vector<NameId>& names) const {
    for (NameId& name : names) {
      const auto cast = casts_.find(name);
      if (cast != casts_.end()) name = cast->second;
    }
  }

  void End() {
    for (const auto& [name, cast] : casts_) program_.calls.back().dies.push_back(cast);
    casts_.clear();
  }

  Program& program_;
  DType type_;
  std::map<NameId, NameId> casts_;  // of the run
};

}  // namespace

Program CastGivenToModules(Program program, const std::vector<std::string>& globs, DType type) {
  std::vector<GivenRun> runs;
  for (const ShardedModule& module : ShardedModules(program, globs)) {
    for (const CallSpan& span : module.runs) runs.push_back({module.path, span});
  }
  std::ranges::sort(runs, {}, [](const GivenRun& run) { return run.span.first; });
  GivenCasts(program, type).Run(runs);
  return program;
}

}  // namespace onnxfit
