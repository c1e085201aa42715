// From a file to what a run of it asks of memory: what every answer is made of.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "estimator/base/error.h"
#include "estimator/eager/holders.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/fit/estimate.h"
#include "estimator/memory/allocator_conf.h"
#include "estimator/memory/trace.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"
#include "estimator/parameters/roles.h"
#include "estimator/program/program.h"

namespace onnxfit {

struct Findings;

// Reads `path` as what its first bytes say that it is: a zip archive is a .pt2, all else has to be
// ONNX, with the program that it may hold.  "-" is standard input.  Throws Error as LoadGraph and
// pt2::LoadExportedProgram do.
Graph LoadModel(const std::string& path);

// The same for the bytes of a file that was at `path`, and that messages call `name`.
Graph LoadModelFrom(std::string_view bytes, const std::string& path, const std::string& name);

// A file at some sizes, which all runs of it share.
struct BoundFile {
  BoundFile();
  ~BoundFile();
  BoundFile(const BoundFile&) = delete;
  BoundFile& operator=(const BoundFile&) = delete;

  Graph graph;  // the file's, its control flow inlined, lost tensors put back
  ExporterMetadata metadata;
  Shapes shapes;
  std::map<std::string, int64_t> sizes_of_data;  // that --dim gives, by its names
  std::unique_ptr<const Findings> findings;  // of all these; an exported program has lost nothing
  Warnings warnings;                         // of all this
};

// With what no card has a say in.
struct PreparedRun {
  std::shared_ptr<const BoundFile> file;
  Roles roles;
  Program program;  // before Dispatch
  Warnings warnings;
};

struct Prediction {
  std::shared_ptr<const PreparedRun> run;
  Program program;  // as it is dispatched
  Trace trace;
  bool is_inference = false;
  AllocatorConf alloc_conf;  // what the trace is replayed with
  Holders holders;           // empty unless asked for
  Warnings warnings;         // of all stages, in their order

  const Graph& graph() const { return run->file->graph; }
  const Shapes& shapes() const { return run->file->shapes; }
  const Roles& roles() const { return run->roles; }
  std::span<const Rewritten> rewrites() const;  // nodes that are one call
};

// Throw Error for bad input and for sizes that 64 bits do not hold.  Who holds what is
// recorded where `request` asks for it (details, why).
Prediction Predict(const Graph& file, const EstimateRequest& request);

// Its two halves: a run of `run.program` needs nothing else of it.
PreparedRun PrepareRun(const Graph& file, const EstimateRequest& request);
Prediction RunPrepared(std::shared_ptr<const PreparedRun> run, const EstimateRequest& request);

// Whether blocks repeat, around which --checkpoint auto puts checkpoints.  O(calls × depth).
bool HasRepeatedBlocks(const Prediction& prediction);

// The two halves of PrepareRun, but for a program in the file: a Study (study.h) keeps what they
// make.  `file` is that of `model`.
std::shared_ptr<const BoundFile> BindModel(const Graph& file, const DimBinding& binding);
PreparedRun MakeRun(const Graph& file, std::shared_ptr<const BoundFile> model,
                    const TrainingSettings& settings);

}  // namespace onnxfit
