// How a program's run ended: what a full card refused, what its message means, what failed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/report/layout.h"
#include "estimator/report/program_run.h"
#include "estimator/report/program_run_parts.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

constexpr size_t kRefusedShown = 3;  // places, and sizes of each

std::string CutAtEnd(const std::string& text, size_t columns, std::string_view ellipsis) {
  size_t bytes = 0;
  const size_t room = columns - Columns(ellipsis);
  for (size_t end = 1; end <= text.size() && Columns(text.substr(0, end)) <= room; ++end) {
    const bool is_letters_end =
        end == text.size() || (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (is_letters_end) bytes = end;
  }
  return text.substr(0, bytes) + std::string(ellipsis);
}

std::string PlaceText(const ProgramPlace& at, const RunPage& page) {
  if (at.source.empty()) return at.place;
  return fmt::format("{} ({})", at.place, page.Cut(at.source, kSourceColumns));
}

// --- It ran out ---------------------------------------------------------------------------------

// "full at train.py:41 (loss = model(x)); CAPACITY: 64.00 MiB asked …"
std::string FullAtText(const ProgramProcess& process, const RunPage& page) {
  const std::string place =
      process.full_at.place.empty() ? "" : "full at " + PlaceText(process.full_at, page);
  if (process.oom.empty()) return place;
  return place.empty() ? process.oom[0] : fmt::format("{}; {}", place, process.oom[0]);
}

// The first process that ran out of memory tells why.
std::string OomText(const RunPage& page, bool is_brief) {
  for (const ProgramProcess& process : page.run.processes) {
    const bool went_on = !process.refused.empty() && !process.is_oom;
    const std::string full = went_on ? "" : FullAtText(process, page);
    if (full.empty()) continue;
    std::string text = Wrap("  - ", page.Shown(full));
    if (is_brief) return text;
    for (size_t i = 1; i < process.oom.size(); ++i) {
      text += Wrap("  - ", page.Shown(process.oom[i]));
    }
    if (page.options.verbose) text += Wrap("    ", page.Shown(process.message));
    return text;
  }
  return "";
}

// --- It was refused, and went on ----------------------------------------------------------------

// Requests of one line.
struct RefusedPlace {
  ProgramPlace at;
  std::vector<int64_t> bytes;
  int64_t first_step = 0;
  int64_t last_step = 0;
};

std::vector<RefusedPlace> PlacesOf(const std::vector<RefusedRequest>& requests) {
  std::vector<RefusedPlace> places;
  for (const RefusedRequest& request : requests) {
    auto known = std::ranges::find(places, request.at, &RefusedPlace::at);
    if (known == places.end()) {
      places.push_back({request.at, {}, request.step, request.step});
      known = places.end() - 1;
    }
    known->bytes.push_back(request.bytes);
    known->last_step = request.step;
  }
  return places;
}

// "3.06 GiB, 1.53 GiB, 784.0 MiB and 14 more"
std::string SizesText(const std::vector<int64_t>& bytes) {
  std::vector<std::string> sizes;
  for (const int64_t size : bytes) {
    if (sizes.size() < kRefusedShown) sizes.push_back(FormatBytes(size));
  }
  const size_t more = bytes.size() - sizes.size();
  return fmt::format("{}{}", fmt::join(sizes, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

// "in step 3", "in steps 1 to 3"; nothing where no optimizer steps.
std::string WhenText(const RefusedPlace& place, const ProgramProcess& process) {
  if (process.steps == 0) return "";
  if (place.first_step == place.last_step) return fmt::format(", in step {}", place.first_step + 1);
  return fmt::format(", in steps {} to {}", place.first_step + 1, place.last_step + 1);
}

// The step in which the last one was refused has what it left, the next ones are as those behind.
std::string ThenText(const ProgramProcess& process) {
  const int64_t before = process.refused.back().step;
  if (process.steps <= before) return "no step of an optimizer came behind that";
  const std::string steps = Counted(static_cast<size_t>(process.steps - before), "step", "steps");
  const auto first = static_cast<size_t>(before) + 1;
  if (first >= process.step_peaks.size()) return fmt::format("then it went on for {}", steps);
  const auto most =
      std::ranges::max_element(process.step_peaks.begin() + before + 1, process.step_peaks.end(),
                               {}, &StepPeaks::reserved_bytes);
  return fmt::format("then it went on for {}, and reserved {} at most from the second on", steps,
                     FormatBytes(most->reserved_bytes));
}

std::string RefusedText(const ProgramProcess& process, const RunPage& page) {
  std::string text;
  const std::vector<RefusedPlace> places = PlacesOf(process.refused);
  const size_t shown =
      page.options.verbose ? places.size() : std::min(places.size(), kRefusedShown);
  for (size_t i = 0; i < shown; ++i) {
    const std::string where =
        places[i].at.place.empty() ? "" : " at " + PlaceText(places[i].at, page);
    text +=
        Wrap("  - ", page.Shown(fmt::format("refused{}: {}{}", where, SizesText(places[i].bytes),
                                            WhenText(places[i], process))));
  }
  if (shown < places.size()) {
    text += Wrap("  - ", fmt::format("refused at {}, too",
                                     Counted(places.size() - shown, "other line", "other lines")));
  }
  return text + Wrap("  - ", ThenText(process));
}

// Each process that lived on.
std::string WentOnText(const RunPage& page) {
  if (page.run.failed) return "";
  std::string text;
  for (const ProgramProcess& process : page.run.processes) {
    if (!process.refused.empty() && !process.is_oom) text += RefusedText(process, page);
  }
  return text;
}

}  // namespace

std::string RunPage::Cut(std::string_view text, size_t columns) const {
  const std::string shown = Shown(text);
  return Columns(shown) <= columns ? shown : CutAtEnd(shown, columns, glyphs.ellipsis);
}

std::string Counted(size_t count, std::string_view one, std::string_view several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

std::string StepsOf(const ProgramProcess& process) {
  return Counted(static_cast<size_t>(process.steps), "step", "steps");
}

std::string FailedText(const ProgramRun& run) {
  const std::string text = fmt::format("the program ended with {}", run.exit_code);
  if (run.processes.empty()) {
    const auto ended = std::ranges::find_if(
        run.frameworks, [](const FrameworkCounts& counts) { return !counts.exception.empty(); });
    return ended == run.frameworks.end() ? text : fmt::format("{}: {}", text, ended->exception);
  }
  const auto failed = std::ranges::find_if(
      run.processes, [](const ProgramProcess& process) { return !process.exception.empty(); });
  const ProgramProcess& process = failed == run.processes.end() ? run.processes[0] : *failed;
  const std::string after = process.steps == 0 ? "" : " after " + StepsOf(process);
  return process.exception.empty()
             ? text + after
             : fmt::format("{}{}: {}: {}", text, after, process.exception, process.message);
}

std::string EndedText(const ProgramRun& run) {
  if (run.waited_at != 0) {
    return fmt::format(
        "it waited at port {} for requests and was ended after {} of that: what requests take "
        "beyond what it has set aside for them is not seen",
        run.waited_at, Counted(static_cast<size_t>(run.waited_seconds), "second", "seconds"));
  }
  for (const ProgramProcess& process : run.processes) {
    const std::string& by = process.ended_by;
    if (by == "steps" || by == "seconds") {
      return fmt::format("--{} ended it after {}: what it does later is not seen", by,
                         StepsOf(process));
    }
    if (by != "until-same") continue;
    const std::string turns = process.steps > 0
                                  ? StepsOf(process)
                                  : Counted(static_cast<size_t>(process.calls), "call of its model",
                                            "calls of its model");
    return fmt::format(
        "--until-same ended it after {}, the last of which allocated the same: what it does "
        "otherwise later is not seen",
        turns);
  }
  return "";
}

std::string RunReasons(const ProgramRun& run, const TextOptions& options, bool is_brief) {
  const RunPage page = {run, options, GlyphsOf(options)};
  std::string text;
  if (run.failed) text += Wrap("  - ", page.Shown(FailedText(run)));
  const std::string host = HostReason(run, page.glyphs);
  if (!host.empty()) text += Wrap("  - ", page.Shown(host));
  for (size_t place = 0; place < run.cards.size(); ++place) {
    JudgedTarget judged = run.cards[place];
    for (std::string& reason : judged.judgement.reasons) {
      if (run.cards.size() > 1) reason = fmt::format("cuda:{}: {}", place, reason);
    }
    text += VerdictDetails(judged, options);
  }
  text += OomText(page, is_brief) + WentOnText(page);
  for (const std::string& reason : PoolReasons(run)) text += Wrap("  - ", page.Shown(reason));
  return text;
}

}  // namespace onnxfit
