// Texts that are no JSON, or too much of it.
#include <doctest/doctest.h>

#include <string>

#include "estimator/base/error.h"
#include "estimator/pt2/json_text.h"

namespace onnxfit::pt2_json_test {
namespace {

// The error without the hint, "" where there is none.
std::string ErrorOf(std::string text, const pt2::JsonLimits& limits = {}) {
  try {
    const pt2::JsonDocument document(text, "a.json", limits);
    document.ReadBy([](const pt2::Json& json) { return pt2::Whole(pt2::MemberOf(json, "a")); });
  } catch (const Error& error) {
    CHECK(error.parts().hint == "copy or export it again, it is damaged");
    return error.parts().where + ": " + error.parts().text;
  }
  return "";
}

TEST_CASE("what is no JSON") {
  struct Row {
    std::string json;
    const char* error;
  };
  const Row rows[] = {
      {"", "a.json: byte 0: JSON was expected, its parser says: The document is empty."},
      {"{\"a\": ", "a.json: byte 6: JSON was expected, its parser says: Invalid value."},
      {"{\"a\": 1} {}",
       "a.json: byte 9: JSON was expected, its parser says: The document root must not be followed "
       "by other values."},
      {std::string("{}\0{}", 5), "a.json: byte 2: the end was expected, found more text"},
      {"{\"a\": \"\xff\"}", "a.json: UTF-8 was expected"},
      {"{\"a\": \"\\ud800\"}",
       "a.json: byte 7: JSON was expected, its parser says: The surrogate pair in string is "
       "invalid."},
      {"{\"a\": 1e999}",
       "a.json: byte 6: JSON was expected, its parser says: Number too big to be stored in "
       "double."},
      {"[]", "a.json: an object was expected, found a list of 0"},
      {"[[[{}]]]", "a.json: an object was expected, found a list of 1"},
      {"3", "a.json: an object was expected, found 3"},
      {"null", "a.json: an object was expected, found null"},
      {"{}", "a.json: a member 'a' was expected, found an empty object"},
      {"{\"a\": -1.5}", "a.json: a: a whole number was expected, found -1.5"},
      {"{\"a\": \"\\u0007\"}", "a.json: a: a whole number was expected, found the text '?'"},
      {" {\"a\": 1}\n", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.json);
    CHECK(ErrorOf(row.json) == row.error);
  }
}

TEST_CASE("too much JSON takes neither stack nor memory") {
  const auto nested = [](size_t depth) {
    return "{\"a\": 1, \"b\": " + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  CHECK(ErrorOf(nested(511)).empty());
  constexpr char kDeep[] =
      "a.json: byte 525: JSON nested at most 512 deep, with at most 16777216 values, was expected";
  CHECK(ErrorOf(nested(512)) == kDeep);
  CHECK(ErrorOf(nested(10'000'000)) == kDeep);
  CHECK(ErrorOf("{\"a\": 1, \"b\": [1, 2, {}]}", {.values = 6}).empty());
  CHECK(ErrorOf("{\"a\": 1, \"b\": [1, 2, {}]}", {.values = 5}) ==
        "a.json: byte 21: JSON nested at most 512 deep, with at most 5 values, was expected");
}

}  // namespace
}  // namespace onnxfit::pt2_json_test
