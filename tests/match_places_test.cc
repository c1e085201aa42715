#include "estimator/compare/match_places.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace onnxfit::match_places_test {
namespace {

// "relu_1 = relu_2" for a pair, "- relu" for what is in the first alone, "+ relu" in the second.
std::vector<std::string> Matched(const std::vector<Place>& before,
                                 const std::vector<Place>& after) {
  std::vector<std::string> lines;
  for (const PlacePair& pair : MatchPlaces(before, after)) {
    if (pair.before == nullptr) {
      lines.push_back("+ " + pair.after->name);
    } else if (pair.after == nullptr) {
      lines.push_back("- " + pair.before->name);
    } else {
      lines.push_back(pair.before->name + " = " + pair.after->name);
    }
  }
  return lines;
}

struct Row {
  const char* says;
  std::vector<Place> before;
  std::vector<Place> after;
  std::vector<std::string> lines;
};

void CheckRows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    CAPTURE(row.says);
    CHECK(Matched(row.before, row.after) == row.lines);
  }
}

TEST_CASE("names that say what they are") {
  CheckRows({
      {"nothing", {}, {}, {}},
      {"sizes changed, the order too",
       {{"/layer1/conv1/Conv", "convolution", 8}, {"fc.weight", "parameter", 4}},
       {{"fc.weight", "parameter", 40}, {"/layer1/conv1/Conv", "convolution", 80}},
       {"fc.weight = fc.weight", "/layer1/conv1/Conv = /layer1/conv1/Conv"}},
      {"one of another operator is the same node",
       {{"/act", "relu", 8}},
       {{"/act", "gelu", 8}},
       {"/act = /act"}},
      {"added", {{"a", "relu", 8}}, {{"a", "relu", 8}, {"b", "gelu", 8}}, {"a = a", "+ b"}},
      {"removed", {{"b", "gelu", 8}, {"a", "relu", 8}}, {{"a", "relu", 8}}, {"a = a", "- b"}},
      {"one renamed, of the same operator and size",
       {{"a/x", "relu", 8}, {"a/y", "relu", 4}},
       {{"a/z", "relu", 8}, {"a/y", "relu", 4}},
       {"a/x = a/z", "a/y = a/y"}},
      {"one of another size is not renamed",
       {{"a/x", "relu", 8}},
       {{"a/z", "relu", 16}},
       {"+ a/z", "- a/x"}},
  });
}

TEST_CASE("numbers of an exporter's are no names") {
  CheckRows({
      {"a node in front of all",
       {{"Conv_3", "convolution", 8}, {"Conv_5", "convolution", 4}},
       {{"Conv_4", "convolution", 8}, {"Conv_6", "convolution", 4}},
       {"Conv_3 = Conv_4", "Conv_5 = Conv_6"}},
      {"by number, not by letter",
       {{"Conv_9", "convolution", 8}, {"Conv_10", "convolution", 4}},
       {{"Conv_10", "convolution", 80}, {"Conv_11", "convolution", 40}},
       {"Conv_9 = Conv_10", "Conv_10 = Conv_11"}},
      {"one in the middle, which sizes decide",
       {{"Relu_1", "relu", 8}, {"Relu_3", "relu", 4}, {"Relu_5", "relu", 2}},
       {{"Relu_1", "relu", 8}, {"Relu_3", "relu", 6}, {"Relu_5", "relu", 4}, {"Relu_7", "relu", 2}},
       {"Relu_1 = Relu_1", "+ Relu_3", "Relu_3 = Relu_5", "Relu_5 = Relu_7"}},
      {"one gone from the middle",
       {{"Relu_1", "relu", 8}, {"Relu_3", "relu", 6}, {"Relu_5", "relu", 4}},
       {{"Relu_1", "relu", 8}, {"Relu_3", "relu", 4}},
       {"Relu_1 = Relu_1", "Relu_5 = Relu_3", "- Relu_3"}},
      {"those without a number are another name",
       {{"l/relu", "relu", 8}, {"l/relu_1", "relu", 4}},
       {{"l/relu", "relu", 8}, {"l/relu_1", "relu", 4}, {"l/relu_2", "relu", 2}},
       {"l/relu = l/relu", "l/relu_1 = l/relu_1", "+ l/relu_2"}},
      {"of one operator alone",
       {{"op_1", "relu", 8}, {"op_2", "gelu", 8}},
       {{"op_1", "gelu", 8}, {"op_2", "relu", 8}},
       {"op_2 = op_1", "op_1 = op_2"}},
  });
}

