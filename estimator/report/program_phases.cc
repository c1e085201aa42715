#include "estimator/report/program_phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

constexpr std::pair<PhaseKind, std::string_view> kPhaseKinds[] = {
    {PhaseKind::kStart, "start"},       {PhaseKind::kTraining, "training"},
    {PhaseKind::kForward, "forward"},   {PhaseKind::kEvaluation, "evaluation"},
    {PhaseKind::kModule, "module"},     {PhaseKind::kPrefill, "prefill"},
    {PhaseKind::kDecoding, "decoding"}, {PhaseKind::kEngine, "engine"},
    {PhaseKind::kSleep, "sleep"},       {PhaseKind::kWake, "wake"},
    {PhaseKind::kBetween, "between"}};

PhaseKind PhaseKindNamed(const std::string& name) {
  for (const auto& [kind, known] : kPhaseKinds) {
    if (known == name) return kind;
  }
  return PhaseKind::kBetween;
}

PhaseOnCard PhaseCardOf(const Json& row) {
  return {.device = row.at("index"),
          .allocated_bytes = row.at("allocated"),
          .reserved_bytes = row.at("reserved"),
          .held_bytes = row.at("held"),
          .left_allocated_bytes = row.at("left_allocated"),
          .left_reserved_bytes = row.at("left_reserved"),
          .left_held_bytes = row.at("left_held")};
}

// Whether the phase is told though it has not the most.
bool IsNamedPhase(const ProgramPhase& phase) {
  return phase.kind != PhaseKind::kStart && phase.kind != PhaseKind::kBetween;
}

// Of phases that took the same: one that did something, one that went to sleep or woke with all
// that was there, what came before or between.
int WeightOf(const ProgramPhase& phase) {
  if (!IsNamedPhase(phase)) return 0;
  return phase.kind == PhaseKind::kSleep || phase.kind == PhaseKind::kWake ? 1 : 2;
}

int64_t DeviceOfPhases(const std::vector<ProgramPhase>& phases) {
  const PhaseOnCard* most = nullptr;
  for (const ProgramPhase& phase : phases) {
    for (const PhaseOnCard& card : phase.cards) {
      if (most == nullptr || card.reserved_bytes > most->reserved_bytes) most = &card;
    }
  }
  return most == nullptr ? 0 : most->device;
}

// Mapped memory is the only thing that PyTorch reserves and the card may have back.
bool IsUnmappedPhase(const PhaseOnCard& card) {
  return card.left_held_bytes > 0 && card.left_held_bytes < card.left_reserved_bytes;
}

}  // namespace

std::vector<ProgramPhase> ReadPhases(const Json& rows) {
  std::vector<ProgramPhase> phases;
  for (const Json& row : rows) {
    ProgramPhase phase = {
        .kind = PhaseKindNamed(row.at("kind")), .name = row.at("name"), .times = row.at("times")};
    for (const Json& card : row.at("devices")) phase.cards.push_back(PhaseCardOf(card));
    if (row.contains("growth")) phase.growth = {row.at("calls"), row.at("growth")};
    phases.push_back(std::move(phase));
  }
  return phases;
}

Json PhasesJson(const std::vector<ProgramPhase>& phases) {
  Json rows = Json::array();
  for (const ProgramPhase& phase : phases) {
    Json row = {{"kind", kPhaseKinds[static_cast<size_t>(phase.kind)].second},
                {"times", phase.times}};
    PutIfKnown(row, "name", phase.name);
    if (phase.growth) {
      row["calls"] = phase.growth->calls;
      row["growth_bytes"] = phase.growth->bytes;
    }
    row["devices"] = Json::array();
    for (const PhaseOnCard& card : phase.cards) {
      row["devices"].push_back({{"device", card.device},
                                {"allocated_bytes", card.allocated_bytes},
                                {"reserved_bytes", card.reserved_bytes},
                                {"device_bytes", card.held_bytes},
                                {"left",
                                 {{"allocated_bytes", card.left_allocated_bytes},
                                  {"reserved_bytes", card.left_reserved_bytes},
                                  {"device_bytes", card.left_held_bytes}}}});
    }
    rows.push_back(row);
  }
  return rows;
}

