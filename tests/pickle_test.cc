#include "estimator/picture/pickle.h"

#include <doctest/doctest.h>

namespace onnxfit::pickle_test {
namespace {

using std::string_literals::operator""s;

// As pickletools.dis reads it: PROTO 2, EMPTY_DICT, MARK, …, SETITEMS, STOP.
TEST_CASE("values are opcodes of protocol 2") {
  CHECK(PickleWriter().Integer(1).Finish() == "\x80\x02J\x01\0\0\0."s);
  CHECK(PickleWriter().Integer(-2).Finish() == "\x80\x02J\xfe\xff\xff\xff."s);
  CHECK(PickleWriter().Integer(int64_t{1} << 40).Finish() ==
        "\x80\x02\x8a\x08\0\0\0\0\0\x01\0\0."s);
  CHECK(PickleWriter().Text("ab").Finish() == "\x80\x02X\x02\0\0\0ab."s);
  CHECK(PickleWriter().Switch(true).Finish() == "\x80\x02\x88."s);
  CHECK(PickleWriter().BeginDict().Item("a", int64_t{3}).EndDict().Finish() ==
        "\x80\x02}(X\x01\0\0\0aJ\x03\0\0\0u."s);
  CHECK(PickleWriter().BeginList().EndList().Finish() == "\x80\x02](e."s);
  CHECK(PickleWriter().BeginList().Switch(true).NextBatch().Switch(false).EndList().Finish() ==
        "\x80\x02](\x88"
        "e(\x89"
        "e."s);
  CHECK(PickleWriter().BeginTuple().Switch(false).EndTuple().Finish() == "\x80\x02(\x89t."s);
}

TEST_CASE("bad letters are replaced, so that Python can decode them") {
  CHECK(PickleWriter().Text("\xff").Finish() == "\x80\x02X\x03\0\0\0\xef\xbf\xbd."s);
}

}  // namespace
}  // namespace onnxfit::pickle_test
