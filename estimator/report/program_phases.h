// What a program does in turn, and what each of it took: training, evaluation, generation, the
// parts of a pipeline, an engine (hook/phases.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/report/json_parts.h"

namespace onnxfit {

enum class PhaseKind {
  kStart,       // before all others
  kTraining,    // calls with gradients, steps of an optimizer
  kForward,     // calls with gradients, of a program without an optimizer
  kEvaluation,  // calls without, of a module that trains
  kModule,      // and of one that does not: a part of a pipeline, a teacher
  kPrefill,     // generate() of transformers, until the model's first call has returned
  kDecoding,    // and since
  kEngine,      // its steps
  kSleep,       // its sleep()
  kWake,        // its wake_up()
  kBetween,     // behind a phase whose end is known
};

// On one card, by the process's number of it.  PyTorch's figures have what an engine that sleeps
// has given back to the card; what the process held of the card, its context included, has not.
struct PhaseOnCard {
  int64_t device = 0;
  int64_t allocated_bytes = 0;  // at most, as all here that was not left
  int64_t reserved_bytes = 0;
  int64_t held_bytes = 0;
  int64_t left_allocated_bytes = 0;  // when it ended last
  int64_t left_reserved_bytes = 0;
  int64_t left_held_bytes = 0;

  bool operator==(const PhaseOnCard&) const = default;
};

// Of decoding: calls of the model, and what each of them added.
struct PhaseGrowth {
  int64_t calls = 0;
  int64_t bytes = 0;

  bool operator==(const PhaseGrowth&) const = default;
};

struct ProgramPhase {
  PhaseKind kind = PhaseKind::kStart;
  std::string name = {};  // of the module's class or of the engine, "" without
  int64_t times = 0;      // that it began
  std::vector<PhaseOnCard> cards = {};
  std::optional<PhaseGrowth> growth = {};
};

// What hook/phases.py wrote; none of a program that does one thing.
std::vector<ProgramPhase> ReadPhases(const Json& rows);

// [{"kind", "name", "times", "calls", "growth_bytes", "devices": [{"device", "allocated_bytes",
//   "reserved_bytes", "device_bytes", "left": {"allocated_bytes", "reserved_bytes",
//   "device_bytes"}}]}]
Json PhasesJson(const std::vector<ProgramPhase>& phases);

// One card's, as it is told: the card of which most was held.
struct PhaseRow {
  const ProgramPhase* phase = nullptr;
  PhaseOnCard figures;
};

struct PhaseRows {
  int64_t device = 0;
  std::vector<PhaseRow> rows = {};  // in the order in which they began
  size_t most = 0;                  // the row where most was taken
  // Something was given back to the card under PyTorch, so that the card's own figures decide.
  bool has_unmapped = false;
};

// Without what came before all phases and between them, unless most was taken there.
PhaseRows RowsOfPhases(const std::vector<ProgramPhase>& phases);

// "training", "prefill of generate()", "CLIPTextModel", "vLLM's sleep()".
std::string PhaseName(const ProgramPhase& phase);

// "decoding: 63 calls of the model behind the first, each 16.1 KiB more"; "" where that is unknown.
std::string GrowthText(const ProgramPhase& phase);

// How a row reads, behind its name and times: "allocated", "reserved", "left", or, where PyTorch's
// figures are not the card's, "allocated", "on the card", "left there".
std::vector<std::string> ColumnsOfPhases(const PhaseRows& told);
std::vector<int64_t> FiguresOfPhase(const PhaseRows& told, const PhaseRow& row);

// Which takes most, and how decoding grows.  REQUIRES: a row.
std::vector<std::string> SentencesOfPhases(const PhaseRows& told);

// A table and its sentences, `whose` ("of rank 1", "") in its title; "" where there is no phase.
std::string PhasesText(const std::vector<ProgramPhase>& phases, std::string_view whose);

}  // namespace onnxfit
