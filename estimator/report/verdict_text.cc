#include "estimator/report/verdict_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/report/estimate_rows.h"
#include "estimator/report/page.h"

namespace onnxfit {
namespace {

constexpr size_t kWidestName = 30;

// Where both ends do not read alike.
std::string InBrackets(int64_t low_bytes, int64_t high_bytes, const Glyphs& glyphs) {
  if (FormatBytes(low_bytes) == FormatBytes(high_bytes)) return "";
  return fmt::format(" ({})", RangeText(low_bytes, high_bytes, glyphs.dash));
}

std::string Bullet(std::string_view text, const TextOptions& options) {
  return Wrap("  - ", Clean(text, options.ascii));
}

std::string ShareText(const Share& share) {
  return fmt::format("{} of the card go to the {} first ({})", FormatBytes(share.bytes), share.what,
                     ToString(share.basis));
}

// By how much the worse reading is worse.
std::string ReadingText(const Judgement& judgement) {
  const GuessedUse& guessed = *judgement.guessed;
  const int64_t more = judgement.used_bytes - guessed.used_bytes;
  return fmt::format("the file leaves open what {} says, the worse, which is taken: {}({}, {})",
                     judgement.reading,
                     more > 0 ? FormatBytes(more) + " more than is likely " : "not what is likely ",
                     FormatBytes(guessed.used_bytes), VerdictWord(guessed.verdict));
}

std::string SideBySideText(const Judgement& judgement) {
  const int64_t processes = *judgement.processes;
  const int64_t copies = judgement.copies.value_or(0);
  const std::string of_processes =
      processes == 1 ? "one process of this fits"
                     : fmt::format("{} processes of this fit side by side", processes);
  return fmt::format("{}, a context each; or {} of the model in one process, asked in turn",
                     of_processes, copies == 1 ? "one copy" : fmt::format("{} copies", copies));
}

}  // namespace

std::string VerdictWord(Verdict verdict) {
  constexpr std::string_view kWords[] = {"FITS", "TIGHT", "OOM"};
  return std::string(kWords[static_cast<size_t>(verdict)]);
}

std::string_view VerdictPaint(Verdict verdict) {
  constexpr std::string_view kPaints[] = {kGreen, kYellow, kRed};
  return kPaints[static_cast<size_t>(verdict)];
}

std::string NameBeside(std::string_view line, std::string_view name, const TextOptions& options) {
  const std::string_view ellipsis = GlyphsOf(options).ellipsis;
  const size_t taken = std::min(Columns(line), kReportColumns - Columns(ellipsis));
  return CutMiddle(Clean(name, options.ascii), std::min(kReportColumns - taken, kWidestName),
                   ellipsis);
}

std::string UsedText(const Judgement& judgement, const Glyphs& glyphs) {
  return fmt::format("{} of {}, {:.1f}%{}", FormatBytes(judgement.used_bytes),
                     FormatBytes(judgement.usable_bytes), 100 * judgement.share(),
                     InBrackets(judgement.low_bytes, judgement.high_bytes, glyphs));
}

std::string FailureText(const Failure& failure) {
  std::string text = failure.step == 0 ? "fails before the first step"
                                       : fmt::format("fails in step {}, {}", failure.step,
                                                     ToString(failure.phase));
  if (!failure.node.empty()) text += ", at " + failure.node;
  text += fmt::format(": {} asked", PyTorchBytes(failure.tried_bytes));
  return failure.short_bytes > 0
             ? text + fmt::format(", {} short", FormatBytes(failure.short_bytes))
             : text;
}

std::string VerdictLine(const JudgedTarget& judged, const TextOptions& options) {
  const Verdict verdict = judged.judgement.verdict;
  const std::string used = UsedText(judged.judgement, GlyphsOf(options));
  const auto line = [&](std::string_view word, std::string_view name) {
    return fmt::format("{} on {}: {}", word, name, used);
  };
  const std::string word = VerdictWord(verdict);
  const std::string name = NameBeside(line(word, ""), judged.target.name, options);
  return line(Painted({word, options.color ? VerdictPaint(verdict) : ""}), name) + "\n";
}

std::string VerdictDetails(const JudgedTarget& judged, const TextOptions& options) {
  const Judgement& judgement = judged.judgement;
  std::string text;
  if (judgement.guessed) text += Bullet(ReadingText(judgement), options);
  if (judgement.fails_at) text += Bullet(FailureText(*judgement.fails_at), options);
  for (const std::string& reason : judgement.reasons) text += Bullet(reason, options);
  for (const Share& share : judged.target.shares) text += Bullet(ShareText(share), options);
  if (judgement.processes && judgement.verdict != Verdict::kOom) {
    text += Bullet(SideBySideText(judgement), options);
  }
  return text;
}

}  // namespace onnxfit
