#include "estimator/compare/group_places.h"

#include <doctest/doctest.h>

namespace onnxfit::group_places_test {
namespace {

// "grew layer.*/relu (2) relu 8 16", with "old -> " before a name that was another.
std::vector<std::string> Grouped(const std::vector<Place>& before, const std::vector<Place>& after,
                                 int64_t increase = 1) {
  std::vector<std::string> lines;
  for (const ChangedPlaces& places : GroupChanges(MatchPlaces(before, after), increase)) {
    const std::string old = places.old_name.empty() ? "" : places.old_name + " -> ";
    lines.push_back(std::string(ToString(places.change)) + " " + old + places.name + " (" +
                    std::to_string(places.names.size()) + ") " + places.op + " " +
                    std::to_string(places.old_bytes) + " " + std::to_string(places.new_bytes));
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST_CASE("what is the same is not told") {
  CHECK(Grouped({}, {}).empty());
  CHECK(Grouped({{"a", "relu", 8}}, {{"a", "relu", 8}}).empty());
}

TEST_CASE("what happened to all of a kind is told once") {
  std::vector<Place> before;
  std::vector<Place> after;
  for (int i = 0; i < 12; ++i) {
    const std::string layer = "layer." + std::to_string(i);
    before.push_back({layer + "/attention/Softmax", "softmax", 10});
    after.push_back({layer + "/attention/Softmax", "softmax", 30});
  }
  CHECK(Grouped(before, after) == Lines{"grew layer.*/attention/Softmax (12) softmax 120 360"});
  after[3].bytes = 5;
  CHECK(Grouped(before, after) == Lines{"grew layer.*/attention/Softmax (11) softmax 110 330",
                                        "shrank layer.3/attention/Softmax (1) softmax 10 5"});
  after[4].op = "_softmax";
  CHECK(Grouped(before, after) == Lines{"grew layer.*/attention/Softmax (10) softmax 100 300",
                                        "grew layer.4/attention/Softmax (1) _softmax 10 30",
                                        "shrank layer.3/attention/Softmax (1) softmax 10 5"});
}

TEST_CASE("every change has its word") {
  CHECK(Grouped({{"a", "relu", 8}, {"b", "gelu", 8}, {"c", "mm", 8}, {"d", "add", 8}},
                {{"a", "relu", 16}, {"b", "gelu", 4}, {"e", "add", 8}, {"f", "sub", 20}}) ==
        Lines{"added f (1) sub 0 20", "grew a (1) relu 8 16", "shrank b (1) gelu 8 4",
              "removed c (1) mm 8 0", "renamed d -> e (1) add 8 8"});
}

TEST_CASE("renamed and of another size") {
  CHECK(Grouped({{"model.l.0.w", "parameter", 8}, {"model.l.1.w", "parameter", 8}},
                {{"l.0.w", "parameter", 9}, {"l.1.w", "parameter", 9}}) ==
        Lines{"grew model.l.{0,1}.w -> l.{0,1}.w (2) parameter 16 18"});
  CHECK(Grouped({{"Conv_3", "convolution", 8}, {"Conv_5", "convolution", 8}},
                {{"Conv_4", "convolution", 8}, {"Conv_6", "convolution", 8}}) == Lines{});
  CHECK(Grouped({{"Conv_3", "convolution", 8}}, {{"Conv_4", "convolution", 9}}) ==
        Lines{"grew Conv_3 -> Conv_4 (1) convolution 8 9"});
}

TEST_CASE("what counts most comes first") {
  const std::vector<Place> small = {{"a", "x", 10}, {"b", "x", 10}, {"c", "x", 10}, {"d", "x", 10}};
  const std::vector<Place> large = {{"a", "x", 15}, {"b", "x", 40}, {"c", "x", 7}, {"d", "x", 9}};
  CHECK(Grouped(small, large) == Lines{"grew b (1) x 10 40", "grew a (1) x 10 15",
                                       "shrank d (1) x 10 9", "shrank c (1) x 10 7"});
  CHECK(Grouped(large, small, -1) == Lines{"shrank b (1) x 40 10", "shrank a (1) x 15 10",
                                           "grew d (1) x 9 10", "grew c (1) x 7 10"});
  // The whole decides, not the sum of places.
  CHECK(Grouped(small, large, -1) == Lines{"shrank c (1) x 10 7", "shrank d (1) x 10 9",
                                           "grew a (1) x 10 15", "grew b (1) x 10 40"});
  CHECK(Grouped(small, large, 0) == Grouped(small, large));
  // Equal ones by name.
  CHECK(Grouped({{"b", "x", 1}, {"a", "x", 1}}, {{"b", "x", 2}, {"a", "x", 2}}) ==
        Lines{"grew a (1) x 1 2", "grew b (1) x 1 2"});
}

TEST_CASE("one that has more than half of a change of many is named") {
  std::vector<Place> before;
  std::vector<Place> after;
  for (const char* name : {"l.0", "l.1", "l.2", "l.3"}) {
    before.push_back({name, "mm", 10});
    after.push_back({name, "mm", 20});
  }
  const auto most = [&] { return GroupChanges(MatchPlaces(before, after), 1)[0].most_name; };
  CHECK(most().empty());
  after[2].bytes = 40;  // by 30 of 60
  CHECK(most().empty());
  after[2].bytes = 41;
  CHECK(most() == "l.2");
}

}  // namespace
}  // namespace onnxfit::group_places_test
