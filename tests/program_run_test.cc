// A program on a card that is not there: what the card says to it, what it may take, what is told.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/run.h"
#include "tests/temp_folder.h"

namespace onnxfit::program_run_test {
namespace {

struct Answer {
  int code = 0;
  std::string out;
  std::string err;
  std::string program;  // what it printed
};

// `words` for the client, below a shell that keeps what it prints.
Answer RunClient(const std::vector<std::string>& flags, const std::string& words) {
  const TempFolder folder;
  const std::string file = folder.Path("printed");
  std::vector<std::string> args = {"run"};
  args.insert(args.end(), flags.begin(), flags.end());
  args.insert(args.end(),
              {"--", "sh", "-c", fmt::format("{} {} > {}", ABSENT_CLIENT, words, file)});
  std::ostringstream out;
  std::ostringstream err;
  const int code = Run(args, out, err);
  std::ifstream printed(file);
  return {code, out.str(), err.str(), {std::istreambuf_iterator<char>(printed), {}}};
}

std::string Printed(const std::string& words) { return RunClient({"-g", "t4"}, words).program; }

TEST_CASE("the card is what was asked for") {
  CHECK(Printed("name") == "Tesla T4, 7\n");
  CHECK(RunClient({"-g", "rtx3060"}, "take 1 name").program == "NVIDIA GeForce RTX 3060, 8\n");
}

TEST_CASE("memory is counted as the driver maps it") {
  // Small blocks share pages of 2 MiB, larger ones are rounded up to them.
  const Answer empty = RunClient({"-g", "t4", "-f", "json"}, "take 1 give");
  const auto peak = [](const std::string& words) {
    const Answer answer = RunClient({"-g", "t4", "-f", "json"}, words);
    CAPTURE(answer.err);
    return nlohmann::json::parse(answer.out)["targets"][0]["used_bytes"].get<int64_t>();
  };
  const int64_t one = peak("take 1 give");
  CHECK(peak("take 1 take 1000 take 1000000") == one);
  CHECK(peak("take 1 take 3000000") == one + (4 << 20));
  CHECK(peak("take 3000000 give take 3000000 give") == one + (2 << 20));
}

TEST_CASE("a full card is out of memory, in CUDA's words") {
  const Answer answer = RunClient({"-g", "t4", "-q"}, "take 10000000000 take 10000000000");
  CHECK(answer.program == "out of memory\n");
  CHECK(answer.code == 1);
  CHECK(answer.out.starts_with("OOM on t4: "));
  // The same, lived through.
  const Answer lived = RunClient({"-g", "t4", "-q"}, "take 10000000000 give take 12000000000");
  CHECK(lived.code == 0);
  CHECK(lived.out.starts_with("FITS on t4: "));
}

TEST_CASE("processes share a card, and give back what they held") {
  CHECK(Printed("take 9000000000 half take 9000000000") == "out of memory\n");
  CHECK(RunClient({"-g", "t4"}, "half take 9000000000; " ABSENT_CLIENT " take 9000000000").code ==
        0);
}

TEST_CASE("what the host wrote is there until a kernel may have written") {
  CHECK(Printed("take 4096 write 7 read") == "7\n");
  CHECK(Printed("take 4096 write 7 launch read") == "0\n");
  CHECK(Printed("take 4096 write 7 give take 4096 read") == "0\n");
}

TEST_CASE("whether bytes are known is told to who computes small values") {
  CHECK(Printed("take 4096 write 0 peek") == "4\n");  // zeros of the host's are values
  CHECK(Printed("take 4096 peek") == "0\n");
  CHECK(Printed("take 4096 write 7 launch peek") == "0\n");
}

TEST_CASE("what the driver does not have is written down by its name") {
  const std::string missing = "; grep -h ^missing $ONNXFIT_RUN/*.events";
  CHECK(Printed("take 1 entry cuNoSuchFunction" + missing) == "missing cuNoSuchFunction\n");
  CHECK(Printed("take 1 entry ''" + missing) == "");
}

TEST_CASE("ranks tell one another the small values that they know") {
  // The first rank runs beside the second, whose output is what is kept.
  const auto second = [](const std::string& first, const std::string& words) {
    const std::string begin = "rank {} 2 take 4096 write {} ";
    return Printed(fmt::format(fmt::runtime(begin), 0, 7) + first +
                   " > /dev/null & " ABSENT_CLIENT " " + fmt::format(fmt::runtime(begin), 1, 30) +
                   words);
  };
  CHECK(second("gather", "gather") == "7 30 \n");
  CHECK(second("reduce", "reduce") == "37 \n");
  CHECK(second("broadcast 0", "broadcast 0") == "7 \n");
  CHECK(second("broadcast 1", "broadcast 1") == "30 \n");
  CHECK(second("pass 1 1", "pass 0 0") == "7 \n");
  // What the other does not know, one's own stands for.
  CHECK(second("launch gather", "gather") == "30 30 \n");
}

TEST_CASE("what another process shares is memory of the card, of which nothing is known") {
  CHECK(Printed("take 4096 write 7 share read peek") == "0\n0\n");
  CHECK(Printed("take 4096 share write 9 read") == "9\n");
}

TEST_CASE("NVML tells of the process what the card counts") {
  const std::string printed = Printed("take 3000000 nvml");
  CHECK(std::stoll(printed) > (4 << 20));
}

TEST_CASE("a function that is not there is named") {
  const Answer answer = RunClient({"-g", "t4"}, "take 1 unknown");
  CHECK(answer.program == "801\n");
  CHECK(answer.out.find("cuGLInit") != std::string::npos);
}

TEST_CASE("what is no run is said") {
  const auto error = [](const std::vector<std::string>& args) {
    std::ostringstream out;
    std::ostringstream err;
    CHECK(Run(args, out, err) == 2);
    return err.str();
  };
  CHECK(error({"run", "-g", "t4"}) ==
        "error: expected a program behind --, found none (try: onnxfit run -g rtx3060 -- python "
        "train.py)\n");
  CHECK(
      error({"run", "-g", "t4", "python", "a.py"}) ==
      "error: expected -- in front of the program, found 'python' (try: onnxfit run -g rtx3060 -- "
      "python a.py)\n");
  CHECK(error({"run", "--", "true"}) ==
        "error: expected a card (try: -g rtx3060; onnxfit gpus lists them)\n");
  CHECK(error({"run", "-g", "t4", "--", "true"})
            .starts_with("error: true: it ended with 0 and never used CUDA"));
  CHECK(error({"run", "-g", "t4", "--", "/nowhere"})
            .starts_with("error: /nowhere could not be started: No such file"));
}

TEST_CASE("a program that fails for another reason gives no answer") {
  CHECK(RunClient({"-g", "t4"}, "take 1 exit 5").code == 2);
}

}  // namespace
}  // namespace onnxfit::program_run_test
