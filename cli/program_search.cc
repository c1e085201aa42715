#include "cli/program_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

constexpr std::string_view kPlaceholder = "{}";
constexpr int64_t kStepsOfSearch = kVerdictSteps;  // where nobody says
constexpr int64_t kCloseEnough = 64;  // a search ends where what is open is so small a part

std::vector<std::string> WithBatch(const std::vector<std::string>& words, int64_t batch) {
  std::vector<std::string> filled;
  for (std::string word : words) {
    for (size_t at = 0; (at = word.find(kPlaceholder, at)) != std::string::npos;) {
      const std::string number = std::to_string(batch);
      word.replace(at, kPlaceholder.size(), number);
      at += number.size();
    }
    filled.push_back(std::move(word));
  }
  return filled;
}

class Search {
 public:
  Search(const ProgramTrial& trial, const ProgramLimits& limits, std::ostream& err)
      : trial_(trial), limits_(limits), err_(err) {
    if (trial_.most_steps == 0) trial_.most_steps = kStepsOfSearch;
    trial_.is_silent = true;
    found_.command = trial.command;
    found_.steps = trial_.most_steps;
    found_.multiple_of = limits.multiple_of;
  }

  ProgramSearch Find() {
    const int64_t least = Up(limits_.least);
    const int64_t most = Down(limits_.most);
    int64_t fails = most + limits_.multiple_of;
    for (int64_t batch = least; batch <= most && batch < fails;) {
      if (!Runs(batch)) fails = batch;
      batch = batch == most ? most + 1 : std::min(Down(2 * batch), most);
    }
    const bool is_open = fails <= most;
    while (is_open && runs_ > 0 && fails - runs_ > Grain(runs_)) {
      const int64_t next = Between(runs_, fails);
      if (!Runs(next)) fails = next;
    }
    found_.batch = runs_;
    found_.is_limited = !is_open;
    if (is_open) found_.fails = fails;
    return std::move(found_);
  }

 private:
  int64_t Down(int64_t batch) const { return batch - batch % limits_.multiple_of; }
  int64_t Up(int64_t batch) const { return Down(batch + limits_.multiple_of - 1); }

  // What a search leaves open.
  int64_t Grain(int64_t batch) const {
    return std::max(limits_.multiple_of, Down(batch / kCloseEnough));
  }

  // The multiple where the line through the two largest that run meets the card, in turns with
  // the middle.
  int64_t Between(int64_t runs, int64_t fails) {
    along_line_ = !along_line_;
    const int64_t middle = runs + (fails - runs) / 2;
    const int64_t next = along_line_ && meets_ > 0 ? meets_ : middle;
    return std::clamp(Down(next), runs + limits_.multiple_of, fails - limits_.multiple_of);
  }

  bool Runs(int64_t batch) {
    ProgramTrial trial = trial_;
    trial.command = WithBatch(trial_.command, batch);
    ProgramRun run = RunTrial(trial, err_);
    if (run.failed) {
      throw Error({.where = fmt::format("batch {}", batch),
                   .text = fmt::format("the program ended with {}, and not for want of memory",
                                       run.exit_code),
                   .hint = "what it says itself, above"});
    }
    const JudgedTarget& worst = WorstOf(run);
    found_.tried.push_back({batch, worst.judgement.verdict, worst.judgement.used_bytes});
    if (!limits_.is_brief) err_ << fmt::format("batch {}: ", batch) << VerdictLine(worst, {});
    const bool runs = worst.judgement.verdict == Verdict::kFits ||
                      (worst.judgement.verdict == Verdict::kTight && !limits_.is_strict);
    if (runs) NoteRunning(batch, worst.judgement);
    if (runs || found_.largest.cards.empty()) found_.largest = std::move(run);
    return runs;
  }

  void NoteRunning(int64_t batch, const Judgement& judgement) {
    const int64_t more = judgement.used_bytes - used_;
    if (runs_ > 0 && more > 0) {
      found_.per_sample_bytes = more / (batch - runs_);
      found_.fixed_bytes = judgement.used_bytes - found_.per_sample_bytes * batch;
      if (found_.per_sample_bytes > 0) {
        meets_ = (judgement.usable_bytes - found_.fixed_bytes) / found_.per_sample_bytes;
      }
    }
    runs_ = batch;
    used_ = judgement.used_bytes;
  }

  static const JudgedTarget& WorstOf(const ProgramRun& run) {
    const auto worse = [](const JudgedTarget& a, const JudgedTarget& b) {
      return std::pair(a.judgement.verdict, a.judgement.share()) <
             std::pair(b.judgement.verdict, b.judgement.share());
    };
    return *std::ranges::max_element(run.cards, worse);
  }

  ProgramTrial trial_;
  const ProgramLimits limits_;
  std::ostream& err_;
  ProgramSearch found_;
  int64_t runs_ = 0;  // the largest so far
  int64_t used_ = 0;  // by it
  int64_t meets_ = 0;
  bool along_line_ = false;
};

void CheckPlaceholder(const std::vector<std::string>& words) {
  const auto has_place = [](const std::string& word) {
    return word.find(kPlaceholder) != std::string::npos;
  };
  if (std::ranges::any_of(words, has_place)) return;
  throw Error({.where = "--max-batch",
               .text = "expected {} in the program's words, where the batch stands, found none",
               .hint = "onnxfit run --max-batch 8:512 -- python train.py --batch-size {}"});
}

}  // namespace

ProgramLimits LimitsOf(const Options& options) {
  return {.least = options.program.least_batch,
          .most = options.program.most_batch,
          .multiple_of = options.limits.multiple_of,
          .is_strict = options.is_strict,
          .is_brief = options.text.quiet};
}

ProgramSearch SearchBatch(const ProgramTrial& trial, const ProgramLimits& limits,
                          std::ostream& err) {
  CheckPlaceholder(trial.command);
  if (limits.most / limits.multiple_of * limits.multiple_of < limits.least) {
    throw Error({.where = "--multiple-of",
                 .text = fmt::format("expected a multiple of {} from {} to {}, found none",
                                     limits.multiple_of, limits.least, limits.most)});
  }
  return Search(trial, limits, err).Find();
}

}  // namespace onnxfit
