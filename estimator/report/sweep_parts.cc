#include "estimator/report/sweep_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

constexpr size_t kValuesNamed = 4;  // of an axis, where rows are described

using Cells = std::vector<std::string>;

const SweepRow& FirstAnswered(const SweepAnswer& answer) {
  return *std::find_if(answer.rows.begin(), answer.rows.end(),
                       [](const SweepRow& row) { return row.estimate.has_value(); });
}

void AddCount(size_t count, std::string_view one, std::string_view many, std::string_view times,
              std::string& text) {
  if (count == 0) return;
  if (!text.empty()) text += fmt::format(" {} ", times);
  text += fmt::format("{} {}", count, count == 1 ? one : many);
}

bool HaveOneBatch(const SweepAnswer& answer) {
  std::set<int64_t> batches;
  for (const SweepRow& row : answer.rows) {
    if (row.estimate) batches.insert(row.estimate->batch);
  }
  return batches.size() == 1;
}

// The values that some rows have on each axis, in the order of the rows.
std::vector<Cells> ValuesByAxis(const std::vector<Cells>& values, const std::vector<size_t>& rows) {
  std::vector<Cells> by_axis(values.empty() ? 0 : values[0].size());
  std::vector<std::set<std::string_view>> seen(by_axis.size());
  for (const size_t row : rows) {
    for (size_t axis = 0; axis < by_axis.size(); ++axis) {
      const std::string& value = values[row][axis];
      if (seen[axis].insert(value).second) by_axis[axis].push_back(value);
    }
  }
  return by_axis;
}

// "batch 8, 16", "bf16": sizes with the name of their axis.
std::string ValuesText(const std::string& axis, char align, const Cells& values) {
  std::string text = align == 'r' ? axis + " " : "";
  for (size_t i = 0; i < std::min(kValuesNamed, values.size()); ++i) {
    text += (i > 0 ? ", " : "") + values[i];
  }
  if (values.size() > kValuesNamed)
    text += fmt::format(" and {} more", values.size() - kValuesNamed);
  return text;
}

// Which rows a sentence is about.
class RowDescriber {
 public:
  explicit RowDescriber(const SweepAnswer& answer)
      : names_(AxisNames(answer.sweep)), align_(AxisAlign(answer.sweep)) {
    for (size_t i = 0; i < answer.rows.size(); ++i) {
      values_.push_back(AxisValues(answer.sweep, answer.rows[i]));
      if (answer.rows[i].estimate) answered_.push_back(i);
    }
    all_ = ValuesByAxis(values_, answered_);
  }

  // "" for all that have an answer.
  std::string Describe(const std::vector<size_t>& rows) const {
    if (rows.size() == answered_.size()) return "";
    const std::vector<Cells> named = ValuesByAxis(values_, rows);
    if (CountWithin(named) != rows.size()) return Listed(rows);
    std::string text;
    for (size_t axis = 0; axis < named.size(); ++axis) {
      if (named[axis].size() == all_[axis].size()) continue;
      text += (text.empty() ? "" : "; ") + ValuesText(names_[axis], align_[axis], named[axis]);
    }
    return text;
  }

 private:
  // Answered rows that have one of `named` on each axis.
  size_t CountWithin(const std::vector<Cells>& named) const {
    const auto is_within = [&](size_t row) {
      for (size_t axis = 0; axis < named.size(); ++axis) {
        const Cells& some = named[axis];
        if (std::find(some.begin(), some.end(), values_[row][axis]) == some.end()) return false;
      }
      return true;
    };
    return static_cast<size_t>(std::count_if(answered_.begin(), answered_.end(), is_within));
  }

  // The first row, and how many more.
  std::string Listed(const std::vector<size_t>& rows) const {
    std::string text;
    for (size_t axis = 0; axis < names_.size(); ++axis) {
      text +=
          (axis > 0 ? "; " : "") + ValuesText(names_[axis], align_[axis], {values_[rows[0]][axis]});
    }
    if (rows.size() == 1) return text;
    return fmt::format("{} and {} more row{}", text, rows.size() - 1, rows.size() == 2 ? "" : "s");
  }

