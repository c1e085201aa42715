// Every message of tests/data/oom_messages.txt and oom_programs.txt, as it is read and judged.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/oom/explanation.h"
#include "estimator/oom/formats.h"
#include "estimator/oom/programs.h"
#include "tests/files.h"
#include "tests/paths.h"

namespace onnxfit::oom_messages_test {
namespace {

struct Example {
  std::string expected = {};  // "FORMAT | VERDICT | what is read"
  std::string text = {};
};

std::vector<Example> ExamplesOf(const char* file) {
  const auto path = std::filesystem::path(kSourceDir) / "tests/data" / file;
  std::istringstream lines(ContentsOf(path));
  std::vector<Example> examples;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("=== ")) {
      examples.push_back({.expected = line.substr(4)});
    } else if (!line.starts_with('#') && !examples.empty()) {
      examples.back().text += line + "\n";
    }
  }
  return examples;
}

std::vector<Example> Examples() {
  std::vector<Example> examples = ExamplesOf("oom_messages.txt");
  const std::vector<Example> programs = ExamplesOf("oom_programs.txt");
  examples.insert(examples.end(), programs.begin(), programs.end());
  return examples;
}

std::string FieldsText(const OomMessage& message) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? " " : ", ") + part; };
  if (message.gpu) add(fmt::format("gpu {}", *message.gpu));
  for (size_t i = 0; i < kOomFields; ++i) {
    if (!message.sizes[i]) continue;
    add(fmt::format("{} {}", ToString(static_cast<OomField>(i)),
                    FormatBytes(message.sizes[i]->bytes)));
  }
  for (const OtherProcess& other : message.others) {
    add(fmt::format("{}: {}", other.pid, FormatBytes(other.bytes.bytes)));
  }
  if (message.tensor.dtype != DType::kUndefined) add(ToString(message.tensor));
  if (!message.node.empty()) add("at " + message.node);
  return text;
}

std::string Told(std::string_view log) {
  const OomLog read = ReadOomLog(log);
  if (read.processes.size() != 1) return fmt::format("{} processes", read.processes.size());
  const OomExplanation e = ExplainOom(read.processes[0]);
  return fmt::format("{} | {} |{}", e.message.format->name, ToString(e.judgement.verdict),
                     FieldsText(e.message));
}

// What is told of a size has the digits that stand in the message.
void CheckDigits(const std::string& log) {
  const OomLog read = ReadOomLog(log);
  if (read.processes.size() != 1) return;
  for (const std::optional<PrintedBytes>& size : read.processes[0].message.sizes) {
    if (!size || size->places == 0 || size->unit == 1) continue;
    const std::string text = ToString(*size);
    CAPTURE(text);
    CHECK(log.find(text.substr(0, text.find(' '))) != std::string::npos);
  }
}

TEST_CASE("every format is read and judged") {
  std::set<std::string> seen;
  for (const Example& example : Examples()) {
    CAPTURE(example.text);
    CHECK(Told(example.text) == example.expected);
    CheckDigits(example.text);
    seen.insert(example.expected.substr(0, example.expected.find(' ')));
  }
  for (const OomFormat& format : OomFormats()) {
    CAPTURE(format.name);
    const bool is_shown = seen.contains(std::string(format.name));
    CHECK((is_shown || format.rank == OomRank::kNumbers));
  }
}

// PyTorch's own advice is for PyTorch's users.
TEST_CASE("a program's message gets that program's advice") {
  for (const Example& example : ExamplesOf("oom_programs.txt")) {
    CAPTURE(example.text);
    const OomLog log = ReadOomLog(example.text);
    REQUIRE(log.processes.size() == 1);
    const OomExplanation e = ExplainOom(log.processes[0]);
    const std::string program(ProgramOf(*e.message.format));
    const bool may_be_torch = program.find("PyTorch") != std::string::npos ||
                              e.message.app == "PyTorch" ||
                              FindProgram(program)->kind == OomProgram::Kind::kEnds;
    CHECK(!e.remedies.empty());
    for (const OomRemedy& remedy : e.remedies) {
      CAPTURE(remedy.what);
      CHECK((may_be_torch || remedy.what.find("torch") == std::string::npos));
      CHECK((may_be_torch || remedy.why.find("PyTorch gave") == std::string::npos));
    }
  }
}

TEST_CASE("rows name programs that are known, and words that can be read") {
  for (const OomFormat& format : OomFormats()) {
    if (format.pattern == nullptr) continue;
    CAPTURE(format.name);
    CHECK(FindProgram(format.program) != nullptr);
    CHECK(format.head.size() >= 5);
    CHECK(!format.source.empty());
  }
}

