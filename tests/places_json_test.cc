#include <doctest/doctest.h>

#include <algorithm>

#include "estimator/report/json_parts.h"

namespace onnxfit::places_json_test {
namespace {

std::vector<Place> Numbered(const std::string& head, const std::string& tail, int64_t first,
                            int64_t last, int64_t bytes = 8) {
  std::vector<Place> places;
  for (int64_t i = first; i <= last; ++i) {
    places.push_back({head + std::to_string(i) + tail, "relu", bytes});
  }
  return places;
}

std::string NamesOf(const Json& rows) {
  std::string names;
  for (const Json& row : rows) {
    names += (names.empty() ? "" : " ") + row["name"].get<std::string>();
  }
  return names;
}

std::vector<Place> Sorted(std::vector<Place> places) {
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::pair(a.name, a.bytes) < std::pair(b.name, b.bytes);
  });
  return places;
}

void CheckRoundTrip(const std::vector<Place>& places) {
  CHECK(Sorted(ReadPlaces(PlacesJson(places))) == Sorted(places));
}

TEST_CASE("a row") {
  CHECK(PlacesJson({}).dump() == "[]");
  CHECK(PlacesJson({{"fc", "addmm", 24}}).dump() == R"([{"name":"fc","op":"addmm","bytes":24}])");
  CHECK(PlacesJson(Numbered("layer.", "/Softmax", 0, 11)).dump() ==
        R"([{"name":"layer.{0..11}/Softmax","op":"relu","count":12,"bytes":96}])");
}

TEST_CASE("which names go together") {
  struct Row {
    std::vector<std::string> names;
    const char* rows;
  };
  const Row rows[] = {
      {{"a1", "a2", "a3"}, "a{1..3}"},
      {{"a3", "a1", "a2"}, "a3 a{1..2}"},
      {{"a1", "a3"}, "a1 a3"},
      {{"a9", "a10"}, "a{9..10}"},
      {{"7", "8"}, "{7..8}"},
      // By the number that makes the longest row.
      {{"l0.c0", "l0.c1", "l1.c0", "l2.c0"}, "l{0..2}.c0 l0.c1"},
      {{"l0.c0", "l0.c1", "l1.c0", "l1.c1"}, "l{0..1}.c0 l{0..1}.c1"},
      // Written anew these are others.
      {{"a01", "a02"}, "a01 a02"},
      {{"a0", "a01"}, "a0 a01"},
      {{"a-1", "a-2"}, "a-{1..2}"},
      {{"a-2", "a-1"}, "a-2 a-1"},
      {{"a99999999999999999999998", "a99999999999999999999999"},
       "a99999999999999999999998 a99999999999999999999999"},
      {{"a999998", "a999999", "a1000000", "a1000001"}, "a{999998..999999} a1000000 a1000001"},
      // Not to be told from ours.
      {{"{0..1}a1", "{0..1}a2"}, "{0..1}a1 {0..1}a2"},
      {{"a{1", "a{2"}, "a{1 a{2"},
      {{"}..1}", "}..2}"}, "}..{1..2}}"},
      // One name twice.
      {{"a1", "a1", "a2"}, "a{1..2} a1"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.rows);
    std::vector<Place> places;
    for (const std::string& name : row.names) places.push_back({name, "relu", 8});
    CHECK(NamesOf(PlacesJson(places)) == row.rows);
    CheckRoundTrip(places);
  }
}

TEST_CASE("another size or operator is another row") {
  const std::vector<Place> places = {
      {"a0", "relu", 8}, {"a1", "relu", 4}, {"a2", "relu", 4}, {"a3", "gelu", 4}};
  CHECK(NamesOf(PlacesJson(places)) == "a0 a{1..2} a3");
  CheckRoundTrip(places);
}

TEST_CASE("long rows") {
  CheckRoundTrip(Numbered("a", "..b}", 0, 20'000));
  CheckRoundTrip(Numbered("a", "", 999'990, 1'000'010, int64_t{1} << 50));
  CheckRoundTrip(Numbered("a", "", 0, 3, 0));
  CheckRoundTrip({{"", "relu", 8}, {"", "", 0}});
}

TEST_CASE("what a row says of its places must be so") {
  struct Row {
    const char* row;
    const char* error;
  };
  const Row rows[] = {
      {R"({"name": "a{0..2}", "op": "", "count": 2, "bytes": 8})",
       "\"name\": \"a{0..2}\": expected 2 places of one size"},
      {R"({"name": "a{0..2}", "op": "", "count": 3, "bytes": 8})",
       "\"name\": \"a{0..2}\": expected 3 places of one size"},
      {R"({"name": "a", "op": "", "count": 3, "bytes": 9})",
       "\"name\": \"a\": expected 3 places of one size"},
      {R"({"name": "a{", "op": "", "count": 3, "bytes": 9})",
       "\"name\": \"a{\": expected 3 places of one size"},
      {R"({"name": "a{0..", "op": "", "count": 3, "bytes": 9})",
       "\"name\": \"a{0..\": expected 3 places of one size"},
      {R"({"name": "a{0}", "op": "", "count": 3, "bytes": 9})",
       "\"name\": \"a{0}\": expected 3 places of one size"},
      {R"({"name": "a{}..}", "op": "", "count": 3, "bytes": 9})",
       "\"name\": \"a{}..}\": expected 3 places of one size"},
      {R"({"name": "a{2..0}", "op": "", "count": 3, "bytes": 9})",
       "\"name\": \"a{2..0}\": expected 3 places of one size"},
      {R"({"name": "a{-1..1}", "op": "", "count": 3, "bytes": 9})",
       "\"name\": \"a{-1..1}\": expected 3 places of one size"},
      {R"({"name": "a{0..0}", "op": "", "count": 1, "bytes": 9})",
       "\"name\": \"a{0..0}\": expected 1 places of one size"},
      {R"({"name": "a{0..9}", "op": "", "count": 0, "bytes": 9})",
       "\"name\": \"a{0..9}\": expected 0 places of one size"},
      {R"({"name": "a{0..1000000000000}", "op": "", "count": 1000000000001, "bytes": 0})",
       "\"name\": \"a{0..1000000000000}\": expected 1000000000001 places of one size"},
      {R"({"op": "", "bytes": 9})", "\"name\": expected this field, found none"},
      {R"({"name": "a", "bytes": 9})", "\"op\": expected this field, found none"},
      {R"({"name": "a", "op": ""})", "\"bytes\": expected this field, found none"},
      {R"({"name": "a", "op": "", "bytes": -9})",
       "\"bytes\": expected a whole number from 0, found -9"},
      {R"({"name": "a{0..1}", "op": "", "count": "2", "bytes": 8})",
       "\"count\": expected a whole number from 0, found a value of type string"},
      {R"(7)", "\"name\": expected this field, found none"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.row);
    CHECK_THROWS_WITH_AS(ReadPlaces(Json::array({Json::parse(row.row)})), row.error, Error);
  }
}

}  // namespace
}  // namespace onnxfit::places_json_test