  Cells names_;
  std::string align_;
  std::vector<Cells> values_;
  std::vector<size_t> answered_;
  std::vector<Cells> all_;
};

// Sentences that differ in their numbers alone, one of each row.
struct Group {
  std::string code;
  std::string words;
  std::vector<std::string> low;
  std::vector<std::string> high;
  std::vector<size_t> rows = {};
};

void AddTo(Group& group, const std::vector<std::string>& numbers, size_t row) {
  Widen(numbers, group.low, group.high);
  group.rows.push_back(row);
}

// In the order in which they are first said.
std::vector<Group> GroupsOf(const SweepAnswer& answer, WarningsFunction sentences_of) {
  std::vector<Group> groups;
  std::map<std::tuple<std::string, std::string, size_t>, size_t> index;
  for (size_t row = 0; row < answer.rows.size(); ++row) {
    if (!answer.rows[row].estimate) continue;
    std::map<std::pair<std::string, std::string>, size_t> said;  // how often, in this row
    for (const Warning& sentence : sentences_of(*answer.rows[row].estimate)) {
      const NumberedText apart = TakeApart(sentence.text);
      const size_t nth = said[{sentence.code, apart.words}]++;
      const auto [at, added] = index.try_emplace({sentence.code, apart.words, nth}, groups.size());
      if (added) groups.push_back({sentence.code, apart.words, apart.numbers, apart.numbers});
      AddTo(groups[at->second], apart.numbers, row);
    }
  }
  return groups;
}

}  // namespace

std::vector<std::string> AxisNames(const Sweep& sweep) {
  std::vector<std::string> names;
  if (!sweep.batches.empty()) names.emplace_back("batch");
  for (const SweptDim& dim : sweep.dims) names.push_back(dim.name);
  if (!sweep.precisions.empty()) names.emplace_back("precision");
  if (!sweep.optimizers.empty()) names.emplace_back("optimizer");
  return names;
}

std::vector<std::string> AxisValues(const Sweep& sweep, const SweepRow& row) {
  const EstimateRequest& request = row.request;
  std::vector<std::string> values;
  if (!sweep.batches.empty()) values.push_back(std::to_string(request.binding.batch.value_or(1)));
  for (const SweptDim& dim : sweep.dims) {
    values.push_back(std::to_string(request.binding.dims.at(dim.name)));
  }
  if (!sweep.precisions.empty()) values.emplace_back(ToString(request.settings.precision));
  if (!sweep.optimizers.empty()) values.emplace_back(ToString(request.settings.optimizer));
  return values;
}

std::string AxisAlign(const Sweep& sweep) {
  const size_t sizes = sweep.dims.size() + (sweep.batches.empty() ? 0 : 1);
  const size_t names = (sweep.precisions.empty() ? 0 : 1) + (sweep.optimizers.empty() ? 0 : 1);
  return std::string(sizes, 'r') + std::string(names, 'l');
}

std::string SweptText(const Sweep& sweep, std::string_view times) {
  std::string text;
  AddCount(sweep.batches.size(), "batch", "batches", times, text);
  for (const SweptDim& dim : sweep.dims) {
    AddCount(dim.sizes.size(), "size of " + dim.name, "sizes of " + dim.name, times, text);
  }
  AddCount(sweep.precisions.size(), "precision", "precisions", times, text);
  AddCount(sweep.optimizers.size(), "optimizer", "optimizers", times, text);
  return text;
}

