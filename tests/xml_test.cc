#include <doctest/doctest.h>

#include <string_view>

#include "estimator/report/markup.h"

namespace onnxfit::xml_test {
namespace {

using namespace std::string_view_literals;

TEST_CASE("text means itself in XML") {
  struct Row {
    std::string_view text;
    std::string_view xml;
  };
  const Row rows[] = {
      {"", ""},
      {"plain \xC3\xBC", "plain \xC3\xBC"},
      {"a<b> & \"c\" 'd'", "a&lt;b&gt; &amp; &quot;c&quot; 'd'"},
      {"]]>&amp;", "]]&gt;&amp;amp;"},
      {"two\nlines\n", "two\nlines\n"},
      {"\0\033\x7F\t"sv, "????"},
      {"\xFF\xC0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xEF\xBF\xBE\xEF\xBF\xBF", "\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xEF\xBF\xBD\xF0\x9F\x98\x80", "\xEF\xBF\xBD\xF0\x9F\x98\x80"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(XmlText(row.text) == row.xml);
  }
  CHECK(XmlAttribute("two\nlines \"<\n") == "two lines &quot;&lt; ");
}

}  // namespace
}  // namespace onnxfit::xml_test
