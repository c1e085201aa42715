// A program on a card that is not there: what the card says to it, what it may take, what is told.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/run.h"
#include "estimator/base/nccl.h"
#include "tests/absent_runs.h"
#include "tests/temp_folder.h"

namespace onnxfit::program_run_test {
namespace {

using absent_runs::Answer;
using absent_runs::Printed;
using absent_runs::RunClient;
using absent_runs::UsedBy;
using absent_runs::UsedBytes;

// On a T4.
Answer RunShell(const std::string& line) {
  const std::vector<std::string> args = {"run", "-g", "t4", "--", "sh", "-c", line};
  std::ostringstream out;
  std::ostringstream err;
  const int code = Run(args, out, err);
  return {code, out.str(), err.str(), {}};
}

TEST_CASE("the card is what was asked for") {
  CHECK(Printed("name") == "Tesla T4, 7\n");
  CHECK(RunClient({"-g", "rtx3060"}, "take 1 name").program == "NVIDIA GeForce RTX 3060 12GB, 8\n");
}

TEST_CASE("memory is counted as the driver maps it") {
  // Small blocks share pages of 2 MiB, larger ones are rounded up to them.
  const int64_t one = UsedBytes("take 1 give");
  CHECK(UsedBytes("take 1 take 1000 take 1000000") == one);
  CHECK(UsedBytes("take 1 take 3000000") == one + (4 << 20));
  CHECK(UsedBytes("take 3000000 give take 3000000 give") == one + (2 << 20));
}

TEST_CASE("a full card is out of memory, in CUDA's words") {
  const Answer answer = RunClient({"-g", "t4", "-q"}, "take 10000000000 take 10000000000");
  CHECK(answer.program == "out of memory\n");
  CHECK(answer.code == 1);
  CHECK(answer.out.starts_with("OOM on t4: "));
  CHECK(RunClient({"-g", "t4"}, "take 20000000000").out.find("full: 18.6 GiB asked, and refused") !=
        std::string::npos);
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

TEST_CASE("a process that ends without its destructors holds nothing") {
  CHECK(UsedBytes("half take 9000000 leave; " ABSENT_CLIENT " take 9000000") ==
        UsedBytes("take 9000000"));
  // Nobody has waited for the first, which is there as a zombie.
  CHECK(UsedBytes("take 9000000 leave & sleep 0.1; " ABSENT_CLIENT " take 9000000") ==
        UsedBytes("take 9000000"));
}

TEST_CASE("more processes than there are places leave none behind") {
  const std::string many = "take 1; i=0; while [ $i -lt 600 ]; do /bin/true; i=$((i+1)); done; ";
  CHECK(Printed(many + ABSENT_CLIENT " take 9000000000 half take 9000000000") == "out of memory\n");
}

TEST_CASE("a card without room for a context is full") {
  const Answer answer = RunClient({"--memory", "1GiB", "-q"}, "take 800000000 half take 1");
  CHECK(answer.code == 1);
  CHECK(answer.out.starts_with("OOM"));
}

TEST_CASE("ranks have NCCL's buffers, and may have more") {
  const auto target = [](const std::string& words) {
    const Answer answer = RunClient({"-g", "t4", "-f", "json"}, words);
    return nlohmann::json::parse(answer.out)["targets"][0];
  };
  const auto alone = target("take 1 rank 0 1");
  const auto two = target("take 1 rank 0 2");
  const auto bytes = [](const auto& json, const char* name) {
    return json[name].template get<int64_t>();
  };
  CHECK(bytes(two, "used_bytes") - bytes(alone, "used_bytes") == NcclLeastBytes());
  CHECK(bytes(two, "high") - bytes(alone, "high") == NcclMuchBytes());
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

TEST_CASE("what ranks have told one another is not kept") {
  std::string many;
  for (int i = 0; i < 40; ++i) many += "reduce broadcast 0 ";
  const std::string ranks = fmt::format("rank 0 2 take 64 write 7 {} > /dev/null & " ABSENT_CLIENT
                                        " rank 1 2 take 64 write 8 {} > /dev/null; wait",
                                        many, many);
  const std::string left = Printed(ranks + "; ls $ONNXFIT_RUN | grep -c exchange-");
  CHECK(std::stoi(left) < 10);
}

TEST_CASE("NCCL says why it has no memory") {
  CHECK(Printed("take 15000000000 call ncclMemAlloc @p 9000000000 . text ncclGetLastError") ==
        "1\nCuda failure 2 'out of memory'\n");
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
  CHECK(answer.out.find("__cudaRegisterUnifiedTable") != std::string::npos);
}

TEST_CASE("several cards are asked one by one, or seen at once") {
  const Answer answer = RunClient({"--cards", "rtx3060,a100-40gb", "-q"}, "take 14000000000 name");
  CHECK(answer.code == 1);
  const size_t second = answer.out.find("FITS on a100-40gb: ");
  CHECK(answer.out.starts_with("OOM on rtx3060: "));
  CHECK(second != std::string::npos);
  // What each run prints is kept back, but for the shell's own file.
  CHECK(answer.program == "NVIDIA A100-SXM4-40GB, 8\n");
  const Answer same = RunClient({"-g", "rtx3060", "-g", "a100-40gb", "-q"}, "take 14000000000");
  CHECK(same.out == answer.out);
  // All of --devices are there at once, the same one as often as it says; the client has the first.
  CHECK(RunClient({"--devices", "2xt4", "-q"}, "count").program == "2\n");
  CHECK(UsedBy({"--devices", "2xt4"}, "take 3000000", 0) > (4 << 20));
  CHECK(UsedBy({"--devices", "2xt4"}, "take 3000000", 1) == 0);
}

TEST_CASE("what others have of a card is not there") {
  CHECK(RunClient({"-g", "t4", "--reserve", "10GiB", "-q"}, "take 6000000000").code == 1);
  CHECK(RunClient({"-g", "t4", "--reserve", "4GiB", "-q"}, "take 6000000000").code == 0);
  CHECK(RunClient({"--memory", "4GiB", "-q"}, "take 6000000000").code == 1);
}

TEST_CASE("without a card it runs on a large one, and nobody is told that it fits") {
  const Answer answer = RunClient({}, "take 1000000000 name");
  CHECK(answer.code == 0);
  CHECK(answer.program == "NVIDIA A100-SXM4-80GB, 8\n");
  CHECK(answer.out.find("GiB on the device\n") != std::string::npos);
  CHECK(answer.out.find("FITS") == std::string::npos);
  CHECK(answer.out.find("no card was named, so that it ran as on a100-80gb") != std::string::npos);
}

TEST_CASE("the largest batch is found by running it") {
  // A batch is a gigabyte: of a T4's 15.6 (decimal) 15 are left beside the context.
  const Answer answer =
      RunClient({"-g", "t4", "--max-batch", "1:64", "-f", "json"}, "take {}000000000");
  CAPTURE(answer.err);
  const auto found = nlohmann::json::parse(answer.out)["targets"][0];
  CHECK(found["max_batch"] == 15);
  CHECK(found["fails"] == 16);
  CHECK(found["limited"] == false);
  CHECK(found["run"]["targets"][0]["verdict"] == "fits");
  CHECK(answer.code == 0);
  std::vector<int64_t> tried;
  for (const auto& row : found["tried"]) tried.push_back(row["batch"]);
  CHECK(tried == std::vector<int64_t>{1, 2, 15, 16});
  // --multiple-of, and a limit that runs.
  const auto largest = [](const std::vector<std::string>& flags) {
    std::vector<std::string> args = {"-g", "t4", "-q"};
    args.insert(args.end(), flags.begin(), flags.end());
    return RunClient(args, "take {}000000000");
  };
  CHECK(largest({"--max-batch", "1:64", "--multiple-of", "4"}).out.starts_with("batch 12 on t4: "));
  CHECK(largest({"--max-batch", "3:5"}).out.starts_with("batch 5 on t4: FITS"));
  const Answer none = largest({"--max-batch", "20:64"});
  CHECK(none.out.starts_with("no batch on t4: 20 is OOM"));
  CHECK(none.code == 1);
}

// The largest batch that runs, the largest that fits, and how many runs that took.
struct Found {
  int64_t runs = 0;
  int64_t fits = 0;
  size_t tried = 0;
};

Found FindBatch(const std::string& range, const std::string& words) {
  const Answer answer = RunClient({"-g", "t4", "--max-batch", range, "-f", "json"}, words);
  CAPTURE(answer.err);
  const auto found = nlohmann::json::parse(answer.out)["targets"][0];
  return {found["max_batch"], found["max_batch_fits"], found["tried"].size()};
}

TEST_CASE("a search does not creep where a sample takes more or less than before") {
  struct Row {
    const char* bytes;  // of a batch of {}
    int64_t fits;       // by hand, of the 15,510 million bytes that a T4 has beside a context
  };
  const Row rows[] = {
      {"{}000000", 15510},
      {"$(({} * {}))000", 3938},  // the more there are, the more each takes
      {"$(({} < 1000 ? {} : 1000 + ({} - 1000) / 10))0000000", 6510},  // and the less
      {"$((({} / 256 + 1) * 256))0000000", 1535},                      // in steps
  };
  for (const Row& row : rows) {
    CAPTURE(row.bytes);
    const Found found = FindBatch("1:16384", std::string("take ") + row.bytes);
    CAPTURE(found.fits);
    CHECK(found.tried <= 16);         // log2 of the range, and two
    CHECK(found.runs >= found.fits);  // one that leaves no room for a larger context is TIGHT
    CHECK(std::abs(found.fits - row.fits) <= row.fits / 64);  // that is left open
  }
}

TEST_CASE("a search names the largest batch that fits, where a larger one runs") {
  // Refused from 16 on, and the program goes on.
  const std::string words = "take {}000000000 || true";
  const Found found = FindBatch("1:64", words);
  CHECK(found.runs == 64);
  CHECK(found.fits == 15);
  CHECK(found.tried <= 8);
  const Answer answer = RunClient({"-g", "t4", "--max-batch", "1:64", "-q"}, words);
  CHECK(answer.out.starts_with("batch 64 on t4: TIGHT, "));
  CHECK(answer.out.ends_with("; 15 FITS\n"));
  CHECK(RunClient({"-g", "t4", "--max-batch", "1:64", "-q", "--strict"}, words)
            .out.starts_with("batch 15 on t4: FITS"));
}

TEST_CASE("a search that cannot begin, or meets another failure, says so") {
  const auto error = [](const std::vector<std::string>& flags, const std::string& words) {
    std::vector<std::string> args = {"-g", "t4"};
    args.insert(args.end(), flags.begin(), flags.end());
    const Answer answer = RunClient(args, words);
    CHECK(answer.code == 2);
    return answer.err;
  };
  CHECK(
      error({"--max-batch", "8:16"}, "take 1") ==
      "error: --max-batch: expected {} in the program's words, where the batch stands, found none "
      "(try: onnxfit run --max-batch 8:512 -- python train.py --batch-size {})\n");
  CHECK(error({"--max-batch", "8"}, "take {}") ==
        "error: --max-batch: expected the least and the most, such as 8:512, found '8'\n");
  CHECK(error({"--max-batch", "9:15", "--multiple-of", "8"}, "take {}") ==
        "error: --multiple-of: expected a multiple of 8 from 9 to 15, found none\n");
  CHECK(error({"--max-batch", "8:16"}, "take {} exit 5")
            .find("error: batch 8: the program ended with 5, and not for want of memory") !=
        std::string::npos);
}

TEST_CASE("JSON has standard output for itself") {
  // The program's own words go beside it: here to the test's standard error.
  std::ostringstream out;
  std::ostringstream err;
  const std::vector<std::string> args = {"run", "-g",          "t4",   "-f", "json",
                                         "--",  ABSENT_CLIENT, "take", "1"};
  CHECK(Run(args, out, err) == 0);
  const auto json = nlohmann::json::parse(out.str());
  CHECK(json["basis"] == "run");
  CHECK(json["command"].size() == 3);
  CHECK(json["failed"] == false);
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
  CHECK(error({"run", "python", "a.py"}) ==
        "error: expected -- in front of the program, found 'python' (try: onnxfit run -g rtx3060 "
        "-- python a.py)\n");
  CHECK(error({"run", "-g", "t4", "--strict", "python", "a.py", "--batch-size", "8"}) ==
        "error: expected -- in front of the program, found 'python' (try: onnxfit run -g t4 "
        "--strict -- python a.py --batch-size 8)\n");
  CHECK(error({"run", "-g", "t4", "python", "--", "a.py"}) ==
        "error: expected flags alone in front of --, found 'python'\n");
  CHECK(error({"run", "--stps", "20", "python"})
            .starts_with("error: unknown flag '--stps' (did you mean '--steps'?)"));
  CHECK(error({"run", "--", "--steps", "20", "python"}) ==
        "error: expected a program behind --, found '--steps' (try: flags of onnxfit run in front "
        "of --)\n");
  CHECK(error({"run", "--devices", "17xt4", "--", "true"}) ==
        "error: --devices: expected at most 16 cards, found '17xt4'\n");
  CHECK(error({"run", "-g", "t4", "--devices", "2xt4", "--", "true"}) ==
        "error: --devices: expected without --gpu and --cards, which ask about one card each\n");
  CHECK(error({"run", "--devices", "2xt4", "--memory", "4GiB", "--memory", "8GiB", "--", "true"}) ==
        "error: --memory: expected one size beside --devices, found 2\n");
  CHECK(error({"run", "--multiple-of", "8", "--", "true"}) ==
        "error: --multiple-of: expected beside --max-batch, which is missing\n");
  CHECK(error({"run", "--cards", "t4,l4", "--snapshot", "a", "--", "true"}) ==
        "error: --snapshot: expected where the program runs once, found several cards or "
        "--max-batch\n");
  CHECK(error({"run", "--snapshot", "/", "--", "true"}) ==
        "error: /: --snapshot: expected a file, found a directory\n");
  CHECK(error({"run", "-f", "csv", "--", "true"}) ==
        "error: --format: expected text or json, found 'csv'\n");
  CHECK(error({"run", "-g", "t4", "--", "/nowhere"})
            .starts_with("error: /nowhere could not be started: No such file"));
}

// What is said of one that uses no card.
std::string ErrorOf(const std::string& line) {
  const Answer answer = RunShell(line);
  CHECK(answer.code == 2);
  CHECK(answer.out.empty());
  return answer.err;
}

TEST_CASE("a program that never uses CUDA is told why") {
  struct Row {
    std::string program;
    const char* error;
  };
  // As hook/record.py writes it, of a PyTorch that is built for …
  const std::string torch = R"(printf '{"pid": 7, "torch": "2.11.0", "steps": 0, "ranks": {},
    "devices": [], "step_peaks": [], "step_device": 0, "calls": 0, "refused": [], "unknown_reads": [], "end": {"by": null, "exception": null,
    "message": null, "out_of_memory": false}, "cuda": %s}' )";
  const std::string to_folder = R"( > "$ONNXFIT_RUN/7.torch.json")";
  const Row rows[] = {
      {"true", "it never used CUDA, and imported no PyTorch (try: a program that uses CUDA)"},
      {torch + "null" + to_folder,
       "its PyTorch 2.11.0 is built without CUDA (try: pip install torch, which needs neither a "
       "card nor a driver for this)"},
      {torch + "'\"13.0\"'" + to_folder,
       "it never used CUDA, though its PyTorch 2.11.0 could (try: its own flag for the device, "
       "such as --device cuda; model.cuda())"},
      {"exit 3",
       "it ended with 3 before it used CUDA (try: what it says itself: this is no question of "
       "memory)"},
      {"kill -TERM $$", "it was ended by signal 15 (Terminated) before it used CUDA"},
      // as shells tell of it
      {"sh -c 'kill -SEGV $$'; exit $?",
       "it was ended by signal 11 (Segmentation fault) before it used CUDA (try: the same without "
       "onnxfit run)"},
      {ABSENT_CLIENT " table > /dev/null",
       "NVIDIA's runtime is linked into absent_client (cudart_static) and finds no card here: its "
       "functions can only be led to the card where the file has its symbols (try: a build without "
       "strip (-s), or with nvcc --cudart shared)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.program);
    CHECK(ErrorOf(row.program) == fmt::format("error: sh: {}\n", row.error));
  }
}

TEST_CASE("a flag of ours among the program's words is told") {
  std::ostringstream out;
  std::ostringstream err;
  const std::vector<std::string> args = {"run", "-g",     "t4",   "--",     "sh",
                                         "-c",  "exit 2", "name", "--steps"};
  CHECK(Run(args, out, err) == 2);
  CHECK(
      err.str() ==
      "error: sh: it ended with 2 before it used CUDA, with --steps among its words (try: flags of "
      "onnxfit run in front of --)\n");
}

TEST_CASE("processes that do not overlap have one context between them") {
  const auto ends = [](const std::string& words) {
    const Answer answer = RunClient({"-g", "t4", "-f", "json"}, words);
    const auto target = nlohmann::json::parse(answer.out)["targets"][0];
    return std::pair(target["low"].get<int64_t>(), target["high"].get<int64_t>());
  };
  const auto one = ends("take 9000000");
  CHECK(ends("take 9000000; " ABSENT_CLIENT " take 9000000") == one);
  CHECK(ends("take 9000000; " ABSENT_CLIENT " take 9000000 leave") == one);
  // One that waits for another has its own beside it.
  const auto two = ends("take 9000000 half take 9000000");
  CHECK(two.second - two.first == 2 * (one.second - one.first));
}

TEST_CASE("without PyTorch who asked is told by the C stack") {
  const Answer answer = RunClient({"-g", "t4", "-f", "json"}, "take 9000000 give take 5000000");
  const auto json = nlohmann::json::parse(answer.out);
  CHECK(json["asked_bytes"] == 10 << 20);  // as the driver maps it
  REQUIRE(json["asked"].size() == 1);
  CHECK(json["asked"][0]["place"] == "absent_client");
  CHECK(json["asked"][0]["bytes"] == 10 << 20);
  CHECK(RunClient({"-g", "t4"}, "take 9000000").out.find("by who asked the card for it\n") !=
        std::string::npos);
}

TEST_CASE("what fails in Python's hooks is told") {
  // As hook/notes.py writes it.
  const Answer answer = RunShell(
      ABSENT_CLIENT
      " take 1; printf 'saves\\nTraceback:\\n  a.py\\nKeyError: 1\\n\\nvalues\\nT\\n\\n' > "
      "$ONNXFIT_RUN/7.hook.txt");
  CHECK(answer.out.find("the program\n    went on: saves: KeyError: 1 (and 1 more)\n") !=
        std::string::npos);
}

TEST_CASE("want of memory in a framework's own pool is an answer, read or not") {
  // As hook/pools.py writes it.
  const std::string record = ABSENT_CLIENT R"( take 1; printf '{"framework": "JAX", "version": "1",
    "pid": 7, "in_advance": "", "more": "", "exception": "", "open": [],
    "devices": [{"index": 0, "used_bytes": 1, "pool_bytes": null, "limit_bytes": null,
                 "is_peak": true}],
    "out_of_memory": %s, "failed": "%s"}' )";
  const std::string end = " > $ONNXFIT_RUN/7.JAX.pool.json; exit ";
  CHECK(RunShell(record + "false ''" + end + "0").out.starts_with("FITS"));
  CHECK(RunShell(record + "false 'full'" + end + "0").out.starts_with("OOM"));
  CHECK(RunShell(record + "true ''" + end + "1").out.starts_with("OOM"));
  CHECK(RunShell(record + "true ''" + end + "0").out.starts_with("FITS"));  // it caught it
  CHECK(RunShell(record + "false ''" + end + "1").out.starts_with("FAILED"));
}

TEST_CASE("the driver's files are those of the run's cards") {
  const TempFolder folder;
  const std::string file = folder.Path("printed");
  RunShell(ABSENT_CLIENT " take 1; for f in 0 1 ctl; do test -c /dev/nvidia$f && echo $f; done > " +
           file);
  std::ifstream printed(file);
  CHECK(std::string{std::istreambuf_iterator<char>(printed), {}} == "0\nctl\n");
}

TEST_CASE("a card that the user hides is told of") {
  setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
  const std::string hidden = ErrorOf("true");
  unsetenv("CUDA_VISIBLE_DEVICES");
  CHECK(hidden ==
        "error: sh: it never used CUDA, since CUDA_VISIBLE_DEVICES=-1 hides the card (try: unset "
        "CUDA_VISIBLE_DEVICES)\n");
}

TEST_CASE("what a program leaves running does not outlive the run") {
  const TempFolder folder;
  const std::string file = folder.Path("pid");
  // A grandchild, whose parent has ended, and one that does not listen.
  for (const char* deaf : {"", "trap '' TERM; "}) {
    CAPTURE(deaf);
    const Answer answer = RunShell(
        fmt::format("{} take 1; ({}(sleep 300) & echo $! > {}) & wait", ABSENT_CLIENT, deaf, file));
    CHECK(answer.code == 0);
    CHECK(answer.err == "1 process that the program left running was ended: sleep\n");
    pid_t pid = 0;
    std::ifstream(file) >> pid;
    REQUIRE(pid > 0);
    CHECK(kill(pid, 0) != 0);
  }
}

TEST_CASE("a server that waits for requests is ended, and the answer says so") {
  const Answer answer = RunClient({"-g", "t4", "--idle-seconds", "1"}, "take 9000000 listen");
  CHECK(answer.code == 0);
  CHECK(answer.out.starts_with("FITS on t4"));
  CHECK(answer.out.find("  - it waited at port ") != std::string::npos);
  CHECK(answer.out.find("was ended after 1 second of that") != std::string::npos);
}

TEST_CASE("a program that listens and is no server that waits is not ended") {
  // One that works, one that has a connection, and one that the user wants to wait.
  for (const char* before : {"(while :; do :; done) & ", ""}) {
    for (const char* word : {"listen", "visited"}) {
      const bool is_idle_server = *before == '\0' && std::string(word) == "listen";
      const std::string never = is_idle_server ? "0" : "1";
      CAPTURE(before);
      CAPTURE(word);
      const Answer answer =
          RunClient({"-g", "t4", "--idle-seconds", never},
                    fmt::format("take 9000000 {} & sleep 4; kill $! $(jobs -p) #", word), before);
      CHECK(answer.out.find("it waited at port") == std::string::npos);
    }
  }
}

TEST_CASE("a program that sets PYTHONPATH keeps what the run puts into Python") {
  const TempFolder folder;
  const std::string file = folder.Path("printed");
  for (const char* set : {"PYTHONPATH=mine", "unset PYTHONPATH;", ""}) {
    CAPTURE(set);
    RunShell(fmt::format("{} printenv PYTHONPATH > {}", set, file));
    std::string path;
    std::getline(std::ifstream(file), path);
    const size_t hooks = path.find("/hook");
    CHECK(hooks != std::string::npos);
    CHECK(path.find("/hook", hooks + 1) == std::string::npos);
    CHECK(path.ends_with(":mine") == (std::string(set) == "PYTHONPATH=mine"));
  }
}

TEST_CASE("who ends the run ends the program") {
  // Its parent is this process, which hears the signal in its place.
  const std::string said = ErrorOf("trap 'exit 7' TERM; kill -TERM $PPID; sleep 300 & wait");
  CHECK(said.find("it ended with 7 before it used CUDA") != std::string::npos);
}

// The present folder and the temporary one are others as long as it lives.
class Elsewhere {
 public:
  explicit Elsewhere(const std::string& folder, const std::string& temporary = "")
      : was_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
    if (const char* const set = std::getenv("TMPDIR")) temporary_ = set;
    if (!temporary.empty()) setenv("TMPDIR", temporary.c_str(), 1);
  }
  ~Elsewhere() {
    std::filesystem::current_path(was_);
    temporary_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", temporary_.c_str(), 1);
  }
  Elsewhere(const Elsewhere&) = delete;
  Elsewhere& operator=(const Elsewhere&) = delete;

 private:
  std::filesystem::path was_;
  std::string temporary_;
};

std::string ContentsOf(const std::string& file) {
  std::ifstream read(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(read), {}};
}

TEST_CASE("the user's files stay, and what was kept apart is named, whoever wrote it") {
  const TempFolder folder;
  folder.Write("model.pt", "real");
  const Elsewhere elsewhere(folder.Path(""));
  const Answer answer = RunShell(
      fmt::format("{} take 1; echo 0 > model.pt; cp model.pt new; mkdir -p .git; echo 0 > .git/a",
                  ABSENT_CLIENT));
  CHECK(ContentsOf(folder.Path("model.pt")) == "real");
  CHECK_FALSE(std::filesystem::exists(folder.Path("new")));
  CHECK_FALSE(std::filesystem::exists(folder.Path(".git")));
  CHECK(answer.out.find("kept apart from your files, and gone: model.pt and 2 others\n") !=
        std::string::npos);
}

TEST_CASE("a temporary folder that no variable can name is not taken") {
  for (const char* name : {"with blank", "with:colon"}) {
    CAPTURE(name);
    const TempFolder folder;
    const TempFolder other;  // which is no user's
    const std::string printed = other.Path("printed");
    std::filesystem::create_directory(folder.Path(name));
    const Elsewhere elsewhere(folder.Path(""), folder.Path(name));
    RunShell(fmt::format("{} name > {}", ABSENT_CLIENT, printed));
    CHECK(ContentsOf(printed) == "Tesla T4, 7\n");
    CHECK(std::filesystem::is_empty(folder.Path(name)));
  }
}

TEST_CASE("folders of runs that were killed go with the next run, and no others") {
  const TempFolder folder;
  const auto make = [&](const std::string& name) {
    std::filesystem::create_directory(folder.Path(name));
    return folder.Write(name + "/owner", "");
  };
  make("onnxfit-run-killed");
  make("onnxfit-runs");                                               // not its name
  std::filesystem::create_directory(folder.Path("onnxfit-run-new"));  // not locked yet
  const int lock = open(make("onnxfit-run-other").c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(flock(lock, LOCK_EX) == 0);
  make("onnxfit-run-left");  // its program runs on
  const std::string left = fmt::format("ONNXFIT_RUN={} sh -c 'touch {}; cat'",
                                       folder.Path("onnxfit-run-left"), folder.Path("started"));
  FILE* const program = popen(left.c_str(), "w");
  while (!std::filesystem::exists(folder.Path("started"))) usleep(1000);
  {
    const Elsewhere elsewhere(folder.Path(""), folder.Path(""));
    CHECK(Printed("name") == "Tesla T4, 7\n");
  }
  CHECK_FALSE(std::filesystem::exists(folder.Path("onnxfit-run-killed")));
  for (const char* name :
       {"onnxfit-runs", "onnxfit-run-new", "onnxfit-run-other", "onnxfit-run-left"}) {
    CAPTURE(name);
    CHECK(std::filesystem::exists(folder.Path(name)));
  }
  pclose(program);
  close(lock);
}

TEST_CASE("a program that fails for another reason gives no answer") {
  const Answer answer = RunClient({"-g", "t4"}, "take 1 exit 5");
  CHECK(answer.code == 2);
  CHECK(answer.out.starts_with("FAILED on t4: until then "));
  CHECK(answer.out.find("the program ended with 5") != std::string::npos);
  const Answer json = RunClient({"-g", "t4", "-f", "json"}, "take 1 exit 5");
  CHECK(nlohmann::json::parse(json.out)["failed"] == true);
  CHECK_FALSE(nlohmann::json::parse(json.out)["targets"][0].contains("verdict"));
}

}  // namespace
}  // namespace onnxfit::program_run_test