TEST_CASE("advice is for programs that are known") {
  for (const auto rows : {ProgramAdvice(), SystemAdvice()}) {
    for (const OomAdvice& row : rows) {
      CAPTURE(row.program);
      CHECK(FindProgram(row.program) != nullptr);
    }
  }
}

// CUDA's words do not say who called: the lines around them do.
TEST_CASE("the program around a library's words is found") {
  struct Row {
    const char* log;
    const char* app;
  };
  const Row rows[] = {
      {"File \"/opt/ComfyUI/execution.py\", line 3\nRuntimeError: CUDA error: out of memory\n",
       "ComfyUI"},
      {"mxnet.base.MXNetError: Check failed: e == cudaSuccess || e == cudaErrorCudartUnloading: "
       "CUDA: out of memory\n",
       "MXNet"},
      {"tvm._ffi.base.TVMError: Check failed: e == cudaSuccess || e == cudaErrorCudartUnloading: "
       "CUDA: out of memory\n",
       "TVM"},
      {"jaxlib.xla_extension.XlaRuntimeError: INTERNAL: cuSolver internal error\n", "JAX/XLA"},
      {"CUDA_ERROR_OUT_OF_MEMORY\n", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.log);
    const OomLog log = ReadOomLog(row.log);
    REQUIRE(log.processes.size() == 1);
    CHECK(log.processes[0].message.app == row.app);
  }
}

// Programs without a row: what they say is read as far as its words are common ones.
TEST_CASE("words of programs that no row has") {
  struct Row {
    const char* log;
    const char* summary;
  };
  const Row rows[] = {
      {"[error] Failed to allocate 3.2 GiB of device memory for field buffers (2.1 GiB "
       "available)\n",
       "CAPACITY: 3.2 GiB asked, 2.1 GiB free: 1.10 GiB short"},
      {"FATAL: not enough memory: need 12.5 GB but only 7.9 GB are available on the GPU\n",
       "CAPACITY: 12.5 GiB needed in all, 7.9 GiB free: 4.60 GiB short"},
      {"unable to allocate 4294967296 bytes on the heap\n", "CAPACITY: 4.00 GiB asked"},
      {"solver: insufficient memory (requested 16,5 GB, limit 8 GB)\n",
       "CAPACITY: 16.5 GiB asked, 8 GiB allowed: 8.50 GiB too much"},
      {"thread 'main' panicked: out of memory while growing arena\n",
       "CAPACITY: another program says that memory ran out"},
      {"Allocation of size 12.34 G for rho failed, likely due to insufficient memory.\n",
       "CAPACITY: 12.34 GiB asked"},
      {"Error allocating 34359738368 bytes: Cannot allocate memory\n", "CAPACITY: 32.0 GiB asked"},
      {"encoder: MY_ENC_ERR_OUT_OF_MEMORY\n", "CAPACITY: another program says that memory ran out"},
      {"if you run out of memory, use a smaller batch\n", ""},
      {"To avoid out of memory errors, lower the batch size\n", ""},
      {"failed to allocate port 8080\n", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.log);
    const OomLog log = ReadOomLog(row.log);
    CHECK(log.processes.empty() == (row.summary[0] == '\0'));
    if (!log.processes.empty()) CHECK(ExplainOom(log.processes[0]).summary[0] == row.summary);
  }
}

