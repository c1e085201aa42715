#include "cli/check_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "cli/calibration_file.h"
#include "cli/compared.h"
#include "cli/config_file.h"
#include "cli/config_keys.h"
#include "cli/model_files.h"
#include "cli/python_models.h"
#include "cli/values.h"
#include "estimator/base/error.h"
#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

// The models of a [[check]].
struct Models {
  std::vector<std::string> paths;  // as written, or as a glob found them: relative to the folder
  bool is_one = false;             // one path was written, not a glob or a list
};

constexpr std::string_view kExpected = "the path of a model, a glob or a list of them";

std::string PatternIn(const TomlNode& node) {
  if (node.kind != TomlKind::kString) RefuseKind(node, "model", kExpected);
  if (node.text.empty()) Refuse({"model", ""}, kExpected);
  return node.text;
}

bool IsPattern(const std::string& text, const std::string& folder) {
  std::error_code ignored;
  return IsGlob(text) && !fs::exists(fs::path(folder) / text, ignored);
}

std::vector<std::string> FilesOf(const std::string& pattern, const std::string& folder) {
  if (!IsPattern(pattern, folder)) return {pattern};
  const std::vector<std::string> files = ExpandGlob(folder, pattern);
  if (!files.empty()) return files;
  throw Error({.where = "model",
               .text = fmt::format("expected files, found none that match {}", Quoted(pattern))});
}

// What the key `model` names: a path, a glob (ExpandGlob) or a list of them, each file once, in
// the order in which it comes first.  A path need not exist; what does is no glob, whatever its
// letters.  Throws Error for other values and for globs that match nothing.
Models ModelsOf(const TomlNode& node, const std::string& folder) {
  if (!node.is_list()) {
    const std::string pattern = PatternIn(node);
    return {.paths = FilesOf(pattern, folder), .is_one = !IsPattern(pattern, folder)};
  }
  Models models;
  for (const TomlNode& item : node.children) {
    for (const std::string& path : FilesOf(PatternIn(item), folder)) {
      const bool is_new = std::ranges::find(models.paths, path) == models.paths.end();
      if (is_new) models.paths.push_back(path);
    }
  }
  if (!models.paths.empty()) return models;
  throw Error(
      {.where = "model", .text = fmt::format("expected {}, found an empty list", kExpected)});
}

namespace fs = std::filesystem;

// The check's own keys, then those of [defaults] that it does not have.
TomlNode WithDefaults(const TomlNode& written, const TomlNode& defaults) {
  TomlNode all = written;
  for (const TomlNode& node : defaults.children) {
    if (written.Find(node.key) == nullptr) all.children.push_back(node);
  }
  return all;
}

// "resnet50" of "models/resnet50.onnx".
std::string StemOf(const std::string& model) {
  const fs::path file = fs::path(model).filename();
  return IsModelName(model) ? file.stem().string() : file.string();
}

std::string InFolder(const fs::path& folder, const std::string& path) {
  return folder == "." ? path : (folder / path).string();
}

// What differs between the combinations of `sweep`, of one of them.
std::vector<std::string> VariedParts(const EstimateRequest& request, const Sweep& sweep) {
  std::vector<std::string> parts;
  if (!sweep.batches.empty()) parts.push_back(fmt::format("batch {}", *request.binding.batch));
  for (const SweptDim& dim : sweep.dims) {
    parts.push_back(fmt::format("{}={}", dim.name, request.binding.dims.at(dim.name)));
  }
  if (!sweep.precisions.empty()) parts.emplace_back(ToString(request.settings.precision));
  if (!sweep.optimizers.empty()) parts.emplace_back(ToString(request.settings.optimizer));
  return parts;
}

// One [[check]] of the file.
class CheckReader {
 public:
  CheckReader(const TomlNode& written, const ConfigFile& config)
      : written_(written),
        all_(WithDefaults(written, config.defaults)),
        folder_(fs::path(config.path).parent_path()),
        line_(written.line) {}

