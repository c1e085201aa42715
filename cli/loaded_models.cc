#include "cli/loaded_models.h"

#include "estimator/base/parallel.h"

namespace onnxfit {

std::vector<std::string> ModelsOf(const std::vector<Check>& checks) {
  std::vector<std::string> models;
  for (const Check& check : checks) {
    if (check.error.empty() && check.level != Level::kOff) models.push_back(check.model);
  }
  return models;
}

LoadedModels::LoadedModels(const std::vector<std::string>& paths,
                           const std::function<std::optional<Graph>(const std::string&)>& load) {
  for (const std::string& path : paths) models_[path];
  std::vector<std::pair<const std::string, Loaded>*> rows;
  for (auto& row : models_) rows.push_back(&row);
  ForEachIndex(rows.size(), [&](size_t i) {
    try {
      rows[i]->second.graph = load(rows[i]->first);
    } catch (const Error& error) {
      rows[i]->second.error = error;
    }
  });
}

const Graph* LoadedModels::Find(const std::string& path) const {
  const Loaded& loaded = models_.at(path);
  if (loaded.error) throw Error(*loaded.error);
  return loaded.graph ? &*loaded.graph : nullptr;
}

std::vector<const Graph*> LoadedModels::Readable(const std::vector<std::string>& paths) const {
  std::vector<const Graph*> graphs;
  for (const std::string& path : paths) {
    const auto loaded = models_.find(path);
    if (loaded != models_.end() && loaded->second.graph) graphs.push_back(&*loaded->second.graph);
  }
  return graphs;
}

}  // namespace onnxfit
