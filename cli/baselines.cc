#include "cli/baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "cli/compared.h"
#include "cli/git.h"
#include "cli/output.h"
#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/base/parallel.h"
#include "estimator/base/quote.h"
#include "estimator/fit/predict.h"
#include "estimator/report/snapshot_json.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kToml = ".toml";

}  // namespace

std::string LockPathOf(const std::string& config) {
  const bool is_toml = config.ends_with(kToml);
  return config.substr(0, config.size() - (is_toml ? kToml.size() : 0)) + ".lock.json";
}

std::string RenewalOf(const CheckOptions& options) {
  const std::string config =
      options.config == CheckOptions().config ? "" : " " + ShellWord(options.config);
  const std::string lock = options.lock.empty() ? "" : " --lock " + ShellWord(options.lock);
  return fmt::format("onnxfit check{}{} --update", config, lock);
}

std::optional<Lock> ReadLockFile(const std::string& path, const std::string& renewal) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  if (!fs::is_regular_file(path, ignored)) {
    throw Error({.file = path, .text = "expected a lock, found no file"});
  }
  try {
    return ReadLock(FileBytes(path, [](std::string_view) {}, {.what = "a lock"}).bytes());
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    parts.file = path;
    parts.hint = renewal + " writes it anew";
    throw Error(parts);
  }
}

void WriteLockFile(const std::string& path, const Lock& lock) {
  ReplaceFile(path, ToJson(lock), "lock");
}

std::vector<ModelSource> ModelsOf(const std::vector<Check>& checks) {
  std::vector<ModelSource> models;
  for (const Check& check : checks) {
    if (check.error.empty() && check.level != Level::kOff) models.push_back(check.source());
  }
  return models;
}

LoadedModels::LoadedModels(const std::vector<ModelSource>& sources, const Load& load) {
  for (const ModelSource& source : sources) models_[source];
  std::vector<std::pair<const ModelSource, Loaded>*> rows;
  for (auto& row : models_) rows.push_back(&row);
  ForEachIndex(rows.size(), [&](size_t i) {
    try {
      rows[i]->second.graph = load(rows[i]->first);
    } catch (const Error& error) {
      rows[i]->second.error = error;
    }
  });
}

const Graph* LoadedModels::Find(const ModelSource& source) const {
  const Loaded& loaded = models_.at(source);
  if (loaded.error) throw Error(*loaded.error);
  return loaded.graph ? &*loaded.graph : nullptr;
}

std::vector<const Graph*> LoadedModels::Readable(const std::vector<ModelSource>& sources) const {
  std::vector<const Graph*> graphs;
  for (const ModelSource& source : sources) {
    const auto loaded = models_.find(source);
    if (loaded != models_.end() && loaded->second.graph) graphs.push_back(&*loaded->second.graph);
  }
  return graphs;
}

