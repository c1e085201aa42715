#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "estimator/base/text.h"

namespace onnxfit::digest_test {
namespace {

using namespace std::string_view_literals;

TEST_CASE("a digest is FNV-1a of 64 bits, in hexadecimal") {
  struct Row {
    std::string_view text;
    std::string_view digest;
  };
  // "", "a" and "foobar" are test vectors of the hash's authors.
  const Row rows[] = {
      {"", "cbf29ce484222325"},     {"a", "af63dc4c8601ec8c"},    {"foobar", "85944171f73967e8"},
      {"\0"sv, "af63bd4c8601b7df"}, {"\xFF", "af64724c8602eb6e"}, {"resnet50", "ea38d543720f1831"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(Digest(row.text) == row.digest);
  }
}

TEST_CASE("another thread finds the same digest") {
  for (const size_t size : {size_t{0}, (size_t{1} << 20) - 1, size_t{1} << 20}) {
    const std::string text(size, 'x');
    CHECK(DigestMeanwhile(text).get() == Digest(text));
  }
}

}  // namespace
}  // namespace onnxfit::digest_test
