// What checks are compared with: a lock, other models, or the same ones as they were.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "estimator/base/error.h"
#include "estimator/compare/check.h"
#include "estimator/onnx/graph.h"
#include "estimator/report/snapshot_json.h"

namespace onnxfit {

// The lock beside a config: "ci/onnxfit.lock.json" of "ci/onnxfit.toml".
std::string LockPathOf(const std::string& config);

// What is typed to write the lock: "onnxfit check ci/onnxfit.toml --update".
std::string RenewalOf(const CheckOptions& options);

// nullopt where there is none.  Throws Error for one that cannot be read, which `renewal` writes
// anew.
std::optional<Lock> ReadLockFile(const std::string& path, const std::string& renewal);

// All of it or nothing: a crash, a full disk or a read-only folder leave the old one.  Throws
// Error.
void WriteLockFile(const std::string& path, const Lock& lock);

// The models of those that are to be run.
std::vector<ModelSource> ModelsOf(const std::vector<Check>& checks);

// Models that several runs share, each read, or exported, once.
class LoadedModels {
 public:
  using Load = std::function<std::optional<Graph>(const ModelSource&)>;

  // Reads all of `sources` by `load`, on all processors.  nullopt is a model that is not there.
  LoadedModels(const std::vector<ModelSource>& sources, const Load& load);

  // Null where it is not there.  Throws what reading it threw.  REQUIRES: one of the sources.
  const Graph* Find(const ModelSource& source) const;

  // Those of `sources` that are there and can be read.
  std::vector<const Graph*> Readable(const std::vector<ModelSource>& sources) const;

 private:
  struct Loaded {
    std::optional<Graph> graph = {};
    std::optional<Error> error = {};
  };

  std::map<ModelSource, Loaded> models_;
};

// What checks are compared with.
struct Baselines {
  std::string name;          // as sentences have it: "the lock", "git:main"
  std::string warning = {};  // why nothing is compared, where that is no error
  // What a check is compared with.  Throws Error.  Several threads may call it.
  std::function<Baseline(const Check&)> of;
};

// Nothing is compared, and nothing is new.
Baselines NoBaselines();

// What cannot be read, for the reason `why`: nothing is compared, and each run says so.
Baselines NoneFrom(const std::string& name, const std::string& why);

// The lock's, by names of checks; one of another onnxfit is a warning and compares nothing.  A
// check that it does not have, and has to have, fails.
Baselines OfLock(const Lock& lock, const std::string& name);

// `against` is "git:REF" (each model as it was there, answered anew; not those that are Python,
// whose code there may want other packages than are installed here), a report or a table of them
// (one with the check's settings), another lock, or a model.  A model or report of another name
// serves where all checks are of one model.
// Throws Error where that cannot be read.  Models are those of `checks`; paths as typed.
Baselines OpenBaselines(const std::string& against, const std::vector<Check>& checks);

}  // namespace onnxfit