PhaseRows RowsOfPhases(const std::vector<ProgramPhase>& phases) {
  PhaseRows told = {.device = DeviceOfPhases(phases)};
  for (const ProgramPhase& phase : phases) {
    for (const PhaseOnCard& card : phase.cards) {
      if (card.device != told.device) continue;
      told.rows.push_back({&phase, card});
      told.has_unmapped |= IsUnmappedPhase(card);
    }
  }
  const auto taken = [&](const PhaseRow& row) {
    return told.has_unmapped ? row.figures.held_bytes : row.figures.allocated_bytes;
  };
  const auto is_less = [&](const PhaseRow& a, const PhaseRow& b) {
    return std::pair(taken(a), WeightOf(*a.phase)) < std::pair(taken(b), WeightOf(*b.phase));
  };
  if (told.rows.empty()) return told;
  const ProgramPhase* const most = std::ranges::max_element(told.rows, is_less)->phase;
  std::erase_if(told.rows, [&](const PhaseRow& row) {
    return !IsNamedPhase(*row.phase) && row.phase != most;
  });
  told.most =
      static_cast<size_t>(std::ranges::find(told.rows, most, &PhaseRow::phase) - told.rows.begin());
  return told;
}

std::string PhaseName(const ProgramPhase& phase) {
  switch (phase.kind) {
    case PhaseKind::kStart:
      return "before them";
    case PhaseKind::kTraining:
      return "training";
    case PhaseKind::kForward:
      return "calls with gradients";
    case PhaseKind::kEvaluation:
      return phase.name.empty() ? "evaluation" : "evaluation of " + phase.name;
    case PhaseKind::kModule:
      return phase.name.empty() ? "other modules" : phase.name;
    case PhaseKind::kPrefill:
      return "generate(), prefill";
    case PhaseKind::kDecoding:
      return "generate(), decoding";
    case PhaseKind::kEngine:
      return phase.name + "'s steps";
    case PhaseKind::kSleep:
      return phase.name + "'s sleep()";
    case PhaseKind::kWake:
      return phase.name + "'s wake_up()";
    case PhaseKind::kBetween:
      return "between them";
  }
  return phase.name;
}

std::string GrowthText(const ProgramPhase& phase) {
  if (!phase.growth) return "";
  const std::string more = phase.growth->bytes > 0
                               ? "each " + FormatBytes(phase.growth->bytes) + " more"
                               : "none of which takes more";
  return fmt::format("decoding: {} calls of the model behind the first, {}", phase.growth->calls,
                     more);
}

std::vector<std::string> ColumnsOfPhases(const PhaseRows& told) {
  if (told.has_unmapped) return {"allocated", "on the card", "left there"};
  return {"allocated", "reserved", "left"};
}

std::vector<int64_t> FiguresOfPhase(const PhaseRows& told, const PhaseRow& row) {
  const PhaseOnCard& card = row.figures;
  if (told.has_unmapped) return {card.allocated_bytes, card.held_bytes, card.left_held_bytes};
  return {card.allocated_bytes, card.reserved_bytes, card.left_allocated_bytes};
}

std::vector<std::string> SentencesOfPhases(const PhaseRows& told) {
  std::vector<std::string> sentences = {
      fmt::format("{} takes most", PhaseName(*told.rows[told.most].phase))};
  if (told.has_unmapped) {
    sentences[0] += " of the card";
    sentences.push_back(
        "what an engine gives back while it sleeps, PyTorch counts as allocated all the same");
  }
  for (const PhaseRow& row : told.rows) {
    const std::string growth = GrowthText(*row.phase);
    if (!growth.empty()) sentences.push_back(growth);
  }
  return sentences;
}

std::string PhasesText(const std::vector<ProgramPhase>& phases, std::string_view whose) {
  const PhaseRows told = RowsOfPhases(phases);
  if (told.rows.empty()) return "";
  constexpr size_t kNameColumns = 32;
  std::vector<std::vector<Cell>> rows = {{{fmt::format("By phase{}", whose)}, {"times"}}};
  for (const std::string& column : ColumnsOfPhases(told)) rows[0].push_back({column});
  for (const PhaseRow& row : told.rows) {
    const std::string name =
        CutMiddle(Clean(PhaseName(*row.phase), true), kNameColumns, kAsciiGlyphs.ellipsis);
    rows.push_back({{"  " + name}, {std::to_string(row.phase->times)}});
    for (const int64_t bytes : FiguresOfPhase(told, row))
      rows.back().push_back({FormatBytes(bytes)});
  }
  std::string text = '\n' + Table(rows, "lrrrr", "");
  for (const std::string& sentence : SentencesOfPhases(told)) {
    text += Wrap("  - ", Clean(sentence, true));
  }
  return text;
}

}  // namespace onnxfit
