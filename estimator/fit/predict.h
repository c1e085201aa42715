// From a file to what a run of it asks of memory: what every answer is made of.
#pragma once

#include <string>
#include <string_view>

#include "estimator/base/error.h"
#include "estimator/eager/holders.h"
#include "estimator/fit/estimate.h"
#include "estimator/memory/allocator_conf.h"
#include "estimator/memory/trace.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"
#include "estimator/program/program.h"
#include "estimator/recover/exporter_metadata.h"
#include "estimator/recover/roles.h"

namespace onnxfit {

// Reads `path` as what its first bytes say that it is: a zip archive is a .pt2, all else has to be
// ONNX, with the program that it may hold.  "-" is standard input.  Throws Error as LoadGraph and
// pt2::LoadExportedProgram do.
Graph LoadModel(const std::string& path);

// The same for the bytes of a file that was at `path`, and that messages call `name`.
Graph LoadModelFrom(std::string_view bytes, const std::string& path, const std::string& name);

struct Prediction {
  Graph graph;  // the file's, its control flow inlined, lost tensors put back
  ExporterMetadata metadata;
  Shapes shapes;
  Roles roles;
  Program program;
  Trace trace;
  bool is_inference = false;
  AllocatorConf alloc_conf;  // what the trace is replayed with
  Holders holders;           // empty unless asked for
  Warnings warnings;         // of all stages, in their order
};

// The part of it that no card has a say in.
struct PreparedRun {
  Graph graph;
  ExporterMetadata metadata;
  Shapes shapes;
  Roles roles;
  Program program;    // before Dispatch
  Warnings warnings;  // of loading
};

// Throw Error for bad input and for sizes that 64 bits do not hold.  Who holds what is
// recorded where `request` asks for it (details, why).
Prediction Predict(const Graph& file, const EstimateRequest& request);

// Its two halves: a run of `run.program` needs nothing else of it.
PreparedRun PrepareRun(const Graph& file, const EstimateRequest& request);
Prediction RunPrepared(PreparedRun run, const EstimateRequest& request);

// The same by other settings than those of `like`, which Predict gave for `file` by the same
// binding: the graph and its shapes are not looked for again, nor are their warnings told.
Prediction PredictLike(const Prediction& like, const Graph& file, const EstimateRequest& request);

}  // namespace onnxfit
