// `onnxfit explain-oom` and `onnxfit diff` of memory snapshots that PyTorch 2.11 wrote
// (make_snapshots.py), beside the network that their runs trained.
#include <doctest/doctest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/pt2/zip_archive.h"
#include "estimator/report/layout.h"
#include "tests/files.h"
#include "tests/paths.h"
#include "tests/run_command.h"
#include "tests/working_folder.h"

namespace onnxfit::snapshots_test {
namespace {

// A working folder with all of data/snapshots.zip.
struct Snapshots {
  Snapshots() {
    const std::filesystem::path data = std::filesystem::path(kSourceDir) / "tests/data";
    const std::string bytes = ContentsOf(data / "snapshots.zip");
    const pt2::ZipArchive archive(bytes);
    for (const auto& member : archive.members()) {
      folder.Write(std::string(member.name), archive.Read(member));
    }
  }
  WorkingFolder folder;
};

CommandResult Diff(const std::string& run, std::vector<std::string> args = {},
                   const std::string& model = "net.pt2") {
  args.insert(args.begin(), {"diff", run + ".pickle", model, "-b", "32"});
  return RunCommand(args);
}

// Lines of CSV whose list is "kept".
std::string KeptRows(const std::string& run, std::vector<std::string> args = {},
                     const std::string& model = "net.pt2") {
  args.insert(args.end(), {"-f", "csv"});
  const CommandResult result = Diff(run, args, model);
  CHECK(result.err == "");
  std::istringstream lines(result.out);
  std::string kept = "\n";
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("kept,")) kept += line.substr(5) + "\n";
    CHECK_FALSE(line.starts_with("missing,"));
  }
  return kept;
}

size_t Widest(const std::string& text) {
  std::istringstream lines(text);
  size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, Columns(line));
  return widest;
}

}  // namespace

TEST_CASE("a run without a leak keeps what is predicted, to the byte") {
  const Snapshots snapshots;
  for (const char* model : {"net.pt2", "net.onnx"}) {
    CAPTURE(model);
    CHECK(KeptRows("plain", {}, model) == "\n");
    // Taken between two steps, without a history.
    CHECK(KeptRows("no_history", {}, model) == "\n");
    // Two batches a step: turns of the inner loop.
    CHECK(KeptRows("accumulated", {"--accumulate", "2"}, model) == "\n");
  }
  const std::string json = Diff("plain", {"-f", "json"}).out;
  CHECK(json.find("\"peak_bytes\": 68734348,") != std::string::npos);
  CHECK(json.find("\"predicted_peak_bytes\": 68734348,") != std::string::npos);
  CHECK(json.find("\"kept_bytes\": 0,") != std::string::npos);
  CHECK(json.find("\"missing_bytes\": 0,") != std::string::npos);
  CHECK(json.find("\"growth_bytes\": 0,") != std::string::npos);
}

// where,count,bytes,growing_bytes,growing_turns,kind
TEST_CASE("each leak is named by its line, with all of its bytes") {
  const Snapshots snapshots;
  for (const char* model : {"net.pt2", "net.onnx"}) {
    CAPTURE(model);
    // losses.append(loss): a number each turn, and the last one is predicted, too.
    CHECK(KeptRows("kept_loss", {}, model) == "\nmake_snapshots.py:71 (train),3,12,12,3,\n");
    // scores.append(softmax(out)): float[32, 1000]; the last turn's has not been seen to stay.
    CHECK(KeptRows("kept_scores", {}, model) ==
          "\nmake_snapshots.py:107 (kept_scores),4,512000,384000,3,\n");
    // The same, of which the first turns are not in the history.
    CHECK(KeptRows("short_history", {}, model)
              .starts_with("\nmake_snapshots.py:107 (kept_scores) < :"));
    CHECK(KeptRows("short_history", {}, model).ends_with(",4,512000,0,0,\n"));
    // outputs.append(model(x)) without gradients.
    CHECK(KeptRows("kept_in_inference", {"--mode", "eval"}, model) ==
          "\nmake_snapshots.py:54 (forward) < :121,3,384000,384000,3,\n");
    // A hook's list of what one layer makes: of the same size as what its statement makes else.
    CHECK(KeptRows("kept_by_hook", {}, model) ==
          "\nmake_snapshots.py:40 (forward) < :53 < :71,4,4194304,3145728,3,\n");
    // outputs.append(model(x)), of which a history that begins late has no lines of two.
    CHECK(KeptRows("late_history", {}, model) ==
          "\nmake_snapshots.py:54 (forward) < :152,4,512000,384000,3,\n"
          "before the history,2,256000,0,0,\n");
  }
}

// total = total + loss: each turn keeps the graph of a forward, 33.2 MiB.
constexpr char kGraph[] = R"(
make_snapshots.py:40 (forward) < :53 < :96,33,59867136,59867136,3,
make_snapshots.py:38 (forward) < :53 < :96,24,25264128,25264128,3,
make_snapshots.py:39 (forward) < :53 < :96,18,15728640,15728640,3,
make_snapshots.py:51 (forward) < :96,3,3145728,3145728,3,
make_snapshots.py:96 (kept_graph),)";