std::string FixedText(const SweepAnswer& answer) {
  const Estimate& estimate = *FirstAnswered(answer).estimate;
  const Sweep& sweep = answer.sweep;
  std::vector<std::string> items;
  if (sweep.batches.empty() && HaveOneBatch(answer)) {
    items.push_back(fmt::format("batch {}", estimate.batch));
  }
  for (const auto& [name, size] : estimate.dims) {
    const bool varies = std::any_of(sweep.dims.begin(), sweep.dims.end(),
                                    [&of = name](const SweptDim& dim) { return dim.name == of; });
    if (!varies) items.push_back(fmt::format("{}={}", name, size));
  }
  const TrainingSettings& settings = estimate.settings;
  if (sweep.precisions.empty()) items.emplace_back(ToString(settings.precision));
  if (settings.mode == Mode::kEval) {
    items.emplace_back("eval");
  } else if (sweep.optimizers.empty()) {
    items.emplace_back(settings.optimizer == Optimizer::kNone ? "no optimizer"
                                                              : ToString(settings.optimizer));
  }
  const std::string changes = ChangesText(estimate);
  if (!changes.empty()) items.push_back(changes);
  return fmt::format("{}", fmt::join(items, ", "));
}

std::string VerdictsText(const SweepSummary& summary) {
  std::string text;
  size_t kinds = 0;
  for (const Verdict verdict : {Verdict::kOom, Verdict::kTight, Verdict::kFits}) {
    const size_t count = summary.verdicts[static_cast<size_t>(verdict)];
    if (count == 0) continue;
    text += fmt::format("{}{} {}", kinds++ > 0 ? ", " : "", count, VerdictWord(verdict));
  }
  if (kinds != 1) return text;
  const size_t space = text.find(' ');
  return fmt::format("{} in all {}", text.substr(space + 1), text.substr(0, space));
}

std::string TargetShare(const Judgement& judgement) {
  return fmt::format("{:.1f}%", 100 * judgement.share());
}

std::string DeviceText(const SweepSummary& summary) {
  std::string low = FormatBytes(summary.low_bytes);
  const std::string high = FormatBytes(summary.high_bytes);
  if (low == high) return "device " + high;
  const std::string unit = high.substr(high.find(' '));
  if (low.ends_with(unit)) low.resize(low.size() - unit.size());
  return fmt::format("device {} to {}", low, high);
}

Remarks RemarksOf(const SweepAnswer& answer, WarningsFunction sentences_of, size_t most,
                  std::string_view dash) {
  const RowDescriber describer(answer);
  Remarks remarks;
  std::vector<Remark> of_some;
  for (const Group& group : GroupsOf(answer, sentences_of)) {
    Remark remark = {group.code, PutTogether(group.words, group.low, group.high, dash),
                     describer.Describe(group.rows)};
    (remark.where.empty() ? remarks.shown : of_some).push_back(std::move(remark));
  }
  const size_t shown = std::min(most, of_some.size());
  remarks.left_out = of_some.size() - shown;
  of_some.resize(shown);
  remarks.shown.insert(remarks.shown.end(), of_some.begin(), of_some.end());
  return remarks;
}

std::vector<Warning> AssumptionsOf(const Estimate& estimate) {
  std::vector<Warning> sentences;
  for (const std::string& text : estimate.assumptions) sentences.push_back({"", text});
  return sentences;
}

std::vector<Warning> WarningsOf(const Estimate& estimate) { return estimate.warnings; }

std::vector<Warning> NotesOf(const Estimate& estimate) {
  std::vector<Warning> sentences;
  for (const std::string& text : estimate.notes) sentences.push_back({"", text});
  return sentences;
}

const std::vector<JudgedTarget>& TargetsOf(const SweepAnswer& answer) {
  return FirstAnswered(answer).estimate->targets;
}

