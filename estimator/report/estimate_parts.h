// What the formats of an estimate share: its rows, and the lives of tensors.  Internal to the
// room report/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/fit/estimate.h"
#include "estimator/fit/why.h"
#include "estimator/report/estimate.h"
#include "estimator/report/layout.h"

namespace onnxfit {

// An estimate and how it is to be shown.
struct Page {
  const Estimate& estimate;
  const TextOptions& options;
  const Glyphs& glyphs;

  std::string Shown(std::string_view text) const { return Clean(text, options.ascii); }
  std::string Cut(std::string_view text, size_t columns) const {
    return CutMiddle(Shown(text), columns, glyphs.ellipsis);
  }
  std::string_view Paint(std::string_view color) const { return options.color ? color : ""; }
};

// The rows that are not empty, largest first, and whatever they leave of the total.
std::vector<BreakdownRow> ShownBreakdown(const Estimate& estimate);

// Whether what a run takes of the cards that were asked about is `device_bytes`, too.  It is less
// on a card that gets full, where PyTorch gives back what it has cached, and more may be asked for
// where a run fails: then the verdict has the total, and `device_bytes` is that of a card with
// room.
bool IsTotalOfTargets(const Estimate& estimate);

// "Where the bytes go", and on which card where that is another than the one asked about.
std::string_view BreakdownTitle(const Estimate& estimate);

// Of `total`, 0 to 1.
double ShareOf(int64_t bytes, int64_t total);

// "68.0%" for each row: they add up to 100.0%.
std::vector<std::string> SharesOf(const std::vector<BreakdownRow>& rows, int64_t total);

// "420.0–620.0 MiB", "412.0 MiB–1.20 GiB", "" where the row has no range.
std::string RangeText(const BreakdownRow& row, std::string_view dash);
std::string RangeText(int64_t low, int64_t high, std::string_view dash);

// What nvidia-smi will show, in whole MiB, rounded up as it counts, or what shows the memory of a
// board whose CPU has it, too; a sentence.
std::string NvidiaSmiText(const Estimate& estimate);

// How much of the peak torch.backends.cudnn.benchmark is, a sentence; "" where that is nothing.
std::string TrialsText(const Estimate& estimate);

// "nvidia-smi", or the tools of boards that share their memory; of a table's cards.
std::string_view MonitorOf(const std::vector<JudgedTarget>& targets);

// The header and a row for each step.  In eval nothing follows the forward pass.
std::vector<std::vector<std::string>> StepRows(const Estimate& estimate);

// The operator that makes it or, between operators, the phase: "setup", "optimizer".
std::string_view BirthText(const LargeTensor& tensor);
// The same of what frees it; "next step", and "end" where nothing does.
std::string_view DeathText(const LargeTensor& tensor);

// Tensors that differ in numbers of their names alone, as those of a list's blocks do.
struct TensorGroup {
  const LargeTensor* tensor = nullptr;  // the first
  int64_t count = 0;
  std::string name = {};  // of all, "*" for what differs: "h.*.attn.weight"
  std::string born = {};  // BirthText and DeathText, likewise
  std::string dies = {};
};

// The first `rows` groups, what has most together first.  O(tensors × log + letters shown).
std::vector<TensorGroup> Groups(const std::vector<LargeTensor>& tensors, size_t rows);

// "2 × 187.5 KiB".
std::string SizeText(const TensorGroup& group, std::string_view times);

// What only -v shows of an estimate as a whole, a line each.
std::vector<std::string> DetailLines(const Estimate& estimate);

// "made in it 2.00 GiB, weights 27.0 MiB": what is most of a module's bytes, then what is next.
std::string ModuleText(const ModuleSum& sum);

// "step 2, forward, at /conv1/Conv", "setup".
std::string InstantText(const Instant& instant);

// The same without the step.
std::string PhaseText(const Instant& instant);

// A block of lines for each tensor, `page.options.rows` at most, or why there is none.
std::string WhyText(const Page& page, const WhyAnswer& why);

}  // namespace onnxfit
