#include "estimator/workspaces/asked_sizes.h"

#include <doctest/doctest.h>

namespace onnxfit::asked_sizes_test {
namespace {

const std::vector<DeviceProfile> kCards = {
    {.compute_capability = 86, .multiprocessors = 28, .threads_per_multiprocessor = 1536},
    {.compute_capability = 90, .multiprocessors = 132, .threads_per_multiprocessor = 2048},
    {.compute_capability = 75, .multiprocessors = 40, .threads_per_multiprocessor = 1024}};

struct Row {
  const char* question;
  const char* answer;
};

TEST_CASE("a program is told what an H200 asked for in that very convolution") {
  const Row rows[] = {
      // benchmarks/convolutions/data/card_h200.json.xz
      {"convolution 1 91900 weight_gradient float32 first 4,1,28,28 32,1,3,3 4,32,26,26 1,1 0,0 "
       "1,1",
       "378455 final"},
      {"convolution 1 91900 forward bfloat16 last 4,112,14,14 220,112,3,3 4,220,7,7 2,2 1,1 1,1",
       "539408 final"},
      // Transposed ones, as cuDNN sees them.
      {"convolution 1 91900 data_gradient float32 first 4,64,64,64 128,64,3,3 4,128,32,32 2,2 1,1 "
       "1,1",
       "6586515 final"},
      {"convolution 1 91900 forward float32 first 4,64,32,32 128,64,4,4 4,128,16,16 2,2 1,1 1,1",
       "2097168 final"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.question);
    CHECK(AnswerTo(row.question, kCards) == row.answer);
  }
}

TEST_CASE("what was measured elsewhere does not go before cuDNN's plan") {
  const std::string layer =
      "weight_gradient float32 first 4,1,28,28 32,1,3,3 4,32,26,26 1,1 0,0 1,1";
  for (const std::string where :
       {"0 91900 ", "1 91002 ", "1 90100 "}) {  // another card, other versions
    CAPTURE(where);
    const std::string answer = AnswerTo("convolution " + where + layer, kCards);
    CHECK(answer != "");
    CHECK(answer.find("final") == std::string::npos);
  }
}

TEST_CASE("products of matrices are not cuDNN's to plan without a card") {
  const std::string point =
      " 91900 forward float32 first 5,24,17,17 40,24,1,1 5,40,17,17 1,1 0,0 1,1";
  for (const std::string card : {"0", "1"}) {
    CAPTURE(card);
    CHECK(AnswerTo("convolution " + card + point, kCards).find(" final") != std::string::npos);
  }
}

TEST_CASE("recurrent layers and dropout are as large as cuDNN said") {
  const Row rows[] = {
      // tests/data/cudnn_recurrent.csv
      {"recurrent float16 2 0 3 1024 708 0 3 2 1 0 12 64 768",
       "50857056 44043520 123081792 119567424"},
      {"recurrent float32 2 0 1 619 16 0 1 1 1 1 29 15 330", "40768 21376 9268672 8472704"},
      {"dropout-states 2", "983040"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.question);
    CHECK(AnswerTo(row.question, kCards) == row.answer);
  }
}

TEST_CASE("what is no question has no answer") {
  const char* const questions[] = {
      "",
      "convolution",
      "weather 0",
      "dropout-states 3",
      "dropout-states -1",
      "recurrent float32 2 0 1 619 16 0 1 1 0 1 29 15",
      "recurrent int8 2 0 1 619 16 0 1 1 0 1 29 15 330",
      "convolution 7 91900 forward float32 first 4,1,28,28 32,1,3,3 4,32,26,26 1,1 0,0 1,1",
      "convolution 1 91900 sideways float32 first 4,1,28,28 32,1,3,3 4,32,26,26 1,1 0,0 1,1",
      "convolution 1 91900 forward float32 first 4,1,28,28 32,1,3 4,32,26,26 1,1 0,0 1,1",
      "convolution 1 91900 forward float32 first 4,1,x,28 32,1,3,3 4,32,26,26 1,1 0,0 1,1",
      "convolution 1 91900 forward float32 first 4,3,28,28 32,2,3,3 4,32,26,26 1,1 0,0 1,1",
      ("convolution 1 91900 forward float32 first 9000000000000000000,9000000000000000000,28,28 "
       "9000000000000000000,9000000000000000000,3,3 4,32,26,26 1,1 0,0 1,1"),
  };
  for (const char* const question : questions) {
    CAPTURE(question);
    CHECK(AnswerTo(question, kCards) == "");
  }
}

}  // namespace
}  // namespace onnxfit::asked_sizes_test