// What follows tells sentences as one that differ in their numbers alone.
namespace {

constexpr char kNumberMark = '\1';  // no sentence has them
constexpr char kSizeMark = '\2';
constexpr std::string_view kDecimalDigits = "0123456789";
constexpr std::string_view kUnits[] = {" B", " KiB", " MiB", " GiB", " TiB"};

bool EndsNumber(std::string_view rest) {
  return rest.empty() || std::string_view(" ,.;:)").find(rest[0]) != std::string_view::npos;
}

// How many letters of `text` are a number that stands alone; 0 where it does not begin with one.
size_t NumberLength(std::string_view text) {
  size_t length = std::min(text.find_first_not_of(kDecimalDigits), text.size());
  if (length == 0) return 0;
  const std::string_view rest = text.substr(length);
  if (rest.size() > 1 && rest[0] == '.' && kDecimalDigits.find(rest[1]) != std::string_view::npos) {
    length += 1 + std::min(rest.substr(1).find_first_not_of(kDecimalDigits), rest.size() - 1);
  }
  return EndsNumber(text.substr(length)) ? length : 0;
}

// The unit that `rest` begins with, "" for none.
std::string_view UnitOf(std::string_view rest) {
  for (const std::string_view unit : kUnits) {
    if (rest.starts_with(unit) && EndsNumber(rest.substr(unit.size()))) return unit;
  }
  return "";
}

double ValueOf(const std::string& number) {
  char* end = nullptr;
  double value = std::strtod(number.c_str(), &end);
  for (const std::string_view unit : kUnits) {
    if (end == unit) return value;
    if (*end != '\0') value *= 1024;
  }
  return std::strtod(number.c_str(), nullptr);
}

std::string RangeOf(std::string low, const std::string& high, std::string_view dash) {
  if (low == high) return high;
  const std::string unit = high.substr(std::min(high.find(' '), high.size()));
  if (!unit.empty() && low.ends_with(unit)) low.resize(low.size() - unit.size());
  return low + std::string(dash) + high;
}

}  // namespace

NumberedText TakeApart(std::string_view text) {
  NumberedText apart;
  bool may_begin = true;  // after a space or a parenthesis
  while (!text.empty()) {
    const size_t digits = may_begin ? NumberLength(text) : 0;
    const std::string_view unit = digits > 0 ? UnitOf(text.substr(digits)) : "";
    if (digits > 0) {
      apart.numbers.emplace_back(text.substr(0, digits + unit.size()));
      apart.words += unit.empty() ? kNumberMark : kSizeMark;
    } else {
      apart.words += text[0];
    }
    may_begin = text[0] == ' ' || text[0] == '(';
    text.remove_prefix(std::max<size_t>(1, digits + unit.size()));
  }
  return apart;
}

std::string PutTogether(std::string_view words, const std::vector<std::string>& low,
                        const std::vector<std::string>& high, std::string_view dash) {
  std::string text;
  size_t number = 0;
  for (const char c : words) {
    if ((c == kNumberMark || c == kSizeMark) && number < low.size()) {
      text += RangeOf(low[number], high[number], dash);
      ++number;
    } else {
      text += c;
    }
  }
  return text;
}

void Widen(const std::vector<std::string>& numbers, std::vector<std::string>& low,
           std::vector<std::string>& high) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (IsLess(numbers[i], low[i])) low[i] = numbers[i];
    if (IsLess(high[i], numbers[i])) high[i] = numbers[i];
  }
}

Warnings Merged(const Warnings& sentences, std::string_view dash) {
  struct Like {
    std::string code;
    NumberedText low;
    std::vector<std::string> high;
  };
  std::vector<Like> alike;
  for (const auto& [code, text] : sentences) {
    const NumberedText apart = TakeApart(text);
    const auto found = std::ranges::find_if(alike, [&, &of = code](const Like& like) {
      return like.code == of && like.low.words == apart.words;
    });
    if (found == alike.end()) {
      alike.push_back({code, apart, apart.numbers});
    } else {
      Widen(apart.numbers, found->low.numbers, found->high);
    }
  }
  Warnings merged;
  for (const Like& like : alike) {
    merged.push_back({like.code, PutTogether(like.low.words, like.low.numbers, like.high, dash)});
  }
  return merged;
}

bool IsLess(const std::string& a, const std::string& b) { return ValueOf(a) < ValueOf(b); }

}  // namespace onnxfit
