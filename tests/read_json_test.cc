#include <doctest/doctest.h>

#include "estimator/report/json_parts.h"

namespace onnxfit::read_json_test {
namespace {

using namespace std::string_literals;

std::string ErrorOf(const std::string& text) {
  try {
    ParseJson(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("what is no JSON is told by line and column") {
  struct Row {
    std::string text;
    const char* error;
  };
  const Row rows[] = {
      {"", "line 1, column 1: expected JSON, found the end of the file"},
      {"\n\n", "line 3, column 1: expected JSON, found the end of the file"},
      {"{\"a\": 1", "line 1, column 8: expected JSON, found the end of the file"},
      {"x", "line 1, column 1: expected JSON, found something else"},
      {"{\n  \"a\": 1,\n  b\n}", "line 3, column 3: expected JSON, found something else"},
      {"{\"a\": 1,}", "line 1, column 9: expected JSON, found something else"},
      {"{} {}", "line 1, column 4: expected JSON, found something else"},
      {"\0"s, "line 1, column 1: expected JSON, found something else"},
      {"{\"a\": \0}"s, "line 1, column 7: expected JSON, found something else"},
      {"{\"a\": \"b\xFF\"}", "line 1, column 9: expected JSON, found something else"},
      {"{\"a\": \"b\nc\"}", "line 1, column 9: expected JSON, found something else"},
      {"{\"a\": NaN}", "line 1, column 7: expected JSON, found something else"},
      {"{\"a\": 1e999}", "expected JSON, found a number too large for it"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text.substr(0, 20));
    CHECK(ErrorOf(row.text) == std::string(row.error));
  }
}

TEST_CASE("marks of a merge are told as such") {
  struct Row {
    const char* text;
    const char* place;
  };
  const Row rows[] = {
      {"<<<<<<< HEAD\n{}\n=======\n[]\n>>>>>>> main\n", "line 1, column 1"},
      {"{\n<<<<<<< HEAD\n\"a\": 1\n=======\n\"a\": 2\n>>>>>>> main\n}", "line 2, column 1"},
      {"{\r\n<<<<<<< HEAD\r\n}", "line 2, column 1"},
      {"{\n=======\n}", "line 2, column 1"},
      {"{}\n>>>>>>> main", "line 2, column 1"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(ErrorOf(row.text) == row.place +
                                   ": expected JSON, found the marks of a merge that was not "
                                   "finished"s);
  }
  // In a text they are none.
  CHECK(ParseJson("{\"a\": \"<<<<<<< HEAD\"}")["a"] == "<<<<<<< HEAD");
}

TEST_CASE("what is deeper than any report is refused") {
  const auto nested = [](size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  const std::string error = "expected JSON of at most 64 levels, found more";
  CHECK(ErrorOf(nested(64)).empty());
  CHECK(ErrorOf(nested(65)) == error);
  CHECK(ErrorOf(nested(100'000)) == error);
  CHECK(ErrorOf(std::string(100'000, '[')) == error);
}

TEST_CASE("fields") {
  const Json object = Json::parse(R"({"object": {"a": 1}, "array": [1], "text": "t", "zero": 0,
      "most": 9223372036854775807, "more": 9223372036854775808, "huge": 18446744073709551615,
      "less": -1, "half": 0.5, "float": 1.0, "null": null, "yes": true})");
  CHECK(ReadField(object, "null").is_null());
  CHECK(ReadObject(object, "object")["a"] == 1);
  CHECK(ReadArray(object, "array")[0] == 1);
  CHECK(ReadText(object, "text") == "t");
  CHECK(ReadTextIfKnown(object, "text") == "t");
  CHECK(ReadTextIfKnown(object, "nothing").empty());
  CHECK(ReadTextIfKnown(7, "nothing").empty());
  CHECK(ReadBytes(object, "zero") == 0);
  CHECK(ReadBytes(object, "most") == INT64_MAX);

  struct Row {
    const char* name;
    const char* error;
  };
  const Row rows[] = {
      {"nothing", "\"nothing\": expected this field, found none"},
      {"more", "\"more\": expected a whole number from 0, found 9223372036854775808"},
      {"huge", "\"huge\": expected a whole number from 0, found 18446744073709551615"},
      {"less", "\"less\": expected a whole number from 0, found -1"},
      {"half", "\"half\": expected a whole number from 0, found 0.5"},
      {"float", "\"float\": expected a whole number from 0, found 1.0"},
      {"null", "\"null\": expected a whole number from 0, found null"},
      {"yes", "\"yes\": expected a whole number from 0, found a value of type boolean"},
      {"text", "\"text\": expected a whole number from 0, found a value of type string"},
      {"array", "\"array\": expected a whole number from 0, found a value of type array"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK_THROWS_WITH_AS(ReadBytes(object, row.name), row.error, Error);
  }
  CHECK_THROWS_WITH_AS(ReadText(object, "zero"), "\"zero\": expected a text, found 0", Error);
  CHECK_THROWS_WITH_AS(ReadTextIfKnown(object, "zero"), "\"zero\": expected a text, found 0",
                       Error);
  CHECK_THROWS_WITH_AS(ReadObject(object, "array"),
                       "\"array\": expected an object, found a value of type array", Error);
  CHECK_THROWS_WITH_AS(ReadArray(object, "object"),
                       "\"object\": expected an array, found a value of type object", Error);
  CHECK_THROWS_WITH_AS(ReadField(7, "a"), "\"a\": expected this field, found none", Error);
  CHECK_THROWS_WITH_AS(ReadField(Json::array(), "a"), "\"a\": expected this field, found none",
                       Error);
}

}  // namespace
}  // namespace onnxfit::read_json_test
