#include <doctest/doctest.h>

#include "estimator/report/markup.h"

namespace onnxfit::csv_markdown_test {

TEST_CASE("CSV quotes what RFC 4180 wants quoted") {
  CHECK(CsvField("plain") == "plain");
  CHECK(CsvField("") == "");
  CHECK(CsvField("a,b") == "\"a,b\"");
  CHECK(CsvField("say \"so\"") == "\"say \"\"so\"\"\"");
  CHECK(CsvField("two\nlines") == "\"two\nlines\"");
  CHECK(CsvField("cr\r") == "\"cr\r\"");
  CHECK(CsvField(" a") == "\" a\"");
  CHECK(CsvField("a b") == "a b");
  CHECK(CsvLine({"a", "", "b,c"}) == "a,,\"b,c\"\n");
  CHECK(CsvLine({""}) == "\"\"\n");
}

TEST_CASE("text means itself in Markdown") {
  struct Row {
    const char* text;
    const char* markdown;
  };
  const Row rows[] = {
      {"plain text, 1.5 GiB", "plain text, 1.5 GiB"},
      {"optimizer_state", "optimizer_state"},
      {"_init_", "\\_init\\_"},
      {"*x* `y` <z> [w] a&b ~c \\d", "\\*x\\* \\`y\\` \\<z\\> \\[w\\] a\\&b \\~c \\\\d"},
      {"# no heading", "\\# no heading"},
      {"- no list", "\\- no list"},
      {"two\nlines", "two lines"},
      {"", ""}};
  for (const Row& row : rows) CHECK(MarkdownText(row.text) == row.markdown);
}

TEST_CASE("names are code, and cannot end it") {
  CHECK(MarkdownCode("/conv1/Conv_0*") == "`/conv1/Conv_0*`");
  CHECK(MarkdownCode("a`b*") == "a\\`b\\*");
  CHECK(MarkdownCode("a|b") == "a|b");
  CHECK(MarkdownCode("") == "");
  CHECK(MarkdownBlock("x\n") == "```text\nx\n```\n");
  CHECK(MarkdownBlock("x", "") == "```\nx\n```\n");
  CHECK(MarkdownBlock("a\n```\nb") == "````text\na\n```\nb\n````\n");
}

TEST_CASE("tables have a line a row, whatever is in their cells") {
  CHECK("\n" + MarkdownTable({"name", "bytes"}, "lr", {{"a|b", "1"}, {"two\nlines"}}) == R"(
| name | bytes |
| --- | ---: |
| a\|b | 1 |
| two lines | |
)");
  CHECK(MarkdownList({"a", "b\nc"}) == "- a\n- b c\n");
  CHECK(MarkdownList({}) == "");
}

}  // namespace onnxfit::csv_markdown_test