  // Throws Error; its line then is line().
  std::vector<Check> Read() {
    RefuseUnknownKeys(written_, line_);
    const Models models = ReadModels();
    name_ = ReadName(models);
    const auto load = [&](const std::string& path) {
      return ReadCalibrationFile(InFolder(folder_, path));
    };
    const CheckSettings settings = ReadCheckSettings(all_, load, line_);
    RefuseInput(models, settings);
    line_ = written_.line;
    RefuseMany(models, settings.sweep);
    std::vector<Check> checks;
    for (const std::string& path : models.paths) AddChecks(models, path, settings, checks);
    return checks;
  }

  // What stands for a check that cannot be read.
  Check Unread(const std::string& error) const {
    Check check;
    check.name = BestName();
    const TomlNode* model = written_.Find("model");
    const bool is_path = model != nullptr && model->kind == TomlKind::kString;
    if (is_path) check.model = InFolder(folder_, model->text);
    check.line = line_;
    check.error = fmt::format("line {}: {}", line_, error);
    return check;
  }

  // Says where its name is: that was taken before.
  void GoToName() {
    const TomlNode* node = written_.Find("name");
    line_ = node == nullptr ? written_.line : node->line;
  }

  const std::string& name() const { return name_; }  // "" until it is read
  int64_t line() const { return line_; }

 private:
  Models ReadModels() {
    const TomlNode* node = written_.Find("model");
    line_ = node == nullptr ? written_.line : node->line;
    if (node == nullptr) {
      throw Error({.where = "model", .text = "expected the path of a model, found no such key"});
    }
    return ModelsOf(*node, folder_.string());
  }

  std::string ReadName(const Models& models) {
    const TomlNode* node = written_.Find("name");
    if (node == nullptr && models.is_one) return StemOf(models.paths[0]);
    if (node == nullptr) {
      throw Error({.where = "name",
                   .text = "expected beside a model that is a glob or a list, found no such key"});
    }
    line_ = node->line;
    if (node->kind != TomlKind::kString) RefuseKind(*node, "name", "a string");
    const bool is_plain = !node->text.empty() && Clean(node->text, false) == node->text;
    if (!is_plain) Refuse({"name", node->text}, "a name of one line");
    return node->text;
  }

  static void RefuseMany(const Models& models, const Sweep& sweep) {
    const std::optional<int64_t> count = CountCombinations(sweep);
    const auto paths = static_cast<int64_t>(models.paths.size());
    if (count && *count <= kMostCombinations / paths) return;
    throw Error({.text = fmt::format("expected at most {} models and combinations, found more",
                                     kMostCombinations),
                 .hint = "shorter lists"});
  }

  // What forward takes, a file says.
  void RefuseInput(const Models& models, const CheckSettings& settings) {
    const auto is_python = [&](const std::string& path) {
      return NamesPython(path, folder_.string());
    };
    if (settings.inputs.empty() || std::ranges::any_of(models.paths, is_python)) return;
    line_ = written_.Find("input")->line;
    throw Error({.where = "input",
                 .text = fmt::format("expected beside a model that is Python, found it beside {}",
                                     Quoted(models.paths[0])),
                 .hint = "shapes, for a file"});
  }

  // How the model becomes a file, where it is none.
  std::optional<PythonExport> ExportOf(const std::string& path, const CheckSettings& settings,
                                       const EstimateRequest& request) const {
    if (!NamesPython(path, folder_.string())) return std::nullopt;
    return PythonExport{.target = path,
                        .folder = folder_.string(),
                        .python = settings.python,
                        .inputs = settings.inputs,
                        .is_eval = request.settings.mode == Mode::kEval};
  }

  ModelSource SourceOf(const std::string& path, const CheckSettings& settings,
                       const EstimateRequest& request) const {
    return {.path = InFolder(folder_, path), .python = ExportOf(path, settings, request)};
  }

