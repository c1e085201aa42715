#include "cli/init_models.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "cli/model_globs.h"
#include "estimator/base/error.h"
#include "estimator/base/parallel.h"
#include "estimator/base/utf8.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/load_model.h"
#include "estimator/graph/graph.h"
#include "estimator/graph/shapes.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

// Of tokens and of images: a network of strides wants one that they divide.
constexpr int64_t kSizes[] = {128, 224, 512, 64, 32, 16};

// What Error says, but for the file, which may be anywhere.
std::string WithoutFile(const Error& error) {
  Error::Parts parts = error.parts();
  parts.file.clear();
  return Error(parts).what();
}

// Whether there is an answer with all other free dimensions of `size`; else why not.
std::optional<std::string> Try(const Graph& graph, int64_t size, FoundModel& model) {
  EstimateRequest request;
  const std::vector<std::string> free = FreeDims(graph);
  for (size_t i = 1; i < free.size(); ++i) request.binding.dims[free[i]] = size;
  try {
    model.batch = MakeEstimate(graph, request).batch;
    model.dims = request.binding.dims;
    return std::nullopt;
  } catch (const Error& error) {
    return WithoutFile(error);
  }
}

void FindRun(const std::string& path, FoundModel& model) {
  if (!IsUtf8(model.path)) {
    model.error = "its path is not UTF-8, as TOML is (try: another name)";
    return;
  }
  try {
    const Graph graph = LoadModel(path);
    for (const int64_t size : kSizes) {
      const std::optional<std::string> error = Try(graph, size, model);
      if (!error) {
        model.error.clear();
        return;
      }
      if (model.error.empty()) model.error = *error;
      if (FreeDims(graph).size() < 2) return;  // another size changes nothing
    }
  } catch (const Error& error) {
    model.error = WithoutFile(error);
  }
}

// "resnet50" of "models/resnet50.onnx", or "models/resnet50" where another file has that name.
void SetNames(std::vector<FoundModel>& models) {
  std::map<std::string, int> seen;
  for (const FoundModel& model : models) ++seen[fs::path(model.path).stem().string()];
  for (FoundModel& model : models) {
    const std::string stem = fs::path(model.path).stem().string();
    model.name = seen[stem] == 1 ? stem : fs::path(model.path).replace_extension().generic_string();
  }
}

}  // namespace

std::vector<FoundModel> FindModels(const std::string& folder) {
  std::vector<FoundModel> models;
  for (const char* glob : {"**/*.onnx", "**/*.pt2"}) {
    for (const std::string& path : ExpandGlob(folder, glob)) {
      models.push_back({.name = {}, .path = path, .batch = 1, .dims = {}, .error = {}});
    }
  }
  std::ranges::sort(models, {}, &FoundModel::path);
  SetNames(models);
  ForEachIndex(models.size(),
               [&](size_t i) { FindRun((fs::path(folder) / models[i].path).string(), models[i]); });
  return models;
}

}  // namespace onnxfit