TEST_CASE("a graph that each turn keeps, at the peak and where the card is full") {
  const Snapshots snapshots;
  for (const char* model : {"net.pt2", "net.onnx"}) {
    for (const char* run : {"kept_graph", "full_card"}) {
      CAPTURE(model);
      CAPTURE(run);
      CHECK(KeptRows(run, {}, model).starts_with(kGraph));
    }
  }
  const std::string text = Diff("full_card").out;
  CHECK(text.starts_with("kept 99.6 MiB that is not predicted, of 131.9 MiB in tensors\n"));
  CHECK(text.find("net.pt2 is most like it in step 2, forward, at linear_1") != std::string::npos);
}

TEST_CASE("the page of diff") {
  const Snapshots snapshots;
  CHECK(Diff("kept_scores").out == R"(kept 500.0 KiB that is not predicted, of 66.0 MiB in tensors
kept_scores.pickle at its peak, in turn 4 of 4 of the loop at
make_snapshots.py:104 (kept_scores)
net.pt2 is most like it in step 2, backward, at linear_7: 65.6 MiB, its peak
grows by 125.0 KiB a turn: 3 turns leave 375.0 KiB behind, all asked for in
make_snapshots.py:107 (kept_scores)

kept, and not predicted              count      bytes  grows
make_snapshots.py:107 (kept_scores)      4  500.0 KiB  in 3 of 4 turns

a list that every turn adds to keeps its tensors on the card, with the graph
that made them: add loss.item(), or out.detach().cpu()
)");
  CHECK(Diff("plain").out == R"(kept what is predicted: 65.6 MiB in tensors
plain.pickle at its peak, in turn 2 of 4 of the loop at make_snapshots.py:69
(train)
net.pt2 is most like it in step 2, backward, at linear_7: 65.6 MiB, its peak
)");
}

TEST_CASE("the program of README.md") {
  const std::string folder = std::string(kSourceDir) + "/tests/data/leak/";
  const CommandResult result = RunCommand(
      {"diff", folder + "snapshot.pickle", folder + "net.pt2", "-b", "256", "-f", "csv"});
  CHECK(result.out.ends_with("\nkept,train.py:27 (train),4,4096000,3072000,3,\n"));
  const std::string line = "scores.append(logits.softmax(-1))";
  std::istringstream lines(ContentsOf(folder + "train.py"));
  std::string text;
  for (int i = 0; i < 27; ++i) std::getline(lines, text);
  CHECK(text.find(line) != std::string::npos);
}

TEST_CASE("another batch than the run's shows on both sides") {
  const Snapshots snapshots;
  const CommandResult result = RunCommand({"diff", "plain.pickle", "net.pt2", "-b", "16"});
  CHECK(result.code == 0);
  CHECK(result.out.find("\nkept, and not predicted ") != std::string::npos);
  CHECK(result.out.find("\npredicted, and not kept ") != std::string::npos);
  CHECK(result.out.find("(-n ") != std::string::npos);
  CHECK(result.out.find("is not in the run: is it of this batch, precision\n") !=
        std::string::npos);
  CHECK(Widest(result.out) <= 80);
}

TEST_CASE("--fail-above is of what the prediction has") {
  const Snapshots snapshots;
  const CommandResult fails = Diff("kept_scores", {"--fail-above", "100KiB"});
  CHECK(fails.code == 1);
  CHECK(fails.out.starts_with(
      "FAIL: kept 500.0 KiB that is not predicted, of 66.0 MiB in tensors, 100KiB\n"));
  CHECK(Diff("kept_scores", {"--fail-above", "1%"}).code == 0);
  CHECK(Diff("kept_scores", {"--fail-above", "0.7%"}).code == 1);
  CHECK(Diff("kept_scores", {"--fail-above", "0.7%", "--exit-zero"}).code == 0);
  CHECK(Diff("plain", {"--fail-above", "0"}).code == 0);
  CHECK(Diff("kept_scores", {"--fail-above", "0", "-f", "json"})
            .out.find("\"kept_too_much\": true") != std::string::npos);
}

