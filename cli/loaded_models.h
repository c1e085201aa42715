// Models that several runs share, each read once.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/fit/check.h"
#include "estimator/graph/graph.h"

namespace onnxfit {

// The models of those that are to be run.
std::vector<std::string> ModelsOf(const std::vector<Check>& checks);

class LoadedModels {
 public:
  // Reads all of `paths` by `load`, on all processors.  nullopt is a model that is not there.
  LoadedModels(const std::vector<std::string>& paths,
               const std::function<std::optional<Graph>(const std::string&)>& load);

  // Null where it is not there.  Throws what reading it threw.  REQUIRES: one of the paths.
  const Graph* Find(const std::string& path) const;

  // Those of `paths` that are there and can be read.
  std::vector<const Graph*> Readable(const std::vector<std::string>& paths) const;

 private:
  struct Loaded {
    std::optional<Graph> graph = {};
    std::optional<Error> error = {};
  };

  std::map<std::string, Loaded> models_;
};

}  // namespace onnxfit
