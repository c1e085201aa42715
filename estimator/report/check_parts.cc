#include "estimator/report/check_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "estimator/base/bytes.h"
#include "estimator/base/text.h"
#include "estimator/report/diff.h"
#include "estimator/report/layout.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

std::string InBrackets(const std::string& text) {
  return text.empty() ? text : fmt::format(" ({})", text);
}

// "grew by 392.0 MiB (+24.1%)", "shrank by …"
std::string IncreaseText(const Comparison& comparison) {
  const int64_t increase = comparison.increase();
  return fmt::format("{} by {}{}", increase > 0 ? "grew" : "shrank",
                     FormatBytes(std::abs(increase)),
                     InBrackets(SignedShare(increase, comparison.before.device_bytes)));
}

bool Grew(const ChangedPlaces& places) { return places.increase() > 0; }

std::string GrowthText(const CheckRow& row) {
  const std::string where = MostChangedOf(*row.comparison).where;
  return fmt::format("{}{}{}, {} allowed", IncreaseText(*row.comparison), where.empty() ? "" : " ",
                     where, FormatBytes(row.allowed_bytes));
}

// "1.80 GiB is 307.2 MiB over the budget of 1.5GiB"
std::string OverText(const BudgetResult& budget) {
  return fmt::format("{} is {} over the budget of {}", FormatBytes(budget.used_bytes),
                     FormatBytes(budget.used_bytes - budget.limit_bytes), budget.text);
}

std::string CardText(const BudgetResult& budget) {
  const Judgement& judgement = *budget.judgement;
  if (judgement.verdict == Verdict::kOom) {
    if (!judgement.fails_at) return fmt::format("OOM on {}", budget.text);
    return fmt::format("OOM on {}, {}", budget.text, FailureText(*judgement.fails_at));
  }
  if (budget.used_bytes <= budget.limit_bytes) {
    if (judgement.reasons.empty()) return fmt::format("TIGHT on {}", budget.text);
    return fmt::format("TIGHT on {}: {}", budget.text, judgement.reasons[0]);
  }
  return OverText(budget);
}

std::string BudgetText(const BudgetResult& budget) {
  return budget.judgement ? CardText(budget) : OverText(budget);
}

// Why a row is not PASS, the worst first.
std::vector<std::string> ReasonsOf(const CheckRow& row) {
  std::vector<std::string> reasons;
  if (!row.error.empty()) reasons.push_back(row.error);
  if (row.grew_too_much) reasons.push_back(GrowthText(row));
  for (const BudgetResult& budget : row.budgets) {
    if (!budget.holds) reasons.push_back(BudgetText(budget));
  }
  if (row.has_to_be_compared) reasons.push_back("not compared: " + row.not_compared);
  return reasons;
}

std::string QuietText(const CheckRow& row) {
  if (row.status == CheckStatus::kGone) return "in the lock, and no check has it";
  if (row.status == CheckStatus::kOff) return "its level is off";
  std::string text = FormatBytes(row.now->device_bytes);
  if (!row.not_compared.empty()) return fmt::format("{}, not compared: {}", text, row.not_compared);
  if (row.status == CheckStatus::kNew) return text + ", nothing to compare with";
  if (!row.comparison) return text;
  if (row.comparison->increase() == 0) return text + ", as before";
  return fmt::format("{}, {}", text, IncreaseText(*row.comparison));
}

// Returns the bytes of all that grew.
int64_t AddPlaces(const Comparison& comparison, size_t most, std::vector<std::string>& lines) {
  size_t shown = 0;
  size_t left = 0;
  int64_t bytes = 0;
  int64_t left_bytes = 0;
  for (const ChangedPlaces& places : comparison.places) {
    if (!Grew(places)) continue;
    bytes += places.increase();
    if (shown < most) {
      lines.push_back(fmt::format("{} {}", SignedBytes(places.increase()), NameOf(places)));
      ++shown;
    } else {
      left_bytes += places.increase();
      ++left;
    }
  }
  if (left > 0) lines.push_back(fmt::format("{} {} more that grew", SignedBytes(left_bytes), left));
  return bytes;
}

// What is of no node, and what is left: the lines add up to the whole.
void AddRest(const Comparison& comparison, int64_t shown, std::vector<std::string>& lines) {
  for (const ChangedKind& kind : comparison.kinds) {
    const bool is_rest = kind.kind == "rounding" || kind.kind == "cached" || kind.kind == "context";
    const int64_t increase = kind.new_bytes - kind.old_bytes;
    if (!is_rest || increase <= 0) continue;
    lines.push_back(fmt::format("{} {}", SignedBytes(increase), kind.kind));
    shown += increase;
  }
  const int64_t left = comparison.increase() - shown;
  if (left != 0) lines.push_back(fmt::format("{} elsewhere", SignedBytes(left)));
}

// ", compared with main"; nothing of a lock that has what it takes.
std::string AgainstText(const CheckAnswer& answer) {
  if (answer.against.empty()) return "";
  const auto has = [&](CheckStatus status) { return answer.counts()[static_cast<size_t>(status)]; };
  const bool is_all_new = has(CheckStatus::kNew) > 0 && has(CheckStatus::kError) == 0 &&
                          std::ranges::none_of(answer.rows, [](const CheckRow& row) {
                            return row.comparison.has_value();
                          });
  if (answer.against == "the lock") {
    return is_all_new && !answer.is_update ? ", nothing compared" : "";
  }
  const bool is_in_vain = is_all_new || std::ranges::any_of(answer.rows, [](const CheckRow& row) {
                            return !row.not_compared.empty();
                          });
  return fmt::format(", {} with {}", is_in_vain ? "not compared" : "compared", answer.against);
}

}  // namespace

