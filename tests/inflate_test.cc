#include "estimator/base/inflate.h"

#include <doctest/doctest.h>
#include <zlib.h>

#include <string>

namespace onnxfit::inflate_test {
namespace {

std::string Deflated(const std::string& text) {
  uLongf size = compressBound(text.size());
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(text.data()), text.size());
  packed.resize(size);
  return packed;
}

TEST_CASE("what zlib made smaller is made whole") {
  const std::string text(100'000, 'x');  // a thousandth of it packed
  CHECK(Inflate(Deflated(text), 1 << 20) == text);
  CHECK(Inflate(Deflated(""), 1 << 20) == "");
}

TEST_CASE("what is damaged or too long is not") {
  const std::string packed = Deflated("a text");
  CHECK_FALSE(Inflate(packed.substr(0, packed.size() - 1), 1 << 20));
  CHECK_FALSE(Inflate("not zlib's", 1 << 20));
  CHECK_FALSE(Inflate(Deflated(std::string(100'000, 'x')), 50'000));
}

}  // namespace
}  // namespace onnxfit::inflate_test