TEST_CASE("layers and outer modules") {
  CheckRows({
      {"a layer in the middle: all after it have another name, the last is new",
       {{"enc.0.w", "parameter", 8}, {"enc.1.w", "parameter", 8}},
       {{"enc.0.w", "parameter", 8}, {"enc.1.w", "parameter", 8}, {"enc.2.w", "parameter", 8}},
       {"enc.0.w = enc.0.w", "enc.1.w = enc.1.w", "+ enc.2.w"}},
      {"an outer module is gone",
       {{"model.fc.weight", "parameter", 8}, {"model.fc.bias", "parameter", 8}},
       {{"fc.weight", "parameter", 80}, {"fc.bias", "parameter", 80}},
       {"model.fc.weight = fc.weight", "model.fc.bias = fc.bias"}},
      {"has come",
       {{"fc.weight", "parameter", 8}},
       {{"module.fc.weight", "parameter", 80}},
       {"fc.weight = module.fc.weight"}},
      {"of nodes",
       {{"/model/fc/Gemm", "addmm", 8}},
       {{"fc/Gemm", "addmm", 80}},
       {"/model/fc/Gemm = fc/Gemm"}},
  });
}

TEST_CASE("a name without what an exporter numbered") {
  struct StemRow {
    const char* name;
    const char* stem;
  };
  const StemRow rows[] = {{"/layer1/relu_1", "/layer1/relu"},
                          {"Conv_12", "Conv"},
                          {"Conv_007", "Conv"},
                          {"a_1_2", "a_1"},
                          {"Conv", ""},
                          {"layer1", ""},
                          {"layer.1", ""},
                          {"a_", ""},
                          {"_1", ""},
                          {"12", ""},
                          {"", ""}};
  for (const StemRow& row : rows) {
    CAPTURE(row.name);
    CHECK(StemOf(row.name) == row.stem);
  }
}

TEST_CASE("names that differ in such a number are one") {
  CHECK(IsSameName("a", "a"));
  CHECK(IsSameName("", ""));
  CHECK(IsSameName("relu_4", "relu_15"));
  CHECK_FALSE(IsSameName("relu", "relu_1"));
  CHECK_FALSE(IsSameName("relu_1", "relu"));
  CHECK_FALSE(IsSameName("relu_1", "gelu_1"));
  CHECK_FALSE(IsSameName("layer.1", "layer.2"));
  CHECK_FALSE(IsSameName("1", "2"));
}

TEST_CASE("leading zeros, and names of digits alone") {
  CheckRows({
      {"digits are names",
       {{"12", "relu", 8}, {"13", "relu", 4}},
       {{"12", "relu", 4}, {"13", "relu", 8}},
       {"12 = 12", "13 = 13"}},
      {"shifted digits by operator and size",
       {{"12", "relu", 8}},
       {{"13", "relu", 8}},
       {"12 = 13"}},
      {"zeros",
       {{"a_01", "relu", 8}, {"a_02", "relu", 4}},
       {{"a_02", "relu", 80}, {"a_03", "relu", 40}},
       {"a_01 = a_02", "a_02 = a_03"}},
  });
}

TEST_CASE("each place is in one pair") {
  std::vector<Place> before;
  std::vector<Place> after;
  for (int i = 0; i < 60; ++i) {
    before.push_back({"n" + std::to_string(i % 7) + "/op_" + std::to_string(i), "relu", i % 5});
    after.push_back({"m.n" + std::to_string(i % 6) + "/op_" + std::to_string(i), "relu", i % 4});
  }
  std::vector<const Place*> seen;
  for (const PlacePair& pair : MatchPlaces(before, after)) {
    if (pair.before != nullptr) seen.push_back(pair.before);
    if (pair.after != nullptr) seen.push_back(pair.after);
  }
  std::sort(seen.begin(), seen.end());
  CHECK(seen.size() == before.size() + after.size());
  CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
}

}  // namespace
}  // namespace onnxfit::match_places_test
