// How long the batches of a run are.
#include "estimator/fit/lengths.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "tests/temp_folder.h"

namespace onnxfit::lengths_test {
namespace {

std::vector<int64_t> Drawn(const std::string& text, LengthOptions options = {}, int64_t batch = 1,
                           uint64_t seed = 1) {
  options.source = ReadLengths(text);
  std::vector<int64_t> lengths;
  for (const StepShape& step : DrawSteps(options, batch, seed)) lengths.push_back(step.length);
  return lengths;
}

std::vector<int64_t> BatchesOf(const std::string& text, LengthOptions options, int64_t batch) {
  options.source = ReadLengths(text);
  std::vector<int64_t> batches;
  for (const StepShape& step : DrawSteps(options, batch, 1)) batches.push_back(step.batch);
  return batches;
}

std::string MessageOf(const std::string& text) {
  try {
    ReadLengths(text);
  } catch (const Error& error) {
    return error.parts().text;
  }
  return "";
}

}  // namespace

TEST_CASE("uniform lengths are all that there are, as often") {
  const std::vector<int64_t> lengths = Drawn("uniform:64..96/8", {.steps = 5000});
  const std::set<int64_t> different(lengths.begin(), lengths.end());
  CHECK(different == std::set<int64_t>{64, 72, 80, 88, 96});
  for (const int64_t length : different) {
    CHECK(std::abs(std::ranges::count(lengths, length) - 1000) < 150);  // five deviations
  }
  CHECK(Drawn("uniform:7..7", {.steps = 3}) == std::vector<int64_t>{7, 7, 7});
}

TEST_CASE("half of log-normal lengths are below the median") {
  const std::vector<int64_t> lengths = Drawn("lognormal:180,0.6,1024", {.steps = 5000});
  const auto below = std::ranges::count_if(lengths, [](int64_t n) { return n <= 180; });
  CHECK(std::abs(below - 2500) < 180);
  CHECK(std::ranges::max(lengths) <= 1024);
  CHECK(std::ranges::min(lengths) >= 1);
  const auto deviation = std::ranges::count_if(lengths, [](int64_t n) { return n <= 328; });
  CHECK(std::abs(deviation - 4206) < 180);  // 180 × e^0.6: 84.13 %
}

TEST_CASE("a seed gives the same, another something else") {
  CHECK(Drawn("uniform:1..1000") == Drawn("uniform:1..1000"));
  CHECK(Drawn("uniform:1..1000") != Drawn("uniform:1..1000", {}, 1, 2));
}

TEST_CASE("a batch is as long as its longest sample, and is padded") {
  const TempFolder folder;
  const std::string file = folder.Write("lengths.json", "[3, 10,\n 5, 4]\n");
  CHECK(Drawn(file, {.steps = 6}) == std::vector<int64_t>{3, 10, 5, 4, 3, 10});
  CHECK(Drawn(file, {.steps = 3, .of_samples = true}, 2) == std::vector<int64_t>{10, 5, 10});
  CHECK(Drawn(file, {.steps = 4, .pad_to = 4}) == std::vector<int64_t>{4, 12, 8, 4});
}

TEST_CASE("the last batch of an epoch has what is left") {
  CHECK(BatchesOf("uniform:7..7", {.steps = 6, .samples = 10}, 4) ==
        std::vector<int64_t>{4, 4, 2, 4, 4, 2});
  CHECK(BatchesOf("uniform:7..7", {.steps = 3, .samples = 8}, 4) == std::vector<int64_t>{4, 4, 4});
  CHECK(BatchesOf("uniform:7..7", {.steps = 2, .samples = 3}, 4) == std::vector<int64_t>{3, 3});
  CHECK(BatchesOf("uniform:7..7", {.steps = 2}, 4) == std::vector<int64_t>{4, 4});
}

TEST_CASE("the longest sample of a batch is one of so many as it has") {
  const TempFolder folder;
  const std::string file = folder.Write("lengths.txt", "3 10 5 4");
  CHECK(Drawn(file, {.steps = 4, .of_samples = true, .samples = 3}, 2) ==
        std::vector<int64_t>{10, 5, 4, 10});  // 3 10, 5, 4 3, 10
}

TEST_CASE("a batch has as many samples as so many tokens have room for") {
  const TempFolder folder;
  const std::string file = folder.Write("lengths.txt", "30 100 250 5");
  CHECK(BatchesOf(file, {.steps = 4, .tokens = 200}, 1) == std::vector<int64_t>{6, 2, 1, 40});
  CHECK(BatchesOf(file, {.steps = 4, .pad_to = 64, .tokens = 200}, 1) ==
        std::vector<int64_t>{3, 1, 1, 3});
}

TEST_CASE("what is no source of lengths is told") {
  for (const char* text :
       {"uniform:64", "uniform:9..3", "uniform:0..3", "uniform:1..2/0", "lognormal:1",
        "lognormal:0.5,1,9", "lognormal:9,-1,9", "no such file"}) {
    CAPTURE(text);
    CHECK(MessageOf(text).find("expected uniform:LEAST..MOST") == 0);
  }
  const TempFolder folder;
  CHECK(MessageOf(folder.Write("words", "12 thirteen")).find("found 'thirteen'") !=
        std::string::npos);
  CHECK(MessageOf(folder.Write("nothing", "\n")) == "expected lengths, found none");
}

}  // namespace onnxfit::lengths_test
