#include "estimator/fit/call_frames.h"

#include <string_view>
#include <unordered_map>

#include "estimator/base/index.h"
#include "estimator/fit/predict.h"

namespace onnxfit {
namespace {

// A call's own frame, then the statements of the forwards around it, as far as the file shows them.
std::vector<CallFrame> FramesOf(const Program& program, const AtenCall& call) {
  std::vector<CallFrame> frames = {
      {.name = std::string(call.op), .where = program.modules.PathOf(call.module)}};
  ModuleId module = call.module;
  for (auto frame = call.frames.rbegin(); frame != call.frames.rend(); ++frame) {
    const std::string& where = program.modules.PathOf(module);
    if (*frame != kNoStatement) {
      const SourceStatement& statement = program.source.At(*frame);
      frames.push_back({.name = statement.text, .where = where, .line = statement.line});
    }
    if (module != kOutside) module = program.modules.CallerOf(module);
  }
  return frames;
}

}  // namespace

std::vector<std::vector<CallFrame>> FramesByLabel(const Prediction& prediction) {
  // As they were written: of the parts that one is taken apart into none has its frames.
  const Program& program = prediction.run ? prediction.run->program : prediction.program;
  std::unordered_map<std::string_view, const AtenCall*> calls;
  for (const AtenCall& call : program.calls) calls.emplace(call.where, &call);
  std::vector<std::vector<CallFrame>> frames(prediction.trace.labels.size());
  for (size_t label = 0; label < frames.size(); ++label) {
    const auto call = calls.find(prediction.trace.labels[label]);
    if (call != calls.end()) frames[label] = FramesOf(program, *call->second);
  }
  return frames;
}

}  // namespace onnxfit