TEST_CASE("explain-oom tells of a snapshot alone") {
  const Snapshots snapshots;
  const CommandResult result = RunCommand({"explain-oom", "full_card.pickle", "-n", "4"});
  CHECK(result.code == 0);
  CHECK(result.out ==
        R"(OOM: 1.00 MiB asked by make_snapshots.py:39 (forward) < :53 < :93; 131.9 MiB in
tensors, 150.0 MiB reserved
full_card.pickle when the card was full, in turn 4 of 4 of the loop at
make_snapshots.py:91 (kept_graph)
18.1 MiB of what is reserved holds no tensor: rounding, and pieces too small
grows by 33.2 MiB a turn: 3 turns leave 99.6 MiB behind, 99.6 MiB of it asked
for in make_snapshots.py:96 (kept_graph)

in tensors                                  count     bytes  grows
make_snapshots.py:40 (forward) < :53 < :96     33  57.1 MiB  in 3 of 4 turns
make_snapshots.py:38 (forward) < :53 < :96     24  24.1 MiB  in 3 of 4 turns
make_snapshots.py:39 (forward) < :53 < :96     18  15.0 MiB  in 3 of 4 turns
make_snapshots.py:38 (forward) < :53 < :93      6  13.1 MiB
and 11 more (-n 15 shows all)

a list that every turn adds to keeps its tensors on the card, with the graph
that made them: add loss.item(), or out.detach().cpu()
)");
  // Growth that is no large part of what lives has a list of its own.
  const std::string small = RunCommand({"explain-oom", "kept_loss.pickle", "-n", "3"}).out;
  CHECK(small.find("\nleft behind, turn by turn   ") != std::string::npos);
  CHECK(small.find("\nin tensors   ") != std::string::npos);
}

TEST_CASE("explain-oom beside a model tells what was kept, too") {
  const Snapshots snapshots;
  const CommandResult result =
      RunCommand({"explain-oom", "full_card.pickle", "--model", "net.pt2", "-b", "32", "-v"});
  CHECK(result.code == 0);
  CHECK(result.out.starts_with("OOM: "));
  CHECK(result.out.find("\nkept 99.6 MiB that is not predicted, of 131.9 MiB in tensors\n") !=
        std::string::npos);
  // With -v who called whom.
  CHECK(result.out.find("\n  make_snapshots.py:40 in forward\n    make_snapshots.py:53 in forward\n"
                        "    make_snapshots.py:96 in kept_graph\n") != std::string::npos);
  CHECK(Widest(result.out) <= 80);
}

TEST_CASE("frames of C++ tell what autograd asked for") {
  const Snapshots snapshots;
  const std::string all = RunCommand({"explain-oom", "plain.pickle", "-f", "csv"}).out;
  CHECK(all.find("\nlive,backward,") != std::string::npos);
  const std::string python = RunCommand({"explain-oom", "kept_loss.pickle", "-f", "csv"}).out;
  CHECK(python.find("\nlive,no line of Python (backward?),") != std::string::npos);
}

TEST_CASE("without a history it says how to record one") {
  const Snapshots snapshots;
  const CommandResult result = RunCommand({"explain-oom", "no_history.pickle"});
  CHECK(result.code == 0);
  CHECK(result.out.starts_with("27.2 MiB in tensors, 84.0 MiB reserved\n"));
  CHECK(result.out.find("torch.cuda.memory._record_memory_history(max_entries=100000)") !=
        std::string::npos);
  CHECK(RunCommand({"explain-oom", "short_history.pickle"}).out.find("no loop of three turns") !=
        std::string::npos);
}

TEST_CASE("Markdown has what the text has") {
  const Snapshots snapshots;
  const std::string page = Diff("kept_scores", {"-f", "markdown"}).out;
  CHECK(page.starts_with("**kept 500.0 KiB that is not predicted, of 66.0 MiB in tensors**\n"));
  CHECK(
      page.find("\n| `make_snapshots.py:107 (kept_scores)` | 4 | 500.0 KiB | in 3 of 4 turns |") !=
      std::string::npos);
}

TEST_CASE("what cannot be compared is refused") {
  const Snapshots snapshots;
  snapshots.folder.Write("report.json", RunCommand({"net.pt2", "-f", "json"}).out);
  snapshots.folder.Write("cut.pickle", ContentsOf("plain.pickle").substr(0, 3000));
  snapshots.folder.Write("code.pickle",
                         "\x80\x02"
                         "cposix\nsystem\n.");
  struct Row {
    std::vector<std::string> args;
    const char* error;
  };
  const Row rows[] = {
      {{"diff", "net.pt2", "plain.pickle"},
       "plain.pickle: a memory snapshot was expected before its model, found behind it (try: "
       "onnxfit diff plain.pickle net.pt2)"},
      {{"diff", "plain.pickle", "plain.pickle"},
       "plain.pickle: a model was expected beside a memory snapshot, found another"},
      {{"diff", "plain.pickle", "report.json"},
       "report.json: a model was expected beside a memory snapshot, found a report"},
      {{"explain-oom", "cut.pickle"}, "cut.pickle: byte 2"},
      {{"diff", "cut.pickle", "net.pt2"}, "cut.pickle: byte 2"},
      {{"explain-oom", "code.pickle"},
       "code.pickle: byte 2: plain values were expected, found GLOBAL"},
      {{"explain-oom", "plain.pickle", "--model", "none.onnx"}, "none.onnx: "},
      {{"explain-oom", "plain.pickle", "-b", "32"},
       "--batch: expected beside --model, which is missing"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.error);
    const CommandResult result = RunCommand(row.args);
    CHECK(result.code == 2);
    CHECK(result.out == "");
    CHECK(result.err.find(std::string("error: ") + row.error) != std::string::npos);
  }
}

}  // namespace onnxfit::snapshots_test