// What follows opens baselines.
namespace {

Baseline Answered(const Graph* graph, const Check& check) {
  if (graph == nullptr) return {};
  EstimateRequest request = check.request;
  request.binding.optional = NamesIn(request.binding);  // the check's model has them
  return {.snapshot = SideOf(*graph, request).snapshot};
}

// Its code there may want other packages than are installed here, so it is not run.
Baseline NotAtRef(const Check& check) {
  const std::string why =
      "it is Python, and the code of another ref is not run: the lock has what it took (check "
      "without --against); lock = \"none\" leaves it to its budgets";
  return {.compares = check.lock == LockUse::kRequired,
          .why_missing = check.lock == LockUse::kRequired ? why : ""};
}

Baselines FromGit(const std::string& against, const std::vector<Check>& checks) {
  const std::string name = against.substr(kGit.size());
  std::vector<ModelSource> files = ModelsOf(checks);
  std::erase_if(files, [](const ModelSource& source) { return source.python.has_value(); });
  const GitRef ref(name, checks.empty() ? "." : fs::path(checks[0].model).parent_path().string());
  const auto load = [&](const ModelSource& source) -> std::optional<Graph> {
    const std::optional<std::string> bytes = ref.Read(source.path);
    if (!bytes) return std::nullopt;
    return LoadModelFrom(*bytes, source.path, fmt::format("{}:{}", against, source.path));
  };
  const auto models = std::make_shared<LoadedModels>(files, load);
  return {.name = against, .of = [models](const Check& check) {
            if (check.python) return NotAtRef(check);
            return Answered(models->Find(check.source()), check);
          }};
}

std::string FileNameOf(const std::string& path) { return fs::path(path).filename().string(); }

// Whether all checks are of one model, which then is compared whatever the other is called.
bool AreOfOneModel(const std::vector<Check>& checks) {
  const std::vector<ModelSource> models = ModelsOf(checks);
  return std::ranges::all_of(
      models, [&](const ModelSource& model) { return model.path == models[0].path; });
}

Baselines FromModel(const std::string& path, bool is_any) {
  const auto graph = std::make_shared<Graph>(LoadModel(path));
  const auto of = [graph, is_any](const Check& check) {
    const bool is_same = FileNameOf(check.model) == FileNameOf(graph->path);
    return Answered(is_any || is_same ? graph.get() : nullptr, check);
  };
  return {.name = path, .of = of};
}

// Reports of one model, by its path or else by its file's name.
std::vector<Snapshot> ReportsOf(const std::vector<Snapshot>& reports, const std::string& model) {
  std::vector<Snapshot> found;
  for (const auto& part : {+[](const std::string& path) { return path; }, +FileNameOf}) {
    std::copy_if(reports.begin(), reports.end(), std::back_inserter(found),
                 [&](const Snapshot& report) { return part(report.model) == part(model); });
    if (!found.empty()) break;
  }
  return found;
}

// The only one there is, or the one of the same settings.
std::optional<Snapshot> Choose(const std::vector<Snapshot>& reports, const Check& check) {
  if (reports.empty()) return std::nullopt;
  if (reports.size() == 1) return reports[0];
  Estimate asked;
  asked.model.path = check.model;
  asked.settings = check.request.settings;
  asked.batch = check.request.binding.batch.value_or(1);
  asked.dims = check.request.binding.dims;
  asked.alloc_conf = check.request.alloc_conf.text;
  const auto settings = SnapshotOf(asked, "").settings;
  const auto same = std::find_if(reports.begin(), reports.end(),
                                 [&](const Snapshot& r) { return r.settings == settings; });
  return same == reports.end() ? std::nullopt : std::optional(*same);
}

Baselines FromReports(const std::string& path, std::string_view text, bool is_any) {
  auto reports = std::make_shared<std::vector<Snapshot>>(ReadReports(text));
  const auto of = [reports, is_any](const Check& check) {
    const bool is_only = is_any && reports->size() == 1;
    return Baseline{.snapshot =
                        Choose(is_only ? *reports : ReportsOf(*reports, check.model), check)};
  };
  return {.name = path, .of = of};
}

}  // namespace

Baselines NoBaselines() {
  return {.name = "nothing", .of = [](const Check&) { return Baseline{.compares = false}; }};
}

Baselines NoneFrom(const std::string& name, const std::string& why) {
  return {.name = name, .of = [why](const Check&) { return Baseline{.why_none = why}; }};
}

Baselines OfLock(const Lock& lock, const std::string& name) {
  if (lock.version != ONNXFIT_VERSION) {
    Baselines none = NoneFrom(name, fmt::format("{} is of onnxfit {}", name, lock.version));
    none.warning = fmt::format("written by onnxfit {}, this is {}", lock.version, ONNXFIT_VERSION);
    return none;
  }
  const auto shared = std::make_shared<Lock>(lock);
  return {.name = name, .of = [shared, name](const Check& check) {
            const auto found = shared->checks.find(check.name);
            if (found != shared->checks.end()) return Baseline{.snapshot = found->second};
            const bool is_missed = check.lock == LockUse::kRequired;
            return Baseline{.why_missing = is_missed ? name + " does not have it" : ""};
          }};
}

Baselines OpenBaselines(const std::string& against, const std::vector<Check>& checks) {
  if (against.starts_with(kGit)) return FromGit(against, checks);
  const FileBytes file(against, [](std::string_view) {},
                       {.what = "a lock, a report, a model or git:REF"});
  if (!LooksLikeJson(file.bytes().substr(0, 4096)))
    return FromModel(against, AreOfOneModel(checks));
  if (IsLock(file.bytes())) return OfLock(ReadLock(file.bytes()), against);
  return FromReports(against, file.bytes(), AreOfOneModel(checks));
}

}  // namespace onnxfit