std::string_view StatusWord(CheckStatus status) {
  constexpr std::string_view kWords[kCheckStatuses] = {"PASS", "OFF",  "GONE", "NEW",
                                                       "WARN", "FAIL", "ERROR"};
  return kWords[static_cast<size_t>(status)];
}

std::string SummaryLine(const CheckAnswer& answer) {
  const auto counts = answer.counts();
  std::string text;
  std::string_view worst = StatusWord(CheckStatus::kPass);
  for (size_t i = kCheckStatuses; i-- > 0;) {
    if (counts[i] == 0) continue;
    const auto status = static_cast<CheckStatus>(i);
    if (text.empty() && status >= CheckStatus::kWarn) worst = StatusWord(status);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", counts[i], ToString(status));
  }
  return fmt::format("{}: {}{}", worst, text.empty() ? "no checks" : text, AgainstText(answer));
}

std::string Headline(const CheckRow& row) {
  const std::vector<std::string> reasons = ReasonsOf(row);
  return reasons.empty() ? QuietText(row) : reasons[0];
}

std::vector<std::string> Details(const CheckRow& row, size_t most) {
  std::vector<std::string> lines = ReasonsOf(row);
  if (lines.empty()) {
    lines.push_back(QuietText(row));
  } else if (!row.not_compared.empty() && !row.has_to_be_compared) {
    lines.push_back("not compared: " + row.not_compared);
  }
  if (row.comparison && row.comparison->increase() > 0) {
    for (const ChangedSetting& setting : row.comparison->settings) {
      lines.push_back(SettingText(setting));
    }
    const int64_t shown = AddPlaces(*row.comparison, most, lines);
    AddRest(*row.comparison, shown, lines);
    const std::string moved = MovedText(*row.comparison);
    if (!moved.empty()) lines.push_back(moved);
  }
  if (row.comparison && row.comparison->increase() != 0 && row.comparison->has_same_question()) {
    lines.emplace_back(
        "graph and settings are the same as before: the old figures were changed by hand, or are "
        "of another build");
  }
  const bool failed = row.status >= CheckStatus::kWarn;
  if (failed && !row.message.empty()) lines.push_back(row.message);
  return lines;
}

// What follows is what a check found, for the formats that list problems.
namespace {

Finding FindingOf(const BudgetResult& budget) {
  if (!budget.judgement) return Finding::kOverBudget;
  if (budget.judgement->verdict == Verdict::kOom) return Finding::kOutOfMemory;
  return budget.used_bytes <= budget.limit_bytes ? Finding::kTightFit : Finding::kOverBudget;
}

void AddLines(std::string_view text, std::vector<std::string>& lines) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string line = PlainLine(text.substr(0, end));
    if (!line.empty()) lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

Finding FindingOf(const CheckRow& row) {
  if (!row.error.empty()) return Finding::kNoAnswer;
  if (row.grew_too_much) return Finding::kMemoryGrew;
  const auto broken = std::find_if(row.budgets.begin(), row.budgets.end(),
                                   [](const BudgetResult& budget) { return !budget.holds; });
  if (broken != row.budgets.end()) return FindingOf(*broken);
  return row.has_to_be_compared ? Finding::kNotCompared : Finding::kNoAnswer;
}

const FindingRule& RuleOf(const CheckRow& row) {
  return kFindingRules[static_cast<size_t>(FindingOf(row))];
}

std::string AdviceFor(const CheckAnswer& answer, const CheckRow& row) {
  const std::string update = fmt::format("Run `{}` and commit the lock.", answer.renewal);
  const bool has_lock = answer.against == "the lock";
  if (row.status == CheckStatus::kNew || row.status == CheckStatus::kGone) {
    return has_lock && !answer.is_update ? update : "";
  }
  const bool says_what = row.status == CheckStatus::kWarn && !row.error.empty();
  if (row.status < CheckStatus::kWarn || says_what) return "";
  if (FindingOf(row) == Finding::kNotCompared && has_lock) return update;
  if (FindingOf(row) == Finding::kMemoryGrew && has_lock) {
    return answer.is_update
               ? "If this is meant, commit the lock."
               : fmt::format("If this is meant, run `{}` and commit the lock.", answer.renewal);
  }
  return std::string(RuleOf(row).advice);
}

std::string PlainLine(std::string_view text) {
  std::string line(text);
  while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return Clean(line, false);
}

std::vector<std::string> PlainDetails(const CheckRow& row, size_t most) {
  std::vector<std::string> lines;
  for (const std::string& detail : Details(row, most)) AddLines(detail, lines);
  return lines;
}

std::string FingerprintOf(const CheckRow& row) {
  return Digest(row.name + '\n' + std::string(RuleOf(row).id));
}

std::string FileOf(const CheckAnswer& answer, const CheckRow& row) {
  const bool is_lock = row.line == 0 && row.model.ends_with(".lock.json");
  const std::filesystem::path path(is_lock ? row.model : answer.config);
  return path.lexically_normal().generic_string();
}

}  // namespace onnxfit
