#include "estimator/picture/annotations.h"

#include <fmt/format.h>

#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/fit/file_places.h"
#include "estimator/memory/timeline.h"
#include "estimator/picture/page_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

std::string WholeText(int64_t bytes) {
  return fmt::format("{} ({} bytes)", FormatBytes(bytes), bytes);
}

// "activations", "parameters 4.00 MiB, gradients 4.00 MiB".
std::string KindsText(const FilePlace& place) {
  std::vector<std::pair<std::string, int64_t>> kinds;
  for (size_t kind = 0; kind < place.at_peak.size(); ++kind) {
    if (place.at_peak[kind] == 0) continue;
    kinds.emplace_back(WithSpaces(ToString(static_cast<Kind>(kind))), place.at_peak[kind]);
  }
  if (kinds.size() == 1) return kinds[0].first;
  std::string text;
  for (const auto& [kind, bytes] : kinds) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kind, FormatBytes(bytes));
  }
  return text;
}

Annotations NotesOn(const FilePlace& place, int64_t exact_at_peak) {
  Annotations notes;
  if (place.bytes() > 0) {
    notes.emplace_back("at_peak",
                       fmt::format("{}, {}: {}", WholeText(place.bytes()),
                                   PercentText(place.bytes(), exact_at_peak), KindsText(place)));
  }
  if (place.allocated_bytes > 0) {
    notes.emplace_back("allocated", WholeText(place.allocated_bytes) + " while it runs forward");
  }
  return notes;
}

Annotations NotesOnModel(const Estimate& estimate) {
  Annotations notes = {
      {"run", SettingsText(estimate)},
      {"device", WholeText(estimate.device_bytes)},
      {"allocated", WholeText(estimate.peak.allocated_bytes)},
      {"peak", fmt::format("step {}, {}{}", estimate.peak_step, estimate.peak_phase,
                           estimate.peak_node.empty() ? "" : ", at " + estimate.peak_node)}};
  for (const JudgedTarget& judged : estimate.targets) {
    notes.emplace_back("verdict." + judged.target.name,
                       fmt::format("{}: {}", VerdictWord(judged.judgement.verdict),
                                   UsedText(judged.judgement, kUnicodeGlyphs)));
  }
  return notes;
}

}  // namespace

FileNotes AnnotationsOf(const Prediction& prediction, const Estimate& estimate) {
  const Timeline timeline = Replay(prediction.trace, prediction.alloc_conf);
  FileNotes notes = {.model = NotesOnModel(estimate)};
  for (const FilePlace& place : PlacesInFile(prediction, timeline)) {
    auto& of_kind = place.is_tensor ? notes.tensors : notes.nodes;
    of_kind[place.name] = NotesOn(place, timeline.exact_at_peak);
  }
  return notes;
}

}  // namespace onnxfit
