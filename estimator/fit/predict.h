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

// A file at some sizes.
struct BoundFile {
  Graph graph;  // the file's, its control flow inlined, lost tensors put back
  ExporterMetadata metadata;
  Shapes shapes;
  Warnings warnings;  // of all this
};

// With what no card has a say in.
struct PreparedRun : BoundFile {
  Roles roles;
  Program program;  // before Dispatch
};

struct Prediction {
  Graph graph;
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

// Throw Error for bad input and for sizes that 64 bits do not hold.  Who holds what is
// recorded where `request` asks for it (details, why).
Prediction Predict(const Graph& file, const EstimateRequest& request);

// Its two halves: a run of `run.program` needs nothing else of it.
PreparedRun PrepareRun(const Graph& file, const EstimateRequest& request);
Prediction RunPrepared(PreparedRun run, const EstimateRequest& request);

// The two halves of PrepareRun, but for a program in the file: a Study (study.h) keeps what they
// make.  `file` is that of `model`.
BoundFile BindModel(const Graph& file, const DimBinding& binding);
PreparedRun MakeRun(const Graph& file, BoundFile model, const TrainingSettings& settings);

}  // namespace onnxfit
