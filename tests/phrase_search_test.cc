#include <doctest/doctest.h>

#include <string>

#include "estimator/oom/log_lines.h"

namespace onnxfit::phrase_search_test {
namespace {

constexpr std::string_view kPhrases[] = {"outofmemory", "memoryfull", "oom"};

// What stands before the end of each find, one after the other.
std::string Found(const std::string& text) {
  const PhraseSearch search(kPhrases);
  std::string found;
  size_t from = 0;
  while (const auto end = search.FindEnd(text, from)) {
    found.append("<").append(text, from, *end - from).append(">");
    from = *end;
  }
  return found;
}

TEST_CASE("phrases are found whatever stands between their letters") {
  CHECK(Found("out of memory") == "<out of memory>");
  CHECK(Found("CUDA Out\nof mem\r\nory.") == "<CUDA Out\nof mem\r\nory>");
  CHECK(Found("\033[31mout\033[0m of memory") == "<\033[31mout\033[0m of memory>");
  CHECK(Found("out of order, out of memory") == "<out of order, out of memory>");
  CHECK(Found("OOOM oom") == "<OOOM>< oom>");
  CHECK(Found("out of memor") == "");
  CHECK(Found("") == "");
}

TEST_CASE("a phrase that fails goes on as another one") {
  CHECK(Found("outofmemoryfull") == "<outofmemory>");
  CHECK(Found("out of memo, memory full") == "<out of memo, memory full>");
}

TEST_CASE("an escape at the end of a text ends it") {
  CHECK(Found("oo\033") == "");
  CHECK(Found("oo\033[31") == "");
  CHECK(SkipEscape("\033[1;31mx", 0) == 7);
  CHECK(SkipEscape("\033(Bx", 0) == 2);
}

}  // namespace
}  // namespace onnxfit::phrase_search_test
