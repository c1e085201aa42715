#include "cli/generation_trial.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <sstream>
#include <utility>

#include "cli/process.h"
#include "cli/program_trial.h"
#include "cli/python_models.h"
#include "cli/work_folder.h"
#include "estimator/base/error.h"

namespace onnxfit {

extern const std::span<const unsigned char> kGeneration;  // generation.py

namespace {

std::optional<ToldGeneration> ReadTold(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return ReadGeneration(std::string{std::istreambuf_iterator<char>(file), {}});
}

// What keeps it from an answer.
void CheckTold(const ToldGeneration& told, const std::string& model) {
  if (!told.missing.empty()) {
    throw Error({.where = DefaultPython(),
                 .text = fmt::format("expected the Python package {}, found none", told.missing),
                 .hint = fmt::format("{} -m pip install {}; ONNXFIT_PYTHON for another Python",
                                     DefaultPython(), told.missing)});
  }
  if (!told.error.empty()) throw Error({.file = model, .text = told.error});
}

// In what it was when a card was full, in the place of our own lines.
void NamePlaces(const ToldGeneration& told, ProgramRun& run) {
  for (ProgramProcess& process : run.processes) {
    if (process.full_at.place.empty()) continue;
    // No smaller batch makes weights smaller.
    if (told.name.empty() && process.oom.size() > 1) process.oom.resize(1);
    process.full_at = {.place = told.name.empty() ? "the loading of its weights"
                                : told.calls == 0 ? "generate(), in its prefill"
                                                  : "generate(), as it decodes"};
  }
}

}  // namespace

GenerationRun RunGeneration(const AskedGeneration& asked, const Target& target) {
  const WorkFolder folder("a run of generate()");
  WriteBytes(folder.File("generation.py"), kGeneration);
  WriteBytes(folder.File("asked.json"), ToJson(asked));
  const std::string answer = folder.File("answer.json");
  const ProgramTrial trial = {.command = {DefaultPython(), "-B", folder.File("generation.py"),
                                          folder.File("asked.json"), answer},
                              .cards = {target},
                              .is_silent = true};
  std::ostringstream said;  // of a program that failed
  try {
    ProgramRun run = RunTrial(trial, said);
    const std::optional<ToldGeneration> told = ReadTold(answer);
    if (told) CheckTold(*told, asked.model);
    run.command = {asked.model};  // of which people read
    if (told) NamePlaces(*told, run);
    if (told && !run.failed) return {asked, *told, std::move(run)};
  } catch (const Error&) {  // no card was used
    const std::optional<ToldGeneration> told = ReadTold(answer);
    if (told) CheckTold(*told, asked.model);
    throw;
  }
  throw Error(
      {.file = asked.model, .text = "expected a run of generate(), found: " + InALine(said.str())});
}

}  // namespace onnxfit
