#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/report/json_parts.h"

namespace onnxfit {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr size_t kMostPlaces = 1 << 20;   // of one run, unfolded
constexpr int64_t kMostNumber = 999'999;  // of a name's number: larger ones are no counts

// A name around one of its numbers.
struct Numbered {
  std::string_view head;
  int64_t number = 0;
  std::string_view tail;

  std::string With(int64_t other) const { return fmt::format("{}{}{}", head, other, tail); }
};

std::optional<int64_t> NumberIn(std::string_view digits) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_whole = error == std::errc() && end == digits.data() + digits.size();
  const bool is_plain = digits.size() == 1 || (!digits.empty() && digits[0] > '0');
  return is_whole && is_plain && number <= kMostNumber ? std::optional(number) : std::nullopt;
}

// Around each number that reads the same when written anew.  None in a name with braces, which
// could not be told from ours.
std::vector<Numbered> NumbersOf(std::string_view name) {
  std::vector<Numbered> numbers;
  if (name.find('{') != std::string_view::npos) return numbers;
  for (size_t begin = name.find_first_of(kDigits); begin != std::string_view::npos;) {
    const size_t end = std::min(name.size(), name.find_first_not_of(kDigits, begin));
    const auto number = NumberIn(name.substr(begin, end - begin));
    if (number) numbers.push_back({name.substr(0, begin), *number, name.substr(end)});
    begin = name.find_first_of(kDigits, end);
  }
  return numbers;
}

class Folder {
 public:
  explicit Folder(const std::vector<Place>& places) : places_(places), taken_(places.size()) {
    for (size_t i = 0; i < places.size(); ++i) index_of_.emplace(places[i].name, i);
  }

  Json Fold() {
    Json rows = Json::array();
    for (size_t i = 0; i < places_.size(); ++i) {
      if (!taken_[i]) rows.push_back(Row(i));
    }
    return rows;
  }

 private:
  // Which places follow this one by number, itself the first.
  std::vector<size_t> RunOf(size_t first, const Numbered& name) const {
    std::vector<size_t> run = {first};
    for (int64_t number = name.number + 1; number <= kMostNumber; ++number) {
      const auto found = index_of_.find(name.With(number));
      if (found == index_of_.end() || taken_[found->second]) return run;
      const Place& place = places_[found->second];
      if (place.op != places_[first].op || place.bytes != places_[first].bytes) return run;
      run.push_back(found->second);
    }
    return run;
  }

  Json Row(size_t first) {
    std::vector<size_t> longest = {first};
    std::string name = places_[first].name;
    for (const Numbered& numbered : NumbersOf(places_[first].name)) {
      const std::vector<size_t> run = RunOf(first, numbered);
      if (run.size() <= longest.size()) continue;
      longest = run;
      const int64_t last = numbered.number + static_cast<int64_t>(run.size()) - 1;
      name = fmt::format("{}{{{}..{}}}{}", numbered.head, numbered.number, last, numbered.tail);
    }
    return RowOf(name, longest);
  }

  Json RowOf(const std::string& name, const std::vector<size_t>& members) {
    for (const size_t member : members) taken_[member] = true;
    const Place& place = places_[members[0]];
    Json row = {{"name", name}, {"op", place.op}};
    if (members.size() > 1) row["count"] = members.size();
    row["bytes"] = place.bytes * static_cast<int64_t>(members.size());
    return row;
  }

  const std::vector<Place>& places_;
  std::vector<bool> taken_;
  std::unordered_map<std::string, size_t> index_of_;
};

// "layer.", 0, ".conv" of "layer.{0..2}.conv" where that has `count` numbers.
std::optional<Numbered> Unbraced(std::string_view name, int64_t count) {
  const size_t open = name.find('{');
  const size_t dots = std::min(name.size(), name.find("..", open));
  const size_t close = std::min(name.size(), name.find('}', dots));
  if (open == std::string_view::npos || close == name.size()) return std::nullopt;
  const auto first = NumberIn(name.substr(open + 1, dots - open - 1));
  const auto last = NumberIn(name.substr(dots + 2, close - dots - 2));
  if (!first || !last || *last - *first + 1 != count) return std::nullopt;
  return Numbered{name.substr(0, open), *first, name.substr(close + 1)};
}

void Unfold(const Json& row, std::vector<Place>& places) {
  const Place all = {
      .name = ReadText(row, "name"), .op = ReadText(row, "op"), .bytes = ReadBytes(row, "bytes")};
  if (!row.contains("count")) {
    places.push_back(all);
    return;
  }
  const int64_t count = ReadBytes(row, "count");
  const auto name = count > 1 ? Unbraced(all.name, count) : std::nullopt;
  if (!name || all.bytes % count != 0) {
    throw Error({.where = fmt::format("\"name\": \"{}\"", all.name),
                 .text = fmt::format("expected {} places of one size", count)});
  }
  if (places.size() + Index(count) > kMostPlaces) {
    throw Error({.where = fmt::format("\"name\": \"{}\"", all.name),
                 .text = fmt::format("at most {} places were expected, found more", kMostPlaces)});
  }
  for (int64_t i = 0; i < count; ++i) {
    places.push_back({name->With(name->number + i), all.op, all.bytes / count});
  }
}

}  // namespace

Json PlacesJson(const std::vector<Place>& places) { return Folder(places).Fold(); }

std::vector<Place> ReadPlaces(const Json& rows) {
  std::vector<Place> places;
  for (const Json& row : rows) Unfold(row, places);
  return places;
}

}  // namespace onnxfit
