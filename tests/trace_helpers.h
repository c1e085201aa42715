// From ONNX text to what the machine asks of memory.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/base/settings.h"
#include "estimator/fit/predict.h"
#include "estimator/memory/card_run.h"
#include "estimator/memory/trace.h"
#include "estimator/onnx/loader.h"
#include "estimator/onnx/shapes.h"
#include "estimator/program/program.h"

namespace onnxfit {

// A batch of 16 through two layers: parameters of 128 and 64 bytes in fp32.
inline constexpr char kTwoLayers[] = R"(
  net (float[16, 4] x) => (float[16, 2] y)
  < float[4, 8] w1 = ["location": "none"], float[8, 2] w2 = ["location": "none"] > {
    h = MatMul (x, w1)
    a = Relu (h)
    y = MatMul (a, w2)
  })";

// A file, prepared as the product does.
inline PreparedRun Build(const Graph& file, const TrainingSettings& settings,
                         const DimBinding& binding = {}) {
  return PrepareRun(file, {.binding = binding, .settings = settings});
}

inline PreparedRun Build(std::string_view text, const TrainingSettings& settings,
                         const DimBinding& binding = {}) {
  return Build(ParseGraph(text), settings, binding);
}

// What a lowered program asks of memory.
inline Trace Train(Program program, const TrainingSettings& settings) {
  const auto run = std::make_shared<PreparedRun>();
  run->file = std::make_shared<BoundFile>();
  run->program = std::move(program);
  return RunPrepared(run, {.settings = settings}).trace;
}

// All steps of a trace on a card.
inline CardRun RunOnCard(const Trace& trace, int64_t capacity_bytes, const AllocatorConf& conf = {},
                         int64_t held_bytes = 0) {
  const Loop loop = ReadLoop(trace);
  return RunOnCard(loop, BytesOf(trace), loop.traced_steps(), {capacity_bytes, held_bytes}, conf);
}

// The trace of `text`, as text.
inline std::string TraceText(std::string_view text, const TrainingSettings& settings) {
  return ToString(Train(Build(text, settings).program, settings));
}

// " a b": of each a blank and its name.
inline std::string NamesText(const Program& program, const std::vector<NameId>& names) {
  std::string text;
  for (const NameId name : names) text += " " + program.values[Index(name)].name;
  return text;
}

}  // namespace onnxfit
