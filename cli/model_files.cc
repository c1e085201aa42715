#include "cli/model_files.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "cli/asked_of_file.h"
#include "estimator/base/error.h"
#include "estimator/base/parallel.h"
#include "estimator/base/text.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/predict.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

using Paths = std::set<std::string>;  // relative to the folder; "" is that itself

std::string Joined(const std::string& path, const std::string& name) {
  return (fs::path(path) / name).string();
}

// What is in the folder `path`.
std::vector<fs::directory_entry> EntriesOf(const fs::path& path) {
  std::error_code ignored;
  const fs::path opened = path.empty() ? fs::path(".") : path;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator it(opened, ignored); !ignored && it != fs::directory_iterator();
       it.increment(ignored)) {
    entries.push_back(*it);
  }
  return entries;
}

void AddFoldersBelow(const fs::path& folder, const std::string& path, Paths& found) {
  found.insert(path);
  for (const fs::directory_entry& entry : EntriesOf(folder / path)) {
    std::error_code ignored;
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') || entry.is_symlink(ignored) || !entry.is_directory(ignored)) {
      continue;
    }
    AddFoldersBelow(folder, Joined(path, name), found);
  }
}

void AddMatches(const fs::path& folder, const std::string& path, const std::string& part,
                Paths& found) {
  if (!IsGlob(part)) {
    found.insert(Joined(path, part));
    return;
  }
  for (const fs::directory_entry& entry : EntriesOf(folder / path)) {
    const std::string name = entry.path().filename().string();
    if (fnmatch(part.c_str(), name.c_str(), FNM_PERIOD | FNM_NOESCAPE) == 0) {
      found.insert(Joined(path, name));
    }
  }
}

}  // namespace

bool IsGlob(std::string_view text) { return text.find_first_of("*?[") != std::string_view::npos; }

std::vector<std::string> ExpandGlob(const std::string& folder, const std::string& pattern) {
  const fs::path parts(pattern);
  Paths paths = {parts.root_path().string()};
  for (const fs::path& part : parts.relative_path()) {
    Paths next;
    for (const std::string& path : paths) {
      if (part == "**") {
        AddFoldersBelow(folder, path, next);
      } else {
        AddMatches(folder, path, part.string(), next);
      }
    }
    paths = std::move(next);
  }
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (fs::is_regular_file(fs::path(folder) / path, ignored)) files.push_back(path);
  }
  return files;
}

// What follows finds models, and a run of each.
namespace {

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
    model.batch = MakeEstimate(graph, AskedOf(graph, request)).batch;
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

// Of "models/resnet50.onnx" the first of "resnet50", "models/resnet50" and the whole that no other
// file has.
void SetNames(std::vector<FoundModel>& models) {
  const auto stem_of = [](const std::string& path) { return fs::path(path).stem().string(); };
  const auto place_of = [](const std::string& path) {
    return fs::path(path).replace_extension().generic_string();
  };
  std::map<std::string, int> stems;
  std::map<std::string, int> places;
  for (const FoundModel& model : models) {
    ++stems[stem_of(model.path)];
    ++places[place_of(model.path)];
  }
  for (FoundModel& model : models) {
    model.name = stems[stem_of(model.path)] == 1     ? stem_of(model.path)
                 : places[place_of(model.path)] == 1 ? place_of(model.path)
                                                     : model.path;
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
