#include "estimator/snapshot/pickle_reader.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <limits>
#include <string>

#include "estimator/base/error.h"

namespace onnxfit::pickle_reader_test {
namespace {

using std::string_literals::operator""s;

// As Python's repr, but for texts beyond their length; values within themselves are "...".
std::string ReprOf(const PickleValues& values, PickleId id, int depth = 0) {
  if (depth > 4) return "...";
  const PickleNode& node = values.At(id);
  switch (node.type) {
    case PickleType::kNone:
      return "None";
    case PickleType::kBool:
      return node.value == 1 ? "True" : "False";
    case PickleType::kInteger:
      return std::to_string(node.value);
    case PickleType::kFloat:
      return "float";
    case PickleType::kText:
      return fmt::format("'{}'", values.TextOf(id));
    case PickleType::kBytes:
      return fmt::format("b'{}'", values.TextOf(id));
    default:
      break;
  }
  std::string text;
  const bool is_dict = node.type == PickleType::kDict;
  const std::vector<PickleId>& items = values.ItemsOf(id);
  for (size_t i = 0; i < items.size(); ++i) {
    text += i == 0 ? "" : is_dict && i % 2 == 1 ? ": " : ", ";
    text += ReprOf(values, items[i], depth + 1);
  }
  const bool is_list = node.type == PickleType::kList;
  return fmt::format("{}{}{}",
                     is_dict   ? "{"
                     : is_list ? "["
                               : "(",
                     text,
                     is_dict   ? "}"
                     : is_list ? "]"
                               : ")");
}

std::string ReprOf(const std::string& bytes) {
  const PickleValues values = ReadPickle(bytes);
  return ReprOf(values, values.root);
}

std::string ErrorOf(const std::string& bytes) {
  try {
    ReadPickle(bytes);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

// pickle.dumps({"a": [1, -2, 70000, 2**40], "b": (None, True, 1.5), "c": "ab"}, protocol) of Python
// 3.11, as bytes.hex() shows it.
TEST_CASE("what Python writes is read, of each protocol") {
  const std::string repr =
      "{'a': [1, -2, 70000, 1099511627776], 'b': (None, True, float), 'c': 'ab'}";
  const std::string second =
      "\x80\x02}q\0(X\x01\0\0\0aq\x01]q\x02("
      "K\x01J\xfe\xff\xff\xffJp\x11\x01\0\x8a\x06\0\0\0\0\0\x01"
      "eX\x01\0\0\0bq\x03N\x88G?\xf8\0\0\0\0\0\0\x87q\x04X\x01\0\0\0cq\x05X\x02\0\0\0abq\x06u."s;
  const std::string fourth =
      "\x80\x04\x95\x3b\0\0\0\0\0\0\0}\x94(\x8c\x01"
      "a\x94]\x94(K\x01J\xfe\xff\xff\xffJp\x11\x01\0\x8a\x06\0\0\0\0\0\x01"
      "e\x8c\x01"
      "b\x94N\x88G?\xf8\0\0\0\0\0\0\x87\x94\x8c\x01"
      "c\x94\x8c\x02"
      "ab\x94u."s;
  CHECK(ReprOf(second) == repr);
  CHECK(ReprOf(fourth) == repr);
}

TEST_CASE("each opcode of plain values") {
  struct Row {
    std::string bytes;
    const char* repr;
  };
  const Row rows[] = {
      {"N.", "None"},
      {"\x89.", "False"},
      {"M\xff\xff.", "65535"},
      {"\x8a\0."s, "0"},
      {"\x8a\x01\xff.", "-1"},
      {"\x8b\x02\0\0\0\0\x80."s, "-32768"},
      // sys.maxsize * 2 + 1, of a size_t that says "no limit": the nearest that 64 bits hold.
      {"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0."s, "9223372036854775807"},
      {"\x8a\x09\0\0\0\0\0\0\0\0\x80."s, "-9223372036854775808"},
      {"\x8d\x02\0\0\0\0\0\0\0hi."s, "'hi'"},
      {"C\x02hi.", "b'hi'"},
      {"B\x02\0\0\0hi."s, "b'hi'"},
      {").", "()"},
      {"N\x85.", "(None)"},
      {"K\x01K\x02\x86.", "(1, 2)"},
      {"(K\x01K\x02t.", "(1, 2)"},
      {"]K\x01"
       "a.",
       "[1]"},
      {"}K\x01K\x02s.", "{1: 2}"},
      {"](K\x01"
       "e(K\x02"
       "e.",
       "[1, 2]"},
      {"](]q\x05h\x05"
       "e.",
       "[[], []]"},
      {"](]r\x05\0\0\0j\x05\0\0\0e."s, "[[], []]"},
      // What a tuple that holds itself leaves on the stack goes.
      {"K\x01K\x02"
       "0.",
       "1"},
      {"K\x01(K\x02"
       "1.",
       "1"},
      // A list that holds itself.
      {"]q\x01h\x01"
       "a.",
       "[[[[[...]]]]]"},
      {"K\x01.behind", "1"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.repr);
    CHECK(ReprOf(row.bytes) == row.repr);
  }
}

TEST_CASE("a value that is named again is one") {
  const PickleValues values = ReadPickle("](]\x94h\0e."s);
  const std::vector<PickleId>& items = values.ItemsOf(values.root);
  REQUIRE(items.size() == 2);
  CHECK(items[0] == items[1]);
}

TEST_CASE("the last of equal keys counts, and keys are texts") {
  const std::string bytes = "}(X\x01\0\0\0aK\x01X\x01\0\0\0aK\x02K\x07K\x03u."s;
  const PickleValues values = ReadPickle(bytes);
  CHECK(values.At(values.Find(values.root, "a")).value == 2);
  CHECK(values.Find(values.root, "b") == kNoPickle);
}

TEST_CASE("what is no plain value, is cut or damaged is refused, and where") {
  struct Row {
    std::string bytes;
    const char* error;
  };
  const Row rows[] = {
      {"",
       "byte 0: 1 more bytes were expected, found the end of the file after 0 (try: copy the "
       "file anew: this one is cut)"},
      {"\x80\x06N.", "byte 0: a pickle of protocols 2 to 5 was expected, found 6"},
      {"N",
       "byte 1: 1 more bytes were expected, found the end of the file after 0 (try: copy the "
       "file anew: this one is cut)"},
      {"X\xff\xff\0\0hi."s,
       "byte 0: 65535 more bytes were expected, found the end of the file after 3 (try: copy the "
       "file anew: this one is cut)"},
      {"\x80\x02"
       "cposix\nsystem\n",
       "byte 2: plain values were expected, found GLOBAL, which makes an object of a class (try: "
       "torch.cuda.memory._dump_snapshot(\"snapshot.pickle\") writes none)"},
      {"NNR.",
       "byte 2: plain values were expected, found REDUCE, which makes an object of a class (try: "
       "torch.cuda.memory._dump_snapshot(\"snapshot.pickle\") writes none)"},
      {"\xff.", "byte 0: an opcode of a pickle was expected, found byte 0xff"},
      {".",
       "byte 0: a value was expected before this opcode, found none (try: copy the file anew: "
       "this one is damaged)"},
      {"(.",
       "byte 1: a value was expected before this opcode, found none (try: copy the file anew: "
       "this one is damaged)"},
      {"Ne.",
       "byte 1: a value was expected before this opcode, found none (try: copy the file "
       "anew: this one is damaged)"},
      {"}(Nu.",
       "byte 3: a value was expected before this opcode, found none (try: copy the file "
       "anew: this one is damaged)"},
      {"NNa.", "byte 2: a list was expected to take values, found None"},
      {"](Nu.", "byte 3: a dict was expected to take values, found a list"},
      {"h\x01.", "byte 0: a value kept before was expected, found number 1, which is none"},
      {"Nr\xff\xff\xff\xff.", "byte 1: a smaller number of a value was expected, found 4294967295"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.error);
    CHECK(ErrorOf(row.bytes) == row.error);
  }
}

TEST_CASE("depth takes no stack") {
  const int depth = 1'000'000;
  std::string bytes(depth, ']');
  bytes += std::string(depth - 1, 'a') + ".";
  CHECK(ReadPickle(bytes).nodes.size() == depth);
}

TEST_CASE("pickles are told by their first bytes") {
  CHECK(LooksLikePickle("\x80\x04\x95"));
  CHECK_FALSE(LooksLikePickle("\x80\x06"));
  CHECK_FALSE(LooksLikePickle("\x80"));
  CHECK_FALSE(LooksLikePickle("PK\x03\x04"));
}

}  // namespace onnxfit::pickle_reader_test
