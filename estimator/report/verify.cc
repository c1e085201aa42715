// A verification: what there is to say, text, Markdown, comma-separated values.
#include "estimator/report/verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/report/diff.h"
#include "estimator/report/layout.h"
#include "estimator/report/markup.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

int64_t PeakBytes(const Verification& verification) {
  int64_t most = 0;
  for (const ProofRow& row : verification.rows) most = std::max(most, row.measured_bytes);
  return most;
}

// Signed, of what was predicted.
double PercentOff(const ProofRow& row) {
  const auto predicted = static_cast<double>(std::max<int64_t>(row.predicted_bytes, 1));
  return 100 * static_cast<double>(row.difference_bytes()) / predicted;
}

const ProofRow* FarthestOff(const std::vector<ProofRow>& rows) {
  const auto farther = [](const ProofRow& a, const ProofRow& b) {
    return std::abs(a.difference_bytes()) < std::abs(b.difference_bytes());
  };
  const auto at = std::max_element(rows.begin(), rows.end(), farther);
  return at == rows.end() ? nullptr : &*at;
}

std::string PassText(const Verification& verification) {
  const ProofRow* row = FarthestOff(verification.rows);
  const std::string off = row == nullptr || row->difference_bytes() == 0
                              ? "to the byte"
                              : FormatBytes(std::abs(row->difference_bytes())) + " off";
  return fmt::format("{} at the peak of {} steps, {}", FormatBytes(PeakBytes(verification)),
                     verification.limits.steps, off);
}

std::string FailText(const Verification& verification) {
  if (verification.measured.wrong_bytes > 0) {
    return fmt::format("{} did not hold what was written",
                       FormatBytes(verification.measured.wrong_bytes));
  }
  for (const ProofRow& row : verification.rows) {
    if (row.holds) continue;
    return fmt::format("{}: {}, {} predicted ({:+.1f}%)", row.what, FormatBytes(row.measured_bytes),
                       FormatBytes(row.predicted_bytes), PercentOff(row));
  }
  return verification.fails_at ? "the card is full where there should be room"
                               : "it runs where the card should be full";
}

std::string OomText(const ProofFailure& fails_at) {
  const Failure& failure = fails_at.failure;
  return fmt::format("step {}: {} asked, {} free", failure.step, PyTorchBytes(failure.tried_bytes),
                     FormatBytes(fails_at.free_bytes));
}

std::string OtherText(const GpuProcess& process) {
  const std::string name = process.name.empty()
                               ? fmt::format("process {}", process.pid)
                               : fmt::format("{} (process {})", process.name, process.pid);
  return process.bytes ? fmt::format("{}: {}", name, FormatBytes(*process.bytes)) : name;
}

// "" where there are none.
std::string OthersText(const DetectedGpu& gpu) {
  std::vector<std::string> others;
  for (const GpuProcess& process : gpu.others) others.push_back(OtherText(process));
  return others.empty() ? "" : fmt::format("also on the card: {}", fmt::join(others, ", "));
}

std::string GrowthText(const GpuReplay& measured) {
  int64_t most = 0;
  for (const PhaseFigures& phase : measured.phases) {
    most = std::max(most, std::abs(phase.others_bytes));
  }
  return most == 0 ? ""
                   : fmt::format("other processes changed by {} meanwhile: not counted",
                                 FormatBytes(most));
}

std::string ContextText(const Verification& verification) {
  const ContextBytes& table = verification.estimate.settings.device.context;
  const std::string taken =
      fmt::format("PyTorch's with its libraries is taken as {} on this card ({})",
                  FormatBytes(table.bytes), ToString(table.basis));
  if (!verification.context_bytes) return "the context is not in these figures; " + taken;
  return fmt::format("the context of this process takes {}; {}",
                     FormatBytes(*verification.context_bytes), taken);
}

std::string CardText(const DetectedGpu& gpu) {
  std::string text = gpu.name;
  if (!gpu.driver.empty()) text += fmt::format(", driver {}", gpu.driver);
  if (gpu.cuda_runtime > 0) text += ", CUDA " + CudaVersionText(gpu.cuda_runtime);
  return text +
         fmt::format(", {} of {} free", FormatBytes(gpu.free_bytes), FormatBytes(gpu.total_bytes));
}

std::string ExactText(const Verification& verification) {
  const auto phases = static_cast<int64_t>(verification.measured.phases.size());
  return fmt::format(
      "in {} of {} phases the card lost what the allocator was predicted to "
      "reserve, to the byte",
      verification.exact_phases(), phases);
}

std::string WrittenText(const GpuReplay& measured) {
  return fmt::format("{} blocks were written and read back, {} in {:.2f} s: {}", measured.blocks,
                     FormatBytes(measured.written_bytes), measured.seconds,
                     measured.wrong_bytes == 0 ? "none changed"
                                               : fmt::format("{} B changed", measured.wrong_bytes));
}

