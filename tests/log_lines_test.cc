#include "estimator/oom/log_lines.h"

#include <doctest/doctest.h>

namespace onnxfit::log_lines_test {
namespace {

TEST_CASE("prefixes of launchers and terminals come off") {
  struct Row {
    const char* line;
    const char* process;
    const char* text;
  };
  const Row rows[] = {
      {"RuntimeError: CUDA", "", "RuntimeError: CUDA"},
      {"[rank0]: RuntimeError", "rank0", "RuntimeError"},
      {"\033[31m[rank12]:\033[0m RuntimeError", "rank12", "RuntimeError"},
      {"[default3]:[rank3]: Traceback", "default3", "Traceback"},
      {"[rank: 1] Seed set to 1", "rank: 1", "Seed set to 1"},
      {"[1,0]<stderr>:oops", "1,0", "oops"},
      {"(train_fn pid=17, ip=10.0.0.3) oops", "train_fn pid=17, ip=10.0.0.3", "oops"},
      {"(pid=17) oops", "pid=17", "oops"},
      {"3: oops", "3", "oops"},
      {"trainer-1  | oops", "trainer-1", "oops"},
      {"> > oops", "", "oops"},
      {"2024-05-01T12:00:00.1234567Z [rank1]: oops", "rank1", "oops"},
      {"2024-05-01 12:00:00,123 - ERROR - oops", "", "- ERROR - oops"},
      {"[rank]: oops", "", "[rank]: oops"},
      {"[rank0", "", "[rank0"},
      {" 45%|### | 3/7", "", "45%|### | 3/7"},
      {"", "", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.line);
    const LogLine line = ReadLogLine(row.line);
    CHECK(line.process == row.process);
    CHECK(line.text == row.text);
  }
}

// All letters, as a sentence.
std::string Read(std::string_view log, std::string_view place) {
  const Letters letters = ReadLetters(log, log.find(place), 1000);
  return letters.process + "|" + letters.Sentence(0, letters.place, 1000) + "|" +
         letters.Sentence(letters.place, letters.lower.size(), 1000);
}

TEST_CASE("the lines of a process are read as one text, those of others left out") {
  CHECK(Read("a b\nc", "b") == "|a|b c");
  CHECK(Read("[rank0]: CUDA out\n[rank1]: other\n[rank0]: of\n[rank1]: more\n", "out") ==
        "rank0|CUDA|out of");
  CHECK(Read("[rank1]: before\n[rank0]: mine\n[rank0]: CUDA\n", "CUDA") == "rank0|mine|CUDA");
  // A terminal broke the line after the launcher had put its prefix there.
  CHECK(Read("[rank0]: CUDA out\nof memory\n[rank1]: x\ny\n", "out") == "rank0|CUDA|out of memory");
  CHECK(Read("\033[1mout\033[0m of\r\nmem\r\nory", "out") == "||out of mem ory");
  CHECK(Read(std::string(700, 'x') + "\n2\n3\n4\n5", "5").ends_with("xxx 2 3 4|5"));
  CHECK(Read("far\n" + std::string(700, 'x') + "\n5", "5").starts_with("|xxx"));
}

TEST_CASE("letters keep their places and their spelling") {
  const std::string_view log = "x: Out\n of";
  const Letters letters = ReadLetters(log, log.find("Out"), 1000);
  CHECK(letters.lower == "x:outof");
  CHECK(letters.written == "x:Outof");
  CHECK(letters.place == 2);
  CHECK(log[letters.at[5]] == 'o');
  CHECK(ReadLetters(log, log.find("ut"), 9).Sentence(0, 7, 9) == "x: Out of");
  CHECK(ReadLetters(log, log.find("Out"), 2).lower == "x:ou");
  CHECK(letters.Sentence(2, 7, 3) == "Out");
}

}  // namespace
}  // namespace onnxfit::log_lines_test
