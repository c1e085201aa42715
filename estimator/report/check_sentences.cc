#include "estimator/report/check_sentences.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "estimator/base/bytes.h"
#include "estimator/report/diff_text.h"
#include "estimator/report/page.h"
#include "estimator/report/verdict_text.h"

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

bool IsSameWay(int64_t a, int64_t b) { return (a > 0 && b > 0) || (a < 0 && b < 0); }

// The kind that went the same way as `increase` by most.
MostChanged MostChangedKind(const std::vector<ChangedKind>& kinds, int64_t increase) {
  MostChanged most;
  for (const ChangedKind& kind : kinds) {
    const int64_t here = kind.new_bytes - kind.old_bytes;
    if (!IsSameWay(here, increase) || std::abs(here) <= std::abs(most.increase)) continue;
    most = {fmt::format("in {}{}", WithSpaces(kind.kind), kind.kind == "cached" ? " memory" : ""),
            here};
  }
  return most;
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
  if (answer.against == "the lock") {
    const size_t others = answer.rows.size() - has(CheckStatus::kNew) - has(CheckStatus::kOff);
    const bool is_in_vain = has(CheckStatus::kNew) > 0 && others == 0 && !answer.is_update;
    return is_in_vain ? ", nothing compared" : "";
  }
  const bool is_in_vain = std::ranges::any_of(
      answer.rows, [](const CheckRow& row) { return !row.not_compared.empty(); });
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
  } else if (!row.not_compared.empty()) {
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

std::string SignedBytes(int64_t bytes) {
  return fmt::format("{}{}", bytes < 0 ? "-" : "+", FormatBytes(std::abs(bytes)));
}

std::string SignedShare(int64_t increase, int64_t old_bytes) {
  if (old_bytes == 0) return "";
  const double percent = 100 * static_cast<double>(increase) / static_cast<double>(old_bytes);
  return percent > 1000 ? ">1000%" : fmt::format("{:+.1f}%", percent);
}

MostChanged MostChangedOf(const Comparison& comparison) {
  const std::vector<ChangedPlaces>& places = comparison.places;
  const int64_t increase = comparison.increase();
  if (!places.empty() && IsSameWay(places[0].increase(), increase)) {
    const std::string& most = places[0].most_name;
    return {fmt::format("at {}{}{}", NameOf(places[0]), most.empty() ? "" : ", there ", most),
            places[0].increase()};
  }
  return MostChangedKind(comparison.kinds, increase);
}

std::string SettingText(const ChangedSetting& setting) {
  const auto shown = [](const std::string& value) { return value.empty() ? "nothing" : value; };
  return fmt::format("{} was {} and is {}", setting.name, shown(setting.old_value),
                     shown(setting.new_value));
}

std::string NameOf(const ChangedPlaces& places) {
  std::string name = places.name;
  if (!places.old_name.empty()) name = fmt::format("{} -> {}", places.old_name, name);
  return places.names.size() > 1 ? fmt::format("{} ({})", name, places.names.size()) : name;
}

}  // namespace onnxfit