void AddIfAny(std::vector<std::string>& notes, std::string note) {
  if (!note.empty()) notes.push_back(std::move(note));
}

std::string ProofWord(Proof proof) {
  constexpr std::string_view kWords[] = {"PASS", "FAIL", "OOM", "STOPPED"};
  return std::string(kWords[static_cast<size_t>(proof)]);
}

std::string ProofText(const Verification& verification) {
  switch (verification.proof) {
    case Proof::kPass:
      return PassText(verification);
    case Proof::kFail:
      return FailText(verification);
    case Proof::kOom:
      return OomText(*verification.fails_at);
    case Proof::kStopped:
      return fmt::format("after {} phases", verification.measured.phases.size());
  }
  return "";
}

std::string DifferenceText(const ProofRow& row) {
  if (row.difference_bytes() == 0) return "same";
  return fmt::format("{}, {:+.1f}%", SignedBytes(row.difference_bytes()), PercentOff(row));
}

std::vector<std::string> ProofNotes(const Verification& verification) {
  std::vector<std::string> notes;
  if (verification.fails_at) {
    const ProofFailure& fails_at = *verification.fails_at;
    notes.push_back(fmt::format("{}; {} of the card were free{}", FailureText(fails_at.failure),
                                FormatBytes(fails_at.free_bytes),
                                fails_at.was_predicted ? ", as predicted for so much" : ""));
  }
  notes.push_back(ExactText(verification));
  notes.push_back(WrittenText(verification.measured));
  if (verification.measured.retries > 0) {
    notes.push_back(fmt::format("the card was full {} times: cached memory went back first",
                                verification.measured.retries));
  }
  AddIfAny(notes, GrowthText(verification.measured));
  notes.push_back(ContextText(verification));
  AddIfAny(notes, OthersText(verification.gpu));
  notes.push_back(CardText(verification.gpu));
  return notes;
}

std::string MaxBatchText(const VerifiedMaxBatch& answer) {
  const std::string predicted = fmt::format("{} predicted", answer.predicted.batch);
  if (answer.was_stopped) return fmt::format("stopped; {} ran, {}", answer.batch, predicted);
  if (answer.batch == 0) return fmt::format("not even one sample runs, {}", predicted);
  return fmt::format("{} runs, {} does not, {}", answer.batch, answer.batch + 1, predicted);
}

std::vector<std::string> MaxBatchNotes(const VerifiedMaxBatch& answer) {
  std::vector<std::string> notes;
  for (const ReplayedBatch& replayed : answer.replayed) {
    if (replayed.batch != answer.batch + 1 || !replayed.failure) continue;
    notes.push_back(fmt::format("{} {}; {} of the card were free", replayed.batch,
                                FailureText(replayed.failure->failure),
                                FormatBytes(replayed.failure->free_bytes)));
  }
  notes.push_back(
      fmt::format("{} batches of {} steps were carried out", answer.replayed.size(), answer.steps));
  notes.push_back(
      "the prediction is the largest whose neighbours up to 2% around it run, too, on "
      "a card of which as much is free");
  AddIfAny(notes, OthersText(answer.gpu));
  notes.push_back(CardText(answer.gpu));
  return notes;
}

std::string_view PaintOf(Proof proof) {
  constexpr std::string_view kPaints[] = {kGreen, kRed, kRed, kYellow};
  return kPaints[static_cast<size_t>(proof)];
}

// "PASS on NVIDIA H200: …", the card's name cut to what 80 columns leave it.
std::string FirstLine(const std::string& word, std::string_view paint, const std::string& card,
                      const std::string& answer, const TextOptions& options) {
  const auto line = [&](std::string_view begin, std::string_view name) {
    return fmt::format("{} on {}: {}", begin, name, answer);
  };
  const std::string name = NameBeside(line(word, ""), card, options);
  return line(Painted({word, options.color ? paint : ""}), name) + '\n';
}

std::string ModelLine(const std::string& model, const std::string& settings,
                      const TextOptions& options) {
  return Wrap("", Clean(fmt::format("{}, {}", model, settings), options.ascii));
}

std::string Terms(const Verification& verification, const TextOptions& options) {
  if (verification.rows.empty()) return "";
  std::vector<std::vector<Cell>> rows = {
      {{"beyond the context"}, {"predicted"}, {"measured"}, {"difference"}}};
  for (const ProofRow& row : verification.rows) {
    const std::string_view paint = options.color && !row.holds ? kRed : "";
    rows.push_back({{row.what},
                    {FormatBytes(row.predicted_bytes)},
                    {FormatBytes(row.measured_bytes)},
                    {DifferenceText(row), paint}});
  }
  return '\n' + Table(rows, "lrrr", "  ");
}