// What a message's numbers come to.
TEST_CASE("headlines say what was short, and of what") {
  struct Row {
    const char* log;
    const char* summary;
  };
  const Row rows[] = {
      {"Out of memory while trying to allocate 6442450944 bytes.\nparameter allocation: 1.25GiB\n"
       "preallocated temp allocation: 6.00GiB\ntotal allocation: 9.25GiB\n",
       "CAPACITY: 9.25 GiB needed in all, 6.00 GiB of it temporaries; 6.00 GiB asked"},
      {"HIP out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 191.98 GiB of "
       "which 180.11 GiB is free. 2.10 GiB allowed; Of the allocated memory 2.03 GiB is allocated "
       "by PyTorch, and 68.21 MiB is reserved by PyTorch but unallocated.",
       "CAPACITY: 2.00 MiB asked, 2.10 GiB of 2.10 GiB allowed are held"},
      {"CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 79.19 GiB of "
       "which 1.40 GiB is free. Including non-PyTorch memory, this process has 77.70 GiB memory in "
       "use. Of the allocated memory 90.10 GiB is allocated by PyTorch, and 12.00 GiB is reserved "
       "by PyTorch but unallocated.",
       "CONTRADICTORY: 90.10 GiB allocated are more than the 77.70 GiB that this process has"},
      {"[TP0] Load weight end. avail mem=6.10 GB, mem usage=16.50 GB.\nRuntimeError: Not enough "
       "memory. Please try to increase --mem-fraction-static.\n",
       "CAPACITY: SGLang has no memory left for its KV cache: 6.10 GiB free"},
      {"ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
       "Memory on the node (IP: 10.1.0.4, ID: ab) where the task (actor ID: 7, name=A, pid=8, "
       "memory used=9.31GB) was running was 121.40GB / 125.58GB (0.96), which exceeds\n",
       "CAPACITY: Ray ended a task: the RAM of its node is full: 121.40 GiB of 125.58 GiB in use"},
      {"failed to allocate 3.91G (4194304000 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY\n",
       "CAPACITY: 3.91 GiB asked (a warning: it went on)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.log);
    const OomLog log = ReadOomLog(row.log);
    REQUIRE(log.processes.size() == 1);
    CHECK(ExplainOom(log.processes[0]).summary[0] == row.summary);
  }
}

TEST_CASE("commas stand between thousands, or in the place of the point") {
  struct Row {
    const char* text;
    int64_t bytes;
  };
  const Row rows[] = {{"25,600,000bytes", 25600000},
                      {"1,5GB", 3 * kGiB / 2},
                      {"2,048MB", 2 * kGiB},
                      {"1,234.5KiB", 1264128},
                      {"12,75GiB", 51 * kGiB / 4},
                      {"32,1024", 32},
                      {"0,102", 0}};
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(ReadSize(row.text)->size.bytes == row.bytes);
  }
}

// As logs are read.
std::string Squeezed(std::string text) {
  std::erase(text, ' ');
  return text;
}

// c10/cuda/CUDACachingAllocator.cpp, format_size: halves go to the even digit, as printf rounds the
// binary number (1152 MiB are 1.125 GiB, 1224 MiB 1.1953125 GiB).
TEST_CASE("sizes are read and written as PyTorch prints them") {
  CHECK(PyTorchBytes(1024) == "1024 bytes");
  CHECK(PyTorchBytes(1025) == "1.00 KiB");
  CHECK(PyTorchBytes(kMiB) == "1024.00 KiB");
  CHECK(PyTorchBytes(kGiB) == "1024.00 MiB");
  CHECK(PyTorchBytes(1152 * kMiB) == "1.12 GiB");
  CHECK(PyTorchBytes(1224 * kMiB) == "1.20 GiB");
  for (int64_t bytes = 2 * kMiB; bytes < 40 * kGiB; bytes += 34 * kMiB) {
    const std::string text = PyTorchBytes(bytes);
    CAPTURE(text);
    const std::optional<ReadSizeResult> read = ReadSize(Squeezed(text));
    REQUIRE(read);
    CHECK(read->size.Prints(bytes));
    CHECK(ToString(read->size) == text);
    CHECK_FALSE(read->size.Prints(bytes + 12 * kMiB));
  }
  CHECK(ReadSize("1.12GiB")->size.Prints(1152 * kMiB));
  CHECK_FALSE(ReadSize("1.13GiB")->size.Prints(1152 * kMiB));
}

// As a terminal of `columns` breaks lines; each one behind `prefix`.
std::string Broken(const std::string& text, size_t columns, const std::string& prefix) {
  std::string broken;
  for (size_t at = 0; at < text.size(); at += columns) {
    broken += prefix + text.substr(at, columns) + "\n";
  }
  return broken;
}

TEST_CASE("prefixes, colours and line breaks change nothing") {
  for (const Example& example : Examples()) {
    if (example.text.find('\n') + 2 < example.text.size()) continue;  // of several lines already
    CAPTURE(example.text);
    CHECK(Told("[rank3]: " + example.text) == example.expected);
    CHECK(Told("Traceback:\n\033[31;1m" + example.text + "\033[0m\n") == example.expected);
    for (const size_t columns : {size_t{37}, size_t{80}}) {
      CHECK(Told(Broken(example.text, columns, "")) == example.expected);
    }
    CHECK(Told("> ```\r\n> " + example.text + ">\r\n") == example.expected);
  }
}

}  // namespace
}  // namespace onnxfit::oom_messages_test
