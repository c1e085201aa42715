// `onnxfit explain-oom`: what is printed, for good and for bad logs.
#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/oom/log.h"
#include "estimator/report/layout.h"
#include "tests/files.h"
#include "tests/paths.h"
#include "tests/run_command.h"
#include "tests/temp_folder.h"

namespace onnxfit::explain_oom_test {
namespace {

CommandResult RunArgs(std::vector<std::string> args) {
  args.insert(args.begin(), "explain-oom");
  return RunCommand(args);
}

// An article's message: a P100.
constexpr char kMessage[] =
    "RuntimeError: CUDA out of memory. Tried to allocate 8.74 GiB (GPU 0; 15.90 GiB total "
    "capacity; 8.84 GiB already allocated; 6.32 GiB free; 8.86 GiB reserved in total by PyTorch)";
const std::string kP100 = std::string("Traceback (most recent call last):\n") + kMessage + "\n";

constexpr char kPieces[] =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.79 GiB. GPU 0 has a total "
    "capacity of 23.70 GiB of which 1.01 GiB is free. Of the allocated memory 19.62 GiB is "
    "allocated by PyTorch, and 2.28 GiB is reserved by PyTorch but unallocated. If reserved but "
    "unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid "
    "fragmentation.";

// `text` in one line.
std::string Unwrapped(const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) line.append(word).append(" ");
  return line;
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n') + 1); }

size_t WidestLine(const std::string& text) {
  std::istringstream lines(text);
  size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, Columns(line));
  return widest;
}

TEST_CASE("a message is explained") {
  const TempFolder folder;
  const CommandResult result = RunArgs({folder.Write("train.log", kP100)});
  CHECK(result.code == 0);
  CHECK(result.err == "");
  CHECK(result.out == R"(CAPACITY: 8.74 GiB asked, 6.32 GiB free: 2.42 GiB short
This process: tensors 8.84 GiB, cache 20.5 MiB. Others and context: 737.3 MiB.
The cache is too small to matter: nothing is fragmented, the card is full.

The card: 15.90 GiB
  █████████████████████████████████▚▚▚························
  █  tensors              8.84 GiB  ±5.12 MiB
  ▒  cached               20.5 MiB  ±10.2 MiB
  ▚  others and context  737.3 MiB  ±15.4 MiB
  ·  free                 6.32 GiB  ±5.12 MiB

What asked
  A tensor of 8.73 GiB to 8.75 GiB.
  As float32 it has 2.35 billion elements: [N, 1024] with N = 2291139, [N, 2000]
  with N = 1173063, [S, S] with S = 48437, [8, 16, S, S] with S = 4281.

What helps
  yes    a smaller batch: 2.42 GiB are missing here; activations shrink with it,
         parameters, gradients and optimizer state do not
         a larger card: with 2.42 GiB more it gets past this point, if nothing
         later needs more
  maybe  checkpointing of activations: in training: activations are computed
         twice instead of kept, for about a third more time; files called
         checkpoints free nothing
         mixed precision (autocast): it halves activations of products and
         convolutions; parameters, gradients and optimizer state stay fp32, with
         copies in 16 bits beside them
         an optimizer with less state: in training: Adam keeps 8 bytes a
         parameter from its first step on, SGD none, an 8-bit Adam 2
  no     ending other processes: others and this process' context hold 737.3
         MiB, 2.42 GiB are missing
         expandable_segments:True: it makes use of the cache, which is only 20.5
         MiB, and 6.32 GiB is free
         torch.cuda.empty_cache(): PyTorch gave back all that is free as a whole
         before it failed; calling it makes no more memory for PyTorch

The message (line 2, PyTorch 1.4 to 1.9, GPU 0)
  RuntimeError: CUDA out of memory. Tried to allocate 8.74 GiB (GPU 0; 15.90 GiB
  total capacity; 8.84 GiB already allocated; 6.32 GiB free; 8.86 GiB reserved
  in total by PyTorch)
)");
}

TEST_CASE("a model in eval gets no advice for training") {
  const TempFolder folder;
  const std::string log = folder.Write("train.log", kP100);
  const std::string model = std::string(kSourceDir) + "/models/mlp_2000.onnxtxt";
  const auto told = [&](const char* mode) {
    return RunArgs({log, "--model", model, "-b", "8", "--mode", mode}).out;
  };
  for (const char* what : {"checkpointing of activations", "an optimizer with less state"}) {
    CHECK(told("train").find(what) != std::string::npos);
    CHECK(told("eval").find(what) == std::string::npos);
  }
  CHECK(told("eval").find("a smaller batch") != std::string::npos);
}

TEST_CASE("numbers that contradict one another are said to, in both readings") {
  const TempFolder folder;
  const std::string out =
      RunArgs(
          {folder.Write("colab.log",
                        "CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 11.00 GiB total "
                        "capacity; 7.50 GiB already allocated; 200.00 MiB free; 3.90 GiB "
                        "cached)")})
          .out;
  CHECK(out.starts_with(R"(CONTRADICTORY: its parts add up to 11.6 GiB, the card has 11.00 GiB
This process: tensors 7.50 GiB, cache 3.90 GiB.
3.90 GiB as all that is reserved would be less than the 7.50 GiB allocated.
Note: If 3.90 GiB really are cached and not in use, 1.00 GiB would fit into
      them: then it is FRAGMENTED.
)"));
}

TEST_CASE("what to type stands there where the numbers support it") {
  const TempFolder folder;
  const std::string out = RunArgs({folder.Write("train.log", kPieces)}).out;
  CHECK(out.find(R"(
Type one of (bash, PowerShell, Python before import torch)
  export PYTORCH_ALLOC_CONF=expandable_segments:True
  $env:PYTORCH_ALLOC_CONF = "expandable_segments:True"
  os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
)") != std::string::npos);
  CHECK(RunArgs({folder.Write("p100.log", kP100)}).out.find("Type one of") == std::string::npos);
}

TEST_CASE("2 and 20 MiB are decoded, an exact size is taken apart") {
  const TempFolder folder;
  const auto told = [&](const std::string& text) {
    return Unwrapped(RunArgs({folder.Write("x.log", text)}).out);
  };
  CHECK(told("CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0;")
            .find("a tensor of at most 1 MiB finds no place") != std::string::npos);
  CHECK(told("CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0;")
            .find("a tensor above 1 and below 10 MiB") != std::string::npos);
  const std::string theano = told(
      "Error allocating 86118400 bytes of device memory (out of memory). Driver report 32735232 "
      "bytes free and 4294770688 bytes total");
  CHECK(theano.find("86118400 = 4 * 2^10 * 5^2 * 29^2 bytes.") != std::string::npos);
  CHECK(theano.find("float32[100, 64, 58, 58]") != std::string::npos);
}

// 0.99 GiB are 0.98 to 1.00, as the difference of two sizes: with what is free just enough, or not.
TEST_CASE("a verdict that the rounding may change says so") {
  const TempFolder folder;
  const std::string out =
      RunArgs(
          {folder.Write("x.log",
                        "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.90 GiB total "
                        "capacity; 12.00 GiB already allocated; 0.10 GiB free; 14.00 GiB "
                        "reserved in total by PyTorch)")})
          .out;
  CHECK(out.starts_with("FRAGMENTED: 2.00 GiB asked, 2.00 GiB cached in pieces\n"));
  const std::string other =
      RunArgs(
          {folder.Write("y.log",
                        "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 16.50 GiB total "
                        "capacity; 14.00 GiB already allocated; 1.00 GiB free; 14.99 GiB "
                        "reserved in total by PyTorch)")})
          .out;
  CHECK(other.starts_with("CAPACITY: "));
  CHECK(Unwrapped(other).find("with what rounds to them it may be FRAGMENTED.") !=
        std::string::npos);
}

TEST_CASE("several processes: the first in full, the others with a line, all with -v") {
  const TempFolder folder;
  const std::string path = folder.Write(
      "ranks.log", std::string("[rank1]: ") + kPieces + "\n[rank0]: " + kMessage + "\n");
  const std::string out = RunArgs({path}).out;
  CHECK(out.starts_with("FRAGMENTED: 1.79 GiB asked, 2.28 GiB cached in pieces\n"));
  CHECK(
      out.ends_with("\nThe other processes (-v for all of each)\n"
                    "rank0: CAPACITY: 8.74 GiB asked, 6.32 GiB free: 2.42 GiB short\n"));
  CHECK(RunArgs({path, "-q"}).out ==
        "rank1: FRAGMENTED: 1.79 GiB asked, 2.28 GiB cached in pieces\n"
        "rank0: CAPACITY: 8.74 GiB asked, 6.32 GiB free: 2.42 GiB short\n");
  const std::string all = RunArgs({path, "-v"}).out;
  CHECK(all.find("The message (rank0, line 2, PyTorch 1.4 to 1.9, GPU 0)") != std::string::npos);
}

TEST_CASE("a page is 80 columns wide, and ASCII if asked") {
  const TempFolder folder;
  for (const std::string& text : {kP100, std::string(kPieces)}) {
    const std::string path = folder.Write("x.log", text);
    CHECK(WidestLine(RunArgs({path}).out) <= 80);
    const std::string ascii = RunArgs({path, "--ascii"}).out;
    CHECK(WidestLine(ascii) <= 80);
    for (const char c : ascii) CHECK(static_cast<unsigned char>(c) < 0x80);
  }
  const std::string evil =
      "[rank0]: \xE2\x80\xAE CUDA out of memory. \xFF\x07 Tried to allocate 3 GiB";
  const std::string out = RunArgs({folder.Write("x.log", evil)}).out;
  CHECK(out.find('\x07') == std::string::npos);
  CHECK(out.find("\xE2\x80\xAE") == std::string::npos);
}

TEST_CASE("what a message leaves of a card is counted, too") {
  const TempFolder folder;
  const std::string xpu = folder.Write(
      "x.log",
      "XPU out of memory. Tried to allocate 1.17 GiB. GPU 0 has a total capacity of 15.56 GiB. Of "
      "the allocated memory 14.81 GiB is allocated by PyTorch, and 254.38 MiB is reserved by "
      "PyTorch "
      "but unallocated.");
  CHECK(RunArgs({xpu}).out.find("  ?  not told   513.6 MiB\n") != std::string::npos);
}

TEST_CASE("colours are there where they are asked for") {
  const TempFolder folder;
  const std::string path = folder.Write("train.log", kP100);
  const std::string out = RunArgs({path, "--color", "always"}).out;
  CHECK(out.starts_with("\033[33mCAPACITY\033[0m: 8.74 GiB asked"));
  CHECK(out.find("\n  \033[36m█") != std::string::npos);
  CHECK(RunArgs({path}).out.find('\033') == std::string::npos);
}

TEST_CASE("JSON holds the same, with the range of each size") {
  const TempFolder folder;
  const std::string path = folder.Write("train.log", kP100);
  const std::string json = RunArgs({path, "-f", "json"}).out;
  CHECK(json.starts_with("{\n  \"schema\": 1,\n  \"version\": \""));
  for (const char* part :
       {"\"verdict\": \"capacity\"", "\"format\": \"pytorch-1.4\"", "\"line\": 2", "\"gpu\": 0",
        "\"tried\": {\n            \"bytes\": 9384503", "\"low\": 9379134", "\"high\": 9389872",
        "\"short_bytes\": 259845", "\"helps\": \"yes\"", "\"commands\": []"}) {
    CAPTURE(part);
    CHECK(json.find(part) != std::string::npos);
  }
}

TEST_CASE("Markdown holds the same, with the message as code") {
  const TempFolder folder;
  const std::string path = folder.Write("train.log", kP100);
  const std::string markdown = RunArgs({path, "-f", "markdown"}).out;
  CHECK(markdown.find("**CAPACITY**: 8.74 GiB asked, 6.32 GiB free: 2.42 GiB short\n") == 0);
  CHECK(markdown.find("\n| tensors | 8.84 GiB | ±5.12 MiB |\n") != std::string::npos);
  CHECK(markdown.find("\n| a smaller batch | yes | 2.42 GiB are missing here; ") !=
        std::string::npos);
  CHECK(markdown.find("\n```text\nRuntimeError: CUDA out of memory. Tried ") != std::string::npos);
  CHECK(RunArgs({path, "-f", "markdown", "-q"}).out == FirstLine(markdown));
  const std::string model = std::string(kSourceDir) + "/models/mlp_2000.onnxtxt";
  CHECK(RunArgs({path, "-f", "markdown", "--model", model}).out.find("\n### The model: `") !=
        std::string::npos);
}

TEST_CASE("CSV has a record for each process") {
  const TempFolder folder;
  const std::string path = folder.Write(
      "ranks.log", std::string("[rank0]: ") + kMessage + "\n[rank1]: " + kMessage + "\n");
  const std::string model = std::string(kSourceDir) + "/models/mlp_2000.onnxtxt";
  const std::string csv = RunArgs({path, "-f", "csv", "--model", model, "-b", "2"}).out;
  CHECK(FirstLine(csv) ==
        "log,process,line,framework,format,gpu,verdict,tried_bytes,total_bytes,free_bytes,"
        "allowed_bytes,allocated_bytes,reserved_bytes,cached_bytes,private_pools_bytes,"
        "process_bytes,other_bytes,parameters_bytes,temporaries_bytes,plan_bytes,used_bytes,"
        "card_bytes,short_bytes,request_low_bytes,request_high_bytes,more_messages,model,batch,"
        "model_fails,"
        "max_batch,summary\n");
  CHECK(csv.find(",rank0,") != std::string::npos);
  CHECK(csv.find(",rank1,") != std::string::npos);
  CHECK(csv.find("mlp_2000.onnxtxt,2,no,") != std::string::npos);
  CHECK(csv.find(",,,,\"CAPACITY: 8.74 GiB asked, ") != std::string::npos);  // rank1's model
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 3);
}

TEST_CASE("a model names who asked, and the largest batch") {
  const TempFolder folder;
  const std::string model = std::string(kSourceDir) + "/models/mlp_2000.onnxtxt";
  const std::string path = folder.Write("train.log", kP100);
  const std::string out = RunArgs({path, "--model", model, "-b", "1173063", "-o", "adam"}).out;
  CHECK(Unwrapped(out).starts_with(
      "CAPACITY: batch 1173063 fails in step 1, forward, at relu, asking for 8.74 GiB: the largest "
      "that runs is 453691 This process"));
  CHECK(Unwrapped(out).find("The message says: 8.74 GiB asked, 6.32 GiB free: 2.42 GiB short.") !=
        std::string::npos);
  CHECK(out.find("\nThe model: ") != std::string::npos);
  CHECK(out.find("h, float32[1173063, 2000], step 1, forward, at fc1\n") != std::string::npos);
  CHECK(out.find("The largest batch that runs: 453691 (454383 if") != std::string::npos);
  CHECK(WidestLine(out) <= 80);
  const std::string json =
      RunArgs({path, "--model", model, "-b", "1173063", "-o", "adam", "-f", "json"}).out;
  CHECK(json.find("\"max_batch\": 453691") != std::string::npos);
  CHECK(json.find("\"fails_at\": {") != std::string::npos);
}

TEST_CASE("a card may be named beside a model, one and not without") {
  const TempFolder folder;
  const std::string model = std::string(kSourceDir) + "/models/mlp_2000.onnxtxt";
  const std::string bare = folder.Write("bare.log", "RuntimeError: CUDA error: out of memory\n");
  const std::string out =
      Unwrapped(RunArgs({bare, "--model", model, "-b", "64", "--gpu", "t4"}).out);
  CHECK(out.find("The message does not say how much was asked for. On the Tesla T4 with ") !=
        std::string::npos);
  CHECK(out.find(" (its context, ") != std::string::npos);
  CHECK(Unwrapped(RunArgs({bare, "--model", model}).out)
            .find("does not say how large the card is: name it with --gpu.") != std::string::npos);
  const std::string path = folder.Write("train.log", kP100);
  const std::string small = RunArgs({path, "--model", model, "-b", "8", "--gpu", "p100", "-q"}).out;
  CHECK(Unwrapped(small) ==
        "CAPACITY: batch 8 of this model runs there: the log's run differs in a flag or size ");
  CHECK(Unwrapped(RunArgs({path, "--model", model, "--gpu", "gtx1650"}).out)
            .find("On another card, the GeForce GTX 1650 with ") != std::string::npos);
  CHECK(RunArgs({path, "--gpu", "t4"}).err ==
        "error: --gpu: expected beside --model, which is missing\n");
  CHECK(RunArgs({path, "--model", model, "--gpu", "t4", "--gpu", "p100"})
            .err.ends_with("--gpu: expected one card with explain-oom, found 2\n"));
}

TEST_CASE("numbers of a message keep its digits, sums have our own") {
  const TempFolder folder;
  const std::string out = RunArgs({folder.Write("train.log", kPieces)}).out;
  CHECK(
      out.starts_with("FRAGMENTED: 1.79 GiB asked, 2.28 GiB cached in pieces\n"
                      "This process: tensors 19.62 GiB, cache 2.28 GiB."));
  CHECK(out.find("\nThe card: 23.70 GiB\n") != std::string::npos);
  CHECK(out.find("tensors             19.62 GiB  ±5.12 MiB\n") != std::string::npos);
  const std::string mib = RunArgs({folder.Write("x.log",
                                                "CUDA out of memory. Tried to allocate 1024.00 "
                                                "MiB (GPU 0; 7.79 GiB total capacity; 261.81 MiB "
                                                "free;")})
                              .out;
  CHECK(mib.starts_with("CAPACITY: 1024.00 MiB asked, 261.81 MiB free: "));
  const std::string bytes = RunArgs({folder.Write("y.log",
                                                  "Error allocating 86118400 bytes of device "
                                                  "memory (out of memory). Driver report 32735232 "
                                                  "bytes free and 4294770688 bytes total")})
                                .out;
  CHECK(bytes.starts_with("CAPACITY: 82.1 MiB asked, 31.2 MiB free"));
}

// h is of 1.1945 GiB, which PyTorch asks for as 612 segments of 2 MiB, 1.1953 GiB: "1.20 GiB".
TEST_CASE("what a message says is found by what PyTorch prints, and printed so") {
  const TempFolder folder;
  const std::string model = std::string(kSourceDir) + "/models/mlp_2000.onnxtxt";
  const auto told = [&](const std::string& tried) {
    const std::string log = "CUDA out of memory. Tried to allocate " + tried +
                            " (GPU 0; 2.00 GiB total capacity; 0.70 GiB already allocated; 0.30 "
                            "GiB free; 0.90 GiB reserved in total by PyTorch)";
    return Unwrapped(RunArgs({folder.Write("x.log", log), "--model", model, "-b", "160323"}).out);
  };
  CHECK(told("1.20 GiB").find("h, float32[160323, 2000], step 1, forward") != std::string::npos);
  CHECK(told("1.20 GiB").find(", asking for 1.20 GiB.") != std::string::npos);
  CHECK(told("1.19 GiB").find("No allocation of this model asks for that") != std::string::npos);
}

TEST_CASE("no change is said to help and not to help") {
  const TempFolder folder;
  for (const char* log : {"Killed", "Your session crashed after using all available RAM.",
                          "RuntimeError: DataLoader worker (pid 1) is killed by signal: Killed."}) {
    CAPTURE(log);
    const std::string out = RunArgs({folder.Write("x.log", log)}).out;
    const size_t place = out.find("a smaller batch");
    REQUIRE(place != std::string::npos);
    CHECK(out.find("a smaller batch", place + 1) == std::string::npos);
  }
}

TEST_CASE("the machine's RAM is not the card's memory") {
  const TempFolder folder;
  for (const char* log : {"slurmstepd: error: Detected 1 oom-kill event(s) in step 1.batch cgroup.",
                          "RuntimeError: DataLoader worker (pid 1) is killed by signal: Killed.",
                          "Your session crashed after using all available RAM.", "Killed"}) {
    CAPTURE(log);
    const std::string out = Unwrapped(RunArgs({folder.Write("x.log", log)}).out);
    CHECK(out.find("fewer DataLoader workers (num_workers): ") != std::string::npos);
    CHECK(out.find("a smaller batch, or prefetch_factor: num_workers x prefetch_factor batches") !=
          std::string::npos);
    CHECK(out.find("free -h") != std::string::npos);
    CHECK(out.find("nvidia-smi") == std::string::npos);
  }
}

TEST_CASE("a word alone is no message") {
  const TempFolder folder;
  for (const char* log : {"the worker was Killed by hand", "Killed 3 enemies", "(lfb 252kB)"}) {
    CAPTURE(log);
    CHECK(RunArgs({folder.Write("x.log", log)}).code == 2);
  }
}

// A state comes every second: eight of them must not take the place of the message.
TEST_CASE("of a Jetson's states the fullest is told, and none before a message") {
  const TempFolder folder;
  std::string states;
  for (int used = 3000; used < 3020; ++used) {
    states += "RAM " + std::to_string(used) + "/3956MB (lfb 37x4MB) SWAP 0/1978MB\n";
  }
  CHECK(RunArgs({folder.Write("x.log", states), "-f", "csv"}).out.find(",Jetson,tegrastats,") !=
        std::string::npos);
  CHECK(RunArgs({folder.Write("x.log", states)}).out.find("2.95 GiB of 3.86 GiB were in use") !=
        std::string::npos);
  CHECK(RunArgs({folder.Write("y.log", states + kMessage), "-q"}).out ==
        "CAPACITY: 8.74 GiB asked, 6.32 GiB free: 2.42 GiB short\n");
}

TEST_CASE("shapes are guessed once each") {
  const TempFolder folder;
  const std::string out = Unwrapped(
      RunArgs({folder.Write("x.log", "CUDA out of memory. Tried to allocate 1002.00 MiB (GPU")})
          .out);
  const size_t at = out.find("float32[250, 16, 256, 256]");
  REQUIRE(at != std::string::npos);
  CHECK(out.find("float32[250, 16, 256, 256]", at + 1) == std::string::npos);
}

TEST_CASE("what cannot be explained is said in one line") {
  const TempFolder folder;
  const std::string log = folder.Write("train.log", kP100);
  const std::string quiet = folder.Write("quiet.log", "epoch 1\nepoch 2\n");
  const std::string empty = folder.Write("empty.log", "");
  const std::string binary = folder.Write("core", std::string("\x7F"
                                                              "ELF\0\0\0",
                                                              7));
  const std::string gzip = folder.Write("train.log.gz", "\x1F\x8B\x08");
  const std::string looked_for = "; looked for those of " + OomFrameworks() + "\n";
  CHECK(OomFrameworks().ends_with(" programs, from PyTorch, JAX and CUDA to slurm and the kernel"));
  struct Row {
    std::vector<std::string> args;
    std::string error;
  };
  const Row rows[] = {
      {{quiet},
       quiet + ": an out-of-memory message was expected, found none in 2 lines" + looked_for},
      {{empty}, empty + ": a log was expected, the file is empty\n"},
      {{binary},
       binary + ": a log was expected, found a binary file (try: a model goes to --model)\n"},
      {{gzip},
       gzip + ": a log was expected, found a gzip file (try: zcat FILE | onnxfit explain-oom)\n"},
      {{folder.Path("trian.log")},
       folder.Path("trian.log") + ": a log was expected, there is no such file (try: " + log +
           ")\n"},
      {{folder.Path("")}, folder.Path("") + ": a log was expected, found a directory\n"},
      {{log, quiet}, "expected one log, found"},
      {{"--model", "-"}, "--model: expected a file: standard input is the log\n"},
      {{log, "-b", "8"}, "--batch: expected beside --model, which is missing\n"},
      {{log, "--why", "x"}, "--why: expected with estimate alone, found with explain-oom\n"},
      {{log, "--model", folder.Path("no.onnx")},
       folder.Path("no.onnx") +
           ": an ONNX file was expected, there is no such file (try: python -m onnxfit export "
           "MODULE:FUNCTION, which writes one from Python: docs/python.md)"},
      {{log, "--output", log}, log + ": --output: expected another file than the log\n"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.error);
    const CommandResult result = RunArgs(row.args);
    CHECK(result.code == 2);
    CHECK(result.out == "");
    CHECK(result.err.starts_with("error: " + row.error));
  }
}

TEST_CASE("the explanation goes to a file, and help is the command's own") {
  const TempFolder folder;
  const std::string path = folder.Write("train.log", kP100);
  const std::string output = folder.Path("why.txt");
  CHECK(RunArgs({path, "--output", output}).code == 0);
  CHECK(ContentsOf(output) == RunArgs({path}).out);
  const std::string help = RunArgs({"--help"}).out;
  CHECK(help.starts_with("onnxfit explain-oom: "));
  CHECK(help.find("--model") != std::string::npos);
  CHECK(help.find("--why") == std::string::npos);
  CHECK(WidestLine(help) <= 80);
}

}  // namespace
}  // namespace onnxfit::explain_oom_test
