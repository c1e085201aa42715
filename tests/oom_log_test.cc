#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>
#include <string>

#include "estimator/oom/explanation.h"
#include "estimator/oom/formats.h"
#include "estimator/oom/log.h"
#include "estimator/oom/verdict.h"

namespace onnxfit::oom_log_test {
namespace {

std::string Message(const char* tried, int gpu = 0) {
  return fmt::format(
      "RuntimeError: CUDA out of memory. Tried to allocate {} GiB (GPU {}; 15.90 GiB total "
      "capacity; 8.84 GiB already allocated; 1.32 GiB free; 8.86 GiB reserved in total by PyTorch)",
      tried, gpu);
}

constexpr char kWarning[] =
    "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.59GiB. The caller indicates that "
    "this is not a failure, but may mean that there could be performance gains.";

// "PROCESS line LINE FORMAT TRIED +MORE" for each process.
std::string Read(const std::string& log) {
  std::string text;
  for (const ProcessOom& of : ReadOomLog(log).processes) {
    const OomMessage& m = of.message;
    const auto& tried = m.Size(OomField::kTried);
    text += fmt::format("{} line {} {} {} +{}\n", m.process, m.line, m.format->name,
                        tried ? tried->bytes >> 20 : 0, of.more);
  }
  return text;
}

TEST_CASE("the first message of each process is taken, the others are counted") {
  CHECK(Read("a\n" + Message("2.00") + "\n" + Message("4.00")) == " line 2 pytorch-1.4 2048 +1\n");
  CHECK(Read("[rank1]: " + Message("2.00") + "\n[rank0]: " + Message("4.00") +
             "\n[rank1]: " + Message("8.00")) ==
        "rank1 line 1 pytorch-1.4 2048 +1\nrank0 line 2 pytorch-1.4 4096 +0\n");
  // Without prefixes the card tells them apart; what names no card belongs to the first one.
  CHECK(Read(Message("2.00", 1) + "\n" + Message("4.00", 0) +
             "\nRuntimeError: CUDA out of memory.") ==
        " line 1 pytorch-1.4 2048 +0\n line 2 pytorch-1.4 4096 +1\n");
}

TEST_CASE("figures without a failure are no message") {
  CHECK(Read("2018-08-23 17:26:41.311083: I tensorflow/core/common_runtime/bfc_allocator.cc:680] "
             "Stats: \nLimit:                 11330115994\nInUse:                 10952166604\n"
             "MaxInUse:              11317554688\nNumAllocs:                  119350\n"
             "MaxAllocSize:           1212416000\n") == "");
}

// 8.84 and 8.84 GiB may differ by 10 MiB either way.
TEST_CASE("what is below rounding is nothing, and no contradiction") {
  const auto cached = [](const char* allocated) {
    const OomLog log = ReadOomLog(fmt::format(
        "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.90 GiB total capacity; {} GiB "
        "already allocated; 1.32 GiB free; 8.84 GiB reserved in total by PyTorch)",
        allocated));
    return FactsOf(log.processes.at(0).message).cached;
  };
  REQUIRE(cached("8.85"));
  CHECK(cached("8.85")->bytes == 0);
  CHECK(!cached("8.90"));
}

TEST_CASE("lines are counted as editors count them") {
  CHECK(ReadOomLog("").lines == 0);
  CHECK(ReadOomLog("a").lines == 1);
  CHECK(ReadOomLog("a\n").lines == 1);
  CHECK(ReadOomLog("a\nb").lines == 2);
}

TEST_CASE("a message with numbers goes before one without, and before warnings") {
  const std::string apart(100, 'x');
  CHECK(Read("CUDA error: out of memory\n" + apart + "\n" + Message("2.00")) ==
        " line 3 pytorch-1.4 2048 +1\n");
  CHECK(Read(std::string(kWarning) + "\nOOM when allocating tensor with shape[1024,1024]") ==
        " line 2 tensorflow-op 4 +1\n");
  CHECK(Read(kWarning) == " line 1 tensorflow-warning 2652 +0\n");
  CHECK(Read("CUBLAS_STATUS_ALLOC_FAILED\n" + apart + "\nCUDA out of memory.") ==
        " line 3 pytorch-bare 0 +1\n");
  // An exception's name and its text are one message.
  CHECK(Read("torch.OutOfMemoryError: CUDA error: out of memory") ==
        " line 1 pytorch-class 0 +0\n");
}

TEST_CASE("ranks that interrupt one another are read each for itself") {
  CHECK(Read("[rank0]: RuntimeError: CUDA out of memory. Tried to\n"
             "[rank1]: RuntimeError: CUDA out of memory. Tried to allocate\n"
             "[rank0]: allocate 2.00 GiB (GPU 0; 15.90 GiB total\n"
             "[rank1]: 4.00 GiB (GPU 1; 15.90 GiB total capacity; 8.84 GiB already\n"
             "[rank0]: capacity; 8.84 GiB already allocated; 1.32 GiB free; 8.86 GiB reserved in\n"
             "[rank1]: allocated; 1.32 GiB free; 8.86 GiB reserved in total by PyTorch)\n"
             "[rank0]: total by PyTorch)\n") ==
        "rank0 line 1 pytorch-1.4 2048 +0\nrank1 line 2 pytorch-1.4 4096 +0\n");
}

TEST_CASE("what only speaks of memory is no message") {
  CHECK(Read("") == "");
  CHECK(Read("if you run out of memory, use a smaller batch\n") == "");
  CHECK(Read("Stats: \nLimit: 11330115994\nInUse: 10952166604\n") == "");
  CHECK(Read("tried to allocate a chair") == "");
  CHECK(ReadOomLog("a\nb\nc").lines == 3);
  CHECK(ReadOomLog("a\nb\n").lines == 2);
}

TEST_CASE("a message that is cut off says so") {
  const std::string whole = Message("2.00");
  for (size_t size = 0; size <= whole.size(); ++size) {
    const OomLog log = ReadOomLog(whole.substr(0, size));
    if (log.processes.empty()) continue;
    const OomMessage& message = log.processes[0].message;
    CHECK((message.cut || message.Size(OomField::kReserved) ||
           message.format->rank == OomRank::kBare || message.format->rank == OomRank::kLoose));
  }
}

constexpr char kListing[] =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB. GPU 1 has a total "
    "capacity of 79.15 GiB of which 58.69 MiB is free. Process 4711 has 49.10 GiB memory in use. "
    "Including non-PyTorch memory, this process has 21.98 GiB memory in use. Of the allocated "
    "memory 21.30 GiB is allocated by PyTorch, and 112.93 MiB is reserved by PyTorch but "
    "unallocated.";
constexpr char kShape[] =
    "OOM when allocating tensor with shape[32,1024,64,64] and type float on /job:localhost";
constexpr char kMps[] =
    "MPS backend out of memory (MPS allocated: 20.14 GiB, other allocations: 384.00 KiB, max "
    "allowed: 20.13 GiB). Tried to allocate 6.00 KiB on private pool.";

// Whatever happens to a log, it is read, and what is told of it adds up.
TEST_CASE("broken logs are read without a fault") {
  std::mt19937 random(7);  // NOLINT: the same bytes in every run
  const std::string logs[] = {Message("2.00") + "\n[rank1]: " + Message("4.00"), kWarning, kListing,
                              kShape, kMps};
  for (int round = 0; round < 600; ++round) {
    std::string log = logs[random() % std::size(logs)];
    const size_t changes = random() % 8;
    for (size_t i = 0; i < changes; ++i) {
      const size_t at = random() % log.size();
      switch (random() % 4) {
        case 0:
          log[at] = static_cast<char>(random());
          break;
        case 1:
          log.erase(at, random() % 9);
          break;
        case 2:
          log.insert(at, 1, "0123456789.,;()[]\n\033 "[random() % 20]);
          break;
        default:
          log.insert(at, log.substr(random() % log.size(), random() % 40));
          break;
      }
      if (log.empty()) log.push_back('x');
    }
    if (random() % 4 == 0) log.resize(random() % log.size());
    CAPTURE(log);
    for (const ProcessOom& process : ReadOomLog(log).processes) {
      const OomExplanation e = ExplainOom(process);
      CHECK(!e.summary[0].empty());
      CHECK(e.message.line >= 1);
      for (const auto& size : e.message.sizes) CHECK((!size || size->bytes >= 0));
    }
  }
}

TEST_CASE("PowerShell's UTF-16 is read") {
  std::string utf16 = "\xFF\xFE";
  for (const char c : Message("2.00")) utf16 += {c, '\0'};
  CHECK(Read(FromUtf16(utf16)) == " line 1 pytorch-1.4 2048 +0\n");
  CHECK(FromUtf16("plain").empty());
  CHECK(FromUtf16(std::string("\xFE\xFF\0a\xE2", 5)) == "a");
  CHECK(FromUtf16("\xFF\xFE\xE9\x20") == "\xE2\x83\xA9");
}

// Time is not tested, growth is: neither messages nor ranks nor a line without end may be read
// over and over again.
TEST_CASE("logs full of messages are read in passing") {
  std::string ranks;
  std::string one_line;
  for (int i = 0; i < 10000; ++i) {
    if (i < 3000) ranks += fmt::format("[rank{}]: {}\n", i % 1500, Message("2.00"));
    one_line += "tried to allocate 3 ";
  }
  CHECK(ReadOomLog(ranks).processes.size() <= 1024);
  CHECK(ReadOomLog(one_line).processes.empty());
  CHECK(!ReadOomLog(one_line).is_whole);
  CHECK(ReadOomLog(Message("2.00")).is_whole);
}

TEST_CASE("a disk's errors do not crowd out a message") {
  std::string log;
  for (int i = 0; i < 30; ++i) log += "write: No space left on device\n";
  log += std::string(100, 'x') + "\n";
  CHECK(Read(log + Message("2.00")) == " line 32 pytorch-1.4 2048 +30\n");
}

TEST_CASE("common words do not crowd out a message") {
  std::string log;
  for (int i = 0; i < 10000; ++i) log += "step: 12 workers killed=0, one was Killed\n";
  CHECK(Read(log + Message("2.00")) == " line 10001 pytorch-1.4 2048 +0\n");
}

}  // namespace
}  // namespace onnxfit::oom_log_test
