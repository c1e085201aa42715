#include "estimator/writer/kept_casts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/writer/program_writer.h"

namespace onnxfit {
namespace {

constexpr size_t kRankOfStates = 3;

class CastKeeper {
 public:
  explicit CastKeeper(Program& program)
      : program_(program), buffers_(program.buffers.begin(), program.buffers.end()) {}

  void Keep() {
    std::vector<AtenCall> calls = std::exchange(program_.calls, {});
    for (AtenCall& call : calls) {
      if (IsInRow(call)) KeepThoseOf(call);
      for (NameId& name : call.inputs) {
        if (const auto kept = casts_.find(name); kept != casts_.end()) name = kept->second;
      }
      FindStates(call);
      program_.calls.push_back(std::move(call));
    }
  }

 private:
  bool IsInRow(const AtenCall& call) const {
    if (call.frames.empty() || call.frames.back() == kNoStatement) return false;
    const SourceStatement& statement = program_.source.At(call.frames.back());
    return ReadsKeptCast(statement.file, statement.text);
  }

  void KeepThoseOf(const AtenCall& call) {
    for (const NameId name : call.inputs) {
      if (states_ == kNoName || !buffers_.contains(name) || casts_.contains(name)) continue;
      const ProgramValue buffer = program_.values[Index(name)];
      const NameId made = AddValue(program_, buffer.name + ".kept", buffer.type);
      AtenCall cast = CallAt(call, "type_as", {name, states_}, {made});
      cast.made_once = true;
      cast.dies = {name};
      program_.calls.push_back(std::move(cast));
      casts_.emplace(name, made);
    }
  }

  void FindStates(const AtenCall& call) {
    for (const NameId name : call.outputs) {
      if (name == kNoName) continue;
      const TensorType& type = program_.values[Index(name)].type;
      if (IsFloat(type.dtype) && type.dims.size() == kRankOfStates) states_ = name;
    }
  }

  Program& program_;
  std::set<NameId> buffers_;
  std::map<NameId, NameId> casts_;  // by buffer
  NameId states_ = kNoName;
};

}  // namespace

void KeepCastsOfBuffers(Program& program) { CastKeeper(program).Keep(); }

}  // namespace onnxfit