  void AddChecks(const Models& models, const std::string& path, const CheckSettings& settings,
                 std::vector<Check>& checks) const {
    for (EstimateRequest& request : Combinations(settings.request, settings.sweep)) {
      request.binding.optional = DefaultSizes(request.binding);
      std::vector<std::string> parts = VariedParts(request, settings.sweep);
      if (!models.is_one) parts.insert(parts.begin(), path);
      std::vector<ModelSource> sources;
      for (const std::string& other : models.paths) {
        sources.push_back(SourceOf(other, settings, request));
      }
      std::optional<PythonExport> python = ExportOf(path, settings, request);
      checks.push_back(
          {.name = parts.empty() ? name_ : fmt::format("{}[{}]", name_, fmt::join(parts, ", ")),
           .model = InFolder(folder_, path),
           .python = std::move(python),
           .models = std::move(sources),
           .request = std::move(request),
           .budgets = settings.budgets,
           .max_increase = settings.max_increase,
           .level = settings.level,
           .lock = settings.lock,
           .is_strict = settings.is_strict,
           .message = settings.message,
           .line = written_.line});
    }
  }

  // Those that [defaults] name, for models that have them.
  std::set<std::string> DefaultSizes(const DimBinding& binding) const {
    DimBinding defaults = {.batch = {}};
    if (written_.Find("dims") == nullptr) defaults.dims = binding.dims;
    if (written_.Find("shapes") == nullptr) defaults.inputs = binding.inputs;
    return NamesIn(defaults);
  }

  // Its name as far as there is one.
  std::string BestName() const {
    if (!name_.empty()) return name_;
    const TomlNode* name = written_.Find("name");
    if (name != nullptr && !name->text.empty()) return name->text;
    const TomlNode* model = written_.Find("model");
    if (model != nullptr && !model->text.empty()) return StemOf(model->text);
    return "check";
  }

  const TomlNode& written_;
  const TomlNode all_;
  const fs::path folder_;
  std::string name_;
  int64_t line_ = 1;  // of what is being read
};

// Where each name was taken first.
using TakenNames = std::map<std::string, int64_t>;

// Throws Error where one of the names is another check's.
void TakeNames(const std::vector<Check>& checks, const std::string& name, int64_t line,
               TakenNames& taken) {
  std::set<std::string> names = {name};
  for (const Check& check : checks) names.insert(check.name);
  for (const std::string& wanted : names) {
    const auto [first, is_new] = taken.emplace(wanted, line);
    if (is_new) continue;
    throw Error({.where = "name",
                 .text = fmt::format("{} is given twice, first at line {}", Quoted(wanted),
                                     first->second)});
  }
}

// `check`, written at `line`, under a name that no other has.
Check Renamed(Check check, int64_t line, TakenNames& taken) {
  const std::string name = check.name;
  if (taken.contains(name)) check.name = fmt::format("{} (line {})", name, check.line);
  for (int again = 2; !taken.emplace(check.name, line).second; ++again) {
    check.name = fmt::format("{} (line {}, {})", name, check.line, again);
  }
  return check;
}

std::vector<Check> ReadOne(const TomlNode& written, const ConfigFile& config, TakenNames& taken) {
  CheckReader reader(written, config);
  try {
    std::vector<Check> checks = reader.Read();
    reader.GoToName();
    TakeNames(checks, reader.name(), written.line, taken);
    return checks;
  } catch (const Error& error) {
    return {Renamed(reader.Unread(error.what()), written.line, taken)};
  }
}

// A check that is gone has no keys but those of [defaults].
std::optional<Level> LevelOfGone(const TomlNode& defaults) {
  int64_t line = 1;
  const auto load_none = [](const std::string&) { return std::vector<SharedCalibration>(); };
  const CheckSettings settings = ReadCheckSettings(defaults, load_none, line);
  if (settings.lock != LockUse::kRequired) return std::nullopt;
  return settings.level;
}

}  // namespace

CheckConfig ReadCheckConfig(const std::string& path) {
  const ConfigFile file = ReadConfigFile(path);
  if (file.checks.empty()) {
    throw Error({.file = path, .text = "expected a [[check]], found none", .hint = "onnxfit init"});
  }
  CheckConfig config = {.path = path, .checks = {}, .gone = LevelOfGone(file.defaults)};
  TakenNames taken;
  for (const TomlNode& written : file.checks) {
    for (Check& check : ReadOne(written, file, taken)) config.checks.push_back(std::move(check));
  }
  return config;
}

}  // namespace onnxfit
