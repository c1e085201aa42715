// Prints the predicted trace of a model, one event a line, for events.py here:
//   phase STEP PHASE      a phase begins; step 0 is setup
//   at LABEL              from now on this operator runs
//   + ID BYTES LABEL      allocation number ID
//   - ID                  its memory is given back
// Takes what `onnxfit estimate` takes; flags of the report mean nothing here.
#include <fmt/format.h>

#include <iostream>
#include <string>
#include <vector>

#include "benchmarks/accuracy/printer.h"
#include "cli/asked_of_file.h"
#include "cli/commands.h"
#include "estimator/base/index.h"
#include "estimator/fit/predict.h"
#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

// A label as one line.
std::string CleanLabel(const Trace& trace, int32_t label) {
  return Clean(trace.labels[Index(label)], /*ascii=*/false);
}

std::string Line(const Trace& trace, const Event& event) {
  switch (event.type) {
    case Event::Type::kPhase:
      return fmt::format("phase {} {}\n", event.id, ToString(event.phase));
    case Event::Type::kAt:
      return fmt::format("at {}\n", CleanLabel(trace, event.id));
    case Event::Type::kAlloc:
      return fmt::format("+ {} {} {}\n", event.id, trace.buffers[Index(event.id)].bytes,
                         CleanLabel(trace, trace.buffers[Index(event.id)].label));
    case Event::Type::kFree:
      return fmt::format("- {}\n", event.id);
    case Event::Type::kKind:
      break;
  }
  return "";
}

int PrintTrace(const Options& options) {
  const Graph graph = LoadModel(options.model);
  const Trace trace = Predict(graph, AskedOf(graph, options.request)).trace;
  for (const Event& event : trace.events) std::cout << Line(trace, event);
  return kExitDone;
}

}  // namespace
}  // namespace onnxfit

int main(int argc, char** argv) { return onnxfit::RunPrinter(argc, argv, onnxfit::PrintTrace); }
