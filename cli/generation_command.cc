// `onnxfit estimate` and `onnxfit max-batch` with --mode generate.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <ostream>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/batch_trials.h"
#include "cli/commands.h"
#include "cli/generation_trial.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/targets.h"
#include "cli/values.h"
#include "estimator/base/error.h"
#include "estimator/report/generation_run.h"

namespace onnxfit {
namespace {

constexpr int64_t kMostGenerated = 1 << 20;  // prompts at once, or tokens, that nobody has

// What generate() has; the others are of a file, or of training.
constexpr std::string_view kFlagsOfGeneration[] = {"--batch", "--precision", "--mode",
                                                   "--gpu",   "--memory",    "--reserve"};

// The types that a model is loaded in.
struct LoadedType {
  Precision precision;
  std::string_view torch;
};
constexpr LoadedType kLoadedTypes[] = {
    {Precision::kFp32, "float32"}, {Precision::kBf16, "bfloat16"}, {Precision::kFp16, "float16"}};

[[noreturn]] void RefuseGeneration(const std::string& where, const std::string& text,
                                   const std::string& hint = "") {
  throw Error({.where = where, .text = text, .hint = hint});
}

void CheckTypedFlags(const Options& options) {
  for (const TypedFlag& typed : options.typed) {
    const bool is_ours =
        std::ranges::find(kFlagsOfGeneration, typed.name) != std::end(kFlagsOfGeneration);
    if (!is_ours) {
      RefuseGeneration(typed.name,
                       "expected without --mode generate, which runs the model as it is");
    }
  }
  if (options.lengths) RefuseGeneration("--lengths", "expected without --mode generate");
  if (options.runtime.runtime != Runtime::kTorch) {
    RefuseGeneration("--runtime", "expected torch with --mode generate, found onnxruntime");
  }
}

void CheckModel(const Options& options) {
  if (options.numbers.any()) RefuseGeneration("--params", "expected a model with --mode generate");
  if (!IsModelName(options.model)) return;
  throw Error({.file = options.model,
               .where = "--mode generate",
               .text = "expected a model of transformers, found a file of one call",
               .hint = "the folder with its config.json, its name, or model.py:load, a function "
                       "that returns it"});
}

void CheckGeneration(const Options& options) {
  CheckTypedFlags(options);
  CheckModel(options);
  if (options.generation.prompts.empty() && options.solve != "prompt") {
    RefuseGeneration("--mode generate", "expected how long prompts are, found nothing of it",
                     "--prompt 1024");
  }
  CheckTextOrJson(options, "--mode generate");
  CheckOutput(options, options.model, "the model");
}

// As torch calls it; the config's own where nobody names one.
std::string LoadedTypeOf(const Options& options) {
  const auto given = std::ranges::find(options.given, "--precision");
  if (given == options.given.end()) return "auto";
  if (!options.sweep.precisions.empty()) {
    RefuseGeneration("--precision", "expected one with --mode generate, found a list");
  }
  for (const LoadedType& row : kLoadedTypes) {
    if (row.precision == options.request.settings.precision) return std::string(row.torch);
  }
  RefuseGeneration("--precision",
                   fmt::format("expected fp32, bf16 or fp16 with --mode generate, found {}",
                               ToString(options.request.settings.precision)));
}

std::vector<int64_t> BatchesOf(const Options& options) {
  if (!options.sweep.batches.empty()) return options.sweep.batches;
  return {options.request.binding.batch.value_or(1)};
}

// Every batch, of every prompt, of every number of new tokens.
std::vector<AskedGeneration> GenerationsOf(const Options& options) {
  const GenerationOptions& how = options.generation;
  const std::vector<int64_t> prompts = how.prompts.empty() ? std::vector<int64_t>{0} : how.prompts;
  std::vector<AskedGeneration> asked;
  for (const int64_t batch : BatchesOf(options)) {
    for (const int64_t prompt : prompts) {
      for (const int64_t new_tokens : how.new_tokens) {
        asked.push_back({.model = options.model,
                         .batch = batch,
                         .prompt = prompt,
                         .new_tokens = new_tokens,
                         .beams = how.beams,
                         .cache = how.cache,
                         .dtype = LoadedTypeOf(options)});
      }
    }
  }
  return asked;
}

JudgedTarget CardOfRun(const GenerationRun& run) { return run.run.cards.front(); }

// --- The largest --------------------------------------------------------------------------------

// What is looked for: "batch", "prompt" or "new".
std::string SolvedOf(const Options& options) {
  if (options.solve.empty()) return "batch";
  if (options.solve == "prompt" || options.solve == "new") return options.solve;
  RefuseGeneration("--solve", fmt::format("expected prompt or new with --mode generate, found {}",
                                          options.solve));
}

// What is looked for has no size.
void CheckNotHeld(const Options& options, const std::string& solved) {
  const std::string flag = "--" + solved;
  if (solved == "batch" || std::ranges::find(options.given, flag) == options.given.end()) return;
  RefuseGeneration(flag, fmt::format("expected without --solve {}", solved));
}

int64_t& SizeIn(AskedGeneration& asked, const std::string& solved) {
  if (solved == "prompt") return asked.prompt;
  return solved == "new" ? asked.new_tokens : asked.batch;
}

// Once for each of the sizes that are held.
std::vector<AskedGeneration> HeldOf(const Options& options, const std::string& solved) {
  std::vector<AskedGeneration> held;
  for (AskedGeneration asked : GenerationsOf(options)) {
    SizeIn(asked, solved) = 0;
    const auto is_same = [&](const AskedGeneration& other) {
      return other.batch == asked.batch && other.prompt == asked.prompt &&
             other.new_tokens == asked.new_tokens;
    };
    if (std::ranges::none_of(held, is_same)) held.push_back(std::move(asked));
  }
  return held;
}

// What its table of positions takes, 0 without one.
int64_t EndOf(const ToldGeneration& told, const std::string& solved) {
  if (solved == "prompt") return told.most_prompt;
  return solved == "new" ? told.most_new : 0;
}

GenerationSearch SearchOn(const Target& target, const AskedGeneration& held,
                          const std::string& solved, const Options& options, Progress& progress) {
  std::map<int64_t, GenerationRun> runs;
  const auto run = [&](int64_t size) {
    if (const auto known = runs.find(size); known != runs.end()) return CardOfRun(known->second);
    progress.Show(fmt::format("max-batch: {} {} on {}", solved, size, target.name));
    AskedGeneration asked = held;
    SizeIn(asked, solved) = size;
    return CardOfRun(runs[size] = RunGeneration(asked, target));
  };
  TrialLimits limits = LimitsAsAsked(options, kMostGenerated);
  run(limits.least);
  const int64_t end = EndOf(runs.at(limits.least).told, solved);
  const bool ends_first = end > 0 && end < limits.most;
  if (ends_first) limits.most = end;
  GenerationSearch search = {.solved = solved, .found = TryBatches(limits, run)};
  search.is_end = ends_first && search.found.is_limited;
  search.largest = std::move(runs.at(search.found.told()));
  return search;
}

}  // namespace

int RunEstimateOfGeneration(const Options& options, std::ostream& out, std::ostream& err) {
  CheckGeneration(options);
  std::vector<Target> targets = options.request.targets;
  if (targets.empty()) targets.push_back(AssumedCard());
  Progress progress(err, std::chrono::seconds(1));
  std::vector<GenerationRun> runs;
  std::vector<JudgedTarget> judged;
  for (const Target& target : targets) {
    for (const AskedGeneration& asked : GenerationsOf(options)) {
      progress.Show(fmt::format("estimate: batch {}, prompt {}, {} new tokens on {}", asked.batch,
                                asked.prompt, asked.new_tokens, target.name));
      runs.push_back(RunGeneration(asked, target));
      runs.back().run.is_assumed = options.request.targets.empty();
      judged.push_back(CardOfRun(runs.back()));
    }
  }
  progress.End();
  WriteTextOrJson(runs, options, out);
  return ExitCodeOf(judged, options);
}

int RunMaxBatchOfGeneration(const Options& options, std::ostream& out, std::ostream& err) {
  CheckGeneration(options);
  if (options.request.targets.empty())
    RefuseGeneration("--gpu", "expected a card, found none", "--gpu l4");
  const std::string solved = SolvedOf(options);
  CheckNotHeld(options, solved);
  Progress progress(err, std::chrono::seconds(1));
  std::vector<GenerationSearch> searches;
  std::vector<JudgedTarget> judged;
  for (const Target& target : options.request.targets) {
    for (const AskedGeneration& held : HeldOf(options, solved)) {
      searches.push_back(SearchOn(target, held, solved, options, progress));
      judged.push_back(CardOfRun(searches.back().largest));
    }
  }
  progress.End();
  WriteTextOrJson(searches, options, out);
  return ExitCodeOf(judged, options);
}

}  // namespace onnxfit