std::string Bullets(const std::vector<std::string>& notes, const TextOptions& options) {
  std::string text = "\n";
  for (const std::string& note : notes) text += Wrap("  - ", Clean(note, options.ascii));
  return text;
}

}  // namespace

std::string ToText(const Verification& verification, const TextOptions& options) {
  const Estimate& estimate = verification.estimate;
  const std::string head = FirstLine(ProofWord(verification.proof), PaintOf(verification.proof),
                                     verification.gpu.name, ProofText(verification), options);
  if (options.quiet) return head;
  return TrimLines(head + ModelLine(estimate.model.path, SettingsText(estimate), options) +
                   Terms(verification, options) + Bullets(ProofNotes(verification), options));
}

std::string ToText(const VerifiedMaxBatch& answer, const TextOptions& options) {
  const std::string head =
      FirstLine(fmt::format("batch {}", answer.batch), answer.batch > 0 ? kGreen : kRed,
                answer.gpu.name, MaxBatchText(answer), options);
  if (options.quiet) return head;
  return TrimLines(head + ModelLine(answer.model, RunText(answer.settings, answer.dims), options) +
                   Bullets(MaxBatchNotes(answer), options));
}

// What follows writes Markdown and comma-separated values.
namespace {

using MarkdownRows = std::vector<std::vector<std::string>>;

std::string Shown(const std::string& text, const TextOptions& options) {
  return MarkdownText(Clean(text, options.ascii));
}

std::string Head(const std::string& word, const std::string& card, const std::string& answer,
                 const TextOptions& options) {
  return fmt::format("**{}** on {}: {}\n", word, Shown(card, options), Shown(answer, options));
}

std::string Notes(const std::vector<std::string>& notes, const TextOptions& options) {
  std::vector<std::string> items;
  for (const std::string& note : notes) items.push_back(Shown(note, options));
  return '\n' + MarkdownList(items);
}

std::string EndOf(const ReplayedBatch& replayed) {
  return replayed.failure ? FailureText(replayed.failure->failure) : "runs";
}

}  // namespace

std::string ToMarkdown(const Verification& verification, const TextOptions& options) {
  const Estimate& estimate = verification.estimate;
  std::string text =
      Head(ProofWord(verification.proof), verification.gpu.name, ProofText(verification), options);
  if (options.quiet) return text;
  text += fmt::format("\n{}, {}\n\n", MarkdownCode(Clean(estimate.model.path, options.ascii)),
                      Shown(SettingsText(estimate), options));
  MarkdownRows rows;
  for (const ProofRow& row : verification.rows) {
    rows.push_back({row.what, FormatBytes(row.predicted_bytes), FormatBytes(row.measured_bytes),
                    DifferenceText(row)});
  }
  return text +
         MarkdownTable({"beyond the context", "predicted", "measured", "difference"}, "lrrr",
                       rows) +
         Notes(ProofNotes(verification), options);
}

std::string ToCsv(const Verification& verification) {
  std::string text = CsvLine({"what", "predicted_bytes", "measured_bytes", "holds"});
  for (const ProofRow& row : verification.rows) {
    text += CsvLine({row.what, std::to_string(row.predicted_bytes),
                     std::to_string(row.measured_bytes), row.holds ? "true" : "false"});
  }
  return text;
}

std::string ToMarkdown(const VerifiedMaxBatch& answer, const TextOptions& options) {
  std::string text =
      Head(fmt::format("batch {}", answer.batch), answer.gpu.name, MaxBatchText(answer), options);
  if (options.quiet) return text;
  MarkdownRows rows;
  for (const ReplayedBatch& replayed : answer.replayed) {
    rows.push_back({std::to_string(replayed.batch), Shown(EndOf(replayed), options)});
  }
  return text + '\n' + MarkdownTable({"batch", "on the card"}, "rl", rows) +
         Notes(MaxBatchNotes(answer), options);
}

std::string ToCsv(const VerifiedMaxBatch& answer) {
  std::string text = CsvLine({"batch", "runs", "fails_in_step", "asked_bytes", "free_bytes"});
  for (const ReplayedBatch& replayed : answer.replayed) {
    std::vector<std::string> fields = {std::to_string(replayed.batch),
                                       replayed.failure ? "false" : "true", "", "", ""};
    if (replayed.failure) {
      fields[2] = std::to_string(replayed.failure->failure.step);
      fields[3] = std::to_string(replayed.failure->failure.asked_bytes);
      fields[4] = std::to_string(replayed.failure->free_bytes);
    }
    text += CsvLine(fields);
  }
  return text;
}

}  // namespace onnxfit
